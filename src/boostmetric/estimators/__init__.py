"""The two scikit-learn estimators: from class labels, and from comparisons, which is loaded on first use."""

from typing import TYPE_CHECKING, Any

from boostmetric.estimators.boost_metric import BoostMetric
from boostmetric.estimators.candidates import Candidate
from boostmetric.estimators.committee import committee

if TYPE_CHECKING:
    from boostmetric.estimators.comparison_boost_metric import ComparisonBoostMetric

__all__ = ["BoostMetric", "Candidate", "ComparisonBoostMetric", "committee"]


def __getattr__(name: str) -> Any:
    if name != "ComparisonBoostMetric":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from boostmetric.estimators.comparison_boost_metric import ComparisonBoostMetric  # reads files, unlike the others

    return ComparisonBoostMetric
