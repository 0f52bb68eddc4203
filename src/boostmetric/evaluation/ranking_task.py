"""Task of ranking graded documents: better documents should be nearer to the query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from boostmetric.arrays.point_blocks import PointBlocks
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.arrays.validation import as_numbers, check_choice, check_flag, check_number, warn
from boostmetric.evaluation.comparison_scores import pair_distances
from boostmetric.evaluation.ranking_scores import (
    GAINS,
    Gain,
    average_precision_at_k,
    check_grades,
    hit_at_k,
    ndcg_at_k,
    precision_at_k,
    recall_at_k,
    reciprocal_rank_at_k,
)
from boostmetric.evaluation.task import (
    Points,
    ScoreSample,
    check_cuts,
    check_queries,
    text_of,
)
from boostmetric.neighbors.in_blocks import OnProgress, nearest_among

# Random rankings that show what chance reaches.
_N_RANDOM = 50
_IMPORTANT = (("nDCG", ""), ("recall", " (any)"), ("recall", " (share)"), ("MRR", ""), ("MAP", ""))


@dataclass(frozen=True, eq=False)
class RankingTask:
    """Search for documents judged relevant; documents without a judgement are not relevant, or are not ranked.

    Use `RankingTask.of` rather than this constructor, which checks nothing.

    Attributes
    ----------
    points : tuple of one or two arrays of shape (n, n_features)
        The queries and the documents; without documents, each query searches the other queries.
    judged : ndarray of shape (n_judgements,)
        Numbers ``query * n_documents + document`` of judged pairs, in ascending order.
    grades : ndarray of shape (n_judgements,)
    rows : ndarray of shape (n_queries,)
        Numbers of the queries used: those with a relevant document.
    k : tuple of int
        Ranks at which rankings are cut.
    gain : {"linear", "exponential"}
        Gain of a grade in nDCG.
    relevant_above : float
        A document is relevant if its grade is larger.
    n_left_out : int
    only_judged : bool
        Whether only the documents that were judged for a query are ranked (condensed lists; Sakai, "Alternatives to
        Bpref", SIGIR 2007). So it must be where one ranking decided what was judged, as it does for clicks: any other
        finds documents that this one did not show, of which nothing is known.

    Examples
    --------
    >>> from boostmetric.evaluation import RankingTask
    >>> task = RankingTask.of([[0.0]], [[1.0], [2.0], [9.0]], relevance=[[0, 1, 2], [0, 2, 1]], k=2)
    >>> (sample,) = task.measure(task.points)
    >>> dict(zip(task.names, sample.mean.round(3).tolist()))["nDCG@2"]
    0.48
    """

    points: tuple[Points, ...]
    judged: IntArray
    grades: FloatArray
    rows: IntArray
    k: tuple[int, ...]
    gain: Gain
    relevant_above: float
    n_left_out: int
    only_judged: bool = False

    @classmethod
    def of(
        cls,
        queries: Any,
        documents: Any,
        relevance: Any,
        *,
        k: int | Sequence[int] = (1, 5, 10),
        gain: Gain = "linear",
        relevant_above: float = 0.0,
        only_judged: bool = False,
    ) -> RankingTask:
        """Check the arguments, as in `boostmetric.evaluation.evaluate_rankings`, and build a task."""
        check_choice("gain", gain, GAINS)
        check_flag("only_judged", only_judged)
        check_number("relevant_above", relevant_above)
        points = check_queries(queries, documents)
        n_queries, n_documents = points[0].shape[0], points[-1].shape[0]
        cuts = check_cuts("k", k, n_documents - (documents is None))
        query, document, grades = _check_relevance(relevance, n_queries, n_documents)
        check_grades("grades", grades, gain)
        itself = (query == document) & (grades > 0)
        if documents is None and itself.any():
            raise ValueError(
                f"relevance grades query {query[itself][0]} for itself, but no query finds itself. Remove this grade."
            )
        judged = query * n_documents + document
        order = np.argsort(judged)
        twice = np.diff(judged[order]) == 0
        if twice.any():
            first = order[int(np.argmax(twice))]
            raise ValueError(
                f"relevance judges document {document[first]} for query {query[first]} twice. Keep one judgement, or "
                "their mean."
            )
        rows = np.unique(query[grades > relevant_above])
        # Without documents, points that are not judged for are no queries, but documents.
        asked = np.arange(n_queries) if documents is not None else np.unique(query)
        _report_left_out(asked, rows, relevant_above)
        n_left_out = len(asked) - len(rows)
        return cls(points, judged[order], grades[order], rows, cuts, gain, relevant_above, n_left_out, only_judged)

    @classmethod
    def among(
        cls,
        points: Points,
        n_queries: int,
        judgements: FloatArray,
        k: Sequence[int] = (1, 5, 10),
        *,
        only_judged: bool = False,
    ) -> RankingTask | None:
        """Build a task from points of which the first are the queries, and the others the documents.

        Parameters
        ----------
        points : ndarray or csr_array of shape (n_points, n_features)
        n_queries : int
            0 if queries are among the documents; each then searches all other points.
        judgements : ndarray of shape (n_judgements, 3)
            Point numbers of query and document, and the grade. Queries without a judgement are not asked.
        k : sequence of int
            Numbers of results to score, as far as there are documents.
        only_judged : bool, default=False
            Whether to rank only the documents that were judged for a query.

        Returns
        -------
        RankingTask or None
            None if no document is relevant.
        """
        if not (judgements[:, 2] > 0).any():
            return None
        cuts = [cut for cut in k if cut <= max(1, points.shape[0] - max(n_queries, 1))]
        if not n_queries:
            return cls.of(points, None, judgements, k=cuts, only_judged=only_judged)
        asked, number = np.unique(judgements[:, 0].astype(np.int64), return_inverse=True)
        relevance = np.stack([number, judgements[:, 1] - n_queries, judgements[:, 2]], axis=1)
        return cls.of(points[asked], points[n_queries:], relevance, k=cuts, only_judged=only_judged)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scores."""
        forms = ("nDCG@{}", "recall@{} (any)", "recall@{} (share)", "precision@{}")
        every = (form.format(k) for form in forms for k in self.k)
        return (*every, *(f"{name}@{self.k[-1]}" for name in ("MRR", "MAP")))

    @property
    def ceilings(self) -> FloatArray:
        """Scores of the best possible ranking.

        Below 1 for the precision of queries with fewer than k relevant documents, and for the recall (share) of
        queries with more.
        """
        count = self._n_relevant
        ones = [1.0] * len(self.k)
        share = [(np.minimum(count, k) / count).mean() for k in self.k]
        precision = [np.minimum(count, k).mean() / k for k in self.k]
        return np.array([*ones, *ones, *share, *precision, 1.0, 1.0])

    @cached_property
    def chances(self) -> FloatArray:
        """Zeros: a ranking of many documents at random finds next to nothing. Of a few judged ones, it finds some."""
        if not self.only_judged:
            return np.zeros(len(self.names))
        rng = np.random.default_rng(0)
        drawn = [self._scores(self._in_order(rng.random(len(self.judged)))) for _ in range(_N_RANDOM)]
        return np.asarray(np.mean(drawn, axis=(0, 1)))

    @property
    def headline(self) -> str:
        """Name of the score that decides: nDCG at the last cut."""
        return f"nDCG@{self.k[-1]}"

    @property
    def important(self) -> tuple[str, ...]:
        """nDCG, recall, MRR and MAP at the last cut."""
        return tuple(f"{name}@{self.k[-1]}{of}" for name, of in _IMPORTANT)

    @property
    def size(self) -> str:
        """Size of the task in words."""
        return text_of(len(self.rows), "queries")

    @property
    def clusters(self) -> str:
        """What the bootstrap resamples."""
        return "queries"

    def measure(self, points: Sequence[Points], on_progress: OnProgress | None = None) -> list[ScoreSample]:
        """Score each query under the Euclidean distance between the points."""
        if self.only_judged:
            grades = self._in_order(self._distances(points))
        else:
            asked = points[0] if len(points) == 2 else None
            found = nearest_among(points[-1], asked, self.rows, self.k[-1], on_progress)
            key = self.rows[:, None] * points[-1].shape[0] + found
            place = np.minimum(np.searchsorted(self.judged, key), len(self.judged) - 1)
            grades = np.where(self.judged[place] == key, self.grades[place], 0.0)
        return [ScoreSample(self._scores(grades), np.ones(len(self.rows)), np.arange(len(self.rows)))]

    def _scores(self, grades: FloatArray) -> FloatArray:
        """Scores of each query, from the grades of its results, nearest first."""
        most = self.k[-1]
        relevant, count, best = grades > self.relevant_above, self._n_relevant, self._best_grades
        columns = [
            *(ndcg_at_k(grades, best, k, self.gain) for k in self.k),
            *(hit_at_k(relevant, k) for k in self.k),
            *(recall_at_k(relevant, count, k) for k in self.k),
            *(precision_at_k(relevant, k) for k in self.k),
            reciprocal_rank_at_k(relevant, most),
            average_precision_at_k(relevant, count, most),
        ]
        return np.stack(columns, axis=1)

    def _distances(self, points: Sequence[Points]) -> FloatArray:
        """Squared distance of each judged document to its query."""
        documents, second = np.unique(self.judged % points[-1].shape[0], return_inverse=True)
        queries, first = np.unique(self._query, return_inverse=True)
        taken = points[0][queries], points[-1][documents]
        parts = [part.in_memory() if isinstance(part, PointBlocks) else part for part in taken]
        both: Any = sparse.vstack(parts).tocsr() if sparse.issparse(parts[0]) else np.concatenate(parts)
        return pair_distances(both, np.stack([first, len(queries) + second], axis=1))

    def _in_order(self, distances: FloatArray) -> FloatArray:
        """Grades of the judged documents of each query used, from the nearest down to the last cut, then zeros."""
        return self._table(np.lexsort((distances, self._query)))

    @property
    def _query(self) -> IntArray:
        """Query of each judgement."""
        return np.asarray(self.judged // self.points[-1].shape[0])

    @property
    def _n_relevant(self) -> IntArray:
        """Number of relevant documents of each query used."""
        relevant = self.grades > self.relevant_above
        return np.asarray(np.bincount(self._query[relevant], minlength=self.points[0].shape[0])[self.rows])

    @property
    def _best_grades(self) -> FloatArray:
        """Largest grades of each query used, down to the last cut."""
        return self._table(np.lexsort((-self.grades, self._query)))

    def _table(self, order: IntArray) -> FloatArray:
        """Grades of judgements in an order that leaves queries together: a row for each query used, to the last cut."""
        query = self._query
        sizes = np.bincount(query, minlength=self.points[0].shape[0])
        place = np.arange(len(query)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        kept = place < self.k[-1]
        number = np.full(len(sizes), -1)
        number[self.rows] = np.arange(len(self.rows))
        kept &= number[query] >= 0
        best = np.zeros((len(self.rows), self.k[-1]))
        best[number[query[kept]], place[kept]] = self.grades[order][kept]
        return best


def _check_relevance(relevance: Any, n_queries: int, n_documents: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Query, document and grade of each judgement."""
    if sparse.issparse(relevance):
        if relevance.shape != (n_queries, n_documents):
            raise ValueError(
                f"relevance must have one row for each of the {n_queries} queries and one column for each of the "
                f"{n_documents} documents. Got shape {relevance.shape}."
            )
        table = sparse.coo_array(relevance)
        return table.row.astype(np.int64), table.col.astype(np.int64), as_numbers("relevance", table.data)
    rows = _as_rows(relevance)
    numbers = []
    for column, name, n_points in ((0, "query", n_queries), (1, "document", n_documents)):
        value = rows[:, column]
        bad = ~((value >= 0) & (value < n_points) & (value == np.floor(value)))
        if bad.any():
            row = int(np.argmax(bad))
            raise ValueError(
                f"relevance[{row}] refers to {name} {value[row]:g}, but the numbers run from 0 to {n_points - 1}. "
                "Check that the rows are (query, document, grade), with row numbers in the two arrays."
            )
        numbers.append(value.astype(np.int64))
    return numbers[0], numbers[1], rows[:, 2]


def _as_rows(relevance: ArrayLike) -> NDArray[np.float64]:
    rows = as_numbers("relevance, a sparse matrix of grades, or rows (query, document, grade),", relevance)
    if rows.ndim != 2 or rows.shape[1] != 3 or not len(rows):
        raise ValueError(
            "relevance must be a sparse matrix of grades, or rows (query, document, grade), at least one. Got shape "
            f"{rows.shape}."
        )
    return rows


def _report_left_out(asked: IntArray, rows: IntArray, relevant_above: float) -> None:
    left_out = np.setdiff1d(asked, rows)
    above = f"a document with a grade above {relevant_above:g}"
    if not len(rows):
        raise ValueError(f"No query has {above}, so there is nothing to find. Check the grades and relevant_above.")
    if len(left_out):
        warn(
            f"{len(left_out)} of {len(asked)} queries have no relevant document ({above}) and are left out; the first "
            f"is query {int(left_out[0])}."
        )
