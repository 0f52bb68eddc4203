"""Candidates for nearest neighbours: compute all distances in single or double precision and keep the shortest.

`nearest_points` defines what the nearest are, and decides which of the candidates are among them.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, local
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.frame import largest_size
from boostmetric.arrays.ragged import Ragged
from boostmetric.arrays.types import FloatArray

_ROOM = 256  # initial number of answers per query
_CHUNK = 2**22  # numbers in memory at once
_COLUMNS = 2**11  # of a product
_FEWEST_FEATURES_TO_ROUND = 32  # with fewer, products take little time
_FEWEST_TO_ROUND = 2**20  # pairs
# Points in single precision are searched as they are if their exponent is at most this.
_MOST_EXPONENT_UNSCALED = 10
# A search along axes: pairs and features that it takes, variance that the axes hold, most axes as a fraction of the
# features, points to find them from, and rounds to do so.
_FEWEST_FOR_AXES, _FEWEST_FEATURES_FOR_AXES = 2**23, 64
_VARIANCE_OF_AXES, _MOST_AXES, _SAMPLED_FOR_AXES, _ROUNDS_FOR_AXES = 0.98, 0.375, 2048, 3
_NO_PANELS = np.zeros(2, dtype=np.int64)
Made = TypeVar("Made")


class Once(Generic[Made]):
    """Value that is made on first use, by whichever thread comes first."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make, self._lock = make, Lock()
        self._made: Made | None = None

    def __call__(self) -> Made:
        """Return the value, making it on the first call."""
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made


