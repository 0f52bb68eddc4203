"""A learned metric beside the base, on comparisons in files that the workers of a cluster read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from boostmetric.comparisons.shares import Loaded, Share
from boostmetric.engines.backend import SharingBackend
from boostmetric.metric import MahalanobisMetric
from boostmetric.parallel.crew import Crew
from boostmetric.solver.file_problem import FileProblem, SharedFiles
from boostmetric.solver.problem import satisfied, satisfied_by_each

_CHANCE = 0.5  # a coin satisfies half of the comparisons


@dataclass(frozen=True)
class MappedShare:
    """A share whose points are mapped by a metric when they are loaded."""

    share: Share
    metric: MahalanobisMetric

    def load(self, crew: Crew) -> Loaded:
        """See `Share`."""
        points, blocks = self.share.load(crew)
        return Loaded(self.metric.transform(points), blocks)


@dataclass(frozen=True)
class MappedFiles:
    """Files whose points the workers map by a metric; `SharedFiles`.

    For metrics that are not a linear map alone, because they scale points to unit length.
    """

    files: SharedFiles
    metric: MahalanobisMetric

    @property
    def n_features(self) -> int:
        """Number of dimensions of the mapped points."""
        return len(self.metric.components)

    @property
    def fingerprint(self) -> str:
        """See `SharedFiles`."""
        return self.files.fingerprint

    def split(self, test_size: float, random_state: int) -> tuple[Self, Self]:
        """See `SharedFiles`."""
        train, held_out = self.files.split(test_size, random_state)
        return replace(self, files=train), replace(self, files=held_out)

    def shares(self, n: int) -> list[Share]:
        """See `SharedFiles`."""
        return [MappedShare(share, self.metric) for share in self.files.shares(n)]


@dataclass(frozen=True)
class FileEvaluation:
    """Fractions of the comparisons that the Euclidean distance and a learned metric satisfy.

    There is no interval: only sums over the comparisons leave the workers.
    """

    base: float
    learned: float

    @property
    def is_better(self) -> bool:
        """Whether the learned metric satisfies more, and more than a coin."""
        return self.learned > max(self.base, _CHANCE)

    @property
    def verdict(self) -> str:
        """Without an interval, so it does not say whether the difference is by chance."""
        if self.learned < _CHANCE:
            return "doubtful"
        return "better" if self.is_better else "no headroom"

    @property
    def sentence(self) -> str:
        """The two fractions."""
        doubt = " That is less than chance (50 %)." if self.learned < _CHANCE else ""
        return (
            f"Comparisons held out that are satisfied: Euclidean {100 * self.base:.2f} %, learned "
            f"{100 * self.learned:.2f} %.{doubt}"
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
    base = np.eye(files.n_features)
    if not metric.normalize:
        return FileEvaluation(*satisfied_by_each(FileProblem(files), [base, metric.components], backend))
    mapped = FileProblem(MappedFiles(files, metric))
    return FileEvaluation(
        satisfied(FileProblem(files), base, backend), satisfied(mapped, np.eye(mapped.n_features), backend)
    )
