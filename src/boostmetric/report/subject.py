"""Subject of a report: the points of a task, their ids and labels, and which answers are right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from boostmetric.arrays.frame import Given
from boostmetric.arrays.types import IntArray
from boostmetric.arrays.validation import as_list
from boostmetric.evaluation.comparison_task import ComparisonTask
from boostmetric.evaluation.label_task import LabelTask
from boostmetric.evaluation.ranking_task import RankingTask
from boostmetric.evaluation.task import check_points


@dataclass(frozen=True)
class Named:
    """Points with their ids and labels.

    Attributes
    ----------
    points : ndarray or csr_array of shape (n, n_features)
    ids, labels : sequence of length n, or None
        Values of any type; shown as text.
    noun : str
        Noun for one of the points: "query".
    """

    points: Given
    ids: Sequence[Any] | None
    labels: Sequence[Any] | None
    noun: str

    def name(self, row: int) -> str:
        """Id of a point, or its number if it has none."""
        return f"{self.noun} {row}" if self.ids is None else str(self.ids[row])

    def label(self, row: int) -> str:
        """Label of a point; empty if it has none."""
        return "" if self.labels is None else str(self.labels[row])


@dataclass(frozen=True)
class Subject:
    """Queries, and the points to search.

    Attributes
    ----------
    asked : Named
        The queries.
    searched : Named
        The points to search; the same object as `asked` if each query searches the others.
    rows : ndarray of int
        Numbers of the queries that have a right answer.
    shown : tuple of Named
        The points to draw.
    is_right : callable or None
        Whether a searched point is a right answer to a query; takes the numbers of the query and of the point.
    rightness : str
        What makes an answer right, in words.
    """

    asked: Named
    searched: Named
    rows: IntArray
    shown: tuple[Named, ...]
    is_right: Callable[[int, int], bool] | None
    rightness: str

    @property
    def alone(self) -> bool:
        """Whether there is one set of points, in which each searches the others."""
        return self.asked is self.searched


def subject_of(
    task: object, points: Any, ids: Any, labels: Any, reference_ids: Any, reference_labels: Any
) -> Subject | None:
    """Subject of a report from the arguments of `boostmetric.report.write_model_report`; None without any points."""
    if task is None:
        if points is None:
            given = {"ids": ids, "labels": labels, "reference_ids": reference_ids, "reference_labels": reference_labels}
            for name, value in given.items():
                if value is not None:
                    raise ValueError(f"{name} are given, but neither a task nor points. Pass one of these too.")
            return None
        return _one_set(check_points("points", points), "point", ids, labels, reference_ids, reference_labels)
    if points is not None:
        raise ValueError("Both a task and points are given. A task has its own points: leave points out.")
    if isinstance(task, ComparisonTask):
        return _one_set(task.points[0], "point", ids, labels, reference_ids, reference_labels)
    if isinstance(task, LabelTask):
        return _labelled(task, ids, labels, reference_ids, reference_labels)
    if isinstance(task, RankingTask):
        return _ranked(task, ids, labels, reference_ids, reference_labels)
    raise TypeError(f"task must be a LabelTask, a RankingTask, a ComparisonTask or None. Got {task!r}.")


def _one_set(points: Given, noun: str, ids: Any, labels: Any, reference_ids: Any, reference_labels: Any) -> Subject:
    _refuse_reference(reference_ids, reference_labels)
    asked = _named(points, ids, labels, noun, "")
    known = asked.labels
    is_right = None if known is None else lambda query, found: bool(known[query] == known[found])
    return Subject(asked, asked, np.arange(points.shape[0]), (asked,), is_right, "with the same label as the query")


def _labelled(task: LabelTask, ids: Any, labels: Any, reference_ids: Any, reference_labels: Any) -> Subject:
    alone = len(task.points) == 1
    number = task.labels if alone else task.right  # a reference leaves no query out
    classes = task.classes.tolist()
    own = [classes[c] for c in number] if labels is None else labels
    asked = searched = _named(task.points[0], ids, own, "query", "")
    if alone:
        _refuse_reference(reference_ids, reference_labels)
    else:
        others = [classes[c] for c in task.labels] if reference_labels is None else reference_labels
        searched = _named(task.points[1], reference_ids, others, "reference", "reference_")
    return Subject(
        asked,
        searched,
        task.rows,
        (asked,),  # the reference may be the training data, and look better than new points do
        lambda query, found: bool(number[query] == task.labels[found]),
        "of the same class as the query",
    )


def _ranked(task: RankingTask, ids: Any, labels: Any, reference_ids: Any, reference_labels: Any) -> Subject:
    asked = searched = _named(task.points[0], ids, labels, "query", "")
    if len(task.points) == 1:
        _refuse_reference(reference_ids, reference_labels)
    else:
        searched = _named(task.points[1], reference_ids, reference_labels, "document", "reference_")
    n_searched = searched.points.shape[0]
    relevant = task.judged[task.grades > task.relevant_above]  # ascending

    def is_right(query: int, found: int) -> bool:
        key = query * n_searched + found
        place = int(np.searchsorted(relevant, key))
        return place < len(relevant) and bool(relevant[place] == key)

    shown = (asked,) if asked is searched else (asked, searched)
    return Subject(asked, searched, task.rows, shown, is_right, "judged relevant to the query")


def _named(points: Given, ids: Any, labels: Any, noun: str, prefix: str) -> Named:
    n = points.shape[0]
    return Named(points, _column(f"{prefix}ids", ids, n), _column(f"{prefix}labels", labels, n), noun)


def _column(name: str, values: Any, n: int) -> list[Any] | None:
    if values is None:
        return None
    listed = as_list(name, values.tolist() if hasattr(values, "tolist") else values)
    if len(listed) != n:
        raise ValueError(f"There are {len(listed)} {name}, but {n} points. Pass one for each point.")
    return listed


def _refuse_reference(reference_ids: Any, reference_labels: Any) -> None:
    for name, value in {"reference_ids": reference_ids, "reference_labels": reference_labels}.items():
        if value is not None:
            raise ValueError(f"{name} are given, but there is only one set of points. Pass ids and labels instead.")
