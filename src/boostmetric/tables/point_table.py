"""Points from files: a matrix of features, with ids and labels."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boostmetric.tables.complaints import Complaints, TableError, listed, plural, shown
from boostmetric.tables.features import Features, choose_features
from boostmetric.tables.identifiers import Identifiers
from boostmetric.tables.matrix import Matrix
from boostmetric.tables.opening import FilePaths, open_tables
from boostmetric.tables.reading import TableSet
from boostmetric.tables.values import ColumnPart, Ids, joined

_FIX_REPEATED = "Each id must be there once: remove or rename the others."


@dataclass(frozen=True)
class Origin:
    """How points were in their file: format, features, and the columns of ids, labels and of what was left out."""

    format: str
    features: str
    id: str | None
    label: str | None
    left_out: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class PointTable:
    """Points with what is known about them, as `read_points` returns it.

    Attributes
    ----------
    points : ndarray of shape (n_points, n_features)
        float32 or float64, all finite.
    ids : ndarray of shape (n_points,), optional
        int64 if all ids are whole numbers, otherwise an object array of str. All differ.
    labels : ndarray of shape (n_points,), optional
        int64 if all classes are whole numbers, otherwise text.
    feature_names : list of str, optional
        None if the features are a vector.
    kept : dict of str to ndarray of shape (n_points,)
        Other columns that were asked for.
    source : str
        The file, as messages name it.
    origin : Origin, optional
        What `describe` says about the file.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric.tables import PointTable
    >>> table = PointTable(np.eye(3), ids=np.array([10, 20, 30]))
    >>> table.find([30, 10, 99])
    array([ 2,  0, -1])
    """

    points: NDArray[Any]
    ids: NDArray[Any] | None = None
    labels: NDArray[Any] | None = None
    feature_names: list[str] | None = None
    kept: dict[str, NDArray[Any]] = field(default_factory=dict)
    source: str = "points"
    origin: Origin | None = None

    @property
    def n_features(self) -> int:
        """Number of features of each point."""
        return int(self.points.shape[1])

    def __len__(self) -> int:
        return len(self.points)

    @cached_property
    def identifiers(self) -> Identifiers | None:
        """Finds points by their ids; None if they have none."""
        if self.ids is None:
            return None
        return Identifiers(self.ids if self.ids.dtype.kind == "i" else list(self.ids))

    def find(self, ids: Sequence[int | str] | NDArray[Any]) -> NDArray[np.int64]:
        """The row of each id, -1 where no point has it; whole numbers and their text are the same id.

        Parameters
        ----------
        ids : sequence or array of int or str

        Returns
        -------
        ndarray of int64
        """
        if self.identifiers is None:
            raise TableError(f"{self.source} was read without ids. Name the column that holds them (id).")
        values = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
        if all(type(value) is int and abs(value) < 2**63 for value in values):
            return self.identifiers.find(np.array(values, dtype=np.int64))
        return self.identifiers.find(list(map(str, values)))

    def take(self, rows: ArrayLike) -> PointTable:
        """Some of the points, by row number or by a mask."""
        rows = np.asarray(rows)
        return replace(
            self,
            points=self.points[rows],
            ids=None if self.ids is None else self.ids[rows],
            labels=None if self.labels is None else self.labels[rows],
            kept={name: values[rows] for name, values in self.kept.items()},
        )

    def describe(self) -> str:
        """What was understood, for people: file, format, features, ids, labels; one line each."""
        rows = f"{plural(len(self), 'point')} with {plural(self.n_features, 'feature')}"
        if self.origin is None:
            return f"{self.source}: {rows}"
        lines = [f"{self.source}: {self.origin.format}, {rows}", f"features: {self.origin.features}"]
        if self.ids is not None:
            kind = "whole numbers" if self.ids.dtype.kind == "i" else "text"
            lines.append(f"ids: column {self.origin.id!r}, {kind}, such as {listed(map(_plain, self.ids[:3]))}")
        if self.labels is not None:
            classes, counts = np.unique(self.labels, return_counts=True)
            most = np.argsort(-counts, kind="stable")[:5]
            told = ", ".join(f"{shown(_plain(classes[c]))} ({counts[c]:,})" for c in most)
            more = ", ..." if len(classes) > len(most) else ""
            lines.append(
                f"labels: column {self.origin.label!r}, {plural(len(classes), 'class', 'classes')}: {told}{more}"
            )
        if self.kept:
            lines.append(f"kept: {listed(self.kept)}")
        if self.origin.left_out:
            lines.append(f"left out: {listed(self.origin.left_out)}")
        return "\n  ".join(lines)


def read_points(
    path: FilePaths,
    *,
    id: str | None = None,
    label: str | None = None,
    vector: str | None = None,
    columns: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] = (),
    keep: str | Sequence[str] = (),
) -> PointTable:
    r"""Read points from a file, or from several files of the same columns.

    Parameters
    ----------
    path : path, pattern such as ``"shards/*.parquet"``, or sequence of them
        .csv or .tsv with a header, .jsonl or .ndjson with one object a line (all also .gz), .parquet, .npy (a matrix),
        .npz (arrays; their names are the columns).
    id, label : str, optional
        The columns of the ids and of the class labels.
    vector : str, optional
        The column of lists, or the matrix of an npz file, that holds the features.
    columns : str or sequence of str, optional
        The columns of numbers that are the features, by name or by a pattern such as ``"f*"``. Others are left out.
        Without `vector` and `columns`, the features are the only column of lists (in npz ``X``), or else all columns of
        numbers, in the order of the file; columns of text are then refused, not passed over.
    ignore : str or sequence of str, default=()
        Columns that are not features, by name or by pattern.
    keep : str or sequence of str, default=()
        Further columns to read, for example one that says which points are for training.

    Returns
    -------
    PointTable

    Raises
    ------
    TableError
        If anything is not as it should be, with the file, the line and the column.

    Notes
    -----
    Files are read in chunks. Besides what is returned, about 20 MB are held, and of Parquet the columns of one row
    group as they are stored.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from boostmetric.tables import read_points
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "points.csv"
    >>> _ = path.write_text("sku,kind,width,height\na1,chair,0.5,1.0\na2,table,1.5,0.75\n")
    >>> table = read_points(path, id="sku", label="kind")
    >>> table.points
    array([[0.5 , 1.  ],
           [1.5 , 0.75]])
    >>> table.ids.tolist(), table.labels.tolist(), table.feature_names
    (['a1', 'a2'], ['chair', 'table'], ['width', 'height'])
    >>> folder.cleanup()
    """
    return read_some_points(open_tables(path), id, label, vector, columns, ignore, keep)


def read_some_points(
    table_set: TableSet,
    id: str | None = None,
    label: str | None = None,
    vector: str | None = None,
    columns: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] = (),
    keep: str | Sequence[str] = (),
    only: Ids | None = None,
) -> PointTable:
    """As `read_points`; with `only`, the points of these ids (where they have none: row numbers, which are then ids).

    Of the other points no more is held than of a chunk. An id that no point has is passed over.
    """
    ignore, keep = _several(ignore), _several(keep)
    claimed = {name: what for what, name in (("id", id), ("label", label)) if name is not None}
    claimed.update((name, "to keep") for name in keep if name not in claimed)
    features = features_of(table_set, claimed, vector, columns, ignore)

    complaints, matrix = Complaints(), Matrix(features, table_set.n_rows if only is None else len(only))
    wanted = None if only is None else Identifiers(only)
    ids, labels, kept = list[Ids](), list[Ids](), {name: list[Ids]() for name in keep}
    rows = list[NDArray[np.int64]]()
    for chunk in table_set.chunks([*features.names, *(name for name in claimed if name not in features.names)]):
        if wanted is not None:
            numbers = np.arange(chunk.start, chunk.start + chunk.size)
            known = numbers if id is None else ColumnPart(table_set, chunk, id, complaints).ids()
            chunk = chunk.take(wanted.find(known) >= 0)
            if not chunk.size:
                continue
            assert chunk.rows is not None
            rows.append(chunk.rows)
        matrix.read(table_set, chunk, complaints)
        if id is not None:
            ids.append(ColumnPart(table_set, chunk, id, complaints).ids())
        elif wanted is not None:
            ids.append(rows[-1])
        if label is not None:
            labels.append(ColumnPart(table_set, chunk, label, complaints).classes())
        for name, parts in kept.items():
            parts.append(ColumnPart(table_set, chunk, name, complaints).classes(blank=True))
    _refuse_late_columns(table_set, features, {*claimed}, ignore)
    _refuse_repeated(table_set, id, ids, np.concatenate(rows) if rows else None, complaints)
    complaints.raise_if_any()

    table = PointTable(
        points=matrix.finished(),
        ids=None if id is None and wanted is None else _as_array(joined(ids), object),
        labels=None if label is None else _as_array(joined(labels), str),
        feature_names=None if features.is_vector else list(features.names),
        kept={name: _as_array(joined(parts), object) for name, parts in kept.items()},
        source=str(table_set),
        origin=Origin(table_set.format, features.describe(), id, label, features.left_out),
    )
    if table.n_features == 0 and len(table):
        raise TableError(f"{table_set}: the vectors in column {features.names[0]!r} are empty.")
    return table


def features_of(
    table_set: TableSet,
    claimed: dict[str, str],
    vector: str | None,
    columns: str | Sequence[str] | None,
    ignore: str | Sequence[str],
) -> Features:
    """The features of the first table, which all others must have as well; `claimed` columns are something else."""
    for name, what in claimed.items():
        table_set.first.column(name, {"id": "of ids", "label": "of labels"}.get(what, what))
    named = None if columns is None else _several(columns)
    features = choose_features(table_set.first, claimed, vector, named, _several(ignore))
    allowed = {*features.names, *features.left_out, *table_set.first.columns}
    dtypes = [features.dtype]
    for table in table_set.tables[1:]:
        new = [name for name in table.columns if name not in allowed]
        if features.chosen and new:
            raise TableError(
                f"{table.path}: has {listed(new)}, which {table_set.first.path} does not have. All files must have the "
                "same columns, or the features must be named (columns)."
            )
        columns_there = [table.column(name, "of features") for name in features.names]
        dtypes += [column.dtype for column in columns_there]
    return replace(features, dtype=np.result_type(*dtypes))


def _refuse_late_columns(table_set: TableSet, features: Features, claimed: set[str], ignore: Sequence[str]) -> None:
    """Refuse fields of JSON that only later rows have, where all numbers were to be features."""
    for table in table_set.tables if features.chosen else ():
        for name, row in table.unexpected.items():
            if name in claimed or any(fnmatch.fnmatchcase(name, pattern) for pattern in ignore):
                continue
            raise TableError(
                f"{table.location(row)}: has {name!r}, which the rows before do not have. Give it to all rows, or name "
                "the features (columns)."
            )


def _refuse_repeated(
    table_set: TableSet, column: str | None, ids: list[Ids], rows: NDArray[np.int64] | None, complaints: Complaints
) -> None:
    if column is None or complaints:  # ids that are missing are all the same
        return
    known = joined(ids)

    def row(number: int) -> int:
        return number if rows is None else int(rows[number])

    def problem(first: int, again: int) -> str:
        return f"id {shown(_plain(known[again]))} is also that of {table_set.location(row(first))}"

    for first, again in Identifiers(known).repeated():
        complaints.add(partial(table_set.location, row(again), column), partial(problem, first, again), _FIX_REPEATED)


def _several(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _as_array(values: Ids, text: type) -> NDArray[Any]:
    return values if isinstance(values, np.ndarray) else np.array(values, dtype=text)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
