"""What a model is learned from, and what it is validated on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons
from boostmetric.cli.fit_options import FRACTION, Feedback, HoldOut
from boostmetric.cli.points import Reading
from boostmetric.evaluation import Evaluation, evaluate, evaluate_comparisons
from boostmetric.metric import MahalanobisMetric
from boostmetric.tables import ComparisonTable, PointTable, TableError, read_comparisons
from boostmetric.tables.complaints import plural, shown

# For comparisons, which have no "auto" (`BoostMetric.recommended` is the setting for labels).
_RECOMMENDED = {"loss": "logistic", "init": "identity", "max_iter": 500}
# Fewer labelled rows than these are all learned from, and validated on in turn.
_FEW_ROWS = 1500


class Parts(Protocol):
    """Data to learn from and to validate on."""

    @property
    def n_features(self) -> int:
        """Of the points."""
        ...

    @property
    def feature_names(self) -> list[str] | None:
        """Of the points, where their file has them."""
        ...

    @property
    def validated(self) -> bool:
        """Whether something is held out."""
        ...

    def fit(self, estimator: Any, *, choose: bool, resume_from: Path | None) -> None:
        """Learn; `choose` by what is held out, or only measure on it later."""
        ...

    def evaluate(self, metric: MahalanobisMetric, seed: int) -> Any:
        """Compare with the base on what is held out; None if nothing is."""
        ...

    def improves(self, evaluation: Any) -> bool:
        """Whether a learned metric is to be kept, by what was held out."""
        ...

    def describe(self) -> str:
        """What was understood."""
        ...

    def as_dict(self) -> dict[str, Any]:
        """Sizes, for JSON and the model file."""
        ...


@dataclass(frozen=True)
class LabelledParts:
    """Points with labels to learn from, and others to validate on.

    Attributes
    ----------
    train : PointTable
    held_out : PointTable, optional
    how : str
        How the latter were chosen, in words.
    """

    train: PointTable
    held_out: PointTable | None
    how: str

    @classmethod
    def read(cls, files: Sequence[str], reading: Reading, hold_out: HoldOut) -> Self:
        """From files."""
        if hold_out.where:
            train, other = reading.read_two(files, hold_out.where)
            return cls(train, other, f"where {' and '.join(map(str, hold_out.where))}")
        train = reading.read(files)
        if hold_out.files:
            return cls(train, reading.read_others(hold_out.files), hold_out.from_files)
        fraction = hold_out.fraction
        if fraction is None:
            fraction = FRACTION if len(train) >= _FEW_ROWS else 0.0
        if fraction == 0.0:
            return cls(train, None, "rows left out in turn, where the setting chooses; then all are learned from")
        assert train.labels is not None
        mask = held_out_rows(train.labels, fraction, hold_out.seed)
        how = f"{100 * fraction:g} % of each class, drawn with seed {hold_out.seed}"
        return cls(train.take(~mask), train.take(mask), how)

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
    def n_features(self) -> int:
        """Of the points."""
        return self.train.n_features

    @property
    def feature_names(self) -> list[str] | None:
        """Of the points, where their file has them."""
        return self.train.feature_names

    @property
    def validated(self) -> bool:
        """Whether something is held out."""
        return self.held_out is not None

    def fit(self, estimator: Any, *, choose: bool, resume_from: Path | None) -> None:
        """Learn; `choose` by what is held out, or only measure on it later."""
        held_out = self.held_out
        eval_set = (held_out.points, held_out.labels) if choose and held_out is not None else None
        estimator.fit(self.train.points, self.train.labels, eval_set=eval_set, resume_from=resume_from)

    def evaluate(self, metric: MahalanobisMetric, seed: int) -> Evaluation | None:
        """Compare with the base on what is held out."""
        if self.held_out is None:
            return None
        assert self.train.labels is not None
        assert self.held_out.labels is not None
        return evaluate(
            metric,
            self.held_out.points,
            self.held_out.labels,
            reference=(self.train.points, self.train.labels),
            k=[k for k in (1, 10) if k <= len(self.train)],
            n_neighbors=min(3, len(self.train)),
            random_state=seed,
        )

    def improves(self, evaluation: Evaluation) -> bool:
        """The estimator has seen to it, with the Euclidean distance as a candidate."""
        return True

    def describe(self) -> str:
        """What was understood."""
        if self.held_out is None:
            held_out = f"  validated on: {self.how}"
        else:
            held_out = f"  validated on: {plural(len(self.held_out), 'row')}, {self.how}"
        return f"{self.train.describe()}\n{held_out}"

    def as_dict(self) -> dict[str, Any]:
        """Sizes, for JSON and the model file."""
        assert self.train.labels is not None
        return {
            "n_points": len(self.train),
            "n_features": self.n_features,
            "n_classes": len(np.unique(self.train.labels)),
            "n_validated": 0 if self.held_out is None else len(self.held_out),
            "validation": self.how,
        }


@dataclass(frozen=True)
class ComparedParts:
    """Comparisons to learn from, and others of the same points to validate on.

    Attributes
    ----------
    table : ComparisonTable
    train : Comparisons
    held_out : Comparisons, optional
    how : str
        How the latter were chosen, in words.
    points : PointTable
        Whose features they are.
    """

    table: ComparisonTable
    train: Comparisons
    held_out: Comparisons | None
    how: str
    points: PointTable

    @classmethod
    def read(cls, files: Sequence[str], reading: Reading, feedback: Feedback, hold_out: HoldOut) -> Self:
        """From files."""
        points = reading.read(files)
        queries = reading.read_others(feedback.queries) if feedback.queries else None

        def read(comparisons: Sequence[str]) -> ComparisonTable:
            return read_comparisons(
                list(comparisons),
                points,
                kind=feedback.kind,
                queries=queries,
                names=feedback.names,
                max_per_query=feedback.max_per_query,
            )

        table = read(feedback.comparisons)
        if hold_out.files:
            return cls(table, table.comparisons, read(hold_out.files).comparisons, hold_out.from_files, points)
        if not hold_out.share_of_anchors:
            return cls(table, table.comparisons, None, hold_out.by_anchors, points)
        train, held_out = table.comparisons.split(hold_out.share_of_anchors, hold_out.seed)
        return cls(table, train, held_out, hold_out.by_anchors, points)

    @property
    def n_features(self) -> int:
        """Of the points."""
        return self.points.n_features

    @property
    def feature_names(self) -> list[str] | None:
        """Of the points, where their file has them."""
        return self.points.feature_names

    @property
    def validated(self) -> bool:
        """Whether something is held out."""
        return self.held_out is not None

    def fit(self, estimator: Any, *, choose: bool, resume_from: Path | None) -> None:
        """Learn; `choose` by what is held out, or only measure on it later."""
        eval_set = self.held_out if choose else None
        estimator.fit(self.train, points=self.table.points, eval_set=eval_set, resume_from=resume_from)

    def evaluate(self, metric: MahalanobisMetric, seed: int) -> Evaluation | None:
        """Compare with the base on what is held out."""
        if self.held_out is None:
            return None
        return evaluate_comparisons(metric, self.held_out, self.table.points, random_state=seed)

    def improves(self, evaluation: Evaluation) -> bool:
        """Whether more of what was held out is right."""
        row = evaluation[evaluation.headline]
        return row.difference is not None and row.difference > 0

    def describe(self) -> str:
        """What was understood."""
        lines = [self.points.describe(), self.table.describe()]
        lines.append(f"  learned from: {plural(self.train.n_comparisons, 'comparison')}")
        number = "" if self.held_out is None else f"{plural(self.held_out.n_comparisons, 'comparison')}, "
        return "\n".join([*lines, f"  validated on: {number}{self.how}"])

    def as_dict(self) -> dict[str, Any]:
        """Sizes, for JSON and the model file."""
        return {
            "n_points": len(self.table.points),
            "n_features": self.n_features,
            "kind": self.table.kind,
            "n_comparisons": int(self.train.n_comparisons),
            "n_validated": 0 if self.held_out is None else int(self.held_out.n_comparisons),
            "validation": self.how,
        }


def make_estimator(
    setting: str, overrides: Mapping[str, Any], *, compared: bool
) -> BoostMetric | ComparisonBoostMetric:
    """What learns from labels, or from comparisons."""
    recommended = setting == "recommended"
    if compared:
        return ComparisonBoostMetric(**{**(_RECOMMENDED if recommended else {}), **overrides})
    return BoostMetric.recommended(**overrides) if recommended else BoostMetric(**overrides)


def held_out_rows(labels: NDArray[Any], fraction: float, seed: int) -> NDArray[np.bool_]:
    """Rows to hold out: a share of every class, and never all of one.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric.cli.fit_parts import held_out_rows
    >>> y = np.repeat(["a", "b", "c"], [10, 10, 1])
    >>> held_out = held_out_rows(y, 0.2, seed=0)
    >>> np.unique(y[held_out], return_counts=True)[1].tolist()
    [2, 2]
    """
    rng = np.random.RandomState(seed)
    order = np.lexsort((rng.permutation(len(labels)), labels))
    sorted_labels = labels[order]
    first = np.concatenate([[True], sorted_labels[1:] != sorted_labels[:-1]])
    free = order[~first]  # one of each class stays
    share = min(1.0, fraction * len(labels) / max(1, len(free)))
    place = np.arange(len(free))
    mask = np.zeros(len(labels), dtype=bool)
    mask[free[np.floor((place + 1) * share + 1e-9) > np.floor(place * share + 1e-9)]] = True
    return mask
