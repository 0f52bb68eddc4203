"""Nearest neighbours among points that arrive in batches; the same ones as if all points were given at once.

What `nearest_points` calls the nearest depends on distances and on the order of the points. Batches arrive in that
order, so few of the points seen must be kept: a point that comes after enough others that are no farther is never
chosen (`brute_force.keep_nearest`). The distance of the last point wanted is the limit for the next batch, in which
products in single precision find the few points that may be within it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.frame import largest_size
from boostmetric.arrays.ragged import Ragged
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.neighbors.nearest_points import MOST_ROUNDING, pick
from boostmetric.neighbors.searches import Once, row_chunks, square_lengths
from boostmetric.parallel.crew import Crew

_PIECE = 1024  # anchors that one thread works on
_ROOM = 256  # initial number of candidates per anchor in a batch


class NearestSoFar:
    """The nearest points of the same class and of other classes, among the points offered so far.

    Parameters
    ----------
    anchors : ndarray of shape (n_anchors, n_features)
        Points to find neighbours for, with coordinates of at most about 1 (see `frame.Shift`).
    own : ndarray of shape (n_anchors,)
        Their class numbers.
    numbers : ndarray of shape (n_anchors,)
        Their point numbers, because an anchor is not its own neighbour.
    n_same, n_others : int
        Number of neighbours to find in the same class and in other classes.
    rounding : float
        As in `neighbors.nearest`.
    n_threads : int, default=1
    """

    def __init__(
        self,
        anchors: FloatArray,
        own: IntArray,
        numbers: IntArray,
        n_same: int,
        n_others: int,
        rounding: float,
        *,
        n_threads: int = 1,
    ) -> None:
        self._centre = anchors.mean(axis=0)
        self._largest = largest_size(anchors - self._centre)
        self._n_threads = n_threads
        cuts = [slice(begin, begin + _PIECE) for begin in range(0, len(anchors), _PIECE)]
        self._pieces = [_Piece(anchors[cut], own[cut], numbers[cut], n_same, n_others, rounding) for cut in cuts]

    def offer(self, points: FloatArray, label: IntArray, first: int) -> None:
        """Process another batch of points with their classes; their numbers start at `first`.

        Cost: all distances to the anchors. Memory: a copy of the points in single precision, and 16 MB per thread.
        """
        batch = _Batch(points, label, first, self._centre, self._largest)
        self._each(lambda piece: piece.offer(batch))

    def nearest(self) -> tuple[Ragged, Ragged]:
        """Return the nearest points of the same class and of others, nearest first; fewer if there are fewer."""
        found = self._each(lambda piece: (piece.same.nearest(), piece.others.nearest()))
        return Ragged.stack([same for same, _ in found]), Ragged.stack([others for _, others in found])

    def nearest_of_class(self, n: int) -> tuple[IntArray, FloatArray]:
        """Return numbers and distances of the n nearest points of the same class, of which there must be as many."""
        found = self._each(lambda piece: piece.same.nearest_with_distance())
        numbers, distances = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return numbers[:, :n], distances[:, :n]

    def _each(self, work: Callable[[_Piece], Any]) -> list[Any]:
        with Crew(self._n_threads) as crew:
            return crew.each(work, self._pieces)


class _Batch:
    """A batch of points, with copies for products that are centred and scaled so that squares do not underflow."""

    def __init__(self, points: FloatArray, label: IntArray, first: int, centre: FloatArray, largest: float) -> None:
        self.points, self.label, self.first = points, label, first
        self._centre = centre
        centred = points - centre
        self.exponent = -int(np.frexp(max(largest, largest_size(centred)))[1])
        np.ldexp(centred, self.exponent, out=centred)
        rounded = centred.astype(np.float32)
        self._single = rounded, square_lengths(rounded)
        # Not a method: a reference cycle would keep this object alive until garbage collection.
        self._double = Once(partial(_with_squares, points, centre, self.exponent))
        self._room = local()

    def around(self, anchors: FloatArray) -> FloatArray:
        """Centre and scale the anchors like the points."""
        return _centred(anchors, self._centre, self.exponent)

    def products(self, around: FloatArray, *, single: bool) -> tuple[NDArray[Any], NDArray[Any], float]:
        """Products of anchors and points, half the squared lengths of points, and the error of squared distances."""
        points, squares = self._single if single else self._double()
        longest = max(float(squares.max(initial=0.0)), float(square_lengths(around).max(initial=0.0)))
        # As in `neighbors.nearest`; the error doubles if coordinates are rounded before they are multiplied.
        blur = (1 + single) * (points.shape[1] + 4) * float(np.finfo(points.dtype).eps) * longest
        room = self._room_for(len(around)) if single else np.empty((len(around), len(points)))
        return np.matmul(around.astype(points.dtype), points.T, out=room), 0.5 * squares, blur

    def _room_for(self, n_anchors: int) -> NDArray[np.float32]:
        """Buffer kept by each thread, because allocating it takes as long as filling it."""
        room: NDArray[np.float32] | None = getattr(self._room, "products", None)
        if room is None or len(room) < n_anchors:
            room = self._room.products = np.empty((n_anchors, len(self.points)), dtype=np.float32)
        return room[:n_anchors]


def _centred(points: FloatArray, centre: FloatArray, exponent: int) -> FloatArray:
    return np.ldexp(points - centre, exponent)


def _with_squares(points: FloatArray, centre: FloatArray, exponent: int) -> tuple[FloatArray, FloatArray]:
    centred = _centred(points, centre, exponent)
    return centred, square_lengths(centred)


class _Piece:
    """Some of the anchors, with their candidates so far."""

    def __init__(
        self, anchors: FloatArray, own: IntArray, numbers: IntArray, n_same: int, n_others: int, rounding: float
    ) -> None:
        self._anchors, self._own, self._numbers = anchors, own, numbers
        self.same = _Pool(len(anchors), n_same, rounding)
        self.others = _Pool(len(anchors), n_others, rounding)

    def offer(self, batch: _Batch) -> None:
        """Add points that may be near to the pools."""
        from boostmetric.kernels import brute_force

        around = batch.around(self._anchors)
        lists = [self._list(batch, around, rows) for rows in row_chunks(len(around), len(batch.points))]
        row, place = (np.concatenate(parts) for parts in zip(*lists, strict=True))
        other_than_itself = place + batch.first != self._numbers[row]
        row, place = row[other_than_itself], place[other_than_itself]
        distance = np.empty(len(row))
        brute_force.listed_distances(batch.points, self._anchors, row, place, distance)
        same = batch.label[place] == self._own[row]
        for pool, members in ((self.same, same), (self.others, ~same)):
            pool.add(row[members], place[members] + batch.first, distance[members])

    def _list(self, batch: _Batch, around: FloatArray, rows: slice) -> tuple[IntArray, IntArray]:
        """Anchors, and positions in the batch of points that may be near them, in ascending order for each anchor."""
        row, place, left = self._ask(batch, around, np.arange(len(around))[rows], single=True)
        if len(left):  # clusters much smaller than the spread of the data, or many equal distances
            more_row, more_place, _ = self._ask(batch, around, left, single=False)
            row, place = np.concatenate([row, more_row]), np.concatenate([place, more_place])
        return row, place

    def _ask(
        self, batch: _Batch, around: FloatArray, rows: IntArray, *, single: bool
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Same as `_list`, but also return the anchors left without an answer because too many points may be near."""
        from boostmetric.kernels import brute_force

        asked = around[rows]
        products, half_norms, blur = batch.products(asked, single=single)
        farthest = np.stack([self.same.farthest[rows], self.others.farthest[rows]], axis=1)
        limits = 0.5 * (np.ldexp(farthest, batch.exponent) ** 2 + 4 * blur - square_lengths(asked)[:, None])
        # One more for the anchor itself, which is found in its own class.
        wanted = self.same.wanted + 1, self.others.wanted
        room = _ROOM
        while True:
            numbers, counts = np.empty((len(rows), room), dtype=np.int32), np.zeros(len(rows), dtype=np.int64)
            heaps = [np.full((len(rows), n), np.inf, dtype=products.dtype) for n in wanted]
            brute_force.list_nearest(
                products, half_norms, batch.label, self._own[rows], 2 * blur, limits, *heaps, numbers, counts
            )
            most = int(counts.max(initial=0))
            if most <= room or (single and room > _ROOM):
                break
            # Repeat with the limits just found; in double precision, also with space for all candidates.
            room = 2 * _ROOM if single else most
        done = counts <= room
        sizes = np.where(done, counts, 0)
        place = numbers[np.arange(room) < sizes[:, None]].astype(np.int64)
        return np.repeat(rows, sizes), place, rows[~done]


