"""Options of ``boostmetric fit`` that belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from boostmetric.cli.conditions import Condition

# Of the rows of each class, or of the anchors.
FRACTION = 0.2


@dataclass(frozen=True)
class Feedback:
    """Comparisons to learn from."""

    comparisons: Sequence[str]
    kind: str | None
    queries: Sequence[str] | None
    names: dict[str, str]
    max_per_query: int | None


@dataclass(frozen=True)
class HoldOut:
    """What is validated on: files, rows that meet conditions, or a share that is drawn."""

    files: Sequence[str]
    where: Sequence[Condition]
    fraction: float | None
    seed: int

    @property
    def from_files(self) -> str:
        """In words."""
        return f"of {', '.join(self.files)}"

    @property
    def share_of_anchors(self) -> float:
        """To hold out, where no files are given."""
        return FRACTION if self.fraction is None else self.fraction

    @property
    def by_anchors(self) -> str:
        """In words."""
        if not self.share_of_anchors:
            return "nothing: all are learned from"
        return f"those of {100 * self.share_of_anchors:g} % of the anchors, drawn with seed {self.seed}"
