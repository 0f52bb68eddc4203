"""Losses of soft nearest neighbours, which NCA and MLKR minimise over a linear map.

Each point takes the value of another with a probability that falls with their distance as exp(-d^2): a label, or a
number. Both losses are sums over points of a function of the mean that a point takes; their derivatives with respect to
the squared distances are computed with them, row by row, so that no table of all pairs is formed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize as scipy_minimize

from boostmetric.arrays.types import FloatArray

# Returns the value of a loss and its gradient with respect to the map.
Loss = Callable[[FloatArray], tuple[float, FloatArray]]
# Called with the map and the loss after each iteration; returns True to stop.
OnIteration = Callable[[FloatArray, float], bool]
# So many numbers of the table of pairs are in memory at once, but at least so many rows.
_NUMBERS, _ROWS = 2**16, 16


class _SoftNeighbors:
    """A loss as a function of the linear map.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    values : ndarray of shape (n_points,)
        What points take from each other.
    kernel : str
        Name of the loss in `boostmetric.kernels.soft_neighbors`.
    """

    def __init__(self, points: FloatArray, values: FloatArray, kernel: str) -> None:
        from boostmetric.kernels import soft_neighbors
        from boostmetric.kernels.lanes import aligned_zeros  # imports numba, so only when needed

        n, n_features = points.shape
        width = n + -n % soft_neighbors.AT_ONCE
        self._kernel: Any = getattr(soft_neighbors, kernel)
        self._points = points
        self._columns = aligned_zeros(n_features, width)
        self._columns[:, :n] = points.T
        self._far = np.where(np.arange(width) < n, 0.0, np.inf)
        self._values = np.concatenate([values, np.zeros(width - n)])
        self._slopes = aligned_zeros(min(n, max(_NUMBERS // width, _ROWS)), width)

    def _means_and_gradient(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What each point takes on average, and the gradient of the loss with respect to the map.

        With slopes W, the gradient is 2 mapped' (diag(degree) - W - W') points. For nearly square maps, that is the map
        times a symmetric matrix, from one product with W instead of two.
        """
        points, (n, n_features), width = self._points, self._points.shape, len(self._far)
        z, degree, means = rows @ self._columns, np.zeros(width), np.empty(n)
        square = n_features <= 2 * len(rows)
        given = points if square else np.ascontiguousarray(z[:, :n].T)
        along, across = np.empty(given.shape), 0.0
        for begin in range(0, n, len(self._slopes)):
            end = min(begin + len(self._slopes), n)
            self._kernel(z, self._far, self._values, begin, end, self._slopes, degree, means)
            slopes = self._slopes[: end - begin, :n]
            np.matmul(slopes, given, out=along[begin:end])
            if not square:
                across = across + given[begin:end].T @ slopes
        weighed = degree[:n, None] * given
        if square:
            half = points.T @ (0.5 * weighed - along)
            return means, np.asarray(2 * rows @ (half + half.T))
        return means, np.asarray(2 * (weighed - along - np.transpose(across)).T @ points)


class Errors(_SoftNeighbors):
    """Sum of the squares of the errors of leave-one-out kernel regression.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    target : ndarray of shape (n_points,)
    """

    def __init__(self, points: FloatArray, target: FloatArray) -> None:
        super().__init__(points, target - target.mean(), "regress")

    def __call__(self, rows: FloatArray) -> tuple[float, FloatArray]:
        """The sum, and its gradient with respect to the map."""
        means, gradient = self._means_and_gradient(rows)
        error = means - self._values[: len(means)]
        return float(error @ error), gradient


class Misses(_SoftNeighbors):
    """Minus the expected number of points that take the right label from another.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    labels : ndarray of int of shape (n_points,)
        Class numbers.
    """

    def __init__(self, points: FloatArray, labels: NDArray[np.integer[Any]]) -> None:
        super().__init__(points, labels.astype(np.float64), "classify")

    def __call__(self, rows: FloatArray) -> tuple[float, FloatArray]:
        """The number, negative, and its gradient with respect to the map."""
        means, gradient = self._means_and_gradient(rows)
        return -float(means.sum()), gradient


def minimise(
    loss: Loss,
    rows: FloatArray,
    *,
    max_iter: int,
    tol: float,
    flat: float = 0.0,
    relative: bool = False,
    size: float = 1.0,
    on_iteration: OnIteration,
) -> FloatArray:
    """Minimise a loss by L-BFGS, and return the map.

    Parameters
    ----------
    loss : callable
    rows : ndarray of shape (n_rows, n_features)
        The start.
    max_iter : int
    tol : float
        Stop when an iteration lowers the loss by less than this fraction of it, or of 1.
    flat : float, default=0.0
        Stop when no component of the gradient is larger.
    relative : bool, default=False
        Whether the search measures the loss in units of its first value.
    size : float, default=1.0
        What the search measures the map in.
    on_iteration : callable
    """
    shape, last, unit = rows.shape, 0.0, 0.0 if relative else 1.0

    def fun(x: FloatArray) -> tuple[float, FloatArray]:
        nonlocal last, unit
        last, gradient = loss(size * x.reshape(shape))
        unit = unit or last or 1.0
        return last / unit, gradient.ravel() * (size / unit)

    def callback(x: FloatArray) -> None:
        if on_iteration(size * x.reshape(shape), last):
            raise StopIteration  # SciPy then stops

    options = {"maxiter": max_iter, "ftol": tol, "gtol": flat}
    found = scipy_minimize(fun, rows.ravel() / size, jac=True, method="L-BFGS-B", callback=callback, options=options)
    return np.asarray(size * found.x.reshape(shape))
