"""MLKR."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import TransformerMixin

from boostmetric import baselines
from boostmetric.metric_learn.base_metric import SCIPY_TOLERANCE, MahalanobisMixin
from boostmetric.metric_learn.matrices import _check_n_components, _initialize_components


class MLKR(TransformerMixin, MahalanobisMixin):
    """See `boostmetric.baselines.MLKR`.

    Parameters
    ----------
    n_components : int, default=None
    init : {"auto", "pca", "identity", "random"} or array, default="auto"
    tol : float, default=None
        Tolerance of L-BFGS; by default SciPy's.
    max_iter : int, default=1000
    verbose : bool, default=False
    preprocessor : array-like or callable, default=None
    random_state : int, RandomState or None, default=None
    """

    def __init__(
        self,
        n_components: int | None = None,
        init: Any = "auto",
        tol: float | None = None,
        max_iter: int = 1000,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(preprocessor)
        self.n_components = n_components
        self.init = init
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the metric from points and numbers."""
        points, target = self._prepare_inputs(X, y, y_numeric=True, ensure_min_samples=2)
        n_components = _check_n_components(points.shape[1], self.n_components)
        start = _initialize_components(
            n_components, points, target, self.init, random_state=self.random_state, has_classes=False
        )
        learner = baselines.MLKR(
            n_components,
            init=start,
            max_iter=self.max_iter,
            tol=SCIPY_TOLERANCE if self.tol is None else self.tol,
            verbose=int(self.verbose),
        )
        with self._quiet():
            learner.fit(points, target)
        self.n_iter_ = learner.n_iter_
        return self._take_map(learner.components_, n_components)
