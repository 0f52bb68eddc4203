"""Nearest neighbours, for mining and for scoring: the same ones from every search method.

Data on a grid (whole numbers, or one decimal as in Iris) are full of equal distances, and which of several equally near
points a search returns depends on its method and on the last bit of each coordinate. So we say what is meant: the next
neighbour is, among the points no farther than the nearest one left, up to the rounding of the data, the one with the
lowest number. A search only proposes candidates; where it cannot be certain that they suffice, all points are asked.
Sparse points are always all asked: for them the distances to all points are one product of sparse matrices.

Searches: scikit-learn's trees for many points in few dimensions; else, all distances by `kernels.neighbors`, in many
dimensions first in single precision, which settles most queries.
That is faster than scikit-learn's or faiss's search of the kind, and finds the same (``python -m benchmarks mining``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import current_process
from threading import Lock, local
from typing import Any, Generic, TypeVar

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from boostmetric.frame import Given, largest_size
from boostmetric.ragged import Ragged

_SPARE = 8  # candidates beyond those asked for, so that ties at the end of the list are seen
_FEW = 20  # queries are few if there are this many times as many points
_MOST_FEATURES_OF_A_TREE = 4
_LEAST_POINTS_OF_A_TREE = 10_000
_QUERIES = 1024  # asked at once by a thread
_FEW_QUERIES = 256  # the same, where each has many answers
_ROOM = 256  # answers a query, at first
_CHUNK = 2**22  # numbers held at once
_FEWEST_FEATURES_TO_ROUND = 32  # for fewer, products take no time
_FEWEST_TO_ROUND = 2**20  # pairs
_NONE = np.empty(0, dtype=np.int64)
_NO_PANELS = np.zeros(2, dtype=np.int64)
Made = TypeVar("Made")
_MOST_ROUNDING = 1e-4  # of a distance: no tie is ever broken for a point farther than this


def rounding_of_distances(points: Any) -> float:
    """How far a distance between two of the points may be off because their coordinates are rounded."""
    if sparse.issparse(points):
        # Two rows differ in no more places than both have entries.
        n_entries = 2 * int(np.diff(points.indptr).max(initial=0))
        return float(np.sqrt(n_entries) * np.finfo(points.dtype).eps * np.abs(points.data).max(initial=0.0))
    varies = points.min(axis=0) < points.max(axis=0)
    size = np.abs(points).max(axis=0).astype(np.float64)[varies]
    return float(np.sqrt(len(size)) * np.finfo(points.dtype).eps * size.max(initial=0.0))


def nearest(points: Given, queries: Given | None, n_neighbors: int, rounding: float = 0.0) -> NDArray[np.int64]:
    """Numbers of the nearest points of each query, nearest first.

    Parameters
    ----------
    points : ndarray or csr_array of shape (n_points, n_features)
    queries : ndarray or csr_array of shape (n_queries, n_features) or None
        None asks for the neighbours of the points themselves, a point never being its own neighbour.
    n_neighbors : int
        At most the number of points (less one without queries).
    rounding : float, default=0.0
        Distances that differ by no more than this are equal; among equals the lowest number comes first.

    Returns
    -------
    ndarray of shape (n_queries, n_neighbors)

    Notes
    -----
    Cost: one search, and for queries whose candidates leave a doubt (many equal distances, or clusters much smaller
    than the spread of the data) the distances to all points.
    """
    if sparse.issparse(points):
        return _nearest_sparse(points, queries, n_neighbors, rounding)
    without_self = queries is None
    points, asked, exponent = _scaled(points, points if queries is None else queries)
    rounding = float(np.ldexp(rounding, -exponent))
    answer = np.empty((len(asked), n_neighbors), dtype=np.int64)
    n_candidates = min(n_neighbors + _SPARE + without_self, len(points))
    centred, around, blur = _centred(points, asked)
    quick = _Quick(centred, blur) if _Quick.pays(points, len(asked)) else None
    search = _Once(lambda: _search(centred, n_candidates, n_queries=len(asked)))

    def hide(distance: NDArray[np.float64], numbers: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        if without_self:
            distance[numbers == rows[:, None]] = np.inf

    def find(rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Fill in some answers; returns the queries for which all points must be asked."""
        if quick is not None:
            proposed = quick.propose(around[rows], n_candidates)
            answer[rows], sure = _settled(points, asked, rows, proposed, n_neighbors, rounding, quick.blur, hide)
            rows = rows[~sure]
        if len(rows):
            proposed = search()(around[rows])
            answer[rows], sure = _settled(points, asked, rows, proposed, n_neighbors, rounding, blur, hide)
            rows = rows[~sure]
        return rows if n_candidates < len(points) else rows[:0]

    doubtful = np.concatenate([_NONE, *_in_threads(find, _runs(np.arange(len(asked)), _QUERIES))])
    answer[doubtful] = _among_all(points, asked, doubtful, n_neighbors, rounding, hide)
    return answer