class _Pool:
    """For each anchor, the points that may still be chosen.

    Attributes
    ----------
    wanted : int
        Number of points wanted per anchor.
    farthest : ndarray of shape (n_anchors,)
        Distance of the last point wanted; infinite if there are fewer.
    """

    def __init__(self, n_anchors: int, wanted: int, rounding: float) -> None:
        self.wanted, self._rounding = wanted, rounding
        self.farthest = np.full(n_anchors, np.inf)
        self._numbers = Ragged(np.empty(0, dtype=np.int64), np.zeros(n_anchors + 1, dtype=np.int64))
        self._distance = np.empty(0)

    def add(self, row: IntArray, numbers: IntArray, distance: FloatArray) -> None:
        """Offer points to anchors; numbers are above all earlier ones, and ascending for each anchor."""
        from boostmetric.kernels import brute_force

        if not len(row):
            return
        known = self._numbers
        rows = np.concatenate([known.row, row])
        order = np.argsort(rows, kind="stable")
        numbers = np.concatenate([known.values, numbers])[order]
        distance = np.concatenate([self._distance, distance])[order]
        merged = Ragged.from_sizes(numbers, np.bincount(rows, minlength=len(known)))
        kept = np.empty(len(distance), dtype=bool)
        brute_force.keep_nearest(
            distance, merged.bounds, self._rounding, MOST_ROUNDING, np.empty(self.wanted), kept, self.farthest
        )
        self._numbers, self._distance = merged.where(kept), distance[kept]

    def nearest(self) -> Ragged:
        """Choose the nearest points and return their numbers, nearest first."""
        chosen, _ = self.nearest_with_distance()
        found = np.minimum(self._numbers.sizes, self.wanted)
        return Ragged.from_sizes(chosen[np.arange(chosen.shape[1]) < found[:, None]], found)

    def nearest_with_distance(self) -> tuple[IntArray, FloatArray]:
        """Numbers and distances of the nearest points, in rows; distances are infinite where there are too few."""
        numbers, sizes = self._numbers, self._numbers.sizes
        width = max(int(sizes.max(initial=0)), 1)
        inside = np.arange(width) < sizes[:, None]
        distance, table = np.full(inside.shape, np.inf), np.zeros(inside.shape, dtype=np.int64)
        distance[inside], table[inside] = self._distance, numbers.values
        picked, _ = pick(distance, min(self.wanted, width), self._rounding)
        return np.take_along_axis(table, picked, axis=1), np.take_along_axis(distance, picked, axis=1)
