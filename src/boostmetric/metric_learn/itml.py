"""ITML."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import TransformerMixin
from sklearn.utils import check_array

from boostmetric import baselines
from boostmetric.metric_learn.base_metric import MahalanobisMixin, _PairsClassifierMixin
from boostmetric.metric_learn.matrices import _initialize_metric_mahalanobis, components_from_metric
from boostmetric.metric_learn.tuples import pairs_from_labels, similar_and_dissimilar

# metric-learn's steps end about this much closer to the minimum than its `tol`, which is that of their change.
_PRECISION = 1e-3


class _BaseITML(MahalanobisMixin):
    """ITML of pairs."""

    _tuple_size = 2

    def __init__(
        self,
        gamma: float = 1.0,
        max_iter: int = 1000,
        tol: float = 1e-3,
        prior: Any = "identity",
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(preprocessor)
        self.gamma = gamma
        self.max_iter = max_iter
        self.tol = tol
        self.prior = prior
        self.verbose = verbose
        self.random_state = random_state

    def _fit(self, pairs: Any, y: Any, bounds: Any = None) -> Self:
        points, kinds = similar_and_dissimilar(pairs, y)
        if bounds is None:
            distinct = np.unique(points, axis=0)
            self.bounds_ = np.percentile(cdist(distinct, distinct), (5, 95))  # zeros of the diagonal included
        else:
            self.bounds_ = check_array(bounds, ensure_2d=False, dtype=np.float64, ensure_min_samples=0).ravel()
            if self.bounds_.size != 2:
                raise ValueError("`bounds` should be an array-like of two elements.")
        self.bounds_ = np.where(self.bounds_ == 0, 1e-9, self.bounds_)
        prior = _initialize_metric_mahalanobis(
            pairs, self.prior, self.random_state, strict_pd=True, matrix_name="prior"
        )
        learner = baselines.ITML(
            prior=components_from_metric(prior),
            gamma=self.gamma,
            bounds=np.sqrt(self.bounds_),  # metric-learn compares them with squared distances
            max_iter=self.max_iter,
            tol=_PRECISION * self.tol,
            verbose=int(self.verbose),
        )
        with self._quiet():
            learner.fit(points, **kinds)
        self.n_iter_ = learner.n_iter_
        return self._take_matrix(learner.components_)


class ITML(_PairsClassifierMixin, _BaseITML):
    """See `boostmetric.baselines.ITML`.

    Parameters
    ----------
    gamma : float, default=1.0
    max_iter : int, default=1000
    tol : float, default=1e-3
        A thousandth of it is the proven distance from the minimum, relative.
    prior : {"identity", "covariance", "random"} or array, default="identity"
    verbose : bool, default=False
    preprocessor : array-like or callable, default=None
    random_state : int, RandomState or None, default=None
    """

    def fit(self, pairs: Any, y: Any, bounds: Any = None, calibration_params: dict[str, Any] | None = None) -> Self:
        """Learn the metric from pairs, and calibrate the threshold on them."""
        return self._calibrated(pairs, y, calibration_params, bounds=bounds)


class ITML_Supervised(TransformerMixin, _BaseITML):  # noqa: N801
    """ITML of pairs that are drawn from labels.

    Parameters
    ----------
    gamma : float, default=1.0
    max_iter : int, default=1000
    tol : float, default=1e-3
        A thousandth of it is the proven distance from the minimum, relative.
    n_constraints : int, default=None
        Number of pairs of either kind; by default 20 for each pair of classes.
    prior : {"identity", "covariance", "random"} or array, default="identity"
    verbose : bool, default=False
    preprocessor : array-like or callable, default=None
    random_state : int, RandomState or None, default=None
    """

    def __init__(
        self,
        gamma: float = 1.0,
        max_iter: int = 1000,
        tol: float = 1e-3,
        n_constraints: int | None = None,
        prior: Any = "identity",
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(gamma, max_iter, tol, prior, verbose, preprocessor, random_state)
        self.n_constraints = n_constraints

    def fit(self, X: Any, y: Any, bounds: Any = None) -> Self:
        """Learn the metric from points and labels; -1 is unknown."""
        points, labels = self._prepare_inputs(X, y, ensure_min_samples=2)
        return self._fit(*pairs_from_labels(points, labels, self.n_constraints, self.random_state), bounds=bounds)