def nearest_others(points: Given, label: NDArray[np.int64], n_neighbors: int, rounding: float = 0.0) -> Ragged:
    """Numbers of the nearest points of other classes, nearest first.

    Parameters
    ----------
    points : ndarray or csr_array of shape (n_points, n_features)
    label : ndarray of shape (n_points,)
        Number of the class of each point; at least two classes.
    n_neighbors : int
        Fewer for the points of a class that has fewer others.
    rounding : float, default=0.0
        As in `nearest`.

    Returns
    -------
    Ragged with n_points rows

    Notes
    -----
    Cost: one search for all classes, except for sparse points and for those that are searched in a tree.
    """
    sizes = np.bincount(label)
    classes = np.flatnonzero(sizes)
    members = np.split(np.argsort(label, kind="stable"), np.cumsum(sizes[classes])[:-1])
    if sparse.issparse(points) or _suits_a_tree(points, len(points)):
        answers = []
        for inside in members:
            outside = np.flatnonzero(label != label[inside[0]])
            k = min(n_neighbors, len(outside))
            answers.append(Ragged.from_rows(outside[nearest(points[outside], points[inside], k, rounding)]))
        return Ragged.stack(answers).take(np.argsort(np.concatenate(members)))

    points, _, exponent = _scaled(points, points[:0])
    rounding = float(np.ldexp(rounding, -exponent))
    centred, _, blur = _centred(points, points)
    quick = _Quick(centred, blur, label) if _Quick.pays(points, len(points)) else None
    panels = _Once(lambda: _ClassPanels(centred, label))

    def hide(distance: NDArray[np.float64], numbers: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        distance[label[numbers] == label[rows][:, None]] = np.inf

    def find(rows: NDArray[np.int64]) -> Ragged:
        n_others = len(points) - int(sizes[label[rows[0]]])
        k, n_candidates = min(n_neighbors, n_others), min(n_neighbors + _SPARE, n_others)
        answer, left = np.empty((len(rows), k), dtype=np.int64), np.arange(len(rows))
        if quick is not None:
            proposed = quick.propose(centred[rows], n_candidates, label[rows])
            answer[left], sure = _settled(points, points, rows, proposed, k, rounding, quick.blur, hide)
            left = left[~sure]
        if len(left):
            proposed = panels().propose_others(rows[left], n_candidates)
            answer[left], sure = _settled(points, points, rows[left], proposed, k, rounding, blur, hide)
            left = left[~sure]
        if len(left) and n_candidates < n_others:
            answer[left] = _among_all(points, points, rows[left], k, rounding, hide)
        return Ragged.from_rows(answer)

    answers = _in_threads(find, [run for inside in members for run in _runs(inside, _QUERIES)])
    return Ragged.stack(answers).take(np.argsort(np.concatenate(members)))


def others_within(
    points: NDArray[Any],
    label: NDArray[np.int64],
    asked: NDArray[np.int64],
    squares: NDArray[np.float64],
    most: int | None = None,
) -> Ragged | None:
    """Points of other classes within a distance: all of them, and perhaps some that are a rounding farther away.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    label : ndarray of shape (n_points,)
        Number of the class of each point.
    asked : ndarray of shape (n_queries,)
        Numbers of the points to ask about.
    squares : ndarray of shape (n_queries,)
        Squared distances, finite.
    most : int, optional
        Give up when there are more of them in all.

    Returns
    -------
    Ragged with n_queries rows, or None
        Point numbers, class by class in ascending order; None if there are more than `most`.

    Notes
    -----
    Cost: all distances; memory grows with the answers.
    """
    centred, _, blur = _centred(points, points)
    norms = _squares(centred)
    panels = _ClassPanels(centred, label)

    by_class = np.argsort(label[asked], kind="stable")
    runs = np.split(by_class, np.flatnonzero(np.diff(label[asked[by_class]])) + 1)
    found: list[int] = []

    def find(rows: NDArray[np.int64]) -> Ragged:
        if most is not None and sum(found) > most:
            return Ragged.from_sizes(np.empty(0, dtype=np.int64), np.zeros(len(rows), dtype=np.int64))
        queries = asked[rows]
        near = panels.others_within(queries, 0.5 * (squares[rows] + 4 * blur - norms[queries]))
        found.append(len(near.values))
        return near

    answers = _in_threads(find, [piece for run in runs for piece in _runs(run, _FEW_QUERIES)])
    if most is not None and sum(found) > most:
        return None
    return Ragged.stack(answers).take(np.argsort(by_class))


def _in_threads(work: Callable[[Any], Any], chunks: Sequence[Any]) -> list[Any]:
    """The work on each chunk, on all processors."""
    # For a single chunk a pool of threads would take longer, and with a hundred classes there are many searches. In a
    # process of multiprocessing.Pool joblib would say 1, and warn.
    if len(chunks) <= 1 or current_process().daemon:
        return [work(chunk) for chunk in chunks]
    with ThreadPoolExecutor(joblib.effective_n_jobs(-1)) as pool:
        return list(pool.map(work, chunks))


def _scaled(points: NDArray[Any], queries: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Both in float64, divided by the power of two that keeps their squares in range, and its exponent."""
    largest = max(largest_size(points), largest_size(queries))
    exponent = int(np.frexp(largest)[1])
    if exponent == 0 and all(some.dtype == np.float64 and some.flags.c_contiguous for some in (points, queries)):
        return points, queries, exponent
    scaled = [some.astype(np.float64, order="C") for some in (points, queries)]
    for some in scaled:
        np.ldexp(some, -exponent, out=some)
    return scaled[0], scaled[1], exponent


def _centred(points: NDArray[Any], queries: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], float]:
    """Both less the mean of the points, and how far the square of a distance may be off if it is expanded.

    That costs as much precision as the points are long.
    """
    centre = points.mean(axis=0)
    centred = points - centre
    around = centred if queries is points else queries - centre
    longest = float(_squares(centred).max(initial=0.0))
    if around is not centred:
        longest = max(longest, float(_squares(around).max(initial=0.0)))
    return centred, around, (points.shape[1] + 4) * np.finfo(np.float64).eps * longest


# Makes distances infinite of points that are no neighbours: given distances, numbers of points (of the same shape, or
# of one row) and numbers of the queries.
_Hide = Callable[[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]], None]


def _settled(
    points: NDArray[Any],
    asked: NDArray[Any],
    rows: NDArray[np.int64],
    proposed: NDArray[np.int64],
    n_neighbors: int,
    rounding: float,
    blur: float,
    hide: _Hide,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The nearest among the points proposed to some of the queries, and whether no other point can be among them."""
    from boostmetric.kernels import neighbors

    candidates = np.sort(proposed, axis=1)
    distance = np.empty(candidates.shape)
    neighbors.distances(points, asked[rows], candidates, distance)
    beyond = distance.max(axis=1) ** 2 - 4 * blur
    hide(distance, candidates, rows)
    picked, reach = pick(distance, n_neighbors, rounding)
    return np.take_along_axis(candidates, picked, axis=1), beyond > reach**2


def _squares(points: NDArray[Any]) -> NDArray[np.float64]:
    """Squared lengths, without an array as large as the points."""
    return np.asarray(np.einsum("ij,ij->i", points, points))


def _suits_a_tree(points: NDArray[Any], n_queries: int) -> bool:
    # A tree is not worth its making for a few points, nor over many points for a few queries.
    enough = _LEAST_POINTS_OF_A_TREE <= len(points) <= _FEW * n_queries
    return bool(points.shape[1] <= _MOST_FEATURES_OF_A_TREE and enough)


def _search(points: NDArray[Any], n_candidates: int, n_queries: int) -> Callable[[NDArray[Any]], NDArray[np.int64]]:
    """A function from queries to the numbers of their nearest points, in any order."""
    if _suits_a_tree(points, n_queries):
        tree = NearestNeighbors(n_neighbors=n_candidates, algorithm="kd_tree").fit(points)
        return lambda queries: np.asarray(tree.kneighbors(queries, return_distance=False))

    panels = _Panels(points)
    return lambda queries: panels.propose(queries, n_candidates)


class _Once(Generic[Made]):
    """Something that is made when it is first asked for, by whichever thread."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make, self._lock = make, Lock()
        self._made: Made | None = None

    def __call__(self) -> Made:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made


class _Quick:
    """Proposals by products in single precision: a third of the time, and sometimes in doubt.

    Parameters
    ----------
    centred : ndarray of shape (n_points, n_features)
    blur : float
        How far the square of a distance may be off in double precision.
    label : ndarray of shape (n_points,), optional
        Classes, of which that of a query can be left out.
    """

    def __init__(self, centred: NDArray[Any], blur: float, label: NDArray[np.int64] | None = None) -> None:
        self._points = centred.astype(np.float32)
        self._half_norms = (0.5 * _squares(centred)).astype(np.float32)
        self._label = np.zeros(len(centred), dtype=np.int64) if label is None else label
        self._room = local()
        # Coordinates are rounded before they are multiplied: one more than in double precision.
        self.blur = 2 * blur * float(np.finfo(np.float32).eps) / float(np.finfo(np.float64).eps)

    @staticmethod
    def pays(points: NDArray[Any], n_queries: int) -> bool:
        """Whether the time saved is worth the copy."""
        return points.shape[1] >= _FEWEST_FEATURES_TO_ROUND and len(points) * n_queries >= _FEWEST_TO_ROUND

    def propose(
        self, queries: NDArray[Any], n_candidates: int, own: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Numbers of the nearest points of each query, in any order, but for those of its own class."""
        from boostmetric.kernels import neighbors

        shape = (len(queries), n_candidates)
        values, numbers = np.full(shape, np.inf, dtype=np.float32), np.zeros(shape, dtype=np.int64)
        classes = np.full(len(queries), -1) if own is None else own
        for rows in _chunks(len(queries), len(self._points)):
            asked = queries[rows].astype(np.float32)
            products = self._products(len(asked))
            np.matmul(asked, self._points.T, out=products)
            neighbors.select(products, self._half_norms, self._label, classes[rows], values[rows], numbers[rows])
        return numbers

    def _products(self, n_queries: int) -> NDArray[np.float32]:
        """Room for them, kept by each thread: to get it anew would take as long as to fill it."""
        room: NDArray[np.float32] | None = getattr(self._room, "products", None)
        if room is None or len(room) < n_queries:
            room = self._room.products = np.empty((n_queries, len(self._points)), dtype=np.float32)
        return room[:n_queries]


class _Panels:
    """Points as `kernels.neighbors` goes over them.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    place : ndarray of shape (n_points,), optional
        Where to put each; by default one after the other.
    """

    def __init__(self, points: NDArray[Any], place: NDArray[np.int64] | None = None) -> None:
        from boostmetric.kernels.lanes import aligned, aligned_zeros
        from boostmetric.kernels.neighbors import PANEL, fill_panels

        place = np.arange(len(points)) if place is None else place
        n_panels, n_features = int(place.max(initial=-1)) // PANEL + 1, points.shape[1]
        self._panels = aligned_zeros(n_panels * n_features, PANEL)
        fill_panels(points, place, self._panels)
        self._features = np.tile(np.arange(n_features, dtype=np.uint32), n_panels)
        self._half_norms = aligned(np.full(n_panels * PANEL, np.inf))
        self._half_norms[place] = 0.5 * _squares(points)
        self._number = np.zeros(n_panels * PANEL, dtype=np.int64)  # of the point in each place
        self._number[place] = np.arange(len(points))

    def propose(
        self, queries: NDArray[Any], n_candidates: int, skipped: NDArray[np.int64] = _NO_PANELS
    ) -> NDArray[np.int64]:
        """Numbers of the nearest points of each query, in any order, but for those of some panels."""
        from boostmetric.kernels import neighbors

        rows, products = self._room(queries)
        shape = (len(rows), n_candidates)
        values, places = np.full(shape, np.inf), np.zeros(shape, dtype=np.int64)
        neighbors.propose(rows, self._panels, self._features, self._half_norms, skipped, products, values, places)
        return np.asarray(self._number[places[: len(queries)]])

    def within(self, queries: NDArray[Any], limits: NDArray[np.float64], skipped: NDArray[np.int64]) -> Ragged:
        """Numbers of all points p with |p|^2 / 2 - q'p within a limit, but for those of some panels."""
        from boostmetric.kernels import neighbors

        rows, products = self._room(queries)
        padded = np.full(len(rows), -np.inf)
        padded[: len(queries)] = limits
        size, longest = 0, _ROOM
        while longest > size:  # once more, with room for the longest
            size = longest
            places, counts = np.empty((len(rows), size), dtype=np.int32), np.zeros(len(rows), dtype=np.int64)
            fixed = (self._panels, self._features, self._half_norms, skipped)
            neighbors.within(rows, *fixed, padded, products, places, counts)
            longest = int(counts.max(initial=0))
        counts = counts[: len(queries)]
        taken = places[: len(queries)][np.arange(size) < counts[:, None]]
        return Ragged.from_sizes(self._number[taken], counts)

    def _room(self, queries: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The queries, padded to whole tiles, and scratch."""
        from boostmetric.kernels.lanes import ROWS, aligned_zeros
        from boostmetric.kernels.neighbors import PANEL

        rows = np.zeros((len(queries) + -len(queries) % ROWS, queries.shape[1]))
        rows[: len(queries)] = queries
        return rows, aligned_zeros(ROWS, PANEL)


class _ClassPanels:
    """Points in panels of which each holds points of one class only, so that classes can be left out.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    label : ndarray of shape (n_points,)
    """

    def __init__(self, points: NDArray[Any], label: NDArray[np.int64]) -> None:
        from boostmetric.kernels.neighbors import PANEL

        self._points, self._label = points, label
        order, sizes = np.argsort(label, kind="stable"), np.bincount(label)
        self._first_panel = np.concatenate([[0], np.cumsum(-(-sizes // PANEL))])
        place = np.empty(len(points), dtype=np.int64)
        place[order] = np.arange(len(points)) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # within the class
        self._panels = _Panels(points, PANEL * self._first_panel[label] + place)

    def propose_others(self, asked: NDArray[np.int64], n_candidates: int) -> NDArray[np.int64]:
        """Numbers of the nearest points of other classes of some points of one class, in any order."""
        return self._panels.propose(self._points[asked], n_candidates, self._own(asked))

    def others_within(self, asked: NDArray[np.int64], limits: NDArray[np.float64]) -> Ragged:
        """Numbers of all points p of other classes with |p|^2 / 2 - q'p within a limit."""
        return self._panels.within(self._points[asked], limits, self._own(asked))

    def _own(self, asked: NDArray[np.int64]) -> NDArray[np.int64]:
        """The panels of their class: the first, and the one after the last."""
        own = self._label[asked[0]]
        return np.asarray(self._first_panel[own : own + 2])


def _among_all(
    points: Given, asked: Given, queries: NDArray[np.int64], n_neighbors: int, rounding: float, hide: _Hide
) -> NDArray[np.int64]:
    """`nearest` for the queries with the given numbers, by the distances to all points."""
    answer = np.empty((len(queries), n_neighbors), dtype=np.int64)
    for rows in _chunks(len(queries), len(points)):
        distance = cdist(asked[queries[rows]], points)
        hide(distance, np.arange(len(points))[None], queries[rows])
        answer[rows] = pick(distance, n_neighbors, rounding)[0]
    return answer


def _nearest_sparse(
    points: sparse.csr_array, queries: sparse.csr_array | None, n_neighbors: int, rounding: float
) -> NDArray[np.int64]:
    """`nearest` by |a|^2 + |b|^2 - 2 a'b for all points, in which distances below the rounding of that sum are 0."""
    asked = points if queries is None else queries
    square, asked_square = (np.asarray(rows.multiply(rows).sum(axis=1)).ravel() for rows in (points, asked))
    largest = max(square.max(initial=0.0), asked_square.max(initial=0.0))
    blur = (int(np.diff(points.indptr).max(initial=0)) + 4) * np.finfo(np.float64).eps * largest
    columns = points.T.tocsr()
    answer = np.empty((asked.shape[0], n_neighbors), dtype=np.int64)
    for rows in _chunks(asked.shape[0], points.shape[0]):
        distance = (asked[rows] @ columns).toarray()
        distance *= -2.0
        distance += asked_square[rows, None]
        distance += square
        distance[distance <= blur] = 0.0
        np.sqrt(distance, out=distance)
        if queries is None:
            distance[np.arange(len(distance)), np.arange(asked.shape[0])[rows]] = np.inf
        answer[rows] = pick(distance, n_neighbors, rounding + blur / np.sqrt(largest or 1.0))[0]
    return answer


def pick(
    distance: NDArray[np.float64], n_neighbors: int, rounding: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Columns of the nearest, one after the other, and how far the last choice looked; `distance` is used up."""
    from boostmetric.kernels import neighbors

    picked, reach = np.empty((len(distance), n_neighbors), dtype=np.int64), np.zeros(len(distance))
    neighbors.pick(distance, rounding, _MOST_ROUNDING, picked, reach)
    return picked, reach


def _runs(rows: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    """Rows in pieces of at most a size."""
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


def _chunks(n_rows: int, row_size: int) -> list[slice]:
    """Slices of rows that hold about _CHUNK numbers."""
    size = max(1, _CHUNK // row_size)
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]
