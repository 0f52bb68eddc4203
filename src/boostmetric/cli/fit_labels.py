"""Labelled points to learn from, and others to validate on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np

from boostmetric.arrays.errors import plural, shown
from boostmetric.cli.fit_data import FitData, HoldOut, check_spread
from boostmetric.cli.points import Reading, check_classes, labelled
from boostmetric.evaluation import LabelTask, fraction_to_hold_out, split_rows
from boostmetric.evaluation.task import Task
from boostmetric.tables import PointTable, TableError
from boostmetric.tables.comparison_files import OpenedFiles


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


def _check_labelled(table: PointTable) -> None:
    """Refuse points and labels that nothing can be learned from."""
    if len(table) < 2:
        raise TableError(f"{table.source}: one row is too few to learn from. Give several rows of each class.")
    check_spread(table)
    assert table.labels is not None
    assert table.origin is not None
    if table.weights is not None and not table.weights.any():
        problem = f"{table.source}, column {table.origin.columns.weight!r}: all weights are 0."
        raise TableError(problem, "Give a positive weight to some rows, or name another column ({weight}).")
    check_classes(table)
    if len(np.unique(table.labels)) == len(table):
        where = f"{table.source}, column {table.origin.columns.label!r}"
        problem = f"{where}: each of the {len(table):,} values occurs once, so no row has another of its class."
        raise TableError(problem, "Name a column of classes ({label}).")
