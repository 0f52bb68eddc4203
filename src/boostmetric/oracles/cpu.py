"""Shards of a problem on the CPU: the five verbs over numba kernels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from boostmetric.comparisons import Comparisons
from boostmetric.oracles import kernels
from boostmetric.oracles.histogram import Histogram
from boostmetric.oracles.points import PointRows
from boostmetric.oracles.protocol import ONE, FloatArray, Moments, State

IntArray = NDArray[np.int64]

# A shard should be worth the hand-over to a thread, and more shards than this would not be run at once.
_MEMBERS_PER_SHARD = 2**15
_MOST_SHARDS = 32


def make_shards(points: PointRows, comparisons: Comparisons) -> list[Shard]:
    """Cut a problem into shards of similar size, groups and single comparisons apart.

    The number of shards depends on the problem only. Every shard goes over its points when it finds a direction, so
    many points or features with few members a point ask for fewer shards.
    """
    single = np.diff(comparisons.bounds[::2]) == 2
    shards: list[Shard] = []
    for kind, groups in ((GroupShard, np.flatnonzero(~single)), (SingleShard, np.flatnonzero(single))):
        if not len(groups):
            continue
        part = comparisons.subset(groups) if len(groups) < comparisons.n_groups else comparisons
        # Nanoseconds, roughly, of the kernels over the members.
        kernel_cost = len(part.members) * (60 + points.n_features / 2)
        worth = int(kernel_cost / (2 * points.direction_cost))
        n_shards = min(_MOST_SHARDS, len(part.members) // _MEMBERS_PER_SHARD, worth)
        shards += [kind(points, piece) for piece in _cut(part, max(1, n_shards))]
    return shards


def _cut(comparisons: Comparisons, n_pieces: int) -> list[Comparisons]:
    """Pieces of consecutive groups with about as many members each."""
    if n_pieces == 1:
        return [comparisons]
    ends = comparisons.bounds[2::2]
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, n_pieces) / n_pieces)
    ranges = np.split(np.arange(comparisons.n_groups), np.unique(cuts))
    return [comparisons.subset(groups) for groups in ranges if len(groups)]


class Shard(ABC):
    """What shards of groups and of single comparisons have in common: points, pairs, and the direction."""

    def __init__(self, points: PointRows, comparisons: Comparisons) -> None:
        touched = np.zeros(len(points), dtype=bool)
        touched[comparisons.pairs] = True
        number = np.cumsum(touched, dtype=np.int32) - np.int32(1)
        self._points = points.share(touched)
        self._first, self._second = np.ascontiguousarray(number[comparisons.pairs].T.astype(np.uint32))
        self._weight = comparisons.total_weight
        self.n_features = points.n_features

        self._c = np.empty(comparisons.n_pairs)
        self._mass = 1.0
        self._log_mass = 0.0
        self._flow = np.empty(len(self._points))

    def rebuild(self, directions: FloatArray, step_sizes: FloatArray) -> State:
        nothing = np.zeros(len(self._first))
        self._set_distances(nothing)
        for xi, step in zip(directions, step_sizes, strict=True):
            self.project(xi)
            self._grow(step)
        self._set_growths(nothing)
        return self.commit(0.0)

    def gram(self) -> FloatArray:
        """A_hat over this shard. Implements Eq. (10) of the paper."""
        return self._points.gram(self._first, self._second, self._c) / self._mass

    def matvec(self, x: FloatArray) -> FloatArray:
        kernels.laplacian_vector(self._first, self._second, self._c, self._points.times(x), self._flow)
        return self._points.transposed_times(self._flow) / self._mass

    def project(self, xi: FloatArray, factors: FloatArray = ONE) -> None:
        growths = np.empty(len(self._first))
        z = self._points.times(np.atleast_2d(xi).T)
        kernels.squared_differences(z, factors, self._first, self._second, growths)
        self._set_growths(growths)

    def moments(self, steps: FloatArray) -> Moments:
        rows = np.array([self._moments(float(w)) for w in steps])
        shift, mass, first, second = rows.T
        return Moments(shift + np.log(mass), first / mass, second / mass)

    def histogram(self) -> Histogram | None:
        return None

    def commit(self, step: float) -> State:
        shift, self._mass, margin, violated = self._move(step).tolist()
        self._log_mass = shift + math.log(self._mass)
        return State(self._log_mass, margin / self._mass, violated, self._weight)

    @abstractmethod
    def _set_distances(self, d: FloatArray) -> None:
        """Take over the squared distances of the pairs."""

    @abstractmethod
    def _set_growths(self, h: FloatArray) -> None:
        """Take over the growths of the pairs along the direction."""

    @abstractmethod
    def _grow(self, step: float) -> None:
        """Make the step, to the same bits as `_move`, and leave the weights as they are."""

    @abstractmethod
    def _moments(self, w: float) -> FloatArray:
        """Shift, mass, and mass-weighted first and second moment at step w."""

    @abstractmethod
    def _move(self, step: float) -> FloatArray:
        """Make the step and write the pair coefficients; shift, mass, mass-weighted margin and violated weight."""


class GroupShard(Shard):
    """Groups with several near or several far pairs, in batches of one shape."""

    def __init__(self, points: PointRows, comparisons: Comparisons) -> None:
        super().__init__(points, comparisons)
        order, self._batches = _batches(comparisons)
        comparisons = comparisons.subset(order)
        self._members = _lanes_side_by_side(comparisons.members, self._batches)
        self._omega = comparisons.weights
        self._log_omega = np.log(self._omega)
        self._d = np.empty(len(self._members))
        self._h = np.empty(len(self._members))
        self._log_scale = np.empty(comparisons.n_groups)
        self._side_sums = np.empty((2, comparisons.n_groups))
        self._block = np.empty((self._batches[:, 1] * self._batches[:, 2:4].sum(axis=1)).max())
        self._lane = np.empty((9, kernels.LANES))
        self._sorted_near = np.empty(self._batches[:, 2].max())

    def _set_distances(self, d: FloatArray) -> None:
        kernels.gather(d, self._members, self._d)

    def _set_growths(self, h: FloatArray) -> None:
        kernels.gather(h, self._members, self._h)

    def _grow(self, step: float) -> None:
        self._d += step * self._h

    def _moments(self, w: float) -> FloatArray:
        sums = np.empty(4)
        kernels.group_moments(self._d, self._h, w, self._batches, self._log_omega, self._block, self._lane, sums)
        return sums

    def _move(self, step: float) -> FloatArray:
        sums = np.empty(4)
        groups = (self._members, self._batches, self._omega, self._log_omega)
        scratch = (self._lane, self._log_scale, self._side_sums, self._sorted_near)
        kernels.group_weights(self._d, self._h, step, *groups, *scratch, self._c, sums)
        return sums


def _batches(comparisons: Comparisons) -> tuple[IntArray, IntArray]:
    """An order in which groups of one shape follow each other, and the batches of that order (see `kernels`)."""
    near, far = np.diff(comparisons.bounds).reshape(-1, 2).T
    order = np.lexsort((far, near))
    near, far = near[order], far[order]
    changes = np.flatnonzero(np.diff(near, prepend=-1) | np.diff(far, prepend=-1))
    rows = []
    offset = 0
    for start, stop in zip(changes, [*changes[1:], len(order)], strict=True):
        size = near[start] + far[start]
        lanes = int(np.clip(kernels.BATCH // size, 1, kernels.LANES))
        for first in range(start, stop, lanes):
            width = min(lanes, stop - first)
            rows.append((first, width, near[start], far[start], offset))
            offset += width * size
    return order, np.array(rows, dtype=np.int64)


def _lanes_side_by_side(members: NDArray[np.int32], batches: IntArray) -> NDArray[np.uint32]:
    """Members group after group, as members position after position in each batch."""
    out = np.empty(len(members), dtype=np.uint32)
    for _, lanes, near, far, offset in batches.tolist():
        batch = slice(offset, offset + lanes * (near + far))
        out[batch] = members[batch].reshape(lanes, -1).T.ravel()
    return out


class SingleShard(Shard):
    """Single comparisons: one near pair against one far pair.

    Kept are their margins rho = d_far - d_near and, along a direction, m = h_near - h_far: a step w lowers rho by w m.
    """

    def __init__(self, points: PointRows, comparisons: Comparisons) -> None:
        super().__init__(points, comparisons)
        self._near, self._far = np.ascontiguousarray(comparisons.members.reshape(-1, 2).T.astype(np.uint32))
        self._omega = comparisons.weights
        self._log_omega = np.log(self._omega)
        self._rho = np.empty(comparisons.n_groups)
        self._m = np.empty(comparisons.n_groups)
        self._u = np.empty(comparisons.n_groups)
        self._block = np.empty(kernels.BLOCK)

    def _set_distances(self, d: FloatArray) -> None:
        np.subtract(d[self._far], d[self._near], out=self._rho)

    def _set_growths(self, h: FloatArray) -> None:
        np.subtract(h[self._near], h[self._far], out=self._m)

    def _grow(self, step: float) -> None:
        self._rho -= step * self._m

    def _moments(self, w: float) -> FloatArray:
        sums = np.empty(4)
        kernels.single_moments(self._rho, self._m, w, self._log_omega, self._block, sums)
        return sums

    def _move(self, step: float) -> FloatArray:
        sums = np.empty(4)
        singles = (self._near, self._far, self._omega, self._log_omega)
        kernels.single_weights(self._rho, self._m, step, *singles, self._u, self._c, sums)
        return sums

    def histogram(self) -> Histogram:
        # Bins of a power of two that reach as far as any growth in this shard.
        _, exponent = math.frexp(max(self._m.max(), -self._m.min()) / kernels.HALF_BINS)
        table = np.empty((2 * kernels.HALF_BINS, kernels.N_MOMENTS))
        kernels.single_histogram(self._m, self._u, math.ldexp(0.5, exponent), table)
        return Histogram(self._log_mass, exponent, table / self._mass)
