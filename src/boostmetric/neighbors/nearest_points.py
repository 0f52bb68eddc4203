"""Nearest neighbours for mining and scoring; every search method returns the same ones.

Data on a grid (whole numbers, or one decimal as in Iris) have many equal distances, and which of several equally near
points a search returns depends on its method and on the last bit of each coordinate. So we define the result: the next
neighbour is the point with the lowest number among those that, up to the rounding of the data, are no farther than the
nearest remaining one. A search only proposes candidates; if they may not suffice, the distances to all points are
computed. Sparse points always use all distances, which are one product of sparse matrices.

Searches: scikit-learn's trees for many points in few dimensions; otherwise all distances by `kernels.brute_force`. In
many dimensions they are first computed in single precision, which settles most queries. This is faster than
scikit-learn's or faiss's brute-force search, and finds the same neighbours (``python -m benchmarks mining``). On a GPU,
`boostmetric.neighbors.on_device` computes all distances, for all queries at once; the result is settled here.

Points that are given in single precision are only copied in double precision if that search does not settle all: the
distances of its candidates are computed in double precision from the points as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from multiprocessing import current_process
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist

from boostmetric.arrays.frame import Given, largest_size, times_power_of_two
from boostmetric.arrays.ragged import Ragged
from boostmetric.neighbors.searches import ClassPanels, Leading, Once, Panels, Quick, row_chunks, square_lengths
from boostmetric.parallel.crew import Crew
from boostmetric.parallel.devices import torch_device

# Squared length of the mean over the mean squared length up to which points are not centred: that would take a copy of
# them, for few queries more that the first search settles.
_NEAR_THE_ORIGIN = 0.1
_SPARE = 8  # candidates beyond those wanted, so that ties at the end of the list are seen
_MORE = 2  # times as many candidates, of a search along the leading directions only
_FEW = 20  # queries are few if there are more than this many times as many points
_MOST_FEATURES_OF_A_TREE = 4
_LEAST_POINTS_OF_A_TREE = 10_000
_QUERIES = 512  # queries per piece of work of a thread
_FEW_QUERIES = 256  # the same, if each query may have many answers
# Pairs of a query and a point. The CPU compares fewer than this in the milliseconds it takes to send the points to a
# device and get its answer; a thousand classes of sixty points would pay that a thousand times.
_FEWEST_ON_A_DEVICE = 2**20
_NONE = np.empty(0, dtype=np.int64)
# Largest exponent of coordinates in single precision that are not scaled, so that no difference of two overflows or is
# subnormal.
_MOST_EXPONENT_IN_SINGLE = 60
MOST_ROUNDING = 1e-4  # distances that differ by more than this fraction are never treated as equal


def rounding_of_distances(points: Any) -> float:
    """Maximum error of a distance between two of the points due to the rounding of their coordinates."""
    if sparse.issparse(points):
        # Two rows differ in at most as many coordinates as they have entries together.
        n_entries = 2 * int(np.diff(points.indptr).max(initial=0))
        return float(np.sqrt(n_entries) * np.finfo(points.dtype).eps * np.abs(points.data).max(initial=0.0))
    low, high = points.min(axis=0), points.max(axis=0)
    size = np.maximum(-low, high).astype(np.float64)[low < high]
    return float(np.sqrt(len(size)) * np.finfo(points.dtype).eps * size.max(initial=0.0))


def nearest(
    points: Given, queries: Given | None, n_neighbors: int, rounding: float = 0.0, *, device: str = "cpu"
) -> NDArray[np.int64]:
    """Find the nearest points of each query, nearest first.

    Parameters
    ----------
    points : ndarray or csr_array of shape (n_points, n_features)
    queries : ndarray or csr_array of shape (n_queries, n_features) or None
        None finds the neighbours of the points themselves; a point is never its own neighbour.
    n_neighbors : int
        At most the number of points (minus one without queries).
    rounding : float, default=0.0
        Distances that differ by no more than this are treated as equal; the lowest point number then comes first.
    device : str, default="cpu"
        Where to search dense points, see `boostmetric.parallel.devices`. Small problems are always searched on the CPU.

    Returns
    -------
    ndarray of shape (n_queries, n_neighbors)
        Point numbers.

    Notes
    -----
    Cost: one search, plus the distances to all points for queries whose candidates are not certain to suffice (many
    equal distances, or clusters much smaller than the spread of the data).
    """
    if sparse.issparse(points):
        return _nearest_sparse(points, queries, n_neighbors, rounding)
    without_self = queries is None
    on_device = _pays_on(device, points, len(points if queries is None else queries))
    points, asked, exponent = scaled(points, points if queries is None else queries, on_device)
    rounding = float(np.ldexp(rounding, -exponent))
    answer = np.empty((len(asked), n_neighbors), dtype=np.int64)
    n_candidates = min(n_neighbors + _SPARE + without_self, len(points))
    centred, around, blur = _centred(points, asked)
    searches: list[_Search] = []
    if on_device is not None:
        from boostmetric.neighbors.on_device import DeviceSearch

        listed = DeviceSearch(centred, on_device).propose(around, n_candidates)
        searches.append(_Search(lambda rows, n: (listed[rows, :n], None), blur))
    else:
        if Quick.pays(points, len(asked)):
            leading = Leading.of(centred, around, len(asked), blur)
            if leading is not None:
                searches.append(_Search(leading.propose, leading.blur, _MORE))
            quick = Once(lambda: Quick(centred, blur))
            searches.append(_Search(lambda rows, n: quick().propose(around[rows], n), Quick.blur_of(blur)))
        exact = Once(lambda: (centred, around) if centred.dtype == np.float64 else _in_double(points, asked))
        search = Once(lambda: _search(exact()[0], n_candidates, n_queries=len(asked)))
        searches.append(_Search(lambda rows, _: (search()(exact()[1][rows]), None), blur))

    def hide(distance: NDArray[np.float64], numbers: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        if without_self:
            distance[numbers == rows[:, None]] = np.inf

    def find(rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Fill in some answers; return the queries that need the distances to all points."""
        answer[rows], left = _ask(searches, points, asked, rows, n_candidates, len(points), n_neighbors, rounding, hide)
        return rows[left] if n_candidates < len(points) else rows[:0]

    doubtful = np.concatenate([_NONE, *in_threads(find, _runs(np.arange(len(asked)), _QUERIES))])
    answer[doubtful] = _among_all(points, asked, doubtful, n_neighbors, rounding, hide)
    return answer


