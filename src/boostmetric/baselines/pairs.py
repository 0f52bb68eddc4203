"""Pairs of points: their distances under a linear map, and sums over them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.estimators.learner import FloatArray


class PairSet:
    """Points, and distinct pairs of them.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    pairs : ndarray of int of shape (n_pairs, 2)
        The smaller number first, in ascending order, as `Comparisons.pairs` are.
    """

    def __init__(self, points: FloatArray, pairs: NDArray[np.integer[Any]]) -> None:
        from boostmetric.oracles.points import DensePoints  # with numba, which ``import boostmetric`` leaves out

        self._points = DensePoints.of(points)
        first, second = pairs.T
        self._starts = np.searchsorted(first, np.arange(len(points) + 1))
        self._second = second.astype(np.uint32)

    def __len__(self) -> int:
        return len(self._second)

    def squared_distances(self, rows: FloatArray) -> FloatArray:
        """Squared distance of every pair after the linear map of shape (n_rows, n_features)."""
        from boostmetric.kernels.lanes import WIDTH
        from boostmetric.kernels.pairs import squared_distances

        padded = np.pad(rows, [(0, -len(rows) % WIDTH), (0, 0)])
        out = np.empty(len(self))
        squared_distances(self._points.times(padded.T), self._starts, self._second, out)
        return out

    def gram(self, c: FloatArray) -> FloatArray:
        """Sum of c_p (a - b)(a - b)' over the pairs."""
        return self._points.gram(self._starts, self._second, c)
