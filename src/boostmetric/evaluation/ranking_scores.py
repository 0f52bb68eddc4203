"""Scores of rankings: one number per query; the mean over the queries is the score.

A ranking is a table with one row per query and one column per rank, nearest first: whether the result at that rank is
relevant, or its grade. Scores that depend on how many relevant documents exist take that as a second argument.

"Recall@k" has two meanings. In retrieval it is the share of the relevant documents that are among the first k
(`recall_at_k`). In metric learning it is whether any of them is (`hit_at_k`).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boostmetric.arrays.numbering import as_array
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import as_numbers, check_choice, check_count
from boostmetric.evaluation.knn import vote

__all__ = [
    "average_precision_at_k",
    "hit_at_k",
    "ndcg_at_k",
    "precision_at_k",
    "recall_at_k",
    "reciprocal_rank_at_k",
]

Gain = Literal["linear", "exponential"]
GAINS = ("linear", "exponential")

_ROWS = 2**14  # queries that vote at once
# Sums of 2**grade - 1 are exact up to here, and no grading scale is that long.
_LARGEST_EXPONENT = 50


def hit_at_k(relevant: ArrayLike, k: int) -> FloatArray:
    """Whether any of the first k results is relevant: 1 or 0. In metric learning this is called recall@k.

    Parameters
    ----------
    relevant : array-like of bool of shape (n_queries, n_results)
        Nearest first.
    k : int

    Returns
    -------
    ndarray of shape (n_queries,)

    Examples
    --------
    >>> from boostmetric.evaluation.ranking_scores import hit_at_k
    >>> hit_at_k([[False, True, True], [False, False, True]], k=2)
    array([1., 0.])
    """
    return np.asarray(_first(relevant, k).any(axis=1), dtype=np.float64)


def precision_at_k(relevant: ArrayLike, k: int) -> FloatArray:
    """Share of the first k results that are relevant.

    Parameters
    ----------
    relevant : array-like of bool of shape (n_queries, n_results)
        Nearest first.
    k : int

    Returns
    -------
    ndarray of shape (n_queries,)

    Examples
    --------
    >>> from boostmetric.evaluation.ranking_scores import precision_at_k
    >>> precision_at_k([[False, True, True], [False, False, True]], k=2)
    array([0.5, 0. ])
    """
    return np.asarray(_first(relevant, k).mean(axis=1))


def recall_at_k(relevant: ArrayLike, n_relevant: ArrayLike, k: int) -> FloatArray:
    """Share of the relevant documents that are among the first k results; for "any of them", see `hit_at_k`.

    Parameters
    ----------
    relevant : array-like of bool of shape (n_queries, n_results)
        Nearest first.
    n_relevant : array-like of int of shape (n_queries,)
        Number of relevant documents of each query, found or not; at least 1.
    k : int

    Returns
    -------
    ndarray of shape (n_queries,)

    Examples
    --------
    >>> from boostmetric.evaluation.ranking_scores import recall_at_k
    >>> recall_at_k([[False, True, True], [False, False, True]], n_relevant=[4, 1], k=3)
    array([0.5, 1. ])
    """
    first = _first(relevant, k)
    return np.asarray(first.sum(axis=1) / _to_find(n_relevant, relevant))


def reciprocal_rank_at_k(relevant: ArrayLike, k: int) -> FloatArray:
    """1 over the rank of the first relevant result, counted from 1; 0 if it is not in the first k. Its mean is MRR@k.

    Parameters
    ----------
    relevant : array-like of bool of shape (n_queries, n_results)
        Nearest first.
    k : int

    Returns
    -------
    ndarray of shape (n_queries,)

    Examples
    --------
    >>> from boostmetric.evaluation.ranking_scores import reciprocal_rank_at_k
    >>> reciprocal_rank_at_k([[False, True, True], [False, False, True]], k=2)
    array([0.5, 0. ])
    """
    first = _first(relevant, k)
    return np.where(first.any(axis=1), 1.0 / (1 + first.argmax(axis=1)), 0.0)


def average_precision_at_k(relevant: ArrayLike, n_relevant: ArrayLike, k: int) -> FloatArray:
    """Precision at the rank of each relevant document, averaged over these documents. Its mean is MAP@k.

    Parameters
    ----------
    relevant : array-like of bool of shape (n_queries, n_results)
        Nearest first.
    n_relevant : array-like of int of shape (n_queries,)
        Number of relevant documents of each query, found or not; at least 1.
    k : int
        Documents at later ranks count as not found.

    Returns
    -------
    ndarray of shape (n_queries,)

    Notes
    -----
    The average is over the relevant documents that could be among the first k, ``min(n_relevant, k)``, so that the best
    ranking scores 1. (trec_eval's ``map_cut`` divides by all of them, which caps the score of a query with many.) If k
    reaches the end of the ranking, both equal scikit-learn's ``average_precision_score``.

    Examples
    --------
    >>> from boostmetric.evaluation.ranking_scores import average_precision_at_k
    >>> average_precision_at_k([[True, False, True, False]], n_relevant=[2], k=4).round(3)  # mean of 1/1 and 2/3
    array([0.833])
    """
    first = _first(relevant, k)
    precision = np.cumsum(first, axis=1) / np.arange(1, k + 1)
    return np.asarray((precision * first).sum(axis=1) / np.minimum(_to_find(n_relevant, relevant), k))


def ndcg_at_k(grades: ArrayLike, best_grades: ArrayLike, k: int, gain: Gain = "linear") -> FloatArray:
    """Gains of the first k results, discounted by rank, divided by those of the best possible ranking.

    Parameters
    ----------
    grades : array-like of shape (n_queries, n_results)
        Grade of each result, nearest first; at least 0, and 0 if not relevant.
    best_grades : array-like of shape (n_queries, n_best)
        The k largest grades of each query (all, if there are fewer), found or not, in descending order and padded with
        zeros. The first must be positive.
    k : int
    gain : {"linear", "exponential"}, default="linear"
        Gain of a grade g: g (Järvelin and Kekäläinen 2002, and scikit-learn's ``ndcg_score``), or 2**g - 1 (Burges et
        al. 2005), which stresses the best.

    Returns
    -------
    ndarray of shape (n_queries,)

    Notes
    -----
    The result at rank p, counted from 1, is discounted by 1 / log2(1 + p).

    Examples
    --------
    >>> from boostmetric.evaluation.ranking_scores import ndcg_at_k
    >>> ndcg_at_k([[1, 0, 2]], best_grades=[[2, 1, 1]], k=3).round(3)
    array([0.639])
    """
    check_choice("gain", gain, GAINS)
    found, best = _table("grades", grades), _table("best_grades", best_grades)
    _check_k(k, found.shape[1])
    if len(found) != len(best):
        raise ValueError(f"grades have {len(found)} rows, best_grades {len(best)}. Both need one row per query.")
    for name, table in (("grades", found), ("best_grades", best)):
        check_grades(name, table, gain)
    if np.any(np.diff(best, axis=1) > 0):
        row = int(np.flatnonzero((np.diff(best, axis=1) > 0).any(axis=1))[0])
        raise ValueError(f"best_grades[{row}] is not in descending order. Sort it, the largest grade first.")
    ideal = _discounted(best[:, :k], gain)
    if not ideal.all():
        raise ValueError(_nothing_to_find(int(np.argmin(ideal))))
    return np.asarray(_discounted(found[:, :k], gain) / ideal)


def votes_right(labels: NDArray[Any], right: NDArray[Any], n_neighbors: int) -> FloatArray:
    """Whether the majority of the first neighbours has the right label: 1 or 0. The nearest breaks ties.

    Parameters
    ----------
    labels : ndarray of shape (n_queries, n_results)
        Labels of the results, nearest first.
    right : ndarray of shape (n_queries,)
    n_neighbors : int

    Returns
    -------
    ndarray of shape (n_queries,)

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric.evaluation.ranking_scores import votes_right
    >>> labels, right = np.array([["a", "b", "b"], ["a", "b", "c"]]), np.array(["b", "c"])
    >>> votes_right(labels, right, n_neighbors=3)  # the second has no majority, and its nearest is "a"
    array([1., 0.])
    """
    _check_k(n_neighbors, labels.shape[1], "n_neighbors")
    answer = np.empty(len(labels))
    for begin in range(0, len(labels), _ROWS):  # a vote compares all neighbours of a query with each other
        rows = slice(begin, begin + _ROWS)
        answer[rows] = vote(labels[rows, :n_neighbors]) == right[rows]
    return answer


def check_grades(name: str, grades: FloatArray, gain: Gain = "linear") -> None:
    """Refuse grades that are negative, not finite, or too large for the gain."""
    if not np.isfinite(grades).all():
        raise ValueError(f"{name} must be finite numbers; one of them is {grades[~np.isfinite(grades)][0]}.")
    if (grades < 0).any():
        raise ValueError(
            f"{name} must be at least 0, where 0 means not relevant; one of them is {grades.min():g}. If your scale "
            "starts below 0, add a constant."
        )
    if gain == "exponential" and grades.max(initial=0.0) > _LARGEST_EXPONENT:
        raise ValueError(
            f'gain="exponential" counts a grade g as 2**g - 1, and one of {name} is {grades.max():g}; the largest '
            f'grade it supports is {_LARGEST_EXPONENT}. Use gain="linear", or grades on a shorter scale.'
        )


def _discounted(grades: FloatArray, gain: Gain) -> FloatArray:
    gains = grades if gain == "linear" else np.exp2(grades) - 1.0
    return np.asarray(gains @ (1.0 / np.log2(np.arange(2, grades.shape[1] + 2))))


def _first(relevant: ArrayLike, k: int) -> NDArray[np.bool_]:
    table = as_array("relevant", relevant)
    if table.ndim != 2 or not (table.dtype == bool or np.isin(table, (0, 1)).all()):
        raise ValueError(
            "relevant must hold True or False, with one row for each query and one column for each result. Got "
            f"shape {table.shape} of {table.dtype}. For grades, apply a threshold: grades > 0."
        )
    _check_k(k, table.shape[1])
    return table[:, :k].astype(bool)


def _table(name: str, values: ArrayLike) -> FloatArray:
    table = as_numbers(name, values)
    if table.ndim != 2:
        raise ValueError(f"{name} must have one row for each query, nearest result first. Got shape {table.shape}.")
    return table


def _check_k(k: int, n_results: int, name: str = "k") -> None:
    check_count(name, k)
    if k > n_results:
        raise ValueError(
            f"{name}={k} is more than the {n_results} results of a query. Lower it, or retrieve more results."
        )


def _to_find(n_relevant: ArrayLike, relevant: ArrayLike) -> FloatArray:
    """Number of relevant documents of each query, checked against those found."""
    count, found = as_numbers("n_relevant", n_relevant), np.asarray(relevant).sum(axis=1)
    if count.shape != found.shape:
        raise ValueError(f"n_relevant must hold one number per query ({len(found)}). Got shape {count.shape}.")
    if not count.all():
        raise ValueError(_nothing_to_find(int(np.argmin(count != 0))))
    too_few = ~((count >= found) & np.isfinite(count))
    if too_few.any():
        query = int(np.argmax(too_few))
        raise ValueError(
            f"n_relevant[{query}] is {count[query]:g}, but {found[query]} relevant results were found. It must count "
            "all relevant documents of the query."
        )
    return count


def _nothing_to_find(query: int) -> str:
    return f"Query {query} has no relevant document, so no ranking of its results is right or wrong. Leave it out."
