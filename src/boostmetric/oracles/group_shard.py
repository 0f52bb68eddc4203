"""A shard of groups with several near or several far pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.comparisons import Comparisons
from boostmetric.kernels import groups, pairs
from boostmetric.kernels.lanes import WIDTH, aligned, aligned_zeros
from boostmetric.oracles.losses import Loss
from boostmetric.oracles.masses import Mass
from boostmetric.oracles.pair_shard import PairShard
from boostmetric.oracles.point_rows import PointRows

# Number of directions to project the points on in one pass.
_AT_ONCE = 32


class GroupShard(PairShard):
    """Groups in batches of eight (see `kernels.groups`)."""

    def __init__(self, points: PointRows, comparisons: Comparisons, loss: Loss) -> None:
        super().__init__(points, comparisons, loss)
        layout = _Layout.of(comparisons)
        self._batches, self._omega = layout.batches, layout.omega
        with np.errstate(divide="ignore"):
            self._log_omega = aligned(np.log(self._omega))
        # Pair numbers of all places; an empty place has the number after the last pair.
        self._members = np.full(layout.n_places, len(comparisons.pairs), dtype=np.uint32)
        self._members[layout.place] = comparisons.members
        self._empty = np.flatnonzero(self._members == len(comparisons.pairs))
        self._distance_in_empty = np.where(layout.is_far(self._empty), groups.EMPTY, -groups.EMPTY)
        self._d, self._h = aligned_zeros(2, layout.n_places)
        self._lowest, self._unit, self._near_sum, self._far_sum = aligned_zeros(4, len(self._omega))
        self._near = np.empty(WIDTH * self._batches[:, 0].max())

    def rebuild(self, directions: FloatArray, step_sizes: FloatArray, at_once: bool = False) -> Mass:
        if at_once:
            return super().rebuild(directions, step_sizes, at_once)
        # The distance of a pair is the same in all groups: sum it along all directions before the next pair.
        self._forget()
        d = np.zeros(len(self._c))
        for begin in range(0, len(directions), _AT_ONCE):
            block = slice(begin, begin + _AT_ONCE)
            z = np.ascontiguousarray(np.transpose(self._points.times_each(directions[block])))
            self._add_growths(z, step_sizes[block], d, fused=True)
        self._set_growths(d)
        return self.commit(1.0)

    def _forget(self) -> None:
        self._d[:] = 0.0
        self._d[self._empty] = self._distance_in_empty

    def _distances(self) -> tuple[FloatArray, ...]:
        return (self._d,)

    def _set_growths(self, h: FloatArray) -> None:
        pairs.gather(h, self._members, self._h)

    def _grow(self, step: float) -> None:
        groups.grow(self._d, self._h, step)

    def _moments(self, w: float) -> FloatArray:
        sums = np.empty(4)
        layout = (self._batches, self._omega, self._log_omega, self._lowest)
        groups.group_moments(self._code, self._d, self._h, w, *layout, sums)
        return sums

    def _move(self, step: float) -> FloatArray:
        sums = np.empty(4)
        kept = (self._lowest, self._unit, self._near_sum, self._far_sum)
        layout = (self._members, self._batches, self._omega, self._log_omega)
        groups.group_weights(self._code, self._d, self._h, step, *layout, *kept, self._near, self._c, sums)
        return sums


@dataclass(frozen=True)
class _Layout:
    """Layout of groups in batches.

    Attributes
    ----------
    batches : ndarray of shape (n_batches, 4)
        Batches for the kernels: near places, far places, offset, joined or not.
    omega : ndarray of shape (8 * n_batches,)
        Weights of the groups by lane, 0 in empty lanes.
    place : ndarray of shape (n_members,)
        Place of every member.
    n_places : int
    """

    batches: IntArray
    omega: FloatArray
    place: IntArray
    n_places: int

    @classmethod
    def of(cls, comparisons: Comparisons) -> _Layout:
        """Put groups of similar sizes into a batch, and a group by itself where that takes less space."""
        n_groups = comparisons.n_groups
        near, far = sizes = np.diff(comparisons.bounds).reshape(-1, 2).T
        order = np.lexsort((far, near))
        padded = np.zeros((2, n_groups + -n_groups % WIDTH), dtype=np.int64)
        padded[:, :n_groups] = sizes[:, order]
        eights = padded.reshape(2, -1, WIDTH)
        together, alone = eights.max(axis=2), -(-eights // WIDTH)
        joined = alone.sum(axis=(0, 2)) < together.sum(axis=0)

        # A batch for every eight groups, or for each of them.
        octet, lane = np.divmod(np.arange(n_groups), WIDTH)
        n_batches = np.where(joined, np.bincount(octet), 1)
        batch = np.cumsum(n_batches)[octet] - n_batches[octet] + np.where(joined[octet], lane, 0)
        lane[joined[octet]] = 0
        batches = np.zeros((n_batches.sum(), 4), dtype=np.int64)
        batches[batch, 3] = joined[octet]
        batches[batch, :2] = np.where(joined[octet], alone.reshape(2, -1)[:, :n_groups], together[:, octet]).T
        ends = np.cumsum(WIDTH * batches[:, :2].sum(axis=1))
        batches[1:, 2] = ends[:-1]
        omega = np.zeros(WIDTH * len(batches))
        omega[WIDTH * batch + lane] = comparisons.weights[order]

        # First place and stride of every side, in the order in which the groups were given.
        rank = np.argsort(order)
        n_near, _, offset, alone_ = batches[batch[rank]].T
        begin = np.stack([offset, offset + WIDTH * n_near], axis=1).ravel() + np.repeat(lane[rank], 2)
        apart = np.repeat(np.where(alone_, 1, WIDTH), 2)
        side = np.repeat(np.arange(2 * n_groups), np.diff(comparisons.bounds))
        place = begin[side] + apart[side] * (np.arange(len(comparisons.members)) - comparisons.bounds[side])
        return cls(batches, omega, place, int(ends[-1]))

    def is_far(self, places: IntArray) -> NDArray[np.bool_]:
        """Whether places are on the far side of their batch."""
        batch = np.searchsorted(self.batches[:, 2], places, side="right") - 1
        n_near, _, offset, _ = self.batches[batch].T
        return np.asarray(places >= offset + WIDTH * n_near)