class Quick:
    """Search by products in single precision: takes a third of the time, but cannot settle every query.

    Parameters
    ----------
    centred : ndarray of shape (n_points, n_features)
    blur : float
        Maximum error of a squared distance in double precision.
    label : ndarray of shape (n_points,), optional
        Class numbers, so that the class of a query can be left out.
    """

    def __init__(self, centred: NDArray[Any], blur: float, label: NDArray[np.int64] | None = None) -> None:
        # Scaled so that nothing that double precision can distinguish underflows.
        self._exponent = -int(np.frexp(largest_size(centred))[1])
        if centred.dtype == np.float32 and abs(self._exponent) <= _MOST_EXPONENT_UNSCALED:
            self._exponent = 0  # saves a copy
            self._points = centred
        else:
            self._points = np.ldexp(centred, self._exponent).astype(np.float32, copy=False)
        self._half_norms = 0.5 * square_lengths(self._points)
        self._label = np.zeros(len(centred), dtype=np.int64) if label is None else label
        self._room = local()
        self.blur = self.blur_of(blur)

    @staticmethod
    def blur_of(blur: float) -> float:
        """Maximum error of a squared distance, from that in double precision."""
        # Coordinates are rounded before they are multiplied, once more than in double precision.
        return 2 * blur * float(np.finfo(np.float32).eps) / float(np.finfo(np.float64).eps)

    @staticmethod
    def pays(points: NDArray[Any], n_queries: int) -> bool:
        """Whether the time saved is worth a copy of the points."""
        return points.shape[1] >= _FEWEST_FEATURES_TO_ROUND and len(points) * n_queries >= _FEWEST_TO_ROUND

    def propose(
        self, queries: NDArray[Any], n_candidates: int, own: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Find the nearest points of each query, in any order, leaving out its own class.

        Also returns, for each query, the largest squared distance of these, which all other points exceed.
        """
        from boostmetric.kernels import brute_force

        numbers, limits = np.empty((len(queries), n_candidates), dtype=np.int64), np.empty(len(queries))
        room = max(2 * n_candidates, 8)
        values, places = np.empty(room), np.empty(room, dtype=np.int64)
        classes = np.full(len(queries), -1) if own is None else own
        for rows in row_chunks(len(queries), 2 * len(self._points)):  # few enough to stay in the cache
            asked = np.ldexp(queries[rows], self._exponent).astype(np.float32, copy=False)
            products = self._products(len(asked))
            for columns in _column_blocks(len(self._points)):  # BLAS copies its second factor
                np.matmul(asked, self._points[columns].T, out=products[:, columns])
            known = self._half_norms, self._label, classes[rows]
            brute_force.select(products, *known, values, places, numbers[rows], limits[rows])
            limits[rows] = 2 * limits[rows] + square_lengths(asked)
        return numbers, np.ldexp(limits, -2 * self._exponent)

    def _products(self, n_queries: int) -> NDArray[np.float32]:
        """Buffer for the products, kept by each thread because allocating it takes as long as filling it."""
        room: NDArray[np.float32] | None = getattr(self._room, "products", None)
        if room is None or len(room) < n_queries:
            room = self._room.products = np.empty((n_queries, len(self._points)), dtype=np.float32)
        return room[:n_queries]


class Leading:
    """Search in the directions in which points vary most, which finds distances that are too short.

    After a learned metric most of the variance is in a quarter of the dimensions, and products take a quarter of the
    time. A point is at least as far away as in these directions, so that few more candidates settle most queries.

    Parameters
    ----------
    axes : ndarray of shape (n_features, n_axes)
        Orthonormal columns.
    centred, blur, label
        As for `Quick`.
    queries : ndarray of shape (n_queries, n_features)
        The points to search for; may be `centred`.
    """

    def __init__(
        self,
        axes: FloatArray,
        centred: NDArray[Any],
        queries: NDArray[Any],
        blur: float,
        label: NDArray[np.int64] | None = None,
    ) -> None:
        points = _along(axes, centred)
        self._queries = points if queries is centred else _along(axes, queries)
        self._quick = Quick(points, blur, label)
        self.blur = self._quick.blur

    @classmethod
    def of(
        cls,
        centred: NDArray[Any],
        queries: NDArray[Any],
        n_queries: int,
        blur: float,
        label: NDArray[np.int64] | None = None,
    ) -> Leading | None:
        """The search for some of the queries, or None if it would take as long as one in all directions."""
        if len(centred) * n_queries < _FEWEST_FOR_AXES or centred.shape[1] < _FEWEST_FEATURES_FOR_AXES:
            return None
        axes = _leading_axes(centred)
        return None if axes is None else cls(axes, centred, queries, blur, label)

    def propose(
        self, rows: NDArray[np.int64], n_candidates: int, own: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """As `Quick.propose` for the queries of these numbers, by distances along the axes."""
        return self._quick.propose(self._queries[rows], n_candidates, own)


def _along(axes: FloatArray, points: NDArray[Any]) -> NDArray[np.float32]:
    """Coordinates along axes, from products in double precision."""
    coordinates = np.empty((len(points), axes.shape[1]), dtype=np.float32)
    for rows in row_chunks(len(points), 8 * points.shape[1]):
        coordinates[rows] = points[rows] @ axes
    return coordinates


def _leading_axes(centred: NDArray[Any]) -> FloatArray | None:
    """Orthonormal columns along which points vary most, or None if too many would be needed.

    From some of the points, by subspace iteration from random vectors (Halko, Martinsson and Tropp, 2011). Any
    orthonormal columns would do, so an approximation is enough.
    """
    n_features = centred.shape[1]
    some = np.asarray(centred[:: -(-len(centred) // _SAMPLED_FOR_AXES)], dtype=np.float64)
    covariance = some.T @ some
    axes = np.random.default_rng(0).standard_normal((n_features, int(_MOST_AXES * n_features)))
    for _ in range(_ROUNDS_FOR_AXES):
        axes, _ = np.linalg.qr(covariance @ axes)
    values, vectors = np.linalg.eigh(axes.T @ covariance @ axes)
    enough = np.flatnonzero(np.cumsum(values[::-1]) >= _VARIANCE_OF_AXES * np.trace(covariance))
    return np.ascontiguousarray(axes @ vectors[:, ::-1][:, : enough[0] + 1]) if len(enough) else None


class Panels:
    """Points in the memory layout of `kernels.brute_force`.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    place : ndarray of shape (n_points,), optional
        Position of each point; by default they are consecutive.
    """

    def __init__(self, points: NDArray[Any], place: NDArray[np.int64] | None = None) -> None:
        from boostmetric.kernels.brute_force import PANEL, fill_panels
        from boostmetric.kernels.lanes import aligned, aligned_zeros

        place = np.arange(len(points)) if place is None else place
        n_panels, n_features = int(place.max(initial=-1)) // PANEL + 1, points.shape[1]
        self._panels = aligned_zeros(n_panels * n_features, PANEL)
        fill_panels(points, place, self._panels)
        self._features = np.tile(np.arange(n_features, dtype=np.uint32), n_panels)
        self._half_norms = aligned(np.full(n_panels * PANEL, np.inf))
        self._half_norms[place] = 0.5 * square_lengths(points)
        self._number = np.zeros(n_panels * PANEL, dtype=np.int64)  # number of the point at each position
        self._number[place] = np.arange(len(points))

    def propose(
        self, queries: NDArray[Any], n_candidates: int, skipped: NDArray[np.int64] = _NO_PANELS
    ) -> NDArray[np.int64]:
        """Find the nearest points of each query, in any order, leaving out the skipped panels."""
        from boostmetric.kernels import brute_force

        rows, products = self._room(queries)
        shape = (len(rows), n_candidates)
        values, places = np.full(shape, np.inf), np.zeros(shape, dtype=np.int64)
        brute_force.propose(rows, self._panels, self._features, self._half_norms, skipped, products, values, places)
        return np.asarray(self._number[places[: len(queries)]])

    def within(self, queries: NDArray[Any], limits: NDArray[np.float64], skipped: NDArray[np.int64]) -> Ragged:
        """Find all points p with |p|^2 / 2 - q'p within a limit, leaving out the skipped panels."""
        from boostmetric.kernels import brute_force

        rows, products = self._room(queries)
        padded = np.full(len(rows), -np.inf)
        padded[: len(queries)] = limits
        size, longest = 0, _ROOM
        while longest > size:  # repeat with space for the longest
            size = longest
            places, counts = np.empty((len(rows), size), dtype=np.int32), np.zeros(len(rows), dtype=np.int64)
            fixed = (self._panels, self._features, self._half_norms, skipped)
            brute_force.within(rows, *fixed, padded, products, places, counts)
            longest = int(counts.max(initial=0))
        counts = counts[: len(queries)]
        taken = places[: len(queries)][np.arange(size) < counts[:, None]]
        return Ragged.from_sizes(self._number[taken], counts)

    def _room(self, queries: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The queries, padded to whole tiles, and a scratch array."""
        from boostmetric.kernels.brute_force import PANEL
        from boostmetric.kernels.lanes import ROWS, aligned_zeros

        rows = np.zeros((len(queries) + -len(queries) % ROWS, queries.shape[1]))
        rows[: len(queries)] = queries
        return rows, aligned_zeros(ROWS, PANEL)


class ClassPanels:
    """Points in panels that each hold a single class, so that classes can be left out.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    label : ndarray of shape (n_points,)
    """

    def __init__(self, points: NDArray[Any], label: NDArray[np.int64]) -> None:
        from boostmetric.kernels.brute_force import PANEL

        self._points, self._label = points, label
        order, sizes = np.argsort(label, kind="stable"), np.bincount(label)
        self._first_panel = np.concatenate([[0], np.cumsum(-(-sizes // PANEL))])
        place = np.empty(len(points), dtype=np.int64)
        place[order] = np.arange(len(points)) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # within the class
        self._panels = Panels(points, PANEL * self._first_panel[label] + place)

    def propose_others(self, asked: NDArray[np.int64], n_candidates: int) -> NDArray[np.int64]:
        """Find the nearest points of other classes for some points, in any order."""
        found = np.empty((len(asked), n_candidates), dtype=np.int64)
        for own in np.unique(self._label[asked]):
            rows = np.flatnonzero(self._label[asked] == own)
            found[rows] = self._panels.propose(self._points[asked[rows]], n_candidates, self._own(asked[rows]))
        return found

    def others_within(self, asked: NDArray[np.int64], limits: NDArray[np.float64]) -> Ragged:
        """Find all points p of other classes with |p|^2 / 2 - q'p within a limit."""
        return self._panels.within(self._points[asked], limits, self._own(asked))

    def _own(self, asked: NDArray[np.int64]) -> NDArray[np.int64]:
        """Panels of the queries' class: the first, and the one after the last."""
        own = self._label[asked[0]]
        return np.asarray(self._first_panel[own : own + 2])


def square_lengths(points: NDArray[Any]) -> NDArray[np.float64]:
    """Squared lengths, computed without an array as large as the points."""
    return np.asarray(np.einsum("ij,ij->i", points, points))


def _column_blocks(n_columns: int) -> list[slice]:
    return [slice(begin, begin + _COLUMNS) for begin in range(0, n_columns, _COLUMNS)]


def row_chunks(n_rows: int, row_size: int) -> list[slice]:
    """Slices of rows that hold about `_CHUNK` numbers each."""
    size = max(1, _CHUNK // row_size)
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]
