"""Result of comparing two metrics, as numbers and as a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.arrays.validation import check_choice
from boostmetric.evaluation.bootstrap import CONFIDENCE
from boostmetric.evaluation.task import text_of

Verdict = Literal["better", "no headroom", "no difference", "worse", "mixed", "doubtful", "too few", "base only"]
Requirement = Literal["better", "not-worse"]
Other = Literal["base", "earlier"]

COMPARISON_ACCURACY = "comparison accuracy"
HEADERS: dict[Other, tuple[str, ...]] = {
    "base": ("score", "base", "learned", "difference", "95 % interval"),
    "earlier": ("score", "earlier", "new", "difference", "95 % interval"),
}
_CALLED: dict[Other, str] = {"base": "base", "earlier": "earlier metric"}
# Verdicts that meet a requirement. Neither is met where too little is known.
_MET: dict[Requirement, tuple[Verdict, ...]] = {
    "better": ("better",),
    "not-worse": ("better", "no headroom", "no difference"),
}
_CAUSE = (
    "Such comparisons contradict the distance that ranked them: they were taken from its own ranking (what was clicked "
    "over what was skipped above it, or its nearest negatives only), so they say where it was wrong, and not where it "
    "was right. Add comparisons that it did not choose, such as clicked over shown below, or over what was not shown."
)
# The base is near the ceiling if less than this share of it is left.
_NEAR_CEILING = 0.01
# A loss this small in a score beside the headline is not worth a word, however certain.
_NEGLIGIBLE = 0.002
# The base is far below chance below this share of it, if that cannot be by chance.
_FAR_BELOW_CHANCE = 0.8
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
    chance : float
        Score of a ranking at random; 0 where that is not computed.
    """

    name: str
    base: float
    learned: float | None
    difference: float | None
    low: float | None
    high: float | None
    ceiling: float = 1.0
    chance: float = 0.0

    @property
    def is_clearly_better(self) -> bool:
        """Whether the interval of the difference is above 0."""
        return self.low is not None and self.low > 0

    @property
    def is_clearly_worse(self) -> bool:
        """Whether the interval of the difference is below 0, and the loss not negligible."""
        return self.high is not None and self.high < 0 and -(self.difference or 0.0) > _NEGLIGIBLE

    @property
    def is_below_chance(self) -> bool:
        """Whether the learned metric is worse than a ranking at random."""
        return self.learned is not None and self.learned < self.chance

    def starts_below_chance(self, n: int) -> bool:
        """Whether the base is far below chance in n independent answers."""
        error = np.sqrt(self.chance * (1.0 - self.chance) / max(n, 1))
        return self.base < min(_FAR_BELOW_CHANCE * self.chance, self.chance - 2.0 * float(error))


