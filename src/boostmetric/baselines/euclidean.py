"""Euclidean distance as a baseline without learning."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from boostmetric.arrays.validation import checked
from boostmetric.baselines.baseline import Baseline
from boostmetric.baselines.descriptions import documented
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.metric.starts import starting_components
from boostmetric.solver.result import StopReason


@documented
class Euclidean(Baseline):
    """Euclidean distance as a metric learner that learns nothing.

    Attributes
    ----------
    components_ : ndarray of shape (n_features, n_features)
        The identity.
    %(about_the_fit)s

    Examples
    --------
    >>> from boostmetric.baselines import Euclidean
    >>> Euclidean().fit_transform([[1.0, 2.0], [3.0, 4.0]])
    array([[1., 2.],
           [3., 4.]])
    """

    n_components = None

    def __init__(self) -> None:
        pass

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Set the identity as the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : object, optional
            Ignored.

        Returns
        -------
        self
        """
        samples = checked(validate_data, self, X, dtype=[np.float64, np.float32])
        identity = starting_components("identity", samples)
        assert identity is not None
        self.components_ = identity
        self.stop_reason_ = StopReason.CLOSED_FORM
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags
