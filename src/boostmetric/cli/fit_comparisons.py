"""Comparisons to learn from, and others of the same points to validate on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from boostmetric.arrays.errors import plural
from boostmetric.arrays.types import FloatArray
from boostmetric.cli.fit_data import Feedback, FitData, HoldOut, check_spread
from boostmetric.cli.points import Reading
from boostmetric.comparisons import Comparisons
from boostmetric.comparisons.components import share_of_seen
from boostmetric.evaluation import ComparisonTask, RankingTask
from boostmetric.evaluation.task import Task
from boostmetric.tables import ComparisonTable, PointTable, read_comparisons
from boostmetric.tables.comparison_files import OpenedFiles


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
        check_spread(points)

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
        table = self.table
        ranked = RankingTask.among(table.points, table.n_queries, self.judged, only_judged=table.only_judged)
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
                "chose to show: test on judgements too. Only documents that were shown for a query are ranked, "
                "graded by how likely its clicks say that they are relevant."
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
