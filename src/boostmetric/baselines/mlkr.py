"""Metric learning for kernel regression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import validate_data

from boostmetric.arrays.frame import scale_in_range
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_choice, check_count, check_number, checked
from boostmetric.baselines.baseline import Baseline, Journal, check_not_zero, trace_of
from boostmetric.baselines.descriptions import documented
from boostmetric.baselines.scale import distance_of_neighbors
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
    The problem is not convex. Cost: each iteration takes time and memory for several tables of n_samples x n_samples.

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
        samples, target = checked(
            validate_data, self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2, y_numeric=True
        )
        self._check_n_components(samples.shape[1])
        points, exponent = scale_in_range(samples.astype(np.float64, copy=False))
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

            rows = _minimise(errors, rows, self.max_iter, self.tol, on_iteration)
        self.objective_, _ = errors(rows)
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


class Errors:
    """Sum of the squares of the errors of leave-one-out kernel regression, as a function of the linear map.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    target : ndarray of shape (n_points,)
    """

    def __init__(self, points: FloatArray, target: FloatArray) -> None:
        self._points = points
        self._target = target - target.mean()

    def __call__(self, rows: FloatArray) -> tuple[float, FloatArray]:
        """The sum, and its gradient with respect to the map."""
        mapped, y = self._points @ rows.T, self._target
        squares = cdist(mapped, mapped, "sqeuclidean")
        np.fill_diagonal(squares, np.inf)
        squares -= squares.min(axis=1, keepdims=True)
        share = np.exp(-squares)
        share /= share.sum(axis=1, keepdims=True)
        predicted = share @ y
        error = predicted - y
        # Derivatives with respect to the squared distances.
        slopes = -2 * share * error[:, None] * (y - predicted[:, None])
        slopes += slopes.T
        gradient = 2 * (slopes.sum(axis=1)[:, None] * mapped - slopes @ mapped).T @ self._points
        return float(error @ error), np.asarray(gradient)


def _minimise(
    errors: Errors, rows: FloatArray, max_iter: int, tol: float, on_iteration: Callable[[FloatArray, float], bool]
) -> FloatArray:
    """Minimise the errors by L-BFGS, in units of the first value and of the largest component of the start."""
    shape, unit, size = rows.shape, errors(rows)[0] or 1.0, float(np.abs(rows).max())
    last: dict[str, Any] = {}

    def fun(flat: FloatArray) -> tuple[float, FloatArray]:
        loss, gradient = errors(size * flat.reshape(shape))
        last.update(loss=loss)
        return loss / unit, gradient.ravel() * (size / unit)

    def callback(flat: FloatArray) -> None:
        if on_iteration(size * flat.reshape(shape), last["loss"]):
            raise StopIteration

    options = {"maxiter": max_iter, "ftol": tol, "gtol": 0.0}
    found = minimize(fun, rows.ravel() / size, jac=True, method="L-BFGS-B", callback=callback, options=options)
    return np.asarray(size * found.x.reshape(shape))
