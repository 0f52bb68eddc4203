"""Comparisons in files that the workers of a cluster read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import typer

from boostmetric.cli.fit_data import Feedback, FitData, HoldOut, Judged
from boostmetric.cli.points import Reading
from boostmetric.engines.ray import RayEngine
from boostmetric.estimators.file_evaluation import evaluate_files
from boostmetric.evaluation.keeping import base_of
from boostmetric.evaluation.task import Task
from boostmetric.metric import MahalanobisMetric
from boostmetric.tables import ComparisonFiles, PointTable
from boostmetric.tables.comparison_files import OpenedFiles
from boostmetric.tables.formats import ParquetTable, open_tables


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


def are_parquet(*sources: Sequence[str] | None) -> bool:
    """Whether all files are Parquet files, so that workers can read them."""
    given = [source for source in sources if source is not None]
    return all(isinstance(table, ParquetTable) for source in given for table in open_tables(source).tables)
