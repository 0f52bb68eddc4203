"""Task of finding points of the same class: the nearest points of a query should share its label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length, column_or_1d

from boostmetric.arrays.errors import ParameterError
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.arrays.validation import check_choice, warn
from boostmetric.comparisons.labels import check_targets, known_labels
from boostmetric.evaluation.ranking_scores import (
    average_precision_at_k,
    hit_at_k,
    ndcg_at_k,
    precision_at_k,
    reciprocal_rank_at_k,
    votes_right,
)
from boostmetric.evaluation.task import (
    Points,
    ScoreSample,
    are_same,
    check_cuts,
    check_points,
    check_text_or_numbers,
    in_one_space,
    text_of,
)
from boostmetric.neighbors.in_blocks import OnProgress, nearest_among

Clusters = Literal["query", "class"]


@dataclass(frozen=True, eq=False)
class LabelTask:
    """Search for points of the query's class.

    Use `LabelTask.of` rather than this constructor, which checks nothing.

    Attributes
    ----------
    points : tuple of one or two arrays of shape (n, n_features)
        The queries and the reference to search; without a reference, each query searches the other queries.
    rows : ndarray of shape (n_queries,)
        Numbers of the queries used.
    right : ndarray of shape (n_queries,)
        Class number of each of these queries.
    labels : ndarray of shape (n_reference,)
        Class number of each searched point.
    classes : ndarray of shape (n_classes,)
        Labels of the classes, ordered by class number.
    k, n_neighbors : tuple of int
        Ranks at which rankings are cut, and numbers of voting neighbours; the first of the latter is in the headline.
    by : {"query", "class"}
        What the bootstrap resamples.
    n_left_out : int

    Examples
    --------
    >>> from boostmetric.evaluation import LabelTask
    >>> task = LabelTask.of([[0.0], [1.0], [5.0], [6.0]], ["a", "a", "b", "b"], k=1, n_neighbors=1)
    >>> (sample,) = task.measure(task.points)
    >>> task.names[:2], sample.mean[:2]
    (('1-NN accuracy', 'recall@1 (any)'), array([1., 1.]))
    """

    points: tuple[Points, ...]
    rows: IntArray
    right: IntArray
    labels: IntArray
    classes: NDArray[Any]
    k: tuple[int, ...]
    n_neighbors: tuple[int, ...]
    by: Clusters
    n_left_out: int

    @classmethod
    def of(
        cls,
        X: Any,
        y: ArrayLike,
        *,
        reference: tuple[Any, ArrayLike] | None = None,
        k: int | Sequence[int] = (1, 5, 10),
        n_neighbors: int | Sequence[int] = 3,
        by: Clusters = "query",
    ) -> LabelTask:
        """Check the arguments, as in `boostmetric.evaluation.evaluate`, and build a task."""
        check_choice("by", by, ("query", "class"))
        queries, right = _check_labelled("X", X, y)
        if reference is None:
            points: tuple[Points, ...] = (queries,)
            known, n_searched = right, len(right) - 1
        else:
            searched, known = _check_reference(reference)
            queries, searched = in_one_space("The queries", queries, "the reference", searched)
            if are_same(queries, searched):
                raise ParameterError(
                    "{reference} holds the queries themselves, so each would find itself. Leave {reference} out to "
                    "search for each among the others."
                )
            check_text_or_numbers(right, known)
            points, n_searched = (queries, searched), len(known)
        classes, labels = np.unique(known, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"{classes.tolist()[0]!r} is the only label of {text_of(len(known), 'searched points')}, so the "
                "answers are the same under every distance. Search among points of several classes, and check that the "
                "labels are class labels."
            )
        cuts, voters = check_cuts("k", k, n_searched), check_cuts("n_neighbors", n_neighbors, n_searched)
        if np.ndim(n_neighbors):  # in the order given: the first is the headline
            voters = tuple(dict.fromkeys(int(n) for n in n_neighbors))  # type: ignore[union-attr]
        number = _numbers(right, classes)
        rows = _rows_with_answer(labels, classes) if reference is None else np.arange(len(right))
        return cls(points, rows, number[rows], labels, classes, cuts, voters, by, len(right) - len(rows))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scores."""
        return (
            *(f"{n}-NN accuracy" for n in self.n_neighbors),
            *(f"recall@{k} (any)" for k in self.k),
            *(f"precision@{k}" for k in self.k),
            *(f"{name}@{self.k[-1]}" for name in ("MRR", "MAP", "nDCG")),
            self.headline,
        )

    @property
    def ceilings(self) -> FloatArray:
        """Scores of the best possible ranking: below 1 for the precision, where classes are small."""
        count = self._n_relevant
        precision = [np.minimum(count, k).mean() / k for k in self.k]
        return np.array([1.0] * len(self.n_neighbors + self.k) + precision + [1.0] * 4)

    @property
    def chances(self) -> FloatArray:
        """For votes and the precision, how often a point at random has the query's class; 0 for the others."""
        n_searched = len(self.labels) - (len(self.points) == 1)
        right = float((self._n_relevant / n_searched).mean())
        votes, cuts = len(self.n_neighbors), len(self.k)
        return np.array([right] * votes + [0.0] * cuts + [right] * cuts + [0.0] * 4)

    @property
    def headline(self) -> str:
        """Name of the score that decides: the mean of the (first) k-NN accuracy and MAP."""
        return f"mean of {self.n_neighbors[0]}-NN and MAP@{self.k[-1]}"

    @property
    def important(self) -> tuple[str, ...]:
        """The k-NN accuracies, MAP and nDCG."""
        return (*(f"{n}-NN accuracy" for n in self.n_neighbors), f"MAP@{self.k[-1]}", f"nDCG@{self.k[-1]}")

    @property
    def size(self) -> str:
        """Size of the task in words."""
        return text_of(len(self.rows), "queries")

    @property
    def clusters(self) -> str:
        """What the bootstrap resamples."""
        return {"query": "queries", "class": "classes"}[self.by]

    def measure(self, points: Sequence[Points], on_progress: OnProgress | None = None) -> list[ScoreSample]:
        """Score each query under the Euclidean distance between the points."""
        depth = max(*self.k, *self.n_neighbors)
        found = nearest_among(points[-1], points[0] if len(points) == 2 else None, self.rows, depth, on_progress)
        labels, count, most = self.labels[found], self._n_relevant, self.k[-1]
        relevant = labels == self.right[:, None]
        best = np.arange(most) < count[:, None]
        columns = [
            *(votes_right(labels, self.right, n) for n in self.n_neighbors),
            *(hit_at_k(relevant, k) for k in self.k),
            *(precision_at_k(relevant, k) for k in self.k),
            reciprocal_rank_at_k(relevant, most),
            average_precision_at_k(relevant, count, most),
            ndcg_at_k(relevant, best, most),
        ]
        columns.append((columns[0] + columns[-2]) / 2)
        _, of_class = np.unique(self.right, return_inverse=True)
        cluster = of_class if self.by == "class" else np.arange(len(self.rows))
        return [ScoreSample(np.stack(columns, axis=1), np.ones(len(cluster)), cluster)]

    @property
    def _n_relevant(self) -> IntArray:
        """Number of points of its class that each query can find, not counting itself."""
        return np.asarray(np.bincount(self.labels)[self.right] - (len(self.points) == 1))


