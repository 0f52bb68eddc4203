"""Base class of all shards on the CPU: points, pairs, and the direction."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from boostmetric.arrays.types import FloatArray
from boostmetric.comparisons import Comparisons
from boostmetric.kernels import pairs
from boostmetric.kernels.group_losses import CODES
from boostmetric.kernels.lanes import WIDTH
from boostmetric.oracles.losses import Loss
from boostmetric.oracles.masses import Mass
from boostmetric.oracles.point_rows import PointRows
from boostmetric.oracles.protocol import ONE
from boostmetric.oracles.shard import Shard

# Number of directions to project the points on in one pass.
_AT_ONCE = 16


class PairShard(Shard):
    """The five verbs over the pairs of a shard; subclasses define how the pairs form groups."""

    def __init__(self, points: PointRows, comparisons: Comparisons, loss: Loss) -> None:
        super().__init__(points.n_features, comparisons.total_weight, loss)
        self._code = CODES[loss.name]
        touched = np.zeros(len(points), dtype=bool)
        touched[comparisons.pairs] = True
        self._points, number = points.share(touched)
        # Pairs sorted by their first point, as in `kernels.pairs`.
        first, second = number[comparisons.pairs].T
        self._starts = np.searchsorted(first, np.arange(len(self._points) + 1))
        self._second = second.astype(np.uint32)

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
        if xi.ndim == 1:
            z = self._points.times(xi) if along is None else along
            pairs.squared_differences(z, self._starts, self._second, h)
        else:
            h[:] = 0.0
            self._add_growths(self._points.along(xi), factors, h, fused=False)
        self._set_growths(h)

    def _add_growths(self, z: FloatArray, factors: FloatArray, h: FloatArray, *, fused: bool) -> None:
        """Add the growths of all pairs along directions, given the points along them as columns."""
        eight = np.zeros((WIDTH + 1) * WIDTH)
        pairs.add_squared_differences(z, factors, fused, self._starts, self._second, eight, h)

    def _gains(self, directions: FloatArray) -> FloatArray:
        gains = np.zeros(len(directions))
        pairs.sum_squared_differences(self._points.along(directions), self._c, self._starts, self._second, gains)
        return gains / self._mass

    @abstractmethod
    def _forget(self) -> None:
        """Set all distances to 0, those of X = 0."""

    @abstractmethod
    def _set_growths(self, h: FloatArray) -> None:
        """Set the growths of the pairs along the direction; the last is 0, for places without a pair."""

    @abstractmethod
    def _grow(self, step: float) -> None:
        """Make the step, to the same bits as `_move`, without updating the weights."""
