"""Subject of a report: the points of a task, their ids and labels, and which answers are right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
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
    """Points with their ids, labels and texts.

    Attributes
    ----------
    points : ndarray or csr_array of shape (n, n_features)
    ids, labels : sequence of length n, or None
        Values of any type; shown as text.
    noun : str
        Noun for one of the points: "query".
    texts : sequence of length n, or None
        What the points are, such as sentences; shown in place of ids.
    """

    points: Given
    ids: Sequence[Any] | None
    labels: Sequence[Any] | None
    noun: str
    texts: Sequence[Any] | None = None

    def name(self, row: int) -> str:
        """Text of a point, or its id, or its number if it has neither."""
        if self.texts is not None:
            return str(self.texts[row])
        return f"{self.noun} {row}" if self.ids is None else str(self.ids[row])

    def id_beside(self, row: int) -> str:
        """Id of a point whose name is its text; empty if there is none."""
        return "" if self.texts is None or self.ids is None else str(self.ids[row])

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


@dataclass(frozen=True)
class Names:
    """Names of the points of a report, as given to `boostmetric.report.write_model_report`.

    Attributes
    ----------
    ids, labels, texts : sequence, or None
        Of the points, or of the queries of a task.
    reference_ids, reference_labels, reference_texts : sequence, or None
        Of the points that are searched.
    """

    ids: Any = None
    labels: Any = None
    texts: Any = None
    reference_ids: Any = None
    reference_labels: Any = None
    reference_texts: Any = None

    def refuse_reference(self) -> None:
        """Refuse names of a reference where there is none."""
        self._refuse("reference_", "there is only one set of points. Pass ids, labels and texts instead.")

    def refuse_all(self) -> None:
        """Refuse all names where there are no points."""
        self._refuse("", "neither a task nor points. Pass one of these too.")

    def _refuse(self, prefix: str, reason: str) -> None:
        for field in fields(self):
            if field.name.startswith(prefix) and getattr(self, field.name) is not None:
                raise ValueError(f"{field.name} are given, but {reason}")


def subject_of(task: object, points: Any, names: Names) -> Subject | None:
    """Subject of a report from the arguments of `boostmetric.report.write_model_report`; None without any points."""
    if task is None:
        if points is None:
            names.refuse_all()
            return None
        return _one_set(check_points("points", points), names)
    if points is not None:
        raise ValueError("Both a task and points are given. A task has its own points: leave points out.")
    if isinstance(task, ComparisonTask):
        return _one_set(task.points[0], names)
    if isinstance(task, LabelTask):
        return _labelled(task, names)
    if isinstance(task, RankingTask):
        return _ranked(task, names)
    raise TypeError(f"task must be a LabelTask, a RankingTask, a ComparisonTask or None. Got {task!r}.")


def _one_set(points: Given, names: Names) -> Subject:
    names.refuse_reference()
    asked = _asked(points, names, "point")
    known = asked.labels
    is_right = None if known is None else lambda query, found: bool(known[query] == known[found])
    return Subject(asked, asked, np.arange(points.shape[0]), (asked,), is_right, "with the same label as the query")


def _labelled(task: LabelTask, names: Names) -> Subject:
    alone = len(task.points) == 1
    number = task.labels if alone else task.right  # a reference leaves no query out
    classes = task.classes.tolist()
    asked = searched = _asked(task.points[0], names, "query", [classes[c] for c in number])
    if alone:
        names.refuse_reference()
    else:
        searched = _reference(task.points[1], names, "reference", [classes[c] for c in task.labels])
    return Subject(
        asked,
        searched,
        task.rows,
        (asked,),  # the reference may be the training data, and look better than new points do
        lambda query, found: bool(number[query] == task.labels[found]),
        "of the same class as the query",
    )


def _ranked(task: RankingTask, names: Names) -> Subject:
    asked = searched = _asked(task.points[0], names, "query")
    if len(task.points) == 1:
        names.refuse_reference()
    else:
        searched = _reference(task.points[1], names, "document")
    n_searched = searched.points.shape[0]
    relevant = task.judged[task.grades > task.relevant_above]  # ascending

    def is_right(query: int, found: int) -> bool:
        key = query * n_searched + found
        place = int(np.searchsorted(relevant, key))
        return place < len(relevant) and bool(relevant[place] == key)

    shown = (asked,) if asked is searched else (asked, searched)
    return Subject(asked, searched, task.rows, shown, is_right, "judged relevant to the query")


def _asked(points: Given, names: Names, noun: str, labels: Any = None) -> Named:
    given = {"ids": names.ids, "labels": labels if names.labels is None else names.labels, "texts": names.texts}
    return _named(points, given, noun)


def _reference(points: Given, names: Names, noun: str, labels: Any = None) -> Named:
    given = {
        "reference_ids": names.reference_ids,
        "reference_labels": labels if names.reference_labels is None else names.reference_labels,
        "reference_texts": names.reference_texts,
    }
    return _named(points, given, noun)


def _named(points: Given, given: dict[str, Any], noun: str) -> Named:
    ids, labels, texts = (_column(name, values, points.shape[0]) for name, values in given.items())
    return Named(points, ids, labels, noun, texts)


def _column(name: str, values: Any, n: int) -> list[Any] | None:
    if values is None:
        return None
    listed = as_list(name, values.tolist() if hasattr(values, "tolist") else values)
    if len(listed) != n:
        raise ValueError(f"There are {len(listed)} {name}, but {n} points. Pass one for each point.")
    return listed
