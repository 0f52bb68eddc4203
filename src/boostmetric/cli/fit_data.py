"""What ``boostmetric fit`` learns from, and what it validates on: labels, comparisons, or files of a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import typer

from boostmetric.arrays.errors import plural, shown
from boostmetric.arrays.types import FloatArray
from boostmetric.cli.conditions import Condition
from boostmetric.cli.points import Reading, labelled
from boostmetric.comparisons import Comparisons
from boostmetric.comparisons.components import share_of_seen
from boostmetric.engines.ray import RayEngine
from boostmetric.estimators.file_evaluation import evaluate_files
from boostmetric.evaluation import (
    ComparisonTask,
    LabelTask,
    RankingTask,
    compare,
    fraction_to_hold_out,
    keep_better,
    split_rows,
)
from boostmetric.evaluation.keeping import base_of
from boostmetric.evaluation.splitting import TEST_FRACTION
from boostmetric.evaluation.task import Task
from boostmetric.metric import MahalanobisMetric
from boostmetric.tables import ComparisonFiles, ComparisonTable, PointTable, TableError, read_comparisons
from boostmetric.tables.comparison_files import OpenedFiles
from boostmetric.tables.formats import ParquetTable, open_tables


@dataclass(frozen=True)
class Feedback:
    """Options about comparisons to learn from."""

    comparisons: Sequence[str]
    kind: str | None
    queries: Sequence[str] | None
    names: dict[str, str]
    max_per_query: int | None
    click_model: Literal["position", "cascade", "dependent"] | None
    contradictions: Literal["weigh", "refuse"]


@dataclass(frozen=True)
class HoldOut:
    """Options about what to validate on: files, rows that meet conditions, or a fraction that is drawn."""

    files: Sequence[str]
    where: Sequence[Condition]
    fraction: float | None
    seed: int

    @property
    def from_files(self) -> str:
        """The files, in words."""
        return f"of {', '.join(self.files)}"

    @property
    def fraction_of_anchors(self) -> float:
        """Fraction to hold out, if no files are given."""
        return TEST_FRACTION if self.fraction is None else self.fraction

    @property
    def by_anchors(self) -> str:
        """What is drawn, in words."""
        if not self.fraction_of_anchors:
            return "nothing: all are learned from"
        return f"those of {100 * self.fraction_of_anchors:g} % of the anchors, drawn with seed {self.seed}"


class Judged(NamedTuple):
    """A metric beside the base on what was held out.

    Attributes
    ----------
    metric : MahalanobisMetric
        What is kept: the learned metric, or the base.
    evaluation : optional
        Of what is kept.
    rejected : optional
        Evaluation of the learned metric, if the base is kept instead.
    """

    metric: MahalanobisMetric
    evaluation: Any = None
    rejected: Any = None


class FitData(ABC):
    """Data to learn from and to validate on.

    Attributes
    ----------
    held_out : optional
        What to validate on.
    how : str
        How that was chosen, in words.
    """

    how: str
    held_out: Any
    ties: ClassVar[Literal["base", "learned"]] = "base"  # what is kept if both score the same

    @property
    @abstractmethod
    def features(self) -> PointTable | OpenedFiles:
        """The table that knows the number of features and their names."""

    @abstractmethod
    def fit(self, estimator: Any, *, choose: bool, resume_from: Path | None) -> None:
        """Learn; with `choose`, what is held out may decide when to stop."""

    def refit(self, estimator: Any) -> bool:
        """Learn from everything with the setting of the fit, if what is held out was drawn here; return whether it was.

        A fit on a cluster is long, and is not repeated.
        """
        return False

    @abstractmethod
    def tasks(self) -> list[Task]:
        """Tasks to evaluate on, of which the first has the headline; none if nothing is held out."""

    def notes(self) -> list[str]:
        """Sentences about what an evaluation cannot say."""
        return []

    def headline(self, name: str | None) -> str | None:
        """Check the name of the score that decides, before anything is learned."""
        names = [score for task in self.tasks() for score in task.names]
        if name is not None and name not in names:
            found = f"Available: {', '.join(names)}." if names else "Nothing is held out here that it could be."
            raise typer.BadParameter(f"There is no score {name!r}. {found}", param_hint="--headline")
        return name

    def judge(self, metric: MahalanobisMetric, seed: int, *, choose: bool, headline: str | None = None) -> Judged:
        """Evaluate a metric on what is held out; with `choose`, keep the base where the metric is not better."""
        tasks = self.tasks()
        if not tasks:
            return Judged(metric)

        how: dict[str, Any] = {"headline": headline, "beside": tasks[1:], "random_state": seed}
        if not choose:
            return Judged(metric, compare(metric, tasks[0], **how).beside([], notes=self.notes()))
        kept = keep_better(metric, tasks[0], ties=self.ties, **how)
        evaluation = kept.evaluation.beside([], notes=self.notes())
        rejected = None if kept.rejected is None else kept.rejected.beside([], notes=self.notes())
        return Judged(kept.metric, evaluation, rejected)

    @abstractmethod
    def describe(self) -> str:
        """What was understood, for people."""

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Sizes, for JSON and the model file."""


