"""Tasks to evaluate a metric on: queries whose right answers are known.

A *task* holds the points as given, and scores them under any mapping. Scores come as a *sample*: rows to average, each
with a weight and the number of the cluster it belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array

from boostmetric.arrays.errors import ParameterError
from boostmetric.arrays.frame import Given
from boostmetric.arrays.point_blocks import PointBlocks
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.arrays.validation import check_count, checked
from boostmetric.neighbors.in_blocks import OnProgress

Points: TypeAlias = Given | PointBlocks
"""Points of a task: in memory, or read block by block."""


class ScoreSample(NamedTuple):
    """Rows whose averages are the scores.

    Attributes
    ----------
    sums : ndarray of shape (n_rows, n_scores)
        Scores times weights.
    weight : ndarray of shape (n_rows,)
    cluster : ndarray of shape (n_rows,)
        Rows of one cluster are resampled together. Numbered from 0 without gaps.
    """

    sums: FloatArray
    weight: FloatArray
    cluster: IntArray

    @property
    def mean(self) -> FloatArray:
        """Mean scores, of shape (n_scores,)."""
        return np.asarray(self.sums.sum(axis=0) / self.weight.sum())

    @property
    def values(self) -> FloatArray:
        """Scores of each row, of shape (n_rows, n_scores)."""
        return self.sums / self.weight[:, None]


class Task(Protocol):
    """Queries with known answers."""

    @property
    def points(self) -> tuple[Points, ...]:
        """All points the task needs, as given."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scores."""
        ...

    @property
    def ceilings(self) -> FloatArray:
        """Scores of the best possible ranking, of shape (n_scores,)."""
        ...

    @property
    def chances(self) -> FloatArray:
        """Scores of a ranking at random, of shape (n_scores,); 0 where that is not computed."""
        ...

    @property
    def headline(self) -> str:
        """Name of the score that decides by default."""
        ...

    @property
    def important(self) -> tuple[str, ...]:
        """Names of the scores that must not be clearly worse for the verdict "better"."""
        ...

    @property
    def rows(self) -> IntArray:
        """Number of the query or anchor behind each row of the sample, of shape (n_rows,)."""
        ...

    @property
    def n_left_out(self) -> int:
        """Number of queries left out because they have no right answer."""
        ...

    @property
    def size(self) -> str:
        """Size of the task in words: "4,500 queries"."""
        ...

    @property
    def clusters(self) -> str:
        """What the bootstrap resamples, in the plural: "queries"."""
        ...

    def measure(self, points: Sequence[Points], on_progress: OnProgress | None = None) -> list[ScoreSample]:
        """Score the Euclidean distance between the points, which are in the order of `Task.points`.

        Returns independent samples, usually one; all have the same mean. Points that are read block by block, which
        takes long, are counted to `on_progress`.
        """
        ...


def check_points(name: str, X: Any) -> Points:
    """Check points and return them as a floating-point array or csr_array; those in blocks are checked when read."""
    if isinstance(X, PointBlocks):
        return X
    points = checked(check_array, X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name=name)
    return sparse.csr_array(points) if sparse.issparse(points) else np.asarray(points)


def in_one_space(name: str, points: Points, other_name: str, other: Points) -> tuple[Points, Points]:
    """Return both sets of points, as sparse arrays if either is sparse; refuse different numbers of features."""
    if points.shape[1] != other.shape[1]:
        raise ValueError(
            f"{name} have {points.shape[1]} features and {other_name} {other.shape[1]}. Both must have the same "
            "features."
        )
    if sparse.issparse(points) == sparse.issparse(other):
        return points, other
    return sparse.csr_array(points), sparse.csr_array(other)


def check_queries(queries: Any, documents: Any) -> tuple[Points, ...]:
    """Check queries and, unless None, the documents to search; return them as arrays."""
    asked = check_points("queries", queries)
    if documents is None:
        return (asked,)
    searched = check_points("documents", documents)
    asked, searched = in_one_space("The queries", asked, "the documents", searched)
    if are_same(asked, searched):
        raise ValueError(
            "The documents are the queries, so every query would find itself. Pass documents=None to search for each "
            "query among the others."
        )
    return (asked, searched)


def check_cuts(name: str, cuts: int | Sequence[int], n_searched: int) -> tuple[int, ...]:
    """Check numbers of results against the points to find; return them without duplicates, in ascending order."""
    given: list[int] = list(np.atleast_1d(np.asarray(cuts, dtype=object)))
    if not given:
        raise ValueError(f"{name} is empty. Pass at least one number of results.")
    for cut in given:
        check_count(name, cut)
        if cut > n_searched:
            raise ParameterError(
                f"{{{name}}}={cut} asks for more results than the {n_searched} points that a query can find. Lower "
                f"{{{name}}}, or search among more points."
            )
    return tuple(sorted({int(cut) for cut in given}))


def text_of(count: int, noun: str) -> str:
    """Format a count with its noun, given in the plural: "4,500 queries"."""
    singular = {"queries": "query", "classes": "class"}.get(noun, noun[:-1])
    return f"{count:,} {singular if count == 1 else noun}"


def are_same(first: Points, second: Points) -> bool:
    """Whether two sets of points are equal, row by row."""
    if first.shape != second.shape:
        return False
    if isinstance(first, PointBlocks) and isinstance(second, PointBlocks):
        return all(map(np.array_equal, first.blocks(), second.blocks()))
    if isinstance(first, PointBlocks) or isinstance(second, PointBlocks):
        return False
    if sparse.issparse(first) and sparse.issparse(second):
        return bool((first != second).nnz == 0)
    return not (sparse.issparse(first) or sparse.issparse(second)) and np.array_equal(first, second)


def check_text_or_numbers(y: NDArray[Any], known: NDArray[Any]) -> None:
    """Refuse text labels on one side and numbers on the other, which could never be equal."""
    kinds = ["text" if labels.dtype.kind in "US" else "numbers" for labels in (y, known)]
    if kinds[0] != kinds[1]:
        raise ValueError(f"y holds {kinds[0]}, but the labels of the reference are {kinds[1]}. Use one kind in both.")
