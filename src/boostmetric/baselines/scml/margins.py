"""By how much the near pair of each comparison is farther than its far pair, along each of many directions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.types import FloatArray
from boostmetric.baselines.pair_set import PairSet
from boostmetric.comparisons import Comparisons

# Products of pairs with rows that take about as long as a factorisation of the rows.
_WORTH_A_FACTORISATION = 2**18


class DirectionMargins:
    """The matrix H of comparisons by directions, as products with it.

    An entry is the squared distance of the near pair less that of the far pair, along one direction. H itself is never
    formed: a product with weights of the directions is that of distances under one metric, and a product with weights
    of the comparisons follows from one weighted sum over pairs.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
        Centred.
    comparisons : Comparisons
        Listed.
    basis : ndarray of shape (n_columns, n_features)
        The directions.
    """

    def __init__(self, points: FloatArray, comparisons: Comparisons, basis: FloatArray) -> None:
        self._points, self._basis = points, basis
        self._pairs = comparisons.pairs
        self._near, self._far = comparisons.pair_numbers()
        self._set = PairSet.of(points, self._pairs)
        self.shape = len(self._near), len(basis)

    def times(self, w: FloatArray) -> FloatArray:
        """H w, for weights that are not negative. Cost: pairs times the rank of the metric."""
        (used,) = w.nonzero()
        if len(used) == 0:
            return np.zeros(self.shape[0])
        rows = np.sqrt(w[used])[:, None] * self._basis[used]
        if (len(rows) - rows.shape[1]) * len(self._pairs) > _WORTH_A_FACTORISATION:
            rows = np.asarray(np.linalg.qr(rows, mode="r"))
        distances = self._set.squared_distances(rows)
        return np.asarray(distances[self._near] - distances[self._far])

    def transposed_times(self, alpha: FloatArray) -> FloatArray:
        """H'alpha. Cost: pairs times features, and features squared for each direction."""
        of_pairs = np.zeros(len(self._pairs))
        of_pairs += np.bincount(self._near, alpha, len(of_pairs))
        of_pairs -= np.bincount(self._far, alpha, len(of_pairs))
        return np.asarray((self._basis @ self._set.gram(of_pairs) * self._basis).sum(axis=1))

    def block(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> FloatArray:
        """Some rows and columns of H. Cost: rows times columns times features."""
        some, near, far = self._basis[columns].T, self._pairs[self._near[rows]], self._pairs[self._far[rows]]
        if 2 * len(rows) < len(self._points):
            apart = [(self._points[pairs[:, 0]] - self._points[pairs[:, 1]]) @ some for pairs in (near, far)]
        else:
            mapped = self._points @ some
            apart = [mapped[pairs[:, 0]] - mapped[pairs[:, 1]] for pairs in (near, far)]
        return np.asarray(np.square(apart[0]) - np.square(apart[1]))
