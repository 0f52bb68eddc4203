"""LMNN."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import TransformerMixin

from boostmetric import baselines
from boostmetric.metric_learn.base_metric import MahalanobisMixin
from boostmetric.metric_learn.matrices import _check_n_components, _initialize_components


class LMNN(TransformerMixin, MahalanobisMixin):
    """See `boostmetric.baselines.LMNN`.

    Parameters
    ----------
    init : {"auto", "pca", "lda", "identity", "random"} or array, default="auto"
    n_neighbors : int, default=3
    min_iter : int, default=50
        Without effect: the minimum is found, and proved.
    max_iter : int, default=1000
    learn_rate : float, default=1e-7
        Without effect: L-BFGS needs none.
    regularization : float, default=0.5
        1 - `push`.
    convergence_tol : float, default=0.001
        Its `tol`.
    verbose : bool, default=False
    preprocessor : array-like or callable, default=None
    n_components : int, default=None
    random_state : int, RandomState or None, default=None
    """

    def __init__(
        self,
        init: Any = "auto",
        n_neighbors: int = 3,
        min_iter: int = 50,
        max_iter: int = 1000,
        learn_rate: float = 1e-7,
        regularization: float = 0.5,
        convergence_tol: float = 0.001,
        verbose: bool = False,
        preprocessor: Any = None,
        n_components: int | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(preprocessor)
        self.init = init
        self.n_neighbors = n_neighbors
        self.min_iter = min_iter
        self.max_iter = max_iter
        self.learn_rate = learn_rate
        self.regularization = regularization
        self.convergence_tol = convergence_tol
        self.verbose = verbose
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the metric from points and labels."""
        points, labels = self._prepare_inputs(X, y, ensure_min_samples=2)
        n_components = _check_n_components(points.shape[1], self.n_components)
        classes, sizes = np.unique(labels, return_counts=True)
        start = _initialize_components(n_components, points, labels, self.init, random_state=self.random_state)
        if self.n_neighbors > sizes.min():
            raise ValueError(f"not enough class labels for specified k (smallest class has {sizes.min()})")
        self.labels_ = np.arange(len(classes))
        learner = baselines.LMNN(
            self.n_components,
            n_neighbors=self.n_neighbors,
            push=1 - self.regularization,
            init=start,
            max_iter=self.max_iter,
            tol=self.convergence_tol,
            verbose=int(self.verbose),
        )
        with self._quiet():
            learner.fit(points, labels)
        self.n_iter_ = learner.n_iter_
        return self._take_map(learner.components_, n_components)
