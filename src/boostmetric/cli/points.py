"""Reading points from files: options that are the same in every command."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boostmetric.cli.completion import columns
from boostmetric.cli.conditions import Condition, other_conditions, parse_conditions, rows_where

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boostmetric.metric import MahalanobisMetric
    from boostmetric.tables import PointTable

_PANEL = "Which columns and rows"
LARGE = 2**27
"""Bytes of files whose points are not all held in memory, by commands that can do without."""

POINTS_HELP = (
    "Files of points (.csv, .tsv, .jsonl, also .gz or .zst; .parquet, .npz, .npy), a quoted pattern, or - for "
    "JSON lines from standard input; read as one table."
)
PointFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="POINTS",
        show_default=False,
        help=POINTS_HELP,
    ),
]
Id = Annotated[str | None, typer.Option(help="Column of ids.", rich_help_panel=_PANEL, autocompletion=columns)]
Label = Annotated[
    str | None, typer.Option(help="Column of class labels.", rich_help_panel=_PANEL, autocompletion=columns)
]
Unlabelled = Annotated[
    bool,
    typer.Option(
        "--unlabelled",
        help="Accept rows without a label (blank, or -1), and leave them out.",
        rich_help_panel=_PANEL,
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(
        help="Column of weights: how much the comparisons of each labelled row count.",
        autocompletion=columns,
        rich_help_panel=_PANEL,
    ),
]
Vector = Annotated[
    str | None,
    typer.Option(
        help="Column of lists, or matrix, that holds the features.", autocompletion=columns, rich_help_panel=_PANEL
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        help="Columns of numbers to use as features: names or patterns such as 'f*', separated by commas. Can be "
        "repeated.",
        autocompletion=columns,
        rich_help_panel=_PANEL,
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        help="Columns that are not features, separated by commas. Can be repeated.",
        autocompletion=columns,
        rich_help_panel=_PANEL,
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=VALUE",
        help="Use only rows with this value (also !=, and <, <=, >, >= for numbers; in quotes). Can be repeated.",
        rich_help_panel=_PANEL,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Text = Annotated[
    str | None,
    typer.Option(
        help="Column of texts, such as sentences, to show in place of ids (search: beside them).",
        autocompletion=columns,
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True)
class Reading:
    """How files of points are read."""

    id: str | None = None
    label: str | None = None
    vector: str | None = None
    columns: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    where: tuple[Condition, ...] = ()
    keep: tuple[str, ...] = ()
    text: str | None = None
    weight: str | None = None
    unlabelled: bool = False
    of_model: tuple[str, ...] | None = None  # features that a model has names for, unless others are asked for

    @classmethod
    def of(
        cls,
        id: str | None,
        label: str | None,
        vector: str | None,
        columns: Sequence[str] | None,
        ignore: Sequence[str] | None,
        where: Sequence[str] | None,
        keep: Sequence[str] | None = None,
        *,
        unlabelled: bool = False,
    ) -> "Reading":
        """Parse the options."""
        if unlabelled and label is None:
            raise typer.BadParameter("--unlabelled goes with --label.", param_hint="--unlabelled")
        named = None if columns is None else separated(columns)
        conditions = parse_conditions(where, "--where")
        ignored, kept = separated(ignore or ()), separated(keep or ())
        return cls(id, label, vector, named, ignored, conditions, kept, unlabelled=unlabelled)

    @property
    def typed(self) -> str:
        """The options about columns, except labels, as they would be typed again."""
        named = {"id": self.id, "vector": self.vector, "columns": self.columns, "ignore": self.ignore}
        given = {name: value if isinstance(value, str) else ",".join(value) for name, value in named.items() if value}
        typed = "".join(f" --{name} {shlex.quote(value)}" for name, value in given.items())
        return typed + " --unlabelled" * self.unlabelled

    def texts(self, table: "PointTable") -> "NDArray[Any] | None":
        """The texts of points that were read; None if no column of texts is named."""
        return None if self.text is None else table.kept[self.text]

    def for_model(self, metric: "MahalanobisMetric") -> "Reading":
        """The same, with the features of a model by name unless others are asked for."""
        return self if metric.feature_names is None else replace(self, of_model=tuple(metric.feature_names))

    def read(self, files: Sequence[str], *, or_open: bool = False) -> "PointTable":
        """All rows that satisfy the conditions; with `or_open`, `open` if the files are large."""
        table = self._table(files, self.where, _reader(files, or_open=or_open))
        return self._chosen(table, rows_where(table, self.where)) if self.where else table

    def open(self, files: Sequence[str]) -> "PointTable":
        """All rows that satisfy the conditions, with features that stay in the files (`open_points`)."""
        from boostmetric.tables import open_points

        table = self._table(files, self.where, open_points)
        return self._chosen(table, rows_where(table, self.where)) if self.where else table

    def apart(
        self, files: Sequence[str], others: Sequence[str], *, id_in_one: bool = False
    ) -> "tuple[Reading, Reading]":
        """How to read files, and how to read others that go with them, such as a reference or queries.

        Conditions apply to the first only. Columns to ignore, vectors, texts and, with `id_in_one`, ids may be in one
        of both only, and labels beside .npy files may be in two files.
        """
        from boostmetric.tables.formats import open_tables
        from boostmetric.tables.point_table import to_ignore

        label, comma, of_others = (self.label or "").partition(",")
        if not (comma and label.endswith(".npy") and of_others.endswith(".npy")):
            label = of_others = self.label or ""
        ours, theirs = open_tables(list(files)), open_tables(list(others))
        every = [*ours.tables, *theirs.tables]
        ignored = [tuple(to_ignore(one.first, self.ignore, every)) for one in (ours, theirs)]

        def where_it_is(name: str | None) -> list[str | None]:
            """The name of a column for the tables that have it, or for both if none has."""
            has = [name in one.first.columns for one in (ours, theirs)]
            return [name if there or not any(has) else None for there in has]

        texts, vectors = where_it_is(self.text), where_it_is(self.vector)
        ids = where_it_is(self.id) if id_in_one else [self.id, self.id]
        return (
            replace(self, id=ids[0], label=label or None, ignore=ignored[0], vector=vectors[0], text=texts[0]),
            replace(
                self, id=ids[1], label=of_others or None, ignore=ignored[1], vector=vectors[1], text=texts[1], where=()
            ),
        )

    def read_with(
        self, files: Sequence[str], others: Sequence[str] | None, *, or_open: bool = False
    ) -> "tuple[PointTable, PointTable | None]":
        """`read` files and, if there are any, others that go with them; see `apart`."""
        if not others:
            return self.read(files, or_open=or_open), None
        ours, theirs = self.apart(files, others)
        return ours.read(files, or_open=or_open), theirs.read(others, or_open=or_open)

    def read_two(
        self, files: Sequence[str], second: Sequence[Condition], *, or_open: bool = False
    ) -> "tuple[PointTable, PointTable]":
        """Rows that satisfy the conditions, and other rows of the same files.

        The others satisfy `second`, and the conditions on columns that `second` does not name. No row is in both: rows
        of `second` are taken out of the first.
        """
        table = self._table(files, (*self.where, *second), _reader(files, or_open=or_open))
        others = rows_where(table, other_conditions(self.where, second))
        first = rows_where(table, self.where) & ~others
        return self._chosen(table, first), self._chosen(table, others, other_conditions(self.where, second))

    def _table(
        self,
        files: Sequence[str],
        conditions: Sequence[Condition],
        reader: "Callable[..., PointTable]",
    ) -> "PointTable":
        from boostmetric.tables.complaints import NotThereError

        by_model = self.vector is None and self.columns is None and self.of_model is not None
        texts = () if self.text is None else (self.text,)
        weights = {} if self.weight is None else {"weight": self.weight}
        try:
            return reader(
                list(files),
                id=self.id,
                label=self.label,
                vector=self.vector,
                columns=self.of_model if by_model else self.columns,
                ignore=self.ignore,
                keep=list(dict.fromkeys([*self.keep, *texts, *(condition.column for condition in conditions)])),
                **weights,
                unlabelled=self.unlabelled,
            )
        except NotThereError:
            if by_model:
                self._check_names(files)
            raise

    def _check_names(self, files: Sequence[str]) -> None:
        """Refuse files without the columns of the model, and say how to read a vector instead."""
        from boostmetric.arrays.errors import listed, literal
        from boostmetric.tables import TableError
        from boostmetric.tables.formats import open_tables

        first, names = open_tables(list(files)).first, self.of_model or ()
        if not (missing := [name for name in names if name not in first.columns]):
            return
        problem = f"{first.path}: there is no column {missing[0]!r}, and the model was learned from {listed(names)}."
        vectors = [column.name for column in first.columns.values() if column.kind == "list"]
        remedy = "Give points with these columns."
        if vectors:
            order = f"If {literal(repr(vectors[0]))} holds the same {len(names):,} numbers in this order"
            remedy = f"{order}, say so: {{vector}} {literal(shlex.quote(vectors[0]))}."
        raise TableError(problem, remedy)

    def _chosen(
        self, table: "PointTable", rows: "object", conditions: Sequence[Condition] | None = None
    ) -> "PointTable":
        from boostmetric.tables.complaints import OptionError

        chosen = table.take(rows)  # type: ignore[arg-type]
        if not len(chosen):
            asked = " and ".join(map(str, self.where if conditions is None else conditions)) or "what is left over"
            raise OptionError(f"{table.source}: no row satisfies {asked}. Loosen the conditions.")
        return chosen


def _reader(files: Sequence[str], *, or_open: bool) -> "Callable[..., PointTable]":
    from boostmetric.tables import open_points, read_points
    from boostmetric.tables.formats import size_of

    return open_points if or_open and size_of(list(files)) > LARGE else read_points


def labelled(table: "PointTable") -> "PointTable":
    """The points that have a label: of those read with --unlabelled, some may have none."""
    from boostmetric.comparisons.labels import known_labels

    if table.labels is None:
        return table
    _, known = known_labels(table.labels, unlabelled=True)
    return table if known is None else table.take(known)


def separated(texts: Sequence[str]) -> tuple[str, ...]:
    """Comma-separated names from an option that can be repeated."""
    return tuple(name.strip() for names in texts for name in names.split(",") if name.strip())


def check_features(metric: "MahalanobisMetric", *tables: "PointTable") -> None:
    """Refuse points with a different number of features than the model."""
    from boostmetric.arrays.errors import plural
    from boostmetric.tables import TableError

    needed = metric.components.shape[1]
    for table in tables:
        if table.n_features != needed:
            raise TableError(
                f"{table.source} has {plural(table.n_features, 'feature')}, the model was learned from {needed:,}. "
                "Give points of the same kind; --columns, --vector and --ignore say which columns are features."
            )


def check_classes(table: "PointTable") -> None:
    """Refuse labelled points of one class only, among which every answer is right."""
    import numpy as np

    from boostmetric.arrays.errors import plural, shown
    from boostmetric.tables import TableError

    if table.labels is None or table.origin is None or (table.labels != table.labels[0]).any():
        return
    label = shown(np.asarray(table.labels)[:1].tolist()[0])
    problem = f"{table.source}, column {table.origin.columns.label!r}: {label} is the only label"
    problem += f" ({plural(len(table), 'row')})."
    raise TableError(problem, "Give rows of at least two classes, or name another column ({label}).")
