"""Base class of all shards on the CPU: points, pairs, and the direction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

import numpy as np

from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.comparisons import Comparisons
from boostmetric.kernels import pairs
from boostmetric.kernels.group_losses import CODES
from boostmetric.kernels.lanes import WIDTH
from boostmetric.oracles.losses import Loss
from boostmetric.oracles.masses import Mass
from boostmetric.oracles.point_rows import PointRows
from boostmetric.oracles.protocol import ONE
from boostmetric.oracles.shard import Shard, as_map

_Answer = TypeVar("_Answer")

# Number of directions to project the points on in one pass.
_AT_ONCE = 16
# More directions than this are projected on as one linear map, of which as many rows are multiplied at a time: the
# products take less memory than the points.
_MOST_KEPT = 64
# Pairs, or members of groups, that are worth handing to a thread; more pieces would not run at the same time.
_PAIRS_PER_PIECE, _MOST_PIECES = 2**16, 64


def pieces_of(starts: IntArray) -> list[tuple[int, int]]:
    """Ranges of rows that hold equally many of what `starts` counts; their number depends only on the counts."""
    n_rows, n = len(starts) - 1, int(starts[-1])
    n_pieces = min(_MOST_PIECES, n // _PAIRS_PER_PIECE)
    inner = np.searchsorted(starts, n * np.arange(1, n_pieces) // max(n_pieces, 1))
    return list(pairwise([0, *np.unique(inner[(inner > 0) & (inner < n_rows)]).tolist(), n_rows]))


class PairShard(Shard):
    """The five verbs over the pairs of a shard; subclasses define how the pairs form groups."""

    def __init__(self, points: PointRows, comparisons: Comparisons, loss: Loss) -> None:
        super().__init__(points.n_features, comparisons.total_weight, loss)
        self._code = CODES[loss.name]
        touched = np.zeros(len(points), dtype=bool)
        touched[comparisons.pairs] = True
        self._points, number = points.share(touched)
        # Pairs sorted by their first point, as in `kernels.pairs`.
        first, second = comparisons.pairs.T
        if self._points is not points:
            first, second = number[first], number[second]
        self._starts = np.searchsorted(first, np.arange(len(self._points) + 1))
        self._second = np.require(second, np.int32, ["C", "W"]).view(np.uint32)  # no copy, if they suit
        self._pieces = pieces_of(self._starts)

        # Coefficients of all pairs, and one at the end for places without a pair.
        self._c = np.empty(len(comparisons.pairs) + 1)
        self._flow = np.empty(len(self._points))

    def rebuild(self, directions: FloatArray, step_sizes: FloatArray, at_once: bool = False) -> Mass:
        self._forget()
        if at_once and len(directions):
            self.project(directions, step_sizes)
            return self.commit(1.0)
        return self.extend(directions, step_sizes)

    def extend(self, directions: FloatArray, step_sizes: FloatArray) -> Mass:
        for begin in range(0, len(directions), _AT_ONCE):
            block = directions[begin : begin + _AT_ONCE]
            along = self._points.times_each(block)
            for xi, z, step in zip(block, along, step_sizes[begin : begin + _AT_ONCE], strict=True):
                self.project(xi, along=z)
                self._grow(step)
        self._set_growths(np.zeros(len(self._c)))
        return self.commit(0.0)  # the weights at these distances

    def gram(self) -> FloatArray:
        return self._points.gram(self._starts, self._second, self._c) / self._mass

    def matvec(self, x: FloatArray) -> FloatArray:
        pairs.laplacian_vector(self._starts, self._second, self._c, self._points.times(x), self._flow)
        return self._points.transposed_times(self._flow) / self._mass

    def project(self, xi: FloatArray, factors: FloatArray = ONE, along: FloatArray | None = None) -> None:
        """Set the growths of all pairs along one or several directions; `along` is the points along xi, if known."""
        h = self._points.scratch.room("growths", len(self._c))
        h[-1] = 0.0
        layout = self._starts, self._second
        if xi.ndim == 1:
            z = self._points.times(xi) if along is None else along
            self._in_pieces(lambda begin, end: pairs.squared_differences(z, *layout, begin, end, h))
        elif len(xi) > _MOST_KEPT and factors.min() >= 0.0:
            rows = as_map(xi, factors)
            rows = np.pad(rows, [(0, -len(rows) % WIDTH), (0, 0)])
            h[:] = 0.0
            for first in range(0, len(rows), _MOST_KEPT):
                self._add_squares(self._points.along(rows[first : first + _MOST_KEPT]), h)
        else:
            h[:] = 0.0
            self._add_growths(self._points.along(xi), factors, h, fused=False)
        self._set_growths(h)

    def _add_squares(self, z: FloatArray, h: FloatArray) -> None:
        """Add the squared distances of all pairs, given coordinates of the points."""
        layout = self._starts, self._second
        self._in_pieces(lambda begin, end: pairs.add_squared_distances(z, *layout, begin, end, h))

    def _add_growths(self, z: FloatArray, factors: FloatArray, h: FloatArray, *, fused: bool) -> None:
        """Add the growths of all pairs along directions, given the points along them as columns."""

        def add(begin: int, end: int) -> None:
            eight = np.zeros((WIDTH + 1) * WIDTH)
            pairs.add_squared_differences(z, factors, fused, self._starts, self._second, begin, end, eight, h)

        self._in_pieces(add)

    def _gains(self, directions: FloatArray) -> FloatArray:
        z = self._points.along(directions)

        def gains(begin: int, end: int) -> FloatArray:
            sums = np.zeros(len(directions))
            pairs.sum_squared_differences(z, self._c, self._starts, self._second, begin, end, sums)
            return sums

        return np.asarray(sum(self._in_pieces(gains)) / self._mass)

    def _in_pieces(self, function: Callable[[int, int], _Answer]) -> list[_Answer]:
        """Call a function for ranges of points, which hold equally many pairs by their first points."""
        return self._points.crew.each(lambda piece: function(*piece), self._pieces)

    @abstractmethod
    def _forget(self) -> None:
        """Set all distances to 0, those of X = 0."""

    @abstractmethod
    def _set_growths(self, h: FloatArray) -> None:
        """Set the growths of the pairs along the direction; the last is 0, for places without a pair."""

    @abstractmethod
    def _grow(self, step: float) -> None:
        """Make the step, to the same bits as `_move`, without updating the weights."""
