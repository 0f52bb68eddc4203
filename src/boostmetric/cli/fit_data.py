"""What ``boostmetric fit`` learns from and validates on; the kinds are in ``fit_labels`` and so on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import typer

from boostmetric.cli.conditions import Condition
from boostmetric.evaluation import compare, keep_better
from boostmetric.evaluation.splitting import TEST_FRACTION
from boostmetric.evaluation.task import Task
from boostmetric.metric import MahalanobisMetric
from boostmetric.tables import PointTable, TableError
from boostmetric.tables.comparison_files import OpenedFiles


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


def check_spread(table: PointTable) -> None:
    """Refuse points that are all equal."""
    if len(table) < 2:
        raise TableError(f"{table.source}: one row is too few to learn from. Give more points.")
    if np.array_equal(table.points.min(axis=0), table.points.max(axis=0)):
        problem = f"{table.source}: all {len(table):,} rows have the same features, so all distances are 0."
        raise TableError(problem, "Name other columns ({columns}, {vector}).")