@dataclass(frozen=True)
class LabelledData(FitData):
    """Points with labels, and others to validate on."""

    train: PointTable
    held_out: PointTable | None
    how: str
    whole: PointTable | None = None
    n_unlabelled: int = 0
    ties: ClassVar[Literal["base", "learned"]] = "learned"

    @classmethod
    def read(cls, files: Sequence[str], reading: Reading, hold_out: HoldOut) -> Self:
        """Read and split files."""
        if hold_out.where:
            tables = list(reading.read_two(files, hold_out.where))
            how = f"where {' and '.join(map(str, hold_out.where))}"
        else:
            tables = [table for table in reading.read_with(files, hold_out.files) if table is not None]
            how = hold_out.from_files
        n_rows = sum(map(len, tables))
        if reading.unlabelled:
            tables = list(map(labelled, tables))
        n_unlabelled = n_rows - sum(map(len, tables))
        table = tables[0]
        _check_labelled(table)
        if len(tables) == 2:
            return cls(table, tables[1], how, n_unlabelled=n_unlabelled)
        fraction = fraction_to_hold_out(len(table)) if hold_out.fraction is None else hold_out.fraction
        if fraction == 0.0:
            how = "rows left out in turn, where the setting chooses; then all are learned from"
            return cls(table, None, how, n_unlabelled=n_unlabelled)
        assert table.labels is not None
        kept, drawn = split_rows(table.labels, fraction, hold_out.seed)
        how = f"{100 * fraction:g} % of each class, drawn with seed {hold_out.seed}"
        return cls(table.take(kept), table.take(drawn), how, table, n_unlabelled)

    def __post_init__(self) -> None:
        if self.held_out is None:
            return
        if self.held_out.n_features != self.train.n_features:
            raise TableError(
                f"{self.held_out.source} has {plural(self.held_out.n_features, 'feature')}, {self.train.source} has "
                f"{self.train.n_features:,}. Rows to learn from and to validate on must have the same features."
            )
        assert self.train.labels is not None
        assert self.held_out.labels is not None
        if self.train.labels.dtype.kind != self.held_out.labels.dtype.kind:  # 7 in one file, "7" or "a" in the other
            object.__setattr__(self, "train", replace(self.train, labels=self.train.labels.astype(str)))
            object.__setattr__(self, "held_out", replace(self.held_out, labels=self.held_out.labels.astype(str)))
        labels = self.held_out.labels
        unknown = ~np.isin(labels, self.train.labels)
        if unknown.any():
            raise TableError(
                f"The label {shown(labels[unknown].tolist()[0])} is among the rows to validate on, and not among those "
                f"to learn from ({plural(int(unknown.sum()), 'row')} of {len(labels):,} have such labels). Leave these "
                "rows out (--where), or give rows of these classes to learn from."
            )

    @property
    def features(self) -> PointTable | OpenedFiles:
        """The table that knows the number of features and their names."""
        return self.train

    def fit(self, estimator: Any, *, choose: bool, resume_from: Path | None) -> None:
        """Learn from points and labels; what is held out is only evaluated on."""
        estimator.fit(self.train.points, self.train.labels, self.train.weights, resume_from=resume_from)

    def refit(self, estimator: Any) -> bool:
        """Learn from all rows."""
        if self.whole is None:
            return False
        estimator.refit(self.whole.points, self.whole.labels, self.whole.weights)
        return True

    def tasks(self) -> list[Task]:
        """Find the classes of what is held out among the rows that are learned from."""
        if self.held_out is None:
            return []
        assert self.train.labels is not None
        assert self.held_out.labels is not None
        return [
            LabelTask.of(
                self.held_out.points,
                self.held_out.labels,
                reference=(self.train.points, self.train.labels),
                k=[k for k in (1, 10) if k <= len(self.train)],
                n_neighbors=min(3, len(self.train)),
            )
        ]

    def describe(self) -> str:
        """What was understood, for people."""
        number = "" if self.held_out is None else f"{plural(len(self.held_out), 'row')}, "
        lines = [self.train.describe(), f"  validated on: {number}{self.how}"]
        if self.n_unlabelled:
            rows = plural(self.n_unlabelled, "row")
            lines.append(f"  unlabelled: {rows}, left out of learning and validation")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Sizes, for JSON and the model file."""
        assert self.train.labels is not None
        return {
            "n_points": len(self.train),
            "n_features": self.features.n_features,
            "n_classes": len(np.unique(self.train.labels)),
            "n_unlabelled": self.n_unlabelled,
            "n_validated": 0 if self.held_out is None else len(self.held_out),
            "validation": self.how,
        }


@dataclass(frozen=True)
class ComparedData(FitData):
    """Comparisons, and others of the same points to validate on."""

    table: ComparisonTable
    train: Comparisons
    held_out: Comparisons | None
    how: str
    points: PointTable
    judged: FloatArray | None = None
    is_drawn: bool = False

    @classmethod
    def read(cls, files: Sequence[str], reading: Reading, feedback: Feedback, hold_out: HoldOut) -> Self:
        """Read and split files."""
        points, queries = reading.read_with(files, feedback.queries)
        _check_features(points)

        def read(comparisons: Sequence[str]) -> ComparisonTable:
            return read_comparisons(
                list(comparisons),
                points,
                kind=feedback.kind,
                queries=queries,
                names=feedback.names,
                max_per_query=feedback.max_per_query,
                click_model=feedback.click_model,
                contradictions=feedback.contradictions,
            )

        table = read(feedback.comparisons)
        if hold_out.files:
            other = read(hold_out.files)
            return cls(table, table.comparisons, other.comparisons, hold_out.from_files, points, other.judgements)
        if not hold_out.fraction_of_anchors:
            return cls(table, table.comparisons, None, hold_out.by_anchors, points)
        train, held_out = table.comparisons.split(hold_out.fraction_of_anchors, hold_out.seed)
        judged = table.judgements
        if judged is not None:
            judged = judged[np.isin(judged[:, 0], held_out.anchors)]
        return cls(table, train, held_out, hold_out.by_anchors, points, judged, is_drawn=True)

    @property
    def features(self) -> PointTable | OpenedFiles:
        """The table that knows the number of features and their names."""
        return self.points

    def fit(self, estimator: Any, *, choose: bool, resume_from: Path | None) -> None:
        """Learn from comparisons; what is held out is only evaluated on, unless workers of a cluster learn."""
        eval_set = self.held_out if choose and estimator.engine is not None else None
        estimator.fit(self.train, points=self.table.points, eval_set=eval_set, resume_from=resume_from)

    def refit(self, estimator: Any) -> bool:
        """Learn from all comparisons, for as many iterations."""
        if not self.is_drawn:
            return False
        estimator.refit(self.table.comparisons, points=self.table.points)
        return True

    def tasks(self) -> list[Task]:
        """Find what is relevant, where queries and documents are judged, and satisfy the comparisons."""
        if self.held_out is None:
            return []
        compared = ComparisonTask.of(self.held_out, self.table.points)
        if self.judged is None:
            return [compared]
        ranked = RankingTask.among(self.table.points, self.table.n_queries, self.judged)
        return [compared] if ranked is None else [ranked, compared]

    def notes(self) -> list[str]:
        """Say what is remembered, and which bias is shared."""
        notes = []
        seen = 0.0 if self.held_out is None else share_of_seen(self.train, self.held_out)
        if seen and self.table.kind != "pairs":  # these have no anchors
            what = "anchors", "near point"
            if self.judged is not None:
                what = "queries", "relevant document"
            why = ""
            if self.is_drawn:
                why = f"Nearly all {what[0]} are connected by a {what[1]} in common, so they were split one by one: "
            share = f"{100 * seen:.0f} % of the held-out {what[0]}" if seen < 0.995 else f"all held-out {what[0]}"
            fact = f"{share} have a {what[1]} that was learned from, and remembering it looks like learning."
            notes.append(why + (fact if why else fact[0].upper() + fact[1:]))
        if self.table.kind == "clicks":
            notes.append(
                "These clicks share the bias of those that were learned from, since both are about what one ranking "
                "chose to show: test on judgements too."
            )
        return notes

    def describe(self) -> str:
        """What was understood, for people."""
        lines = [self.points.describe(), self.table.describe()]
        lines.append(f"  learned from: {plural(self.train.n_comparisons, 'comparison')}")
        number = "" if self.held_out is None else f"{plural(self.held_out.n_comparisons, 'comparison')}, "
        return "\n".join([*lines, f"  validated on: {number}{self.how}"])

    def as_dict(self) -> dict[str, Any]:
        """Sizes, for JSON and the model file."""
        return {
            "n_points": len(self.table.points),
            "n_features": self.features.n_features,
            "kind": self.table.kind,
            "n_comparisons": int(self.train.n_comparisons),
            "n_validated": 0 if self.held_out is None else int(self.held_out.n_comparisons),
            "validation": self.how,
        }


@dataclass(frozen=True)
class SharedData(FitData):
    """Comparisons in files that the workers of a cluster read; this process knows how many rows they have."""

    train: OpenedFiles
    held_out: OpenedFiles | None
    how: str
    engine: RayEngine

    @classmethod
    def opened(
        cls, files: Sequence[str], reading: Reading, feedback: Feedback, hold_out: HoldOut, engine: RayEngine
    ) -> Self:
        """Open and split files."""
        if reading.where:
            raise typer.BadParameter(
                "Workers read all points that comparisons name: leave it out.", param_hint="--where"
            )
        for option, given in {
            "--click-model": feedback.click_model,
            "--contradictions": feedback.contradictions != "weigh",
        }.items():
            if given:
                raise typer.BadParameter("Workers see parts of the files: leave it out.", param_hint=option)
        all_files = ComparisonFiles(
            list(files),
            list(feedback.comparisons),
            id=reading.id,
            vector=reading.vector,
            columns=reading.columns,
            ignore=reading.ignore,
            kind=feedback.kind,
            names=feedback.names,
            queries=feedback.queries,
            max_per_query=feedback.max_per_query,
        )
        if hold_out.files:
            other = replace(all_files, comparisons=list(hold_out.files))
            return cls(all_files.opened(), other.opened(), hold_out.from_files, engine)
        if not hold_out.fraction_of_anchors:
            return cls(all_files.opened(), None, hold_out.by_anchors, engine)
        train, held_out = all_files.opened().split(hold_out.fraction_of_anchors, hold_out.seed)
        return cls(train, held_out, hold_out.by_anchors, engine)

    @property
    def features(self) -> PointTable | OpenedFiles:
        """The table that knows the number of features and their names."""
        return self.train

    def fit(self, estimator: Any, *, choose: bool, resume_from: Path | None) -> None:
        """Learn from files."""
        eval_set = self.held_out.files if choose and self.held_out is not None else None
        estimator.fit(self.train.files, eval_set=eval_set, resume_from=resume_from)

    def tasks(self) -> list[Task]:
        """Nothing in this process: the workers count satisfied comparisons."""
        return []

    def judge(self, metric: MahalanobisMetric, seed: int, *, choose: bool, headline: str | None = None) -> Judged:
        """Evaluate, and keep the base where the metric is not better."""
        if self.held_out is None:
            return Judged(metric)
        evaluation = evaluate_files(metric, self.held_out, self.engine)
        if not choose or evaluation.is_better:
            return Judged(metric, evaluation)
        return Judged(base_of(metric), replace(evaluation, learned=evaluation.base), rejected=evaluation)

    def describe(self) -> str:
        """What was understood, for people."""
        if self.held_out is not None:
            self.held_out.describe()  # complains about columns before any work
        return f"{self.train.describe()}\n  validated on: {self.how}"

    def as_dict(self) -> dict[str, Any]:
        """Sizes, for JSON and the model file."""
        return {
            "n_features": self.features.n_features,
            "n_rows": self.train.n_rows,
            "validation": self.how,
            "fingerprint": self.train.fingerprint,  # of the footers: this process reads no rows
        }


def _check_labelled(table: PointTable) -> None:
    """Refuse points and labels that nothing can be learned from."""
    if len(table) < 2:
        raise TableError(f"{table.source}: one row is too few to learn from. Give several rows of each class.")
    _check_features(table)
    assert table.labels is not None
    assert table.origin is not None
    if table.weights is not None and not table.weights.any():
        problem = f"{table.source}, column {table.origin.columns.weight!r}: all weights are 0."
        raise TableError(problem, "Give a positive weight to some rows, or name another column ({weight}).")
    where = f"{table.source}, column {table.origin.columns.label!r}"
    n_classes = len(np.unique(table.labels))
    if n_classes == 1:
        problem = f"{where}: all {plural(len(table), 'row')} have the label {shown(table.labels[:1].tolist()[0])}."
        raise TableError(problem, "Give rows of at least two classes, or name another column ({label}).")
    if n_classes == len(table):
        problem = f"{where}: each of the {len(table):,} values occurs once, so no row has another of its class."
        raise TableError(problem, "Name a column of classes ({label}).")


def _check_features(table: PointTable) -> None:
    """Refuse points that are all equal."""
    if np.array_equal(table.points.min(axis=0), table.points.max(axis=0)):
        problem = f"{table.source}: all {plural(len(table), 'row')} have the same features, so all distances are 0."
        raise TableError(problem, "Name other columns ({columns}, {vector}).")


def are_parquet(*sources: Sequence[str] | None) -> bool:
    """Whether all files are Parquet files, so that workers can read them."""
    given = [source for source in sources if source is not None]
    return all(isinstance(table, ParquetTable) for source in given for table in open_tables(source).tables)
