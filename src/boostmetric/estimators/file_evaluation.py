"""A learned metric beside the base, on comparisons in files that the workers of a cluster read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from boostmetric.engines.backend import SharingBackend
from boostmetric.metric import MahalanobisMetric
from boostmetric.solver.file_problem import FileProblem, SharedFiles
from boostmetric.solver.problem import satisfied_by_each


@dataclass(frozen=True)
class FileEvaluation:
    """Fractions of the comparisons that the Euclidean distance and a learned metric satisfy.

    There is no interval: only sums over the comparisons leave the workers.
    """

    base: float
    learned: float

    @property
    def is_better(self) -> bool:
        """Whether the learned metric satisfies more."""
        return self.learned > self.base

    @property
    def verdict(self) -> str:
        """Without an interval, so it says nothing about chance."""
        return "better" if self.is_better else "no headroom"

    @property
    def sentence(self) -> str:
        """The two fractions."""
        return (
            f"Comparisons held out that are satisfied: Euclidean {100 * self.base:.2f} %, learned "
            f"{100 * self.learned:.2f} %."
        )

    def __str__(self) -> str:
        return f"\n{self.sentence}"

    def as_dict(self) -> dict[str, Any]:
        """In the types of JSON."""
        return {"verdict": self.verdict, "sentence": self.sentence, "base": self.base, "learned": self.learned}


def evaluate_files(metric: MahalanobisMetric, files: SharedFiles, backend: SharingBackend) -> FileEvaluation:
    """Compare a metric with the base on comparisons in files.

    Parameters
    ----------
    metric : MahalanobisMetric
    files : SharedFiles
        Such as `boostmetric.tables.ComparisonFiles.opened` returns.
    backend : SharingBackend
        Such as a `RayEngine`, whose workers read the files.
    """
    maps = [np.eye(files.n_features), metric.components]
    return FileEvaluation(*satisfied_by_each(FileProblem(files), maps, backend))
