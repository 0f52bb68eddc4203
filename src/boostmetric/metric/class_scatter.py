"""Scatter within and between classes of points in single precision, without copies in double precision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.frame import largest_size
from boostmetric.arrays.types import FloatArray

# Rows in double precision in memory at once.
_AT_ONCE = 2**10


@dataclass(frozen=True)
class ClassScatter:
    """Scatter of points within their classes and between them.

    Attributes
    ----------
    unit : ndarray of shape (n_features,)
        What the features are measured in: their `standard_deviations`, or a power of two near the largest coordinate.
    within : ndarray of shape (n_features, n_features)
        Covariance of the points of classes with several points, about the means of these.
    between : ndarray of shape (n_features, n_features)
        Covariance of the means of the classes, weighted by the sizes of the classes.
    shrinkage : float
        Ledoit and Wolf's (2004) for the first of the two.
    """

    unit: FloatArray
    within: FloatArray
    between: FloatArray
    shrinkage: float

    @classmethod
    def of(cls, X: NDArray[np.float32], y: NDArray[Any], *, standardized: bool = False) -> ClassScatter | None:
        """Scatter of points; if asked for, in units of the standard deviations of the features.

        None if there are too few points for a covariance of full rank.
        """
        n, n_features = X.shape
        classes, label, sizes = np.unique(y, return_inverse=True, return_counts=True)
        is_kept = sizes[label] > 1
        n_kept = int(is_kept.sum())
        if n_kept < n_features:
            return None
        centre, sums, largest = X.mean(axis=0, dtype=np.float64), np.zeros((len(classes), n_features)), 0.0
        for rows in _pieces(n):
            points = X[rows] - centre
            largest = max(largest, largest_size(points))
            np.add.at(sums, label[rows], points)
        size = np.ldexp(1.0, np.frexp(largest)[1])
        unit = standard_deviations(X) if standardized else np.full(n_features, size)
        means = sums / sizes[:, None]
        within, fourth = np.zeros((n_features, n_features)), 0.0
        for rows in _pieces(n):
            kept = is_kept[rows]
            residuals = (X[rows][kept] - centre - means[label[rows][kept]]) / unit
            within += residuals.T @ residuals
            fourth += float(np.square(np.square(residuals).sum(axis=1)).sum())
        within /= n_kept
        between = (sums / sizes[:, None] / unit).T @ (sums / unit) / n
        shrinkage = _shrinkage(within, fourth, n_kept)
        return cls(unit, within, between, shrinkage)


def covariance(X: NDArray[np.float32]) -> FloatArray:
    """Covariance of the features."""
    centre, total = X.mean(axis=0, dtype=np.float64), np.zeros((X.shape[1], X.shape[1]))
    for rows in _pieces(len(X)):
        points = X[rows] - centre
        total += points.T @ points
    return total / len(X)


def standard_deviations(X: NDArray[np.float32]) -> FloatArray:
    """Standard deviation of each feature; a number of the size of the coordinates if that is rounding beside them.

    Some dimensions of some embeddings are nearly constant. In units of their standard deviation, what little they vary
    would count as much as all others.
    """
    centre, squares, largest = X.mean(axis=0, dtype=np.float64), np.zeros(X.shape[1]), 0.0
    for rows in _pieces(len(X)):
        points = X[rows] - centre
        largest = max(largest, largest_size(points))
        squares += np.square(points).sum(axis=0)
    deviations = np.sqrt(squares / len(X))
    return np.where(deviations > np.finfo(X.dtype).eps * largest, deviations, np.ldexp(1.0, np.frexp(largest)[1]))


def _pieces(n: int) -> Iterator[slice]:
    for begin in range(0, n, _AT_ONCE):
        yield slice(begin, min(begin + _AT_ONCE, n))


def _shrinkage(covariance: FloatArray, fourth: float, n: int) -> float:
    """Fraction of the mean variance to mix in, given the sum of the points' lengths to the power of four."""
    n_features = len(covariance)
    size = float(np.square(covariance).sum())
    mean = float(np.trace(covariance)) / n_features
    distance = (size - n_features * mean**2) / n_features
    error = min((fourth / n - size) / (n_features * n), distance)
    return error / distance if error > 0 else 0.0
