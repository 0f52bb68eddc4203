"""Search backends of `boostmetric.retrieval.MetricIndex`: our own exact search, or faiss.

A backend receives the points with each search, and learns which rows are kept when some are removed. It only proposes
point numbers. Distances are always computed from the points in float64, and ties are always broken the same way
(`boostmetric.neighbors.nearest_points`), so backends differ only in which neighbours they miss.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.arrays.validation import check_choice, check_count
from boostmetric.neighbors.in_blocks import BlockSearch, Extent
from boostmetric.neighbors.nearest_points import nearest, pick
from boostmetric.optional import require
from boostmetric.retrieval.built import cells_as_arrays, graph_as_arrays, index_of_cells, index_of_graph

BACKENDS = ("exact", "faiss-flat", "faiss-hnsw", "faiss-ivf")

_HANDFUL = 16  # queries for which computing all distances is faster than the setup of `nearest`
_SAFE = 1e100  # coordinates between its inverse and this size can be squared
_CHUNK = 2**22  # numbers held at once
_LARGE = 2**26  # numbers of points that are searched block by block: `nearest` copies them
_SPARE = 8  # candidates beyond those asked for: faiss orders them in float32
# A faiss index is rebuilt when more than this share of it has been removed,
_MOST_REMOVED = 0.25
# and its cells are recomputed when the number of points has grown by more than this factor.
_MOST_GROWTH = 2.0
# Points that faiss wants for each cell; with fewer it warns.
_LEAST_IN_A_CELL = 39
# Points per cell in the sample that cells are computed from. With faiss's 256 it takes several times as long.
_MOST_IN_A_CELL = 64


class SearchBackend(Protocol):
    """Protocol of a backend that finds neighbours."""

    options: dict[str, int]

    def removed(self, kept: NDArray[np.bool_]) -> None:
        """Remove all rows but the `kept` ones, which stay in order."""
        ...

    def built(self, n_points: int) -> dict[str, NDArray[Any]]:
        """Return what searches among these points have built, to be saved with them; nothing if they built nothing."""
        ...

    def use(self, built: Mapping[str, NDArray[Any]]) -> None:
        """Take up what was `built` of the points that the next search is about, or of the first of them."""
        ...

    def search(self, points: FloatArray, queries: FloatArray, k: int, extent: Extent) -> tuple[IntArray, FloatArray]:
        """Numbers and distances of the k nearest points of each query, nearest first.

        Parameters
        ----------
        points : ndarray of shape (n_points, n_dimensions)
            At least k points: those of the last search that were not removed, followed by new ones.
        queries : ndarray of shape (n_queries, n_dimensions)
        k : int
        extent : Extent
            Extent of the points. Among distances that are equal up to its rounding, the lower number comes first.
        """
        ...


def make_backend(name: str, options: Mapping[str, int] | None) -> SearchBackend:
    """Create a backend by name."""
    check_choice("backend", name, BACKENDS)
    return Exact(options) if name == "exact" else Faiss(name, options)


def build_alike(options: Mapping[str, int], others: Mapping[str, int]) -> bool:
    """Whether two sets of options build the same index, and differ at most in how it is searched."""
    names = (options.keys() | others.keys()) - {"ef_search", "probes"}
    return all(options.get(name) == others.get(name) for name in names)


class Exact:
    """Exact search; among ties, the lower number comes first."""

    def __init__(self, options: Mapping[str, int] | None) -> None:
        self.options = _checked("exact", options, ())

    def removed(self, kept: NDArray[np.bool_]) -> None:
        """Do nothing: no state is kept between searches."""

    def built(self, n_points: int) -> dict[str, NDArray[Any]]:
        """Nothing is built."""
        return {}

    def use(self, built: Mapping[str, NDArray[Any]]) -> None:
        """Do nothing."""

    def search(self, points: FloatArray, queries: FloatArray, k: int, extent: Extent) -> tuple[IntArray, FloatArray]:
        """As in `SearchBackend`."""
        size = max(extent.size, float(np.abs(queries).max(initial=0.0)))
        if len(queries) <= _HANDFUL and 1 / _SAFE < size < _SAFE:
            numbers = _among_all(points, queries, k, extent.rounding)
        elif points.size > _LARGE:
            numbers, _ = BlockSearch(lambda: _blocks_of(points)).nearest(queries, k)
        else:
            numbers = nearest(points, queries, k, extent.rounding)
        return numbers, in_order(_distances(points, queries, numbers))


class Faiss:
    """Search with a faiss index, which is built by the first search and updated with the points.

    Removed points stay in the index, hidden from searches, until there are too many of them. This holds for every kind
    of index, because an HNSW graph cannot drop a point.
    """

    def __init__(self, name: str, options: Mapping[str, int] | None) -> None:
        known = {"faiss-flat": (), "faiss-hnsw": ("links", "ef_construction", "ef_search")}
        self.options = _checked(name, options, known.get(name, ("cells", "probes")))
        self._faiss = require("faiss", "faiss", f"backend={name!r}")
        self._name = name
        self._forget()

    def _forget(self) -> None:
        self._index: Any = None
        # Number of each row in faiss, in ascending order; rows that are not in faiss yet come after these.
        self._called: IntArray = np.empty(0, dtype=np.int64)
        self._trained_with = 0
        self._left: Any = None
        self._saved: Mapping[str, NDArray[Any]] = {}

    def removed(self, kept: NDArray[np.bool_]) -> None:
        """As in `SearchBackend`."""
        self._called = self._called[kept[: len(self._called)]]
        self._left, self._saved = None, {}
        if self._index is not None and len(self._called) < (1 - _MOST_REMOVED) * self._index.ntotal:
            self._forget()

    def built(self, n_points: int) -> dict[str, NDArray[Any]]:
        """As in `SearchBackend`; nothing if some points were removed, or are new."""
        if self._index is None:
            return dict(self._saved) if self._n_saved == n_points else {}
        if self._name == "faiss-flat" or not n_points == len(self._called) == self._index.ntotal:
            return {}
        as_arrays = cells_as_arrays if self._name == "faiss-ivf" else graph_as_arrays
        placed = {"centre": self._centre, "exponent": np.array([self._exponent], dtype=np.int64)}
        return placed | as_arrays(self._faiss, self._index)

    def use(self, built: Mapping[str, NDArray[Any]]) -> None:
        """As in `SearchBackend`; an incomplete state is not used."""
        of_kind = {"faiss-ivf": {"cells", "cell_of"}, "faiss-hnsw": {"layers", "links", "entry"}}.get(self._name)
        if of_kind is not None and {"centre", "exponent", *of_kind} == set(built):
            self._saved = built

    @property
    def _n_saved(self) -> int:
        """Number of points of a saved state that is not taken up yet."""
        return len(self._saved.get("cell_of", self._saved.get("layers", ())))

    def search(self, points: FloatArray, queries: FloatArray, k: int, extent: Extent) -> tuple[IntArray, FloatArray]:
        """As in `SearchBackend`; queries for which faiss finds fewer than k points are answered exactly."""
        self._keep_up(points, extent)
        n_candidates = min(k + _SPARE, len(points))
        called = self._index.search(self._placed(queries), n_candidates, params=self._parameters(n_candidates))[1]
        numbers = np.sort(np.where(called < 0, len(points), np.searchsorted(self._called, called)), axis=1)
        missing = numbers == len(points)
        distance = _distances(points, queries, np.where(missing, 0, numbers))
        distance[missing] = math.inf
        short = missing.sum(axis=1) > n_candidates - k
        picked, _ = pick(distance, k, extent.rounding)
        numbers, distance = (np.take_along_axis(some, picked, axis=1) for some in (numbers, distance))
        distance = in_order(distance)
        if short.any():
            numbers[short], distance[short] = Exact(None).search(points, queries[short], k, extent)
        return numbers, distance

    def _keep_up(self, points: FloatArray, extent: Extent) -> None:
        """Build the index, take up a saved one, or add the new points."""
        if self._saved and self._index is None:
            self._take_up(points)
        if self._name == "faiss-ivf" and len(points) > _MOST_GROWTH * self._trained_with:
            self._forget()
        if self._index is None:
            # Centred and scaled, points lose the least precision in float32.
            self._centre = points.mean(axis=0)
            _, exponent = np.frexp(max((extent.high - self._centre).max(), (self._centre - extent.low).max()))
            self._exponent = int(exponent)
            self._index = self._empty(points)
        n_called = len(self._called)
        if n_called < len(points):
            first = self._index.ntotal
            for block in self._blocks(points[n_called:]):
                self._index.add(block)
            self._called = np.append(self._called, np.arange(first, self._index.ntotal))
            self._left = None

    def _take_up(self, points: FloatArray) -> None:
        """The index of the first points, from the arrays that an earlier one was saved as."""
        saved, n, self._saved = self._saved, self._n_saved, {}
        self._centre, self._exponent = saved["centre"], int(saved["exponent"][0])
        if self._name == "faiss-ivf":
            self._trained_with = n
            self._index = index_of_cells(self._faiss, saved, self._blocks(points[:n]))
        else:
            self._index = index_of_graph(self._faiss, self._empty(points), saved, self._blocks(points[:n]))
        self._called = np.arange(n)

    def _blocks(self, points: FloatArray) -> Iterator[NDArray[np.float32]]:
        """Points in the coordinates of faiss, block by block: in float64 they may fill much of the memory."""
        return map(self._placed, _blocks_of(points))

    def _empty(self, points: FloatArray) -> Any:
        """Empty index, trained on the points if its kind needs training."""
        faiss, n_dimensions = self._faiss, points.shape[1]
        if self._name == "faiss-flat":
            return faiss.IndexFlatL2(n_dimensions)
        if self._name == "faiss-hnsw":
            graph = faiss.IndexHNSWFlat(n_dimensions, self.options.get("links", 32))
            graph.hnsw.efConstruction = self.options.get("ef_construction", 100)
            return graph
        n_cells = self.options.get("cells")
        if n_cells is None:
            n_cells = max(1, min(int(2 * math.sqrt(len(points))), len(points) // _LEAST_IN_A_CELL))
        elif n_cells > len(points):
            raise ValueError(f"{n_cells} cells need at least as many points; the index has {len(points)}. Lower cells.")
        cells = faiss.IndexIVFFlat(faiss.IndexFlatL2(n_dimensions), n_dimensions, n_cells)
        cells.cp.min_points_per_centroid = 1  # few points per cell are the user's choice: no warning
        cells.cp.max_points_per_centroid = _MOST_IN_A_CELL
        n_drawn = min(_MOST_IN_A_CELL * n_cells, len(points))
        drawn = np.random.default_rng(0).choice(len(points), n_drawn, replace=False)
        cells.train(self._placed(points[np.sort(drawn)]))
        self._trained_with = len(points)
        return cells

    def _parameters(self, n_candidates: int) -> Any:
        """Parameters of a search: how far to look, and which points are not removed."""
        options: dict[str, Any] = {}
        if len(self._called) < self._index.ntotal:
            if self._left is None:
                left = np.zeros(self._index.ntotal, dtype=bool)
                left[self._called] = True
                bits = np.packbits(left, bitorder="little")
                self._left = self._faiss.IDSelectorBitmap(bits), bits  # faiss keeps no copy of the bits
            options["sel"] = self._left[0]
        if self._name == "faiss-hnsw":
            looked_at = max(self.options.get("ef_search", 64), n_candidates)
            return self._faiss.SearchParametersHNSW(efSearch=looked_at, **options)
        if self._name == "faiss-ivf":
            n_cells = self._index.nlist
            probes = min(self.options.get("probes", max(8, n_cells // 32)), n_cells)
            return self._faiss.SearchParametersIVF(nprobe=probes, **options)
        return self._faiss.SearchParameters(**options)

    def _placed(self, points: FloatArray) -> NDArray[np.float32]:
        """Points in the coordinates of faiss, clipped to their range."""
        edge = float(np.finfo(np.float32).max) ** 0.25
        placed = np.ldexp(points - self._centre, -self._exponent)
        return np.asarray(np.clip(placed, -edge, edge), dtype=np.float32)


def _blocks_of(points: FloatArray) -> Iterator[FloatArray]:
    """Consecutive rows of points."""
    size = max(1, _CHUNK // points.shape[1])
    for start in range(0, len(points), size):
        yield points[start : start + size]


def _among_all(points: FloatArray, queries: FloatArray, k: int, rounding: float) -> IntArray:
    """`nearest` by the distances to all points, for a few queries."""
    numbers = np.empty((len(queries), k), dtype=np.int64)
    for q in range(len(queries)):
        distance = cdist(queries[q : q + 1], points)[0]
        # No pick is farther than the k-th distance plus the rounding.
        candidates = np.flatnonzero(distance <= np.partition(distance, k - 1)[k - 1] + rounding)
        picked, _ = pick(distance[candidates][None], k, rounding)
        numbers[q] = candidates[picked[0]]
    return numbers


def _distances(points: FloatArray, queries: FloatArray, numbers: IntArray) -> FloatArray:
    """Distances from each query to the points with the numbers in its row."""
    distance = np.empty(numbers.shape)
    size = max(1, _CHUNK // max(1, numbers.shape[1] * points.shape[1]))
    for start in range(0, len(queries), size):
        rows = slice(start, start + size)
        difference = points[numbers[rows]] - queries[rows, None]
        # Scaled by a power of two, which is exact, so that squares neither overflow nor vanish.
        _, exponent = np.frexp(np.abs(difference).max(initial=0.0))
        distance[rows] = np.ldexp(np.linalg.norm(np.ldexp(difference, -int(exponent)), axis=2), int(exponent))
    return distance


def in_order(distance: FloatArray) -> FloatArray:
    """Make distances non-decreasing: ties ordered by number may fall in their last bits."""
    return np.maximum.accumulate(distance, axis=1)


def _checked(name: str, options: Mapping[str, int] | None, known: tuple[str, ...]) -> dict[str, int]:
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(f"backend_options must be a dictionary. Got {options!r}.")
    chosen = dict(options or {})
    for option, value in chosen.items():
        if option not in known:
            has = f"has the options {', '.join(map(repr, known))}" if known else "has no options"
            raise ValueError(f"backend={name!r} {has}. Got {option!r}.")
        check_count(f"backend_options[{option!r}]", value)
    return {option: int(value) for option, value in chosen.items()}
