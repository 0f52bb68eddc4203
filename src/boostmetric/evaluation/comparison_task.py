"""Task of satisfying comparisons "this pair is closer than that pair", counted anchor by anchor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from boostmetric.arrays.frame import Given
from boostmetric.arrays.numbering import check_in_range
from boostmetric.arrays.point_blocks import PointBlocks
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.comparisons import Comparisons, Points
from boostmetric.comparisons.forms import as_comparisons, as_rows, hold_points
from boostmetric.evaluation.comparison_scores import Satisfied, accuracy_by_pair, comparison_accuracy
from boostmetric.evaluation.task import ScoreSample, check_points, text_of
from boostmetric.evaluation.verdict import COMPARISON_ACCURACY
from boostmetric.neighbors.in_blocks import OnProgress


@dataclass(frozen=True, eq=False)
class ComparisonTask:
    """Comparisons to satisfy.

    Use `ComparisonTask.of` rather than this constructor, which checks nothing.

    Attributes
    ----------
    comparisons : Comparisons
    points : tuple of one array of shape (n_points, n_features)

    Notes
    -----
    Comparisons of one anchor are resampled together. If all share one anchor, or form one group without an anchor, as
    pairs do, near pairs and far pairs are resampled independently of each other.

    Examples
    --------
    >>> from boostmetric.evaluation import ComparisonTask
    >>> task = ComparisonTask.of([[0, 1, 2], [1, 0, 2]], [[0.0], [1.0], [3.0]])
    >>> (sample,) = task.measure(task.points)
    >>> sample.mean
    array([1.])
    """

    comparisons: Comparisons
    points: tuple[Given, ...]

    @classmethod
    def of(cls, comparisons: Any, points: Any, y: ArrayLike | None = None) -> ComparisonTask:
        """Check the arguments, as in `boostmetric.evaluation.evaluate_comparisons`, and build a task."""
        if hold_points(comparisons):
            raise ValueError("comparisons must refer to points by number. Got the points themselves.")
        given = check_points("points", points.X if isinstance(points, Points) else points)
        rows, _ = as_rows(comparisons, given)
        checked = as_comparisons(rows, y, None)
        if not checked.n_groups:
            raise ValueError("There are no comparisons: at least one is needed.")
        check_in_range(checked.n_points - 1, given.shape[0])
        if isinstance(given, PointBlocks):  # those that are compared are held: any two may be
            return cls(checked.renumbered(), (given[checked.points].in_memory(),))
        return cls(checked, (given,))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scores."""
        return (COMPARISON_ACCURACY,)

    @property
    def ceilings(self) -> FloatArray:
        """Best possible scores, ignoring that comparisons may contradict each other."""
        return np.ones(1)

    @property
    def chances(self) -> FloatArray:
        """A coin is right half of the time."""
        return np.full(1, 0.5)

    @property
    def headline(self) -> str:
        """Name of the score that decides."""
        return self.names[0]

    @property
    def important(self) -> tuple[str, ...]:
        """The same."""
        return self.names

    @cached_property
    def rows(self) -> IntArray:
        """Numbers of the anchors (negative for groups without one), or of the near pairs if there is one anchor."""
        anchors = np.unique(self.comparisons.anchors)
        if len(anchors) > 1:
            return anchors
        listed = self.comparisons.listed()
        return np.unique(listed.members[listed._sides.row % 2 == 0]).astype(np.int64)

    @property
    def n_left_out(self) -> int:
        """Always 0: no comparison is left out."""
        return 0

    @property
    def size(self) -> str:
        """Size of the task in words."""
        n_comparisons = text_of(self.comparisons.n_comparisons, "comparisons")
        return n_comparisons if self._one_anchor else f"{n_comparisons} of {text_of(len(self.rows), self.clusters)}"

    @property
    def clusters(self) -> str:
        """What the bootstrap resamples."""
        return "pairs" if self._one_anchor else "anchors"

    def measure(self, points: Sequence[Any], on_progress: OnProgress | None = None) -> list[ScoreSample]:
        """Count the satisfied comparisons of each anchor under the Euclidean distance between the points."""
        if self._one_anchor:
            return [_sample(side) for side in accuracy_by_pair(self.comparisons, points[0])]
        return [_sample(comparison_accuracy(self.comparisons, points[0]))]

    @cached_property
    def _one_anchor(self) -> bool:
        return bool((self.comparisons.anchors == self.comparisons.anchors[0]).all())


def _sample(answers: Satisfied) -> ScoreSample:
    return ScoreSample(answers.satisfied[:, None], answers.weight, np.arange(len(answers.of)))
