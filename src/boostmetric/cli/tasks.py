"""What a model is tested on: labelled points, graded documents, or comparisons."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from boostmetric.cli.conditions import parse_conditions
from boostmetric.cli.points import Reading, check_classes, check_features, labelled

if TYPE_CHECKING:
    from boostmetric.metric import MahalanobisMetric
    from boostmetric.tables import PointTable

_POINTS = re.compile(r".*\.((csv|tsv|jsonl|ndjson)(\.gz|\.zst)?|parquet|npz|npy)", re.IGNORECASE | re.DOTALL)
_PANEL = "Labels: where to search"
FEEDBACK = "Comparisons and grades, instead of labels"

Reference = Annotated[
    list[str] | None,
    typer.Option(
        help="File of points to search among, such as the training points. Default: POINTS themselves.",
        rich_help_panel=_PANEL,
    ),
]
ReferenceWhere = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=VALUE",
        help="Search among these rows of POINTS instead. A --where on the same column does not apply to them.",
        rich_help_panel=_PANEL,
    ),
]
Relevance = Annotated[
    list[str] | None,
    typer.Option(help="File of grades (query, document, grade); POINTS are the documents.", rich_help_panel=FEEDBACK),
]
Comparisons = Annotated[
    list[str] | None,
    typer.Option(
        help="File of comparisons by id: triplets, pairs, grades, clicks, positives.", rich_help_panel=FEEDBACK
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(
        help="Kind of comparisons: triplets, quadruplets, pairs, grades, clicks, rankings or positives. Default: by "
        "the columns.",
        rich_help_panel=FEEDBACK,
    ),
]
Queries = Annotated[
    list[str] | None,
    typer.Option(
        help="File of the queries, if they are not among POINTS, with the same columns.",
        rich_help_panel=FEEDBACK,
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="ROLE=COLUMN",
        help="Name of a column, such as document=sku. Can be repeated.",
        rich_help_panel=FEEDBACK,
    ),
]
ClickModel = Annotated[
    Literal["position", "cascade", "dependent"] | None,
    typer.Option(
        help="How users read a list, for clicks without a column of propensities. Default: position.",
        rich_help_panel=FEEDBACK,
    ),
]
Headline = Annotated[
    str | None,
    typer.Option(
        metavar="SCORE",
        help="Name of the score that decides, such as 'MAP@10'. Default: nDCG@10 of judged documents, the mean of k-NN "
        "accuracy and MAP@10 of labels.",
    ),
]


@dataclass(frozen=True)
class Testing:
    """Options that say what a model is tested on."""

    reference: Sequence[str] | None = None
    reference_where: Sequence[str] | None = None
    relevance: Sequence[str] | None = None
    comparisons: Sequence[str] | None = None
    kind: str | None = None
    queries: Sequence[str] | None = None
    names: Sequence[str] | None = None
    click_model: Literal["position", "cascade", "dependent"] | None = None

    def check(self, label: str | None, *, needed: bool) -> None:
        """Refuse options that do not go together."""
        ways = {"--label": label, "--relevance": self.relevance, "--comparisons": self.comparisons}
        given = [name for name, value in ways.items() if value]
        if len(given) > 1:
            raise typer.BadParameter(
                f"{' and '.join(given)} are given: only one can say what is right. To leave out a column of labels, "
                "use --ignore."
            )
        if needed and not given:
            raise typer.BadParameter(
                "Nothing says which answers are right: give --label, --relevance or --comparisons."
            )
        if (self.reference or self.reference_where) and not label:
            raise typer.BadParameter("--reference and --reference-where go with --label.")
        if self.reference and self.reference_where:
            raise typer.BadParameter("Give --reference or --reference-where, not both.")
        if self.queries and not (self.relevance or self.comparisons):
            raise typer.BadParameter("--queries goes with --relevance or --comparisons.")
        if self.kind and not self.comparisons:
            raise typer.BadParameter("--kind goes with --comparisons.")
        if self.click_model and not self.comparisons:
            raise typer.BadParameter("--click-model goes with --comparisons.")


@dataclass(frozen=True)
class Tested:
    """A task, and the names of its points.

    Attributes
    ----------
    task : LabelTask, RankingTask, ComparisonTask or None
        None if there are points and nothing that says what is right.
    beside : sequence of tasks
        Further tasks, to report beside it.
    names : dict
        Keyword arguments for `boostmetric.report.write_model_report` about ids and labels (and points, without a task).
    """

    task: Any
    names: dict[str, Any] = field(default_factory=dict)
    beside: Sequence[Any] = ()


def read_task(
    metric: "MahalanobisMetric",
    files: Sequence[str],
    reading: Reading,
    testing: Testing,
    k: Sequence[int] | None = None,
    neighbors: Sequence[int] | None = None,
    *,
    or_open: bool = False,
) -> Tested:
    """Read what a model is tested on.

    Parameters
    ----------
    metric : MahalanobisMetric
    files : sequence of str
        Points.
    reading : Reading
    testing : Testing
    k : sequence of int, optional
        Results to look at; by default 1, 5 and 10, as far as there are points.
    neighbors : sequence of int, optional
        Neighbours that vote; by default 3, or 1 with fewer points.
    or_open : bool
        Leave points in large files, to be read block by block.
    """
    import numpy as np

    from boostmetric.evaluation import ComparisonTask, LabelTask, RankingTask
    from boostmetric.tables import read_comparisons

    reading = reading.for_model(metric)
    names = parse_names(testing.names)
    if testing.relevance:
        return _rankings(metric, files, reading, testing, k, names, or_open)
    if testing.comparisons:
        points, queries = reading.read_with(files, testing.queries, or_open=or_open)
        table = read_comparisons(
            list(testing.comparisons),
            points,
            kind=testing.kind,
            queries=queries,
            names=names,
            click_model=testing.click_model,
        )
        check_features(metric, points)
        compared = ComparisonTask.of(table.comparisons, table.points)
        ranked = None
        if table.judgements is not None:
            ranked = RankingTask.among(
                table.points, table.n_queries, table.judgements, k or (1, 5, 10), only_judged=table.only_judged
            )
        if ranked is None:
            return Tested(compared, _called(reading, points) if queries is None else _both(reading, queries, points))
        called = _called(reading, points)
        if queries is not None and table.judgements is not None:
            judged = np.unique(table.judgements[:, 0].astype(np.int64))
            called = _called(reading, queries.take(judged), points)
        return Tested(ranked, called, [compared])
    reference: PointTable | None
    if testing.reference_where:
        asked, reference = reading.read_two(
            files, parse_conditions(testing.reference_where, "--reference-where"), or_open=or_open
        )
    else:
        asked, reference = reading.read_with(files, testing.reference, or_open=or_open)
    if reading.unlabelled:
        asked, reference = labelled(asked), None if reference is None else labelled(reference)
    check_features(metric, asked, *([] if reference is None else [reference]))
    if asked.labels is None:
        return Tested(None, {"points": asked.points, **_called(reading, asked)})
    check_classes(asked if reference is None else reference)
    searched = len(asked) - 1 if reference is None else len(reference)
    same: Any = None if reference is None else (reference.points, reference.labels)
    task = LabelTask.of(
        asked.points, asked.labels, reference=same, k=_cuts(k, searched), n_neighbors=_votes(neighbors, searched)
    )
    return Tested(task, _called(reading, asked, reference))


def _rankings(
    metric: Any,
    files: Sequence[str],
    reading: Reading,
    testing: Testing,
    k: Sequence[int] | None,
    names: dict[str, str],
    or_open: bool,
) -> Tested:
    import numpy as np

    from boostmetric.evaluation import RankingTask
    from boostmetric.tables import read_relevance

    documents, queries = reading.read_with(files, testing.queries, or_open=or_open)
    relevance = read_relevance(list(testing.relevance or ()), documents, queries=queries, names=names)
    check_features(metric, documents, *([] if queries is None else [queries]))
    if queries is None:
        cuts = _cuts(k, len(documents) - 1)
        return Tested(RankingTask.of(documents.points, None, relevance, k=cuts), _called(reading, documents))
    # Queries without judgements are not asked; there may be many.
    judged, number = np.unique(relevance[:, 0].astype(np.int64), return_inverse=True)
    asked = queries.take(judged)
    relevance = np.column_stack([number, relevance[:, 1:]])
    cuts = _cuts(k, len(documents))
    return Tested(
        RankingTask.of(asked.points, documents.points, relevance, k=cuts),
        _called(reading, asked, documents),
    )


def parse_names(texts: Sequence[str] | None) -> dict[str, str]:
    """Parse ROLE=COLUMN into a dict."""
    found = {}
    for text in texts or ():
        role, sign, column = text.partition("=")
        if not (sign and role.strip() and column):
            raise typer.BadParameter(f"{text!r} is not of the form ROLE=COLUMN.", param_hint="--name")
        found[role.strip()] = column
    return found


def load_model(path: Path, rank: int | None = None, hint: str = "MODEL") -> "MahalanobisMetric":
    """Load a model, and cut it to `rank` dimensions if given; `hint` is the argument or option that names it."""
    from boostmetric.metric import MahalanobisMetric

    if address := re.fullmatch(r"(\w{2,}:)/(.*)", path.as_posix()):  # two slashes after the colon are one in a path
        address_given = "//".join(address.groups())
        raise typer.BadParameter(
            f"{address_given} is an address. Download the file, and give its name.", param_hint=hint
        )
    if _POINTS.fullmatch(path.name):
        order = " The model comes first, then the points." if hint == "MODEL" else ""
        raise typer.BadParameter(f"{path} is not a model but a table.{order}", param_hint=hint)
    return cut(MahalanobisMetric.load(path), rank)


def load_earlier(
    path: Path, n_features: int, names: Sequence[str] | None, hint: str, of: str = "the other model"
) -> "MahalanobisMetric":
    """Load an earlier model of points with these features; they may have been in another order when it was learned."""
    from boostmetric.arrays.errors import listed, plural

    earlier = load_model(path, hint=hint)
    has = earlier.components.shape[1]
    if has != n_features:
        raise ValueError(
            f"{path} was learned from {plural(has, 'feature')}, not from the {n_features:,} of {of}. Both must "
            "have the same features."
        )
    others = earlier.feature_names
    if names is None or others is None or list(names) == others:
        return earlier
    if missing := [name for name in others if name not in names]:
        raise ValueError(
            f"{path} was learned from other columns: {listed(missing)}, which are not among those of {of}. Both must "
            "have the same features."
        )
    return earlier.reorder(names)


def cut(metric: "MahalanobisMetric", rank: int | None) -> "MahalanobisMetric":
    """The best approximation of a rank no larger than the metric has."""
    full = len(metric.truncate().components)
    if rank is not None and rank > full:
        raise typer.BadParameter(
            f"The model has rank {full:,}, so it cannot be cut to {rank:,} dimensions.", param_hint="--rank"
        )
    return metric if rank is None else metric.truncate(rank)


def _called(reading: Reading, asked: "PointTable", searched: "PointTable | None" = None) -> dict[str, Any]:
    """Ids and texts of the points that are asked about, and of those that are searched if they are others."""
    called = {"ids": asked.ids, "texts": reading.texts(asked)}
    return called if searched is None else called | {f"reference_{k}": v for k, v in _called(reading, searched).items()}


def _both(reading: Reading, queries: "PointTable", points: "PointTable") -> dict[str, Any]:
    """Ids and texts of queries followed by points; None where one of them has none."""
    pairs = zip(_called(reading, queries).items(), _called(reading, points).values(), strict=True)
    return {
        name: None if first is None or second is None else [*first.tolist(), *second.tolist()]
        for (name, first), second in pairs
    }


def _cuts(k: Sequence[int] | None, searched: int) -> Sequence[int]:
    return [cut for cut in (1, 5, 10) if cut <= max(1, searched)] if k is None else k


def _votes(neighbors: Sequence[int] | None, searched: int) -> Sequence[int]:
    return neighbors or [3 if searched >= 3 else 1]
