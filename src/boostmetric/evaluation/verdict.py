"""Result of comparing two metrics, as numbers and as a sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.evaluation.bootstrap import CONFIDENCE
from boostmetric.evaluation.task import text_of

Verdict = Literal["better", "no headroom", "worse", "too few", "base only"]

HEADER = ("score", "base", "learned", "difference", "95 % interval")
# The base is near the ceiling if less than this share of it is left.
_NEAR_CEILING = 0.01
# With few clusters the bootstrap says little. All of five agree by chance more often than once in twenty times
# (2 / 2**5), and the interval may even have zero width.
_FEWEST_CLUSTERS, _FEW_CLUSTERS = 6, 20


@dataclass(frozen=True)
class Row:
    """One score of the base and of a learned metric.

    Attributes
    ----------
    name : str
    base : float
    learned, difference, low, high : float or None
        Score of the learned metric, its difference from the base, and the bounds of the difference's 95 % interval.
        None without a learned metric.
    ceiling : float
        Score of the best possible ranking.
    """

    name: str
    base: float
    learned: float | None
    difference: float | None
    low: float | None
    high: float | None
    ceiling: float = 1.0


@dataclass(frozen=True)
class Evaluation:
    """Scores of the base and of a learned metric on the same queries.

    Attributes
    ----------
    rows : tuple of Row
        One for each score.
    headline : str
        Name of the score that decides the verdict.
    size : str
        Size of the task in words: "4,500 queries".
    clusters : str
        What was resampled, in the plural.
    n_clusters : int
    n_left_out : int
        Number of queries left out because they have no right answer.
    n_bootstrap : int
    asked : ndarray of shape (n,)
        Numbers of the queries (or anchors) used.
    base_values, learned_values : ndarray of shape (n, n_scores)
        Scores of each of them, in the order of `rows`. The latter is None without a learned metric.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.evaluation import evaluate
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> print(evaluate(MahalanobisMetric(np.diag(1 / X.std(axis=0))), X, y, k=5))
    score             base  learned  difference       95 % interval
    3-NN accuracy   0.7416   0.9551     +0.2135  +0.1459 to +0.2809
    recall@5 (any)  0.9719   0.9888     +0.0169  -0.0112 to +0.0449
    precision@5     0.6809   0.9382     +0.2573  +0.2079 to +0.3056
    MRR@5           0.8449   0.9663     +0.1214  +0.0753 to +0.1685
    MAP@5           0.6165   0.9237     +0.3072  +0.2494 to +0.3646
    nDCG@5          0.6967   0.9423     +0.2456  +0.1948 to +0.2966
    <BLANKLINE>
    Better: 3-NN accuracy 0.742 -> 0.955, difference 0.213 (95 % interval 0.146 to 0.281, 178 queries).
    """

    rows: tuple[Row, ...]
    headline: str
    size: str
    clusters: str
    n_clusters: int
    n_left_out: int
    n_bootstrap: int
    asked: IntArray = field(repr=False, compare=False)
    base_values: FloatArray = field(repr=False, compare=False)
    learned_values: FloatArray | None = field(repr=False, compare=False)

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"There is no score {name!r}. Available scores: {', '.join(row.name for row in self.rows)}.")

    @property
    def verdict(self) -> Verdict:
        """Verdict, from the interval of the difference in the headline score.

        "better" if it lies above 0, "worse" if it lies below 0, else "no headroom". "too few" if fewer than six queries
        (or classes, or anchors) were resampled; "base only" if there is no learned metric.
        """
        row = self[self.headline]
        if row.low is None or row.high is None:
            return "base only"
        if self.n_clusters < _FEWEST_CLUSTERS:
            return "too few"
        if row.low > 0:
            return "better"
        return "worse" if row.high < 0 else "no headroom"

    @property
    def at_ceiling(self) -> bool:
        """Whether the base's headline score is within 1 % of the ceiling."""
        row = self[self.headline]
        return row.base >= (1.0 - _NEAR_CEILING) * row.ceiling

    @property
    def sentence(self) -> str:
        """The verdict with its numbers."""
        row = self[self.headline]
        if row.learned is None or row.difference is None or row.low is None or row.high is None:
            return f"Base only: {row.name} {row.base:.3f} ({self.size}); there is no learned metric to compare with."
        numbers = (
            f"{row.name} {row.base:.3f} -> {row.learned:.3f}, difference {row.difference:z.3f} (95 % interval "
            f"{row.low:z.3f} to {row.high:z.3f}, {self.size}{self._resampled})."
        )
        if self.verdict == "too few":
            return f"Too few {self.clusters} to tell ({self.n_clusters}): {numbers}"
        if self.verdict == "better":
            text = f"Better: {numbers}"
        elif self.verdict == "worse":
            text = f"Worse, keep the base: {numbers}"
        elif self.at_ceiling:
            text = f"No headroom, the base is already near the ceiling of {row.ceiling:.3f}: {numbers}"
        else:
            text = f"No headroom found, the interval contains 0: {numbers}"
        if self.n_clusters < _FEW_CLUSTERS:
            text += f" Few {self.clusters} ({self.n_clusters}): the interval is rough."
        return text

    def table(self) -> list[list[str]]:
        """The scores as text; the first row is the header."""
        rows = [list(HEADER)]
        for row in self.rows:
            cells = [row.name, f"{row.base:.4f}"]
            if row.learned is None:
                cells += ["", "", ""]
            else:
                cells += [f"{row.learned:.4f}", f"{row.difference:+z.4f}", f"{row.low:+z.4f} to {row.high:+z.4f}"]
            rows.append(cells)
        return rows

    def as_dict(self) -> dict[str, Any]:
        """Everything but the scores of single queries, as JSON types."""
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "headline": self.headline,
            "at_ceiling": self.at_ceiling,
            "size": self.size,
            "n_asked": len(self.asked),
            "n_left_out": self.n_left_out,
            "resampled": self.clusters,
            "n_clusters": self.n_clusters,
            "n_bootstrap": self.n_bootstrap,
            "confidence": CONFIDENCE,
            "scores": [dict(vars(row)) for row in self.rows],
        }

    def __str__(self) -> str:
        table = self.table()
        widths = [max(len(row[column]) for row in table) for column in range(len(HEADER))]
        lines = [
            "  ".join(
                cell.rjust(width) if place else cell.ljust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in table
        ]
        return "\n".join([*lines, "", self.sentence])

    @property
    def _resampled(self) -> str:
        """What was resampled, if the size does not say so."""
        return "" if text_of(self.n_clusters, self.clusters) in self.size else f", {self.clusters} resampled"
