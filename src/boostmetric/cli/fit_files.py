"""Files that workers learn from: this process knows how many rows they have, and not what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import typer

from boostmetric.cli.fit_options import Feedback, HoldOut
from boostmetric.cli.points import Reading
from boostmetric.engines.ray import RayEngine
from boostmetric.metric import MahalanobisMetric
from boostmetric.solver.file_problem import FileProblem
from boostmetric.solver.problem import satisfied_by_each
from boostmetric.tables import ComparisonFiles
from boostmetric.tables.comparison_files import OpenedFiles


@dataclass(frozen=True)
class Satisfied:
    """Shares of the comparisons held out that the Euclidean distance and the learned metric satisfy."""

    base: float
    learned: float

    @property
    def verdict(self) -> str:
        """Without an interval, so that it says nothing of chance."""
        return "better" if self.learned > self.base else "no headroom"

    @property
    def sentence(self) -> str:
        """The two shares."""
        return (
            f"Comparisons held out that are satisfied: Euclidean {100 * self.base:.2f} %, learned "
            f"{100 * self.learned:.2f} %."
        )

    def __str__(self) -> str:
        return f"\n{self.sentence}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"verdict": self.verdict, "sentence": self.sentence, "base": self.base, "learned": self.learned}


@dataclass(frozen=True)
class FiledParts:
    """Comparisons to learn from, and others to validate on, in files.

    Attributes
    ----------
    train : OpenedFiles
    held_out : OpenedFiles, optional
    how : str
        How the latter were chosen, in words.
    backend : RayEngine
        Whose workers read them.
    """

    train: OpenedFiles
    held_out: OpenedFiles | None
    how: str
    backend: RayEngine

    @classmethod
    def opened(
        cls, files: Sequence[str], reading: Reading, feedback: Feedback, hold_out: HoldOut, backend: RayEngine
    ) -> Self:
        """Files that the workers of a backend are going to read."""
        if reading.where:
            raise typer.BadParameter(
                "Workers read all points that comparisons name: leave it out.", param_hint="--where"
            )
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
            return cls(all_files.opened(), other.opened(), hold_out.from_files, backend)
        if not hold_out.share_of_anchors:
            return cls(all_files.opened(), None, hold_out.by_anchors, backend)
        train, held_out = all_files.opened().split(hold_out.share_of_anchors, hold_out.seed)
        return cls(train, held_out, hold_out.by_anchors, backend)

    @property
    def n_features(self) -> int:
        """Of the points."""
        return self.train.n_features

    @property
    def feature_names(self) -> list[str] | None:
        """Of the points, where their files have them."""
        return self.train.feature_names

    @property
    def validated(self) -> bool:
        """Whether something is held out."""
        return self.held_out is not None

    def fit(self, estimator: Any, *, choose: bool, resume_from: Path | None) -> None:
        """Learn; `choose` by what is held out, or only measure on it later."""
        eval_set = self.held_out.files if choose and self.held_out is not None else None
        estimator.fit(self.train.files, eval_set=eval_set, resume_from=resume_from)

    def evaluate(self, metric: MahalanobisMetric, seed: int) -> Satisfied | None:
        """Compare with the Euclidean distance on what is held out."""
        if self.held_out is None:
            return None
        maps = [np.eye(self.n_features), metric.components]
        return Satisfied(*satisfied_by_each(FileProblem(self.held_out), maps, self.backend))

    def improves(self, evaluation: Satisfied) -> bool:
        """Whether more of what was held out is right."""
        return evaluation.learned > evaluation.base

    def describe(self) -> str:
        """What was understood."""
        if self.held_out is not None:
            self.held_out.describe()  # complains of columns before any work
        return f"{self.train.describe()}\n  validated on: {self.how}"

    def as_dict(self) -> dict[str, Any]:
        """Sizes, for JSON and the model file."""
        return {
            "n_features": self.n_features,
            "n_rows": self.train.n_rows,
            "validation": self.how,
        }
