"""Pairs of points: their distances under a linear map, and weighted sums over their differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.types import FloatArray

if TYPE_CHECKING:
    from boostmetric.oracles.point_rows import PointRows


@dataclass(frozen=True, eq=False)
class PairSet:
    """Points, and pairs of them; create one with `PairSet.of`.

    Pairs may be repeated, and their points may be in either order. All inputs and outputs about pairs are in the order
    in which the pairs were given.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric.baselines.pair_set import PairSet
    >>> pairs = PairSet.of(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 0.0]]), np.array([[2, 1], [0, 1]]))
    >>> pairs.squared_distances(np.eye(2))
    array([16., 25.])
    >>> pairs.gram(np.array([1.0, 2.0]))
    array([[18., 24.],
           [24., 48.]])
    """

    _points: PointRows
    _starts: NDArray[np.int64]
    _second: NDArray[np.uint32]
    _order: NDArray[np.int64] | None  # None: already in the order of the kernels

    @classmethod
    def of(cls, points: FloatArray, pairs: NDArray[np.integer[Any]]) -> PairSet:
        """Sort the pairs as the kernels need them.

        Parameters
        ----------
        points : ndarray of shape (n_points, n_features)
            Preferably centred: far from the origin, `gram` subtracts large numbers.
        pairs : ndarray of int of shape (n_pairs, 2)
            Point numbers, which are not checked.
        """
        from boostmetric.oracles.point_rows import as_points  # imports numba, so only when needed

        low, high = pairs.min(axis=1), pairs.max(axis=1)
        order = None
        if np.any((low[1:] < low[:-1]) | ((low[1:] == low[:-1]) & (high[1:] < high[:-1]))):
            order = np.lexsort([high, low])
            low, high = low[order], high[order]
        starts = np.searchsorted(low, np.arange(len(points) + 1))
        return cls(as_points(points), starts, high.astype(np.uint32), order)

    def __len__(self) -> int:
        return len(self._second)

    def squared_distances(self, rows: FloatArray) -> FloatArray:
        """Squared distances of the pairs under the linear map with the given rows.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_pairs,)

        Notes
        -----
        Cost: a product of the points with the map, and n_pairs * n_rows.
        """
        from boostmetric.kernels.lanes import WIDTH
        from boostmetric.kernels.pairs import add_squared_distances

        padded = np.zeros((len(rows) + -len(rows) % WIDTH, rows.shape[1]))
        padded[: len(rows)] = rows
        distances = np.zeros(len(self))
        add_squared_distances(self._points.along(padded), self._starts, self._second, 0, len(self._points), distances)
        if self._order is None:
            return distances
        given = np.empty(len(self))
        given[self._order] = distances
        return given

    def gram(self, c: FloatArray) -> FloatArray:
        """Sum of c_p (a - b)(a - b)' over the pairs p of points a and b.

        Parameters
        ----------
        c : ndarray of shape (n_pairs,)
            Coefficients of either sign.

        Returns
        -------
        ndarray of shape (n_features, n_features)

        Notes
        -----
        Cost: n_pairs * n_features, and a product of the points with themselves.
        """
        return self._points.gram(self._starts, self._second, c if self._order is None else c[self._order])
