"""A shard of groups with several near or several far pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.comparisons import Comparisons
from boostmetric.kernels import groups, pairs
from boostmetric.kernels.lanes import WIDTH, aligned, aligned_zeros
from boostmetric.oracles.losses import Loss
from boostmetric.oracles.masses import Mass
from boostmetric.oracles.pair_shard import PairShard, pieces_of
from boostmetric.oracles.point_rows import PointRows

_Answer = TypeVar("_Answer")

# Number of directions to project the points on in one pass.
_AT_ONCE = 16
# Number of sides of groups to place at once.
_SIDES_AT_ONCE = 2**12


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
        for some, place in layout.places(comparisons.bounds):
            self._members[place] = comparisons.members[some]
        self._empty = np.flatnonzero(self._members == len(comparisons.pairs))
        self._distance_in_empty = np.where(layout.is_far(self._empty), groups.EMPTY, -groups.EMPTY)
        self._d, self._h = aligned_zeros(2, layout.n_places)
        self._lowest, self._unit, self._near_sum, self._far_sum = aligned_zeros(4, len(self._omega))
        # Batches are shared among threads in runs of about equally many places.
        ends = [*self._batches[:, 2], layout.n_places]
        self._runs = [_Run.of(*piece, ends) for piece in pieces_of(np.array(ends))]

    def extend(self, directions: FloatArray, step_sizes: FloatArray) -> Mass:
        d = self._kept()  # sum that of a pair along all directions before the next pair
        for begin in range(0, len(directions), _AT_ONCE):
            block = slice(begin, begin + _AT_ONCE)
            z = np.ascontiguousarray(np.transpose(self._points.times_each(directions[block])))
            self._add_growths(z, step_sizes[block], d, fused=True)
        d[-1] = 0.0
        self._forget()
        self._set_growths(d)
        return self.commit(1.0)

    def _forget(self) -> None:
        self._d[:] = 0.0
        self._d[self._empty] = self._distance_in_empty

    def _distances(self) -> tuple[FloatArray, ...]:
        return (self._d,)

    def _kept(self) -> FloatArray:
        # The distance of a pair is the same in all groups. Its growth, which this overwrites, is with them by now.
        d = self._points.scratch.room("growths", len(self._c))
        pairs.spread(self._d, self._members, d)
        return d

    def _put_back(self, kept: FloatArray) -> None:
        self._in_runs(lambda run: pairs.gather(kept, self._members[run.places], self._d[run.places]))
        self._d[self._empty] = self._distance_in_empty

    def _set_growths(self, h: FloatArray) -> None:
        self._in_runs(lambda run: pairs.gather(h, self._members[run.places], self._h[run.places]))

    def _grow(self, step: float) -> None:
        groups.grow(self._d, self._h, step)

    def _moments(self, w: float) -> FloatArray:
        def moments(run: _Run) -> FloatArray:
            sums, lanes = np.empty(4), run.lanes
            layout = self._batches[run.batches], self._omega[lanes], self._log_omega[lanes], self._lowest[lanes]
            groups.group_moments(self._code, self._d, self._h, w, *layout, sums)
            return sums

        return _added(np.array(self._in_runs(moments)))

    def _move(self, step: float) -> FloatArray:
        kept = self._unit, self._near_sum, self._far_sum

        def masses(run: _Run) -> FloatArray:
            sums, batches = np.empty(4), self._batches[run.batches]
            by_lane = [array[run.lanes] for array in (self._omega, self._log_omega, self._lowest, *kept)]
            near = np.empty(WIDTH * batches[:, 0].max())
            groups.group_masses(self._code, self._d, self._h, step, batches, *by_lane, near, sums)
            return sums

        each = np.array(self._in_runs(masses))
        sums = _added(each[:, :3])
        self._in_runs(
            lambda run: groups.group_coefficients(
                self._code, sums[0], self._h, self._batches[run.batches], *(array[run.lanes] for array in kept)
            )
        )
        groups.add_up(self._h, self._members, self._c)
        return np.append(sums, each[:, 3].sum())

    def _in_runs(self, function: Callable[[_Run], _Answer]) -> list[_Answer]:
        """Call a function for each run of batches."""
        return self._points.crew.each(function, self._runs)


class _Run(NamedTuple):
    """A run of batches: their numbers, lanes and places."""

    batches: slice
    lanes: slice
    places: slice

    @classmethod
    def of(cls, begin: int, end: int, ends: Sequence[int]) -> _Run:
        """The batches from `begin` to `end`, of which number b has the places from ``ends[b]`` to ``ends[b + 1]``."""
        return cls(slice(begin, end), slice(WIDTH * begin, WIDTH * end), slice(ends[begin], ends[end]))


def _added(sums: FloatArray) -> FloatArray:
    """Add up sums that are relative to the exponential of their shift, the first number of a row."""
    shift = sums[:, 0].max()
    return np.append(shift, np.exp(sums[:, 0] - shift) @ sums[:, 1:])


@dataclass(frozen=True)
class _Layout:
    """Layout of groups in batches.

    Attributes
    ----------
    batches : ndarray of shape (n_batches, 4)
        Batches for the kernels: near places, far places, offset, joined or not.
    omega : ndarray of shape (8 * n_batches,)
        Weights of the groups by lane, 0 in empty lanes.
    begin, apart : ndarray of shape (2 * n_groups,)
        Place of the first member of each side, and the distance to the place of the next one.
    n_places : int
    """

    batches: IntArray
    omega: FloatArray
    begin: IntArray
    apart: IntArray
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
        return cls(batches, omega, begin, apart, int(ends[-1]))

    def places(self, bounds: IntArray) -> Iterator[tuple[slice, IntArray]]:
        """Places of the members of all sides, which have these bounds, for some of the members after the others."""
        for first in range(0, len(self.begin), _SIDES_AT_ONCE):
            sides = slice(first, first + _SIDES_AT_ONCE)
            starts = bounds[first : first + _SIDES_AT_ONCE + 1]
            sizes = np.diff(starts)
            number = np.arange(starts[0], starts[-1]) - np.repeat(starts[:-1], sizes)
            yield (
                slice(starts[0], starts[-1]),
                np.repeat(self.begin[sides], sizes) + np.repeat(self.apart[sides], sizes) * number,
            )

    def is_far(self, places: IntArray) -> NDArray[np.bool_]:
        """Whether places are on the far side of their batch."""
        batch = np.searchsorted(self.batches[:, 2], places, side="right") - 1
        n_near, _, offset, _ = self.batches[batch].T
        return np.asarray(places >= offset + WIDTH * n_near)
