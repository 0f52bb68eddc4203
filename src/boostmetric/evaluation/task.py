"""What a metric is asked: queries whose right answers are known.

A *task* holds points as they were given, and measures them however they are mapped. Scores come as a *sample*: rows to
be averaged, each with a weight, and numbers that say which rows belong together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array

from boostmetric.arrays.frame import Given
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.arrays.validation import check_count, checked


class ScoreSample(NamedTuple):
    """Rows that scores are averages of.

    Attributes
    ----------
    sums : ndarray of shape (n_rows, n_scores)
        Scores times weights.
    weight : ndarray of shape (n_rows,)
    cluster : ndarray of shape (n_rows,)
        Rows with the same number are drawn together, or not at all. Numbered from 0 without gaps.
    """

    sums: FloatArray
    weight: FloatArray
    cluster: IntArray

    @property
    def mean(self) -> FloatArray:
        """Scores, of shape (n_scores,)."""
        return np.asarray(self.sums.sum(axis=0) / self.weight.sum())

    @property
    def values(self) -> FloatArray:
        """Scores of each row, of shape (n_rows, n_scores)."""
        return self.sums / self.weight[:, None]


class Task(Protocol):
    """Queries with known answers."""

    @property
    def points(self) -> tuple[Given, ...]:
        """All points that are needed, as given."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Of the scores."""
        ...

    @property
    def ceilings(self) -> FloatArray:
        """What the best ranking would score, of shape (n_scores,)."""
        ...

    @property
    def headline(self) -> str:
        """The score that decides, unless another one is named."""
        ...

    @property
    def rows(self) -> IntArray:
        """What the rows of the sample are about, of shape (n_rows,): numbers of queries or anchors."""
        ...

    @property
    def n_left_out(self) -> int:
        """Queries that are not asked because no answer could be right."""
        ...

    @property
    def size(self) -> str:
        """How much is asked, in words: "4,500 queries"."""
        ...

    @property
    def clusters(self) -> str:
        """What is drawn together, in the plural: "queries"."""
        ...

    def measure(self, points: Sequence[Given]) -> list[ScoreSample]:
        """Scores under the Euclidean distance of the points, which are in the order of `Task.points`.

        Independent samples, mostly one; their means are the same.
        """
        ...


def check_points(name: str, X: Any) -> Given:
    """Points as an array or a csr_array of floating-point numbers."""
    points = checked(check_array, X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name=name)
    return sparse.csr_array(points) if sparse.issparse(points) else np.asarray(points)


def in_one_space(name: str, points: Given, other_name: str, other: Given) -> tuple[Given, Given]:
    """Points of both, sparse if one of them is, or an error if they have different features."""
    if points.shape[1] != other.shape[1]:
        raise ValueError(
            f"{name} have {points.shape[1]} features and {other_name} {other.shape[1]}. Both must be described by the "
            "same features."
        )
    if sparse.issparse(points) == sparse.issparse(other):
        return points, other
    return sparse.csr_array(points), sparse.csr_array(other)


def check_queries(queries: Any, documents: Any) -> tuple[Given, ...]:
    """Queries and, unless they are None, the other documents that are searched, as arrays."""
    asked = check_points("queries", queries)
    if documents is None:
        return (asked,)
    searched = check_points("documents", documents)
    asked, searched = in_one_space("The queries", asked, "the documents", searched)
    if are_same(asked, searched):
        raise ValueError(
            "The documents are the queries, so that every query would find itself. Pass documents=None: each query is "
            "then searched for among the others."
        )
    return (asked, searched)


def check_cuts(name: str, cuts: int | Sequence[int], n_searched: int) -> tuple[int, ...]:
    """Numbers of results, each once, in ascending order; none is more than there are points to find."""
    given: list[int] = list(np.atleast_1d(np.asarray(cuts, dtype=object)))
    if not given:
        raise ValueError(f"{name} is empty: give at least one number of results.")
    for cut in given:
        check_count(name, cut)
        if cut > n_searched:
            raise ValueError(
                f"{name}={cut} asks for more results than the {n_searched} points that a query can find. Lower {name}, "
                "or search among more points."
            )
    return tuple(sorted({int(cut) for cut in given}))


def text_of(count: int, noun: str) -> str:
    """A count with its noun: "4,500 queries"; the noun is given in the plural."""
    singular = {"queries": "query", "classes": "class"}.get(noun, noun[:-1])
    return f"{count:,} {singular if count == 1 else noun}"


def are_same(first: Given, second: Given) -> bool:
    """Whether two sets of points are the same, row for row."""
    if first.shape != second.shape or sparse.issparse(first) != sparse.issparse(second):
        return False
    if sparse.issparse(first):
        return bool((first != second).nnz == 0)
    return np.array_equal(first, second)


def check_text_or_numbers(y: NDArray[Any], known: NDArray[Any]) -> None:
    """Refuse labels that could never be equal."""
    kinds = ["text" if labels.dtype.kind in "US" else "numbers" for labels in (y, known)]
    if kinds[0] != kinds[1]:
        raise ValueError(f"y holds {kinds[0]}, but the labels of the reference are {kinds[1]}. Use the same in both.")
