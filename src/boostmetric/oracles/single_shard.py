"""A shard of single comparisons."""

from __future__ import annotations

import math

import numpy as np

from boostmetric.arrays.types import FloatArray
from boostmetric.comparisons import Comparisons
from boostmetric.kernels import singles
from boostmetric.kernels.bins import N_MOMENTS, exponent_for, n_bins_for
from boostmetric.kernels.lanes import WIDTH, aligned, aligned_zeros
from boostmetric.oracles.histogram import Histogram
from boostmetric.oracles.losses import Loss
from boostmetric.oracles.pair_shard import PairShard
from boostmetric.oracles.point_rows import PointRows


class SingleShard(PairShard):
    """Single comparisons: one near pair against one far pair.

    It stores their margins rho = d_far - d_near and, along a direction, m = h_near - h_far: a step w lowers rho by w m.
    """

    def __init__(self, points: PointRows, comparisons: Comparisons, loss: Loss) -> None:
        super().__init__(points, comparisons, loss)
        self.has_histogram = loss.has_histogram
        self._near, self._far = np.ascontiguousarray(comparisons.members.reshape(-1, 2).T.astype(np.uint32))
        n_padded = comparisons.n_groups + -comparisons.n_groups % WIDTH
        self._omega, self._rho, self._m, self._u = aligned_zeros(4, n_padded)
        self._omega[: comparisons.n_groups] = comparisons.weights
        self._noted = np.empty(singles.BLOCK, dtype=np.uint32), np.empty(singles.BLOCK)
        with np.errstate(divide="ignore"):
            self._log_omega = aligned(np.log(self._omega))

    def _forget(self) -> None:
        self._rho[:] = 0.0

    def _distances(self) -> tuple[FloatArray, ...]:
        return (self._rho,)

    def _set_growths(self, h: FloatArray) -> None:
        singles.take_differences(h, self._near, self._far, self._m)

    def _grow(self, step: float) -> None:
        singles.shrink(self._rho, self._m, step)

    def _moments(self, w: float) -> FloatArray:
        sums = np.empty(4)
        singles.single_moments(self._code, self._rho, self._m, w, self._omega, self._log_omega, sums)
        return sums

    def _move(self, step: float) -> FloatArray:
        sums = np.empty(4)
        comparisons = (self._near, self._far, self._omega, self._log_omega)
        singles.single_weights(self._code, self._rho, self._m, step, *comparisons, self._u, self._c, sums)
        return sums

    def histogram(self) -> Histogram | None:
        if not self.has_histogram:
            return None
        highest, lowest = float(self._m.max()), float(self._m.min())
        exponent = exponent_for(highest, lowest)
        width = math.ldexp(1.0, exponent)
        table = np.empty((n_bins_for(lowest / width), N_MOMENTS))
        singles.single_histogram(self._m, self._u, width, *self._noted, table)
        return Histogram(self._log_mass, exponent, table / self._mass)
