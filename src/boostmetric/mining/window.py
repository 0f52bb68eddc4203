"""Candidates of a query: the nearest documents that are not relevant to it, within a window of ranks.

Relevant documents are not ranked, so that a window means the same whether a query has one relevant document or a class
of a thousand. A search still finds them, so it asks for that many more neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.types import IntArray
from boostmetric.mining.space import Space
from boostmetric.neighbors import nearest

_CHUNK = 2**22  # numbers held at once
# A class with more than this many times sqrt(n) of n points is removed before the search. Points of smaller classes are
# searched too and skipped: the search is then set up once for all classes, and finds more neighbours.
_LARGE_CLASS = 4.0


class Candidates(NamedTuple):
    """Candidates of some queries.

    Attributes
    ----------
    queries : ndarray of shape (n_queries,)
        Numbers of the queries.
    documents : ndarray of shape (n_queries, n_ranks)
        Numbers of their candidates, nearest first; -1 where there is none.
    """

    queries: IntArray
    documents: IntArray


class Relevance(Protocol):
    """Protocol that tells which documents are relevant to which queries."""

    def counts(self, queries: IntArray) -> IntArray:
        """Number of documents that are relevant to each query."""
        ...

    def __call__(self, queries: IntArray, documents: IntArray) -> NDArray[np.bool_]:
        """Whether the documents in each row are relevant to the query of that row."""
        ...


class Listed:
    """Relevance given by a list of pairs (query, document)."""

    def __init__(self, pairs: IntArray, n_queries: int, n_documents: int) -> None:
        self._n_documents = n_documents
        self._keys = np.unique(pairs[:, 0] * n_documents + pairs[:, 1])
        self._counts = np.bincount(self._keys // n_documents, minlength=n_queries)

    def counts(self, queries: IntArray) -> IntArray:
        """As in `Relevance`."""
        return np.asarray(self._counts[queries])

    def __call__(self, queries: IntArray, documents: IntArray) -> NDArray[np.bool_]:
        """As in `Relevance`."""
        return are_in(self._keys, queries[:, None] * self._n_documents + documents)


class SameClass:
    """Relevance given by labels: all points of the query's class are relevant, including the query."""

    def __init__(self, label: IntArray) -> None:
        self._label = label
        self._sizes = np.bincount(label)

    def counts(self, queries: IntArray) -> IntArray:
        """As in `Relevance`."""
        return np.asarray(self._sizes[self._label[queries]])

    def __call__(self, queries: IntArray, documents: IntArray) -> NDArray[np.bool_]:
        """As in `Relevance`."""
        return np.asarray(self._label[documents] == self._label[queries][:, None])


def are_in(keys: IntArray, asked: IntArray) -> NDArray[np.bool_]:
    """Whether each number in `asked` is among the keys, which are in ascending order and not empty."""
    return np.asarray(keys[np.minimum(np.searchsorted(keys, asked), len(keys) - 1)] == asked)


def candidates(
    space: Space, queries: IntArray, relevance: Relevance, ranks: tuple[int, int], weights: IntArray
) -> Iterator[Candidates]:
    """Find the candidates of the queries, in parts.

    Parameters
    ----------
    space : Space
    queries : ndarray of shape (n_queries,)
        Numbers of the queries.
    relevance : Relevance
    ranks : tuple of int
        First and last rank, from 1.
    weights : ndarray of shape (n_queries,)
        How often the candidates of each query will be used, which limits the size of a part.

    Notes
    -----
    Cost: one search of all queries. Memory grows with the points, and with the size of a part: about 4 million
    candidates, or one query.
    """
    first, last = ranks
    n_documents = space.documents.shape[0]
    counts = relevance.counts(queries)
    order = np.argsort(counts, kind="stable")  # queries with equally many relevant documents are searched together
    queries, counts = queries[order], counts[order]
    found = np.minimum(n_documents, counts + last)
    for part in _parts(np.maximum(found, weights[order] * (last - first + 1))):
        asked, k = queries[part], int(found[part][-1])
        numbers = nearest(space.documents, space.queries[asked], k, space.rounding)
        known = relevance(asked, numbers)
        rank = np.cumsum(~known, axis=1)
        row, column = np.nonzero(~known & (rank >= first) & (rank <= last))
        window = np.full((len(asked), last - first + 1), -1, dtype=np.int64)
        window[row, rank[row, column] - first] = numbers[row, column]
        yield Candidates(asked, window)


def candidates_by_class(
    space: Space, queries: IntArray, label: IntArray, ranks: tuple[int, int], weight: int
) -> Iterator[Candidates]:
    """Find candidates when all points of the query's class are relevant; large classes are searched one by one.

    Parameters
    ----------
    space : Space
        Space with a single set of points.
    queries : ndarray of shape (n_queries,)
        Numbers of the queries.
    label : ndarray of shape (n_points,)
        Class number of each point.
    ranks : tuple of int
    weight : int
        How often the candidates of each query will be used, which limits the size of a part.
    """
    sizes = np.bincount(label)
    is_large = sizes > _LARGE_CLASS * np.sqrt(len(label))
    small = queries[~is_large[label[queries]]]
    yield from candidates(space, small, SameClass(label), ranks, np.full(len(small), weight))
    first, last = ranks
    for c in np.flatnonzero(is_large):
        inside, outside = queries[label[queries] == c], np.flatnonzero(label != c)
        others = space.documents[outside]
        k = min(last, len(outside))
        for part in _parts(np.full(len(inside), max(k, weight * (last - first + 1)))):
            numbers = nearest(others, space.queries[inside[part]], k, space.rounding)[:, first - 1 :]
            window = np.full((len(numbers), last - first + 1), -1, dtype=np.int64)
            window[:, : numbers.shape[1]] = outside[numbers]
            yield Candidates(inside[part], window)


def _parts(sizes: IntArray) -> Iterator[slice]:
    """Split rows of the given sizes into runs whose total is at most `_CHUNK`, or that hold one row."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        limit = _CHUNK + (ends[start - 1] if start else 0)
        stop = max(start + 1, int(np.searchsorted(ends, limit, side="right")))
        yield slice(start, stop)
        start = stop
