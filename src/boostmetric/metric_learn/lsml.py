"""LSML."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import TransformerMixin

from boostmetric import baselines
from boostmetric.metric_learn.base_metric import MahalanobisMixin, _QuadrupletsClassifierMixin
from boostmetric.metric_learn.matrices import _initialize_metric_mahalanobis, components_from_metric
from boostmetric.metric_learn.tuples import compared, quadruplets_from_labels


class _BaseLSML(MahalanobisMixin):
    """LSML of quadruplets."""

    _tuple_size = 4

    def __init__(
        self,
        tol: float = 1e-3,
        max_iter: int = 1000,
        prior: Any = "identity",
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(preprocessor)
        self.tol = tol
        self.max_iter = max_iter
        self.prior = prior
        self.verbose = verbose
        self.random_state = random_state

    def _fit(self, quadruplets: Any, weights: Any = None) -> Self:
        quadruplets = self._prepare_inputs(quadruplets, type_of_inputs="tuples")
        given = np.ones(len(quadruplets)) if weights is None else np.asarray(weights, dtype=np.float64)
        self.w_ = given / given.sum()
        prior = _initialize_metric_mahalanobis(
            quadruplets, self.prior, self.random_state, strict_pd=True, matrix_name="prior"
        )
        points, comparisons = compared(quadruplets, self.w_)
        learner = baselines.LSML(
            prior=components_from_metric(prior), max_iter=self.max_iter, tol=self.tol, verbose=int(self.verbose)
        )
        with self._quiet():
            learner.fit(points, comparisons=comparisons)
        self.n_iter_ = learner.n_iter_
        return self._take_matrix(learner.components_)


class LSML(_QuadrupletsClassifierMixin, _BaseLSML):
    """See `boostmetric.baselines.LSML`.

    Parameters
    ----------
    tol : float, default=1e-3
        Proven distance from the minimum, relative.
    max_iter : int, default=1000
    prior : {"identity", "covariance", "random"} or array, default="identity"
    verbose : bool, default=False
    preprocessor : array-like or callable, default=None
    random_state : int, RandomState or None, default=None
    """

    def fit(self, quadruplets: Any, weights: Any = None) -> Self:
        """Learn the metric from quadruplets, which may have weights."""
        return self._fit(quadruplets, weights)


class LSML_Supervised(TransformerMixin, _BaseLSML):  # noqa: N801
    """LSML of quadruplets that are drawn from labels.

    Parameters
    ----------
    tol : float, default=1e-3
    max_iter : int, default=1000
    prior : {"identity", "covariance", "random"} or array, default="identity"
    n_constraints : int, default=None
        Number of quadruplets; by default 20 for each pair of classes.
    weights : array-like, default=None
        Of the quadruplets.
    verbose : bool, default=False
    preprocessor : array-like or callable, default=None
    random_state : int, RandomState or None, default=None
    """

    def __init__(
        self,
        tol: float = 1e-3,
        max_iter: int = 1000,
        prior: Any = "identity",
        n_constraints: int | None = None,
        weights: Any = None,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(tol, max_iter, prior, verbose, preprocessor, random_state)
        self.n_constraints = n_constraints
        self.weights = weights

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the metric from points and labels; -1 is unknown."""
        points, labels = self._prepare_inputs(X, y, ensure_min_samples=2)
        drawn = quadruplets_from_labels(points, labels, self.n_constraints, self.random_state)
        return self._fit(drawn, self.weights)
