"""Index of points under a metric: search for the nearest points to a query, by id."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from boostmetric.arrays.errors import ParameterError
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.arrays.validation import as_numbers, check_count
from boostmetric.metric.mahalanobis import as_metric, check_columns
from boostmetric.neighbors.in_blocks import Extent
from boostmetric.retrieval.backends import SearchBackend, build_alike, make_backend
from boostmetric.retrieval.file import StoredIndex, load_index, save_index
from boostmetric.retrieval.ids import as_array, as_ids, listed, number_behind, refuse_repeated
from boostmetric.retrieval.mapping import mapped_rows

_CHUNK = 2**24  # numbers held at once
_FEWEST, _MOST = 256, 8192  # rows mapped at once


class MetricIndex:
    """Index of points with ids, searched for the nearest points under a metric.

    The metric maps points when they are added, and they are kept in float64. Every distance is computed from these, no
    matter which backend finds the neighbours.

    Parameters
    ----------
    metric : estimator, MahalanobisMetric or None, default=None
        A fitted metric learner, whose current metric is used; a metric; or None for the Euclidean distance.
    backend : {"exact", "faiss-flat", "faiss-hnsw", "faiss-ivf"}, default="exact"
        Search backend. "exact" gives the results of brute force. The others need the extra ``faiss`` and look for
        candidates in float32: "faiss-flat" among all points, "faiss-hnsw" along a graph of neighbours, "faiss-ivf" in
        the cells of a k-means clustering that are closest to the query. The last two may miss neighbours, and are fast
        for millions of points.
    backend_options : dict, optional
        Options, with defaults in parentheses. For "faiss-hnsw": "links" (32) of each point, "ef_construction" (100) and
        "ef_search" (64), the numbers of candidates followed when a point is added and in a search. For "faiss-ivf":
        "cells" (2 sqrt(n), but at least 39 points per cell) and "probes" (8, or one cell in 32 if that is more), the
        cells searched. Larger values find more neighbours and take longer.

    Attributes
    ----------
    metric : MahalanobisMetric or None
    backend : str
    backend_options : dict
        As given.
    n_features : int or None
        Number of features of points and queries; None while there is neither a metric nor a point.
    about : dict
        Whatever else should be kept in the file: strings, finite numbers, booleans, None, and lists and dictionaries of
        these. Empty by default.

    Notes
    -----
    Ties: distances that differ by no more than the rounding of the coordinates count as equal, and of these the point
    that was added first comes first; with faiss, this holds among the candidates it proposes.

    The first search after `add`, or after the removal of a quarter of the points, builds the faiss index. Until then
    removed points stay in it and are skipped, because an HNSW graph cannot drop a point. The cells of IVF are computed
    from the points present at the first search, and again when their number has doubled. What was built is saved with
    the index, unless points were removed since.

    Points may be sparse; without a metric they are stored as dense arrays.

    Examples
    --------
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.retrieval import MetricIndex
    >>> index = MetricIndex(MahalanobisMetric([[1.0, 0.0], [0.0, 0.1]]))
    >>> index.add([[0.0, 0.0], [3.0, 0.0], [1.0, 20.0]], ids=["a", "b", "c"])
    MetricIndex(3 points, 2 features, backend='exact')
    >>> ids, distances = index.search([[1.0, 0.0]], k=2)
    >>> ids.tolist(), distances.tolist()
    ([['a', 'b']], [[1.0, 2.0]])
    """

    def __init__(
        self, metric: Any = None, *, backend: str = "exact", backend_options: Mapping[str, int] | None = None
    ) -> None:
        self.metric = as_metric(metric)
        self._search = make_backend(backend, backend_options)
        self.backend = backend
        self.backend_options = dict(self._search.options)
        self.n_features: int | None = None if self.metric is None else self.metric.components.shape[1]
        self.about: dict[str, Any] = {}
        self._hold(np.empty((0, 0 if self.metric is None else len(self.metric.components))), [], 0)

    def _hold(self, points: FloatArray, ids: list[Hashable], next_number: int) -> None:
        self._rows = _Rows(points)
        self._ids = ids
        self._row_of = {one: row for row, one in enumerate(ids)}
        self._next = next_number
        self._extent = Extent.of(points)
        self._id_array: NDArray[Any] | None = None

    def add(self, X: ArrayLike | sparse.sparray, ids: Iterable[Hashable] | None = None) -> Self:
        """Add points.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_points, n_features)
        ids : iterable of n_points hashable values, optional
            Ids of the points: numbers, strings, tuples, and so on, none of them in the index yet. By default
            consecutive numbers, starting after the largest ever used.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an id is already in the index or repeated, or if a point is not finite. Then nothing is added.
        """
        points = self._mapped_whole(X)
        names: list[Hashable] = list(range(self._next, self._next + len(points)))
        if ids is not None:
            names = as_ids(ids)
            if len(names) != len(points):
                raise ValueError(f"There are {len(points)} points and {len(names)} ids. Pass one id for each point.")
        known = [one for one in names if one in self._row_of]
        if known:
            raise ValueError(f"Already in the index: {listed(known)}. Remove them first, or use other ids.")
        refuse_repeated(names)
        first = len(self)
        if self.n_features is None:
            self.n_features = points.shape[1]
            self._hold(np.empty((0, points.shape[1])), [], self._next)
        self._rows.append(points)
        self._ids += names
        self._row_of.update(zip(names, range(first, len(self)), strict=True))
        self._next = number_behind(names, self._next)
        self._extent = self._extent.with_(Extent.of(points))
        self._id_array = None
        return self

    def remove(self, ids: Iterable[Hashable]) -> Self:
        """Remove the points with these ids.

        Parameters
        ----------
        ids : iterable
            A list, even for a single id, since an id may itself be a tuple.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an id is not in the index. Then nothing is removed.

        Notes
        -----
        Cost: linear in the size of the index, however many ids are removed. Remove many at once.
        """
        names = as_ids(ids)
        unknown = [one for one in names if one not in self._row_of]
        if unknown:
            raise ValueError(f"Not in the index, which has {len(self)} points: {listed(unknown)}.")
        refuse_repeated(names)
        kept = np.ones(len(self), dtype=bool)
        kept[[self._row_of[one] for one in names]] = False
        self._search.removed(kept)
        self._hold(self._rows.filled[kept], [self._ids[row] for row in np.flatnonzero(kept)], self._next)
        return self

    @overload
    def search(
        self, Q: ArrayLike | sparse.sparray, k: int = 10, *, as_table: Literal[False] = False
    ) -> tuple[NDArray[Any], FloatArray]: ...

    @overload
    def search(
        self, Q: ArrayLike | sparse.sparray, k: int = 10, *, as_table: Literal[True]
    ) -> dict[str, NDArray[Any]]: ...

    def search(
        self, Q: ArrayLike | sparse.sparray, k: int = 10, *, as_table: bool = False
    ) -> tuple[NDArray[Any], FloatArray] | dict[str, NDArray[Any]]:
        """Find the k nearest points of each query.

        Parameters
        ----------
        Q : {array-like, sparse matrix} of shape (n_queries, n_features)
            Any number of queries: they are mapped and searched in batches.
        k : int, default=10
            Number of neighbours, at most the number of points in the index.
        as_table : bool, default=False
            Whether to return a table instead of two arrays.

        Returns
        -------
        ids : ndarray of shape (n_queries, k)
            Nearest first; dtype int64 if all ids are integers, else object.
        distances : ndarray of shape (n_queries, k)
            Distances under the metric, not squared.
        table : dict of str to ndarray of shape (n_queries * k,)
            Returned instead with `as_table`: the columns "query" (row number in Q), "rank" (from 1), "id" and
            "distance", ready for ``pandas.DataFrame(table)`` or ``pyarrow.table(table)``.

        Examples
        --------
        >>> from boostmetric.retrieval import MetricIndex
        >>> table = MetricIndex().add([[0.0], [5.0]], ids=["a", "b"]).search([[1.0], [4.5]], k=1, as_table=True)
        >>> {name: column.tolist() for name, column in table.items()}
        {'query': [0, 1], 'rank': [1, 1], 'id': ['a', 'b'], 'distance': [1.0, 0.5]}
        """
        rows, distances = self._search_rows(Q, k, self._search)
        ids = self._ids_as_array()[rows]
        if not as_table:
            return ids, distances
        return {
            "query": np.repeat(np.arange(len(rows)), k),
            "rank": np.tile(np.arange(1, k + 1), len(rows)),
            "id": ids.ravel(),
            "distance": distances.ravel(),
        }

    def recall(self, Q: ArrayLike | sparse.sparray, k: int = 10) -> float:
        """Measure what the backend misses: the fraction of the k nearest points of the queries that it finds.

        Parameters
        ----------
        Q : {array-like, sparse matrix} of shape (n_queries, n_features)
            At least one query; some hundred are enough.
        k : int, default=10

        Returns
        -------
        float
            1.0 for the exact backend.

        Notes
        -----
        Cost: a search, and an exact search.

        Examples
        --------
        >>> from boostmetric.retrieval import MetricIndex
        >>> MetricIndex().add([[0.0], [5.0]]).recall([[1.0]], k=1)
        1.0
        """
        found = self._search_rows(Q, k, self._search)
        if not len(found[0]):
            raise ValueError("Q has no query, so there is nothing to measure. Pass at least one.")
        exact = self._search_rows(Q, k, make_backend("exact", None))
        both = [len(np.intersect1d(*rows)) for rows in zip(found[0], exact[0], strict=True)]
        return sum(both) / exact[0].size

    def save(self, path: str | Path) -> None:
        """Write the index to a file, atomically.

        Parameters
        ----------
        path : str or Path
            Usually ends with ``.safetensors``. An existing file is replaced.

        Raises
        ------
        ValueError
            If an id is not an int, str, float, bool, None, or a tuple of these.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from boostmetric.retrieval import MetricIndex
        >>> path = Path(tempfile.mkdtemp()) / "index.safetensors"
        >>> MetricIndex().add([[0.0], [5.0]], ids=["a", ("b", 1)]).save(path)
        >>> MetricIndex.load(path).ids
        ['a', ('b', 1)]
        """
        stored = StoredIndex(
            self._rows.filled,
            self._ids,
            self.metric,
            self.backend,
            self.backend_options,
            self.n_features,
            self._next,
            self.about,
            self._search.built(len(self)),
        )
        save_index(stored, path)

    @classmethod
    def load(
        cls, path: str | Path, *, backend: str | None = None, backend_options: Mapping[str, int] | None = None
    ) -> Self:
        """Load a saved index, without running any code from the file.

        Parameters
        ----------
        path : str or Path
        backend, backend_options : optional
            As in the constructor. By default those that the index was saved with.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If the file does not hold an index, is damaged, or has a newer format; the message says which.
        """
        stored = load_index(path)
        if backend is None:
            backend, backend_options = stored.backend, backend_options or stored.backend_options
        try:
            index = cls(stored.metric, backend=backend, backend_options=backend_options)
        except ValueError as error:
            raise ValueError(f"The index {str(path)!r} cannot be used with this backend: {error}") from error
        index.n_features, index.about = stored.n_features, stored.about
        index._hold(stored.points, stored.ids, stored.next_number)
        if index.backend == stored.backend and build_alike(index.backend_options, stored.backend_options):
            index._search.use(stored.built)
        return index

    @property
    def ids(self) -> list[Hashable]:
        """Ids of all points, in the order in which they were added."""
        return list(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, one: object) -> bool:
        return isinstance(one, Hashable) and one in self._row_of

    def __repr__(self) -> str:
        features = "any number of" if self.n_features is None else self.n_features
        return f"MetricIndex({len(self)} points, {features} features, backend={self.backend!r})"

    def _search_rows(self, Q: Any, k: int, backend: SearchBackend) -> tuple[IntArray, FloatArray]:
        """Rows and distances of the nearest points that a backend finds."""
        check_count("k", k)
        if not len(self):
            raise ValueError("The index is empty: add points before you search.")
        if k > len(self):
            raise ParameterError("{k}={most} is more than the {n} points in the index. Lower {k}.", most=k, n=len(self))
        points = self._rows.filled
        found = [(np.empty((0, k), dtype=np.int64), np.empty((0, k)))]
        parts = self._mapped(self._checked(Q, "Q"), "Q", k)
        found += [backend.search(points, queries, int(k), self._extent) for queries in parts if len(queries)]
        rows, distances = (np.concatenate(of_all) for of_all in zip(*found, strict=True))
        return rows, distances

    def _checked(self, X: Any, name: str) -> Any:
        """Check the form of points, and return them as an array or a sparse one."""
        if self.metric is not None:
            check_columns(X, self.metric.feature_names)
        if sparse.issparse(X):
            given = sparse.csr_array(X)
        else:
            given = X if isinstance(X, np.ndarray) and X.dtype.kind == "f" else as_numbers(name, X)
        if given.ndim != 2:
            raise ValueError(f"{name} must have shape (n_points, n_features), even for one point. Got {given.shape}.")
        if given.shape[1] != (self.n_features or given.shape[1]) or not given.shape[1]:
            raise ValueError(f"{name} has {given.shape[1]} features; the index needs {self.n_features or 'some'}.")
        return given

    def _mapped(self, given: Any, name: str, width: int = 1) -> Iterator[FloatArray]:
        """Yield points as the metric maps them, in parts; at least one part."""
        size = min(max(_CHUNK // max(given.shape[1], width), _FEWEST), _MOST)
        for start in range(0, max(given.shape[0], 1), size):
            part = given[start : start + size]  # of single precision, the whole is not held in double as well
            rows = part if sparse.issparse(part) else as_numbers(name, part)
            yield mapped_rows(self.metric, rows, start, name)

    def _mapped_whole(self, X: Any) -> FloatArray:
        """Check points and return them as the metric maps them, held once."""
        given = self._checked(X, "X")
        n_dimensions = given.shape[1] if self.metric is None else len(self.metric.components)
        points, first = np.empty((given.shape[0], n_dimensions)), 0
        for part in self._mapped(given, "X"):
            points[first : first + len(part)] = part
            first += len(part)
        return points

    def _ids_as_array(self) -> NDArray[Any]:
        if self._id_array is None:
            self._id_array = as_array(self._ids)
        return self._id_array


class _Rows:
    """Growing array of rows that doubles its capacity, so that many small additions cost no more than one."""

    def __init__(self, filled: FloatArray) -> None:
        self._array, self._n = filled, len(filled)

    @property
    def filled(self) -> FloatArray:
        return self._array[: self._n]

    def append(self, rows: FloatArray) -> None:
        """Add rows; the first ones are not copied, and must not change."""
        n = self._n + len(rows)
        if not self._n:
            self._array = rows
        elif n > len(self._array):
            larger = np.empty((max(n, 2 * self._n), rows.shape[1]))
            larger[: self._n] = self.filled
            self._array = larger
        if self._n:
            self._array[self._n : n] = rows
        self._n = n