@dataclass(frozen=True)
class Evaluation:
    """Scores of the base and of a learned metric on the same queries.

    Attributes
    ----------
    rows : tuple of Row
        One for each score.
    headline : str
        Name of the score that decides the verdict, unless an important score contradicts it.
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
        Scores of each of them, in the order of `rows` (those `beside` have none). The latter is None without a learned
        metric.
    important : tuple of str
        Names of the scores that must not be clearly worse for the verdict "better".
    notes : tuple of str
        Sentences about what the scores cannot say.
    other : {"base", "earlier"}
        What the metric is compared with: the base, or an earlier metric, whose scores then take the base's places.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.evaluation import evaluate
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> print(evaluate(MahalanobisMetric(np.diag(1 / X.std(axis=0))), X, y, k=5))
    score                     base  learned  difference       95 % interval
    3-NN accuracy           0.7416   0.9551     +0.2135  +0.1459 to +0.2809
    recall@5 (any)          0.9719   0.9888     +0.0169  -0.0112 to +0.0449
    precision@5             0.6809   0.9382     +0.2573  +0.2079 to +0.3056
    MRR@5                   0.8449   0.9663     +0.1214  +0.0753 to +0.1685
    MAP@5                   0.6165   0.9237     +0.3072  +0.2494 to +0.3646
    nDCG@5                  0.6967   0.9423     +0.2456  +0.1948 to +0.2966
    mean of 3-NN and MAP@5  0.6790   0.9394     +0.2603  +0.2010 to +0.3199
    <BLANKLINE>
    Better: mean of 3-NN and MAP@5 0.679 -> 0.939, difference 0.260 (95 % interval 0.201 to 0.320, 178 queries).
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
    important: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    other: Other = "base"

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"There is no score {name!r}. Available scores: {', '.join(row.name for row in self.rows)}.")

    def beside(self, rows: Iterable[Row], important: Iterable[str] = (), notes: Iterable[str] = ()) -> Evaluation:
        """Add scores of other tasks, some of them important, and notes."""
        return replace(
            self,
            rows=(*self.rows, *rows),
            important=(*self.important, *important),
            notes=(*self.notes, *notes),
        )

    def judged_by(self, headline: str) -> Evaluation:
        """The same with another headline."""
        check_choice("headline", headline, [row.name for row in self.rows])
        return replace(self, headline=headline)

    def prefers_learned(self, ties: Literal["base", "learned"] = "base") -> bool:
        """Whether the headline score is higher (or equal, see `keep_better`), and nothing important contradicts it."""
        difference = self[self.headline].difference or 0.0
        is_higher = difference > 0 or (difference == 0 and ties == "learned")
        return is_higher and self.verdict not in ("mixed", "doubtful")

    def meets(self, requirement: Requirement) -> bool:
        """Whether the verdict is "better", or with "not-worse" one whose interval contains 0.

        The other verdicts meet neither, "too few" included.
        """
        check_choice("requirement", requirement, _MET)
        return self.verdict in _MET[requirement]

    @property
    def verdict(self) -> Verdict:
        """Verdict, from the intervals of the differences in the headline score and the important scores beside it.

        "doubtful" if the learned metric is below chance in one of them, or the base far below chance; "mixed" if one is
        clearly better and another clearly worse, or the headline inconclusive and another clearly worse. Else "better"
        if the interval of the headline lies above 0, "worse" if it lies below 0, and "no headroom" if it contains 0
        ("no difference" from an earlier metric).
        "too few" if fewer than six queries (or classes, or anchors) were resampled; "base only" if there is no learned
        metric.
        """
        row = self[self.headline]
        if row.low is None or row.high is None:
            return "base only"
        if self.n_clusters < _FEWEST_CLUSTERS:
            return "too few"
        if any(row.is_below_chance or row.starts_below_chance(self.n_clusters) for row in self._deciding):
            return "doubtful"
        others = self._deciding[1:]
        if row.high < 0:
            return "mixed" if any(other.is_clearly_better for other in others) else "worse"
        if any(other.is_clearly_worse for other in others):
            return "mixed"
        if row.low > 0:
            return "better"
        return "no headroom" if self.other == "base" else "no difference"

    @property
    def _deciding(self) -> list[Row]:
        """The headline, and the important scores beside it."""
        return [self[name] for name in dict.fromkeys((self.headline, *self.important))]

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
            text = f"Base only: {row.name} {row.base:.3f} ({self.size}); there is no learned metric to compare with."
            return " ".join([text, *self._doubts, *self.notes])
        numbers = (
            f"{row.name} {row.base:.3f} -> {row.learned:.3f}, difference {row.difference:z.3f} (95 % interval "
            f"{row.low:z.3f} to {row.high:z.3f}, {self.size}{self._resampled})."
        )
        opening = {
            "too few": f"Too few {self.clusters} to tell ({self.n_clusters})",
            "better": "Better",
            "worse": f"Worse, keep the {_CALLED[self.other]}",
            "mixed": "Mixed",
            "doubtful": f"Doubtful, keep the {_CALLED[self.other]}",
            "no difference": "No difference found, the interval contains 0",
        }.get(self.verdict)
        if opening is None:
            near = f"No headroom, the base is already near the ceiling of {row.ceiling:.3f}"
            opening = near if self.at_ceiling else "No headroom found, the interval contains 0"
        few = _FEWEST_CLUSTERS <= self.n_clusters < _FEW_CLUSTERS
        rough = [f"Few {self.clusters} ({self.n_clusters}): the interval is rough."] if few else []
        return " ".join([f"{opening}: {numbers}", *self._disagreement, *self._doubts, *rough, *self.notes])

    @property
    def _disagreement(self) -> list[str]:
        """Sentences about the important scores that disagree with the headline."""
        if self.verdict not in ("mixed", "doubtful"):
            return []
        others = self._deciding[1:]
        found = []
        for what, some in (
            ("worse", [row for row in others if row.is_clearly_worse]),
            ("better", [row for row in others if row.is_clearly_better]),
        ):
            if some:
                changes = "; ".join(f"{row.name} {row.base:.3f} -> {row.learned:.3f}" for row in some)
                found.append(f"Clearly {what}: {changes}.")
        return found

    @property
    def _doubts(self) -> list[str]:
        """Sentences about scores below chance."""
        sentences = []
        for row in self._deciding:
            if row.is_below_chance and row.learned != row.base:
                sentences.append(
                    f"The learned metric's {row.name} of {row.learned:.3f} is below chance ({row.chance:.3f})."
                )
            if row.starts_below_chance(self.n_clusters):
                cause = _CAUSE if row.name == COMPARISON_ACCURACY else "Check that the labels belong to these points."
                score = f"The {_CALLED[self.other]}'s {row.name} of {row.base:.3f}"
                sentences.append(f"{score} is far below chance ({row.chance:.3f}). {cause}")
        return sentences

    def table(self) -> list[list[str]]:
        """The scores as text; the first row is the header."""
        rows = [list(HEADERS[self.other])]
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
            "compared_with": self.other,
            "at_ceiling": self.at_ceiling,
            "size": self.size,
            "important": list(self.important),
            "notes": list(self.notes),
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
        widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
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
