"""The two scikit-learn estimators: from class labels, and from comparisons."""

from boostmetric.estimators.boost_metric import BoostMetric
from boostmetric.estimators.candidates import Candidate
from boostmetric.estimators.committee import committee
from boostmetric.estimators.comparison_boost_metric import ComparisonBoostMetric

__all__ = ["BoostMetric", "Candidate", "ComparisonBoostMetric", "committee"]
