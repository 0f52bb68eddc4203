"""Metric learning for kernel regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags, check_random_state

from boostmetric.arrays.frame import scale_in_range
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_choice, check_count, check_number
from boostmetric.baselines.baseline import Baseline, Journal, check_not_zero, trace_of
from boostmetric.baselines.descriptions import documented
from boostmetric.baselines.scale import distance_of_neighbors
from boostmetric.baselines.soft_neighbors import Errors, minimise
from boostmetric.callbacks import Callback
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.estimators.sklearn_callbacks import with_callbacks
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.starts import Init, spread, starting_components
from boostmetric.solver.result import StopReason

_STARTS = ("standardized", "identity", "pca", "random")


@documented
class MLKR(Baseline):
    """Metric learning for kernel regression: for targets that are numbers.

    Each sample's target is predicted by the mean of those of all others, with weights exp(-d^2) that fall with their
    distance; the squares of the errors are minimised over the linear map [1]_.

    Parameters
    ----------
    %(rows)s
    init : {"standardized", "identity", "pca", "random"}, metric or array, default="standardized"
        Initial linear map: of standardized features, of features as they are, their principal components, or of random
        normal numbers; all times a factor that puts nearest neighbours at distance 1. Or a `MahalanobisMetric`, or its
        components, which are used as they are. With `n_components`, the directions are those along which the samples
        vary most.
    %(max_iter)s
    tol : float, default=1e-5
        Stop when an iteration lowers the objective by less than this fraction of its first value.
    %(callbacks)s
    random_state : int, RandomState or None, default=None
        Random seed for ``init="random"``.
    %(verbose)s

    Attributes
    ----------
    %(components)s
    objective_ : float
        Sum of the squares of the errors of all samples, each predicted from the others.
    %(n_iter)s
    %(history)s
    %(about_the_fit)s

    Notes
    -----
    The problem is not convex. Cost: the time of an iteration is that of a table of n_samples x n_samples, of which only
    some rows are in memory at once.

    References
    ----------
    .. [1] K. Weinberger, G. Tesauro, "Metric Learning for Kernel Regression", International Conference on Artificial
       Intelligence and Statistics, 2007.

    Examples
    --------
    >>> from boostmetric.baselines import MLKR
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> MLKR(n_components=2, max_iter=500).fit_transform(X, y).shape
    (442, 2)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        init: Init = "standardized",
        max_iter: int = 200,
        tol: float = 1e-5,
        callbacks: Sequence[Callback] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.callbacks = callbacks
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Numbers to predict.

        Returns
        -------
        self
        """
        self._check_parameters()
        samples, target = self._check_samples_and(X, y, has_target=True, numeric=True)
        self._check_n_components(samples.shape[1])
        points, exponent = scale_in_range(samples)
        points = np.asarray(points)
        if not points.any():
            raise ValueError("All samples are equal: no metric can tell them apart. Check that X holds the samples.")
        errors = Errors(points, np.asarray(target, dtype=np.float64))
        rows = self._start(samples, points, exponent)
        with self._watched(self.max_iter, (X, y), self._attributes_so_far) as callbacks:
            journal = Journal(callbacks)

            def on_iteration(rows: FloatArray, loss: float) -> bool:
                components = np.ldexp(rows, -exponent)
                return journal.add(loss, components.copy, trace=trace_of(components))

            rows = minimise(
                errors,
                rows,
                max_iter=self.max_iter,
                tol=self.tol,
                relative=True,
                size=float(np.abs(rows).max()),
                on_iteration=on_iteration,
            )
        self.objective_ = journal.history[-1].loss if journal.history else errors(rows)[0]
        limit = len(journal.history) >= self.max_iter
        stop_reason = StopReason.ITERATION_LIMIT if limit else StopReason.CONVERGED
        self._finish(np.ldexp(rows, -exponent), journal, journal.stopped or stop_reason)
        return self

    def _start(self, samples: FloatArray, points: FloatArray, exponent: int) -> FloatArray:
        """Initial map of the points."""
        n_features = points.shape[1]
        count = self.n_components or n_features
        if not isinstance(self.init, str):
            given = starting_components(self.init, samples)
            assert given is not None
            rows = np.ldexp(check_not_zero(given), exponent)
            if self.n_components is not None:
                rows = MahalanobisMetric(rows).truncate(count).components
            return np.vstack([rows, np.zeros((max(count - len(rows), 0), n_features))])
        if self.init == "random":
            rows = check_random_state(self.random_state).standard_normal((count, n_features))
        elif self.init == "identity" and count == n_features:
            rows = np.eye(n_features)
        else:
            unit = spread(points) if self.init == "standardized" else np.ones(n_features)
            _, _, axes = np.linalg.svd((points - points.mean(axis=0)) / unit)
            rows = axes[:count] / unit
        return np.asarray(rows / distance_of_neighbors(points @ rows.T))

    def _check_parameters(self) -> None:
        if isinstance(self.init, str):
            check_choice("init", self.init, _STARTS)
        check_count("max_iter", self.max_iter)
        check_number("tol", self.tol)
        self._check_callbacks()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