def nearest_others(
    points: Given,
    label: NDArray[np.int64],
    n_neighbors: int,
    rounding: float = 0.0,
    *,
    asked: NDArray[np.int64] | None = None,
    device: str = "cpu",
) -> Ragged:
    """Find the nearest points of other classes for each point, nearest first.

    Parameters
    ----------
    points : ndarray or csr_array of shape (n_points, n_features)
    label : ndarray of shape (n_points,)
        Class number of each point; at least two classes.
    n_neighbors : int
        Number of points to find; fewer if there are fewer points of other classes.
    rounding : float, default=0.0
        As in `nearest`.
    asked : ndarray of int, optional
        Points to find the neighbours of, in ascending order; by default all.
    device : str, default="cpu"
        As in `nearest`.

    Returns
    -------
    Ragged with a row for each point asked about
        Point numbers.

    Notes
    -----
    Cost: one search for all classes together; for sparse points and with a tree, one search per class.
    """
    sizes = np.bincount(label)
    asked = np.arange(len(label)) if asked is None else asked
    if not len(asked):
        return Ragged.from_sizes(_NONE, _NONE)
    counts = np.bincount(label[asked], minlength=len(sizes))
    members = np.split(asked[np.argsort(label[asked], kind="stable")], np.cumsum(counts[counts > 0])[:-1])
    on_device = _pays_on(device, points, len(asked))
    if sparse.issparse(points) or (on_device is None and _suits_a_tree(points, len(points))):
        answers = []
        for inside in members:
            outside = np.flatnonzero(label != label[inside[0]])
            k = min(n_neighbors, len(outside))
            answers.append(Ragged.from_rows(outside[nearest(points[outside], points[inside], k, rounding)]))
        return Ragged.stack(answers).take(np.argsort(np.concatenate(members)))

    points, _, exponent = scaled(points, points, on_device)
    rounding = float(np.ldexp(rounding, -exponent))
    centred, _, blur = _centred(points, points)
    searches: list[_Search] = []
    if on_device is not None:
        from boostmetric.neighbors.on_device import DeviceSearch

        most = min(n_neighbors + _SPARE, len(points))
        listed = DeviceSearch(centred, on_device, label).propose(centred, most, label)
        searches.append(_Search(lambda rows, n: (listed[rows, :n], None), blur))
    else:
        if Quick.pays(points, len(asked)):
            leading = Leading.of(centred, centred, len(asked), blur, label)
            if leading is not None:
                searches.append(_Search(lambda rows, n: leading.propose(rows, n, label[rows]), leading.blur, _MORE))
            quick = Once(lambda: Quick(centred, blur, label))
            searches.append(
                _Search(lambda rows, n: quick().propose(centred[rows], n, label[rows]), Quick.blur_of(blur))
            )
        panels = Once(
            lambda: ClassPanels(centred if centred.dtype == np.float64 else _in_double(points, points)[0], label)
        )
        searches.append(_Search(lambda rows, n: (panels().propose_others(rows, n), None), blur))

    def hide(distance: NDArray[np.float64], numbers: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        distance[label[numbers] == label[rows][:, None]] = np.inf

    def find(rows: NDArray[np.int64]) -> Ragged:
        n_others = len(points) - int(sizes[label[rows]].max())
        k, n_candidates = min(n_neighbors, n_others), min(n_neighbors + _SPARE, n_others)
        answer, left = _ask(searches, points, points, rows, n_candidates, n_others, k, rounding, hide)
        if len(left) and n_candidates < n_others:
            answer[left] = _among_all(points, points, rows[left], k, rounding, hide)
        return Ragged.from_rows(answer.astype(np.int32))  # half the memory

    # Points of all classes together, unless a class leaves too few others; pieces of one class would be small.
    leaves_few = len(points) - sizes < n_neighbors + _SPARE
    kinds = [asked[~leaves_few[label[asked]]], *(inside for inside in members if leaves_few[label[inside[0]]])]
    runs = [run for kind in kinds for run in _runs(kind, _QUERIES)]
    return Ragged.stack(in_threads(find, runs)).take(np.argsort(np.concatenate(kinds)))


def others_within(
    points: NDArray[Any],
    label: NDArray[np.int64],
    asked: NDArray[np.int64],
    squares: NDArray[np.float64],
    most: int | None = None,
) -> Ragged | None:
    """Find all points of other classes within a distance, and perhaps some that are farther by a rounding error.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    label : ndarray of shape (n_points,)
        Class number of each point.
    asked : ndarray of shape (n_queries,)
        Numbers of the points to search for.
    squares : ndarray of shape (n_queries,)
        Squared distances, finite.
    most : int, optional
        Give up if there are more than this many in total.

    Returns
    -------
    Ragged with n_queries rows, or None
        Point numbers, class by class in ascending order; None if there are more than `most`.

    Notes
    -----
    Cost: all distances; memory is linear in the size of the result.
    """
    centred, _, blur = _centred(points, points)
    norms = square_lengths(centred)
    panels = ClassPanels(centred, label)

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

    answers = in_threads(find, [piece for run in runs for piece in _runs(run, _FEW_QUERIES)])
    if most is not None and sum(found) > most:
        return None
    return Ragged.stack(answers).take(np.argsort(by_class))


def distances_to(points: NDArray[Any], queries: NDArray[Any], numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Distances from each query to the points with the numbers in its row."""
    from boostmetric.kernels import brute_force

    distance = np.empty(numbers.shape)
    brute_force.distances(points, queries, numbers, np.zeros(brute_force.SCRATCH), distance)
    return distance


def in_threads(work: Callable[[Any], Any], chunks: Sequence[Any]) -> list[Any]:
    """Apply `work` to each chunk, on all processors; return the results in order."""
    # With a hundred classes there are many searches of a single chunk, and joblib is slow at counting processors. In a
    # multiprocessing.Pool worker it would return 1, with a warning.
    alone = len(chunks) <= 1 or current_process().daemon
    with Crew(1 if alone else joblib.effective_n_jobs(-1)) as crew:
        return crew.each(work, chunks)


def scaled(
    points: NDArray[Any], queries: NDArray[Any], on_device: str | None = None
) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Convert both to float64, divided by a power of two that keeps squares in range; also return its exponent.

    If points and queries are in single precision, and products in it are worth it, they stay as they are.
    """
    largest = max(largest_size(points), largest_size(queries))
    exponent = int(np.frexp(largest)[1])
    single = all(some.dtype == np.float32 and some.flags.c_contiguous for some in (points, queries))
    single = single and on_device is None and Quick.pays(points, len(queries))
    if single and abs(exponent) <= _MOST_EXPONENT_IN_SINGLE:
        return points, queries, 0
    if exponent == 0 and all(some.dtype == np.float64 and some.flags.c_contiguous for some in (points, queries)):
        return points, queries, exponent
    scaled = [some.astype(np.float64, order="C") for some in (points, queries)]
    for some in scaled:
        np.ldexp(some, -exponent, out=some)
    return scaled[0], scaled[1], exponent


def _centred(points: NDArray[Any], queries: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], float]:
    """Subtract the mean of the points from both if it is large; bound the error of a squared distance that is expanded.

    Expanding it loses precision in proportion to the squared lengths of the points. The bound is for double precision,
    whatever the points are in.
    """
    centre = points.mean(axis=0, dtype=np.float64)
    if centre @ centre <= _NEAR_THE_ORIGIN * square_lengths(points).mean(dtype=np.float64):
        centred, around = points, queries
    else:
        centre = centre.astype(points.dtype)
        centred = points - centre
        around = centred if queries is points else queries - centre
    longest = float(square_lengths(centred).max(initial=0.0))
    if around is not centred:
        longest = max(longest, float(square_lengths(around).max(initial=0.0)))
    return centred, around, (points.shape[1] + 4) * np.finfo(np.float64).eps * longest


def _in_double(points: NDArray[Any], queries: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both in double precision, less the mean of the points."""
    double = points.astype(np.float64)
    centred, around, _ = _centred(double, double if queries is points else queries.astype(np.float64))
    return centred, around


# Sets distances to points that must not be neighbours to infinity, given the distances, point numbers (of the same
# shape, or a single row) and query numbers.
_Hide = Callable[[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]], None]


class _Search(NamedTuple):
    """A search for candidates.

    Attributes
    ----------
    propose : callable
        Proposes points, in any order, given the numbers of the queries and how many to propose for each; also returns
        squares that the distances of all other points exceed, or None if these are the largest of the candidates.
    blur : float
        Maximum error of its squared distances.
    more : int
        How many times as many candidates to propose as for an accurate search.
    """

    propose: Callable[[NDArray[np.int64], int], tuple[NDArray[np.int64], NDArray[np.float64] | None]]
    blur: float
    more: int = 1


def _ask(
    searches: Sequence[_Search],
    points: NDArray[Any],
    asked: NDArray[Any],
    rows: NDArray[np.int64],
    n_candidates: int,
    most_candidates: int,
    n_neighbors: int,
    rounding: float,
    hide: _Hide,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the nearest points of some queries, trying each search; also return the unsettled positions in `rows`."""
    answer, left = np.empty((len(rows), n_neighbors), dtype=np.int64), np.arange(len(rows))
    for search in searches:
        if len(left):
            proposed = search.propose(rows[left], min(search.more * n_candidates, most_candidates))
            answer[left], sure = _settled(
                points, asked, rows[left], *proposed, n_neighbors, rounding, search.blur, hide
            )
            left = left[~sure]
    return answer, left


def _settled(
    points: NDArray[Any],
    asked: NDArray[Any],
    rows: NDArray[np.int64],
    proposed: NDArray[np.int64],
    exceeded: NDArray[np.float64] | None,
    n_neighbors: int,
    rounding: float,
    blur: float,
    hide: _Hide,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The nearest of the points proposed for some queries, and whether no other point can be among them."""
    candidates = np.sort(proposed, axis=1)
    distance = distances_to(points, asked[rows], candidates)
    beyond = (distance.max(axis=1) ** 2 if exceeded is None else exceeded) - 4 * blur
    hide(distance, candidates, rows)
    picked, reach = pick(distance, n_neighbors, rounding)
    return np.take_along_axis(candidates, picked, axis=1), beyond > reach**2


def _pays_on(device: str, points: Given, n_queries: int) -> str | None:
    """Torch's name for the device to search on, or None for the CPU."""
    return torch_device(device, points) if points.shape[0] * n_queries >= _FEWEST_ON_A_DEVICE else None


def _suits_a_tree(points: NDArray[Any], n_queries: int) -> bool:
    # A tree is not worth building for few points, nor for few queries to many points.
    enough = _LEAST_POINTS_OF_A_TREE <= len(points) <= _FEW * n_queries
    return bool(points.shape[1] <= _MOST_FEATURES_OF_A_TREE and enough)


def _search(points: NDArray[Any], n_candidates: int, n_queries: int) -> Callable[[NDArray[Any]], NDArray[np.int64]]:
    """Return a function from queries to the numbers of their nearest points, in any order."""
    if _suits_a_tree(points, n_queries):
        from sklearn.neighbors import NearestNeighbors  # few searches need it

        tree = NearestNeighbors(n_neighbors=n_candidates, algorithm="kd_tree").fit(points)
        return lambda queries: np.asarray(tree.kneighbors(queries, return_distance=False))

    panels = Panels(points)
    return lambda queries: panels.propose(queries, n_candidates)


def _among_all(
    points: Given, asked: Given, queries: NDArray[np.int64], n_neighbors: int, rounding: float, hide: _Hide
) -> NDArray[np.int64]:
    """`nearest` for the queries with the given numbers, from the distances to all points."""
    answer = np.empty((len(queries), n_neighbors), dtype=np.int64)
    for rows in row_chunks(len(queries), len(points)):
        distance = cdist(asked[queries[rows]], points)
        hide(distance, np.arange(len(points))[None], queries[rows])
        answer[rows] = pick(distance, n_neighbors, rounding)[0]
    return answer


def _nearest_sparse(
    points: sparse.csr_array, queries: sparse.csr_array | None, n_neighbors: int, rounding: float
) -> NDArray[np.int64]:
    """`nearest` from |a|^2 + |b|^2 - 2 a'b for all points; values within the rounding of that sum become 0."""
    asked = points if queries is None else queries
    largest_entry = max(largest_size(points.data), largest_size(asked.data))
    exponent = int(np.frexp(largest_entry)[1])
    asked = times_power_of_two(asked, -exponent)
    points = asked if queries is None else times_power_of_two(points, -exponent)
    rounding = float(np.ldexp(rounding, -exponent))
    square, asked_square = (np.asarray(rows.multiply(rows).sum(axis=1)).ravel() for rows in (points, asked))
    largest = max(square.max(initial=0.0), asked_square.max(initial=0.0))
    blur = (int(np.diff(points.indptr).max(initial=0)) + 4) * np.finfo(np.float64).eps * largest
    columns = points.T.tocsr()
    answer = np.empty((asked.shape[0], n_neighbors), dtype=np.int64)
    for rows in row_chunks(asked.shape[0], points.shape[0]):
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
    """Columns of the nearest points in order, and the largest distance considered."""
    from boostmetric.kernels import brute_force

    picked, reach = np.empty((len(distance), n_neighbors), dtype=np.int64), np.zeros(len(distance))
    scratch = np.empty(distance.shape[1]), np.zeros(distance.shape[1], dtype=np.int64)
    brute_force.pick(distance, rounding, MOST_ROUNDING, *scratch, picked, reach)
    return picked, reach


def _runs(rows: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    """Split rows into pieces of at most `size`."""
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]