def _check_labelled(name: str, X: Any, y: ArrayLike) -> tuple[Points, NDArray[Any]]:
    points = check_points(name, X)
    labels = column_or_1d(known_labels(y)[0], warn=True)
    check_consistent_length(points, labels)
    check_targets(labels)
    return points, labels.astype(str) if labels.dtype == object else labels


def _check_reference(reference: object) -> tuple[Points, NDArray[Any]]:
    if not isinstance(reference, (tuple, list)) or len(reference) != 2:
        raise ValueError(
            f"reference must be a pair (X, y): the points to search, and their labels. Got {type(reference).__name__}."
        )
    return _check_labelled("reference[0]", reference[0], reference[1])


def _numbers(right: NDArray[Any], classes: NDArray[Any]) -> IntArray:
    """Class number of each query; refuse labels that are not among the classes."""
    number = np.minimum(np.searchsorted(classes, right), len(classes) - 1)
    unknown = classes[number] != right
    if unknown.any():
        label = right[unknown].tolist()[0]
        raise ValueError(
            f"The label {label!r} does not occur in the reference, so no metric can find it ({int(unknown.sum())} of "
            f"{len(right)} queries have such labels). Leave these queries out, or add points of their classes to the "
            "reference."
        )
    return number


def _rows_with_answer(labels: IntArray, classes: NDArray[Any]) -> IntArray:
    """Numbers of the points that are not alone in their class."""
    alone = np.bincount(labels)[labels] == 1
    if alone.all():
        raise ValueError(
            f"Each of the {len(classes)} labels occurs once, so no query has another point of its class to find. "
            "Labels must repeat: they name classes, not points."
        )
    if alone.any():
        warn(
            f"{int(alone.sum())} of {len(labels)} points are alone in their class (the first has the label "
            f"{classes[labels[alone][0]].item()!r}), so they have nothing to find: they are searched, but not used as "
            "queries. To use them as queries, pass a reference."
        )
    return np.flatnonzero(~alone)
