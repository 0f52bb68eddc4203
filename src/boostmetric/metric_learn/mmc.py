"""MMC."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import TransformerMixin

from boostmetric import baselines
from boostmetric.metric_learn.base_metric import MahalanobisMixin, _PairsClassifierMixin
from boostmetric.metric_learn.matrices import _initialize_metric_mahalanobis
from boostmetric.metric_learn.tuples import pairs_from_labels, similar_and_dissimilar
from boostmetric.solver.result import StopReason


class _BaseMMC(MahalanobisMixin):
    """MMC of pairs."""

    _tuple_size = 2

    def __init__(
        self,
        max_iter: int = 100,
        max_proj: int = 10000,
        tol: float = 1e-3,
        init: Any = "identity",
        diagonal: bool = False,
        diagonal_c: float = 1.0,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(preprocessor)
        self.max_iter = max_iter
        self.max_proj = max_proj
        self.tol = tol
        self.init = init
        self.diagonal = diagonal
        self.diagonal_c = diagonal_c
        self.verbose = verbose
        self.random_state = random_state

    def _fit(self, pairs: Any, y: Any) -> Self:
        # The problem is concave, so its maximum does not depend on the start, which is only checked.
        _initialize_metric_mahalanobis(pairs, self.init, self.random_state, matrix_name="init")
        points, kinds = similar_and_dissimilar(pairs, y)
        learner = baselines.MMC(diagonal=self.diagonal, max_iter=self.max_iter, tol=self.tol, verbose=int(self.verbose))
        with self._quiet():
            learner.fit(points, **kinds)
        self.A_ = learner.get_mahalanobis_matrix()
        self.converged_ = learner.stop_reason_ is not StopReason.ITERATION_LIMIT
        self.n_iter_ = learner.n_iter_
        return self._take_matrix(learner.components_)


class MMC(_PairsClassifierMixin, _BaseMMC):
    """See `boostmetric.baselines.MMC`.

    Parameters
    ----------
    max_iter : int, default=100
    max_proj : int, default=10000
        Without effect: projections have a closed form.
    tol : float, default=1e-3
        Proven distance from the maximum, relative.
    init : {"identity", "covariance", "random"} or array, default="identity"
        Checked, and without effect: the maximum does not depend on it.
    diagonal : bool, default=False
    diagonal_c : float, default=1.0
        Without effect: both forms maximise the same objective.
    verbose : bool, default=False
    preprocessor : array-like or callable, default=None
    random_state : int, RandomState or None, default=None
    """

    def fit(self, pairs: Any, y: Any, calibration_params: dict[str, Any] | None = None) -> Self:
        """Learn the metric from pairs, and calibrate the threshold on them."""
        return self._calibrated(pairs, y, calibration_params)


class MMC_Supervised(TransformerMixin, _BaseMMC):  # noqa: N801
    """MMC of pairs that are drawn from labels.

    Parameters
    ----------
    max_iter : int, default=100
    max_proj : int, default=10000
    tol : float, default=1e-6
    n_constraints : int, default=None
        Number of pairs of either kind; by default 20 for each pair of classes.
    init : {"identity", "covariance", "random"} or array, default="identity"
    diagonal : bool, default=False
    diagonal_c : float, default=1.0
    verbose : bool, default=False
    preprocessor : array-like or callable, default=None
    random_state : int, RandomState or None, default=None
    """

    def __init__(
        self,
        max_iter: int = 100,
        max_proj: int = 10000,
        tol: float = 1e-6,
        n_constraints: int | None = None,
        init: Any = "identity",
        diagonal: bool = False,
        diagonal_c: float = 1.0,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(max_iter, max_proj, tol, init, diagonal, diagonal_c, verbose, preprocessor, random_state)
        self.n_constraints = n_constraints

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the metric from points and labels; -1 is unknown."""
        points, labels = self._prepare_inputs(X, y, ensure_min_samples=2)
        return self._fit(*pairs_from_labels(points, labels, self.n_constraints, self.random_state))
