"""Points from files: the columns that are features, and a matrix of them with ids and labels."""

from __future__ import annotations

import fnmatch
import glob
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boostmetric.arrays.errors import listed, literal, plural, shown
from boostmetric.arrays.identifiers import Identifiers, Ids, joined
from boostmetric.tables.complaints import TableError, refuse_repeated_ids
from boostmetric.tables.formats import ArrayTable, FilePaths, open_tables
from boostmetric.tables.reading import Chunk, Column, Table, TableSet, Wanted

# Numbers in columns of these names are seldom features, and a metric learned from a label among them looks perfect.
_INDEX = {"", "Unnamed: 0", "__index_level_0__"}  # as pandas calls it
_SELDOM_FEATURES = re.compile("|".join(["id", "index", "labels?", "class", "target", ".*_id", *_INDEX]), re.I | re.S)
_SAY = "Say what they are ({id}, {label}), leave them out ({ignore}), or name the features ({columns})."


class PointColumns(NamedTuple):
    """Roles of columns, as in the parameters of `read_points`."""

    id: str | None = None
    label: str | None = None
    vector: str | None = None
    columns: str | Sequence[str] | None = None
    ignore: str | Sequence[str] = ()
    keep: str | Sequence[str] = ()
    weight: str | None = None
    unlabelled: bool = False

    @property
    def claimed(self) -> dict[str, str]:
        """Columns that are not features, and what they are."""
        keep = dict.fromkeys(several(self.keep), "")
        others = {self.id: "of ids", self.label: "of labels", self.weight: "of weights"}
        return {name: what for name, what in (others | keep | others).items() if name is not None}

    def wanted(self, features: Features) -> Wanted:
        """What to read of each row, with these features."""
        names = [name for name in self.claimed if name != self.weight or name in several(self.keep)]
        weights = [] if self.weight is None else [self.weight]
        return Wanted(names, [*features.names, *weights], late_columns(features, self))


class Features(NamedTuple):
    """Columns of numbers, or one of vectors, as float32 if that is exact; if `chosen`, no parameter names them."""

    names: tuple[str, ...]
    is_vector: bool
    left_out: tuple[str, ...]
    chosen: bool
    dtype: np.dtype[Any]

    def describe(self) -> str:
        """Describe the features in a line."""
        what = "the vector in column" if self.is_vector else plural(len(self.names), "column") + ":"
        return f"{what} {listed(self.names, 8)}, as {self.dtype}"

    def of(self, chunk: Chunk, size: int | None = None) -> NDArray[Any]:
        """Return the features of a chunk; `size` is the length of vectors, if known."""
        if self.is_vector:
            return chunk.vectors(self.names[0], size).astype(self.dtype, copy=False)
        return np.stack([chunk.numbers(name) for name in self.names], axis=1, dtype=self.dtype)


def features_of(table_set: TableSet[Table], asked: PointColumns) -> Features:
    """Choose the features by the first table: named columns, the only column of lists, or all columns of numbers."""
    table, claimed, vector = table_set.first, asked.claimed, asked.vector
    for name, what in claimed.items():
        table.column(name, what)
    if vector is not None and asked.columns is not None:
        given = literal(repr(vector)), literal(listed(several(asked.columns)))
        raise TableError("", f"Give {{vector}} ({given[0]}) or {{columns}} ({given[1]}), not both.")
    ignored = to_ignore(table, asked.ignore, table_set.tables)
    others = {*claimed, *_matching(table, ignored, "to ignore")}
    free = [column for name, column in table.columns.items() if name not in others]
    names = [column.name for column in free]
    if asked.columns is not None:
        names = _matching(table, several(asked.columns), "of features", exclude=others)
    elif vector is None:
        vector = _only_vector(table, free)
    elif table.column(vector, "of vectors").kind != "list":
        problem = f"column {vector!r} does not hold lists of numbers{_such_as(table.columns[vector])}. Vectors are"
        forms = "lists in Parquet and JSON lines, and matrices in npy and npz; CSV has a column for each number."
        raise table.error(f"{problem} {forms}")
    chosen = asked.columns is None and vector is None
    if chosen:
        _refuse_doubtful(table, free)
    used = tuple(dict.fromkeys(names)) if vector is None else (vector,)
    if not used:
        raise table.error(f"there are no columns of numbers to use as features. It has {listed(table.columns, 20)}.")
    for name in used:
        if vector is None and table.columns[name].kind == "list":
            problem = f"column {name!r} holds lists, and columns must hold one number each."
            raise table.error(problem, "Use it alone, as {vector}.")
    dtypes = []
    for other in table_set.tables:
        new = [name for name in other.columns if name not in table.columns and not _has([name], asked.ignore)]
        if chosen and new:
            problem = f"has {listed(new)}, which {table.path} does not have. All files must have the same columns,"
            raise other.error(problem, "or the features must be named ({columns}).")
        dtypes += [other.column(name, "of features").dtype for name in used]
    left_out = tuple(name for name in table.columns if name not in used and name not in claimed)
    return Features(used, vector is not None, left_out, chosen, np.result_type(np.float32, *dtypes))


def to_ignore(table: Table, patterns: str | Sequence[str], others: Sequence[Table]) -> list[str]:
    """Columns to ignore in a table: not those that only others have, which are read beside it.

    What no table has stays, to be refused.
    """
    return [
        pattern
        for pattern in several(patterns)
        if _has(table.columns, [pattern]) or not any(_has(other.columns, [pattern]) for other in others)
    ]


def _has(columns: Collection[str], patterns: str | Sequence[str]) -> bool:
    """Whether a pattern is the name of one of the columns, or matches it."""
    return any(pattern in columns or bool(fnmatch.filter(columns, pattern)) for pattern in several(patterns))


def _matching(table: Table, patterns: Sequence[str], what: str, exclude: Collection[str] = ()) -> list[str]:
    """Find columns by name, or by a pattern such as ``"f*"``."""
    names = []
    for pattern in patterns:
        found = fnmatch.filter(table.columns, pattern) if glob.has_magic(pattern) else []
        exact = pattern in table.columns or not found
        names += [table.column(pattern, what).name] if exact else [name for name in found if name not in exclude]
    return names


def _only_vector(table: Table, free: Sequence[Column]) -> str | None:
    """Return the column of lists, or None to use columns of numbers."""
    lists = [column.name for column in free if column.kind == "list"]
    if isinstance(table, ArrayTable):
        lists = ["X"] if "X" in lists else lists
        arrays = ", ".join(f"{name} {dtype} {shape}" for name, (shape, dtype) in table.shapes.items())
        if not lists:
            raise table.error(
                f"there is no matrix of numbers ({arrays}). Points are an array of shape (points, features)."
            )
        if len(lists) > 1:
            raise table.error(f"there are several matrices ({arrays}).", "Name one as {vector}.")
    if len(lists) > 1:
        raise table.error(f"columns {listed(lists)} hold lists.", "Name the one to use as {vector}.")
    return lists[0] if lists else None


def _refuse_doubtful(table: Table, free: Sequence[Column]) -> None:
    """Raise an error where a wrong guess would go unnoticed."""

    def hold(columns: Sequence[Column]) -> str:
        names = listed(column.name for column in columns)
        return f"columns {names} hold" if len(columns) > 1 else f"column {names} holds"

    texts = [column for column in free if column.kind != "number"]
    if texts and any(len(values[texts[0].name]) for values in table.chunks(Wanted([texts[0].name]))):
        brackets = any(isinstance(column.example, str) and column.example.startswith("[") for column in texts)
        lists = " Lists of numbers are read from Parquet and JSON lines, not from CSV." if brackets else ""
        raise table.error(f"{hold(texts)} no numbers{_such_as(texts[0])}.", _SAY + lists)
    doubtful = [column for column in free if _SELDOM_FEATURES.fullmatch(column.name.strip())]
    if doubtful and not texts:
        is_index = any(column.name in _INDEX for column in doubtful)
        index = " What pandas writes of its index is left away by index=False." if is_index else ""
        problem = f"{hold(doubtful)} numbers that would be used as features, which by the name they seldom are."
        raise table.error(problem, _SAY + index)


def _such_as(column: Column) -> str:
    return f" but, for example, {shown(column.example)}" if column.example not in (None, "") else ""


def several(names: str | Sequence[str]) -> list[str]:
    """Return a list of names, of which one may be given alone."""
    return [names] if isinstance(names, str) else list(names)


class Origin(NamedTuple):
    """Format of the file of points, the columns asked for, and those of its first file."""

    format: str
    features: Features
    columns: PointColumns
    found: tuple[Column, ...] = ()


@dataclass(frozen=True, eq=False)
class PointTable:
    """Points with ids and labels, as returned by `read_points`.

    Attributes
    ----------
    points : ndarray of shape (n_points, n_features)
        float32 or float64, all finite. From `boostmetric.tables.open_points`, points in blocks instead.
    ids : ndarray of shape (n_points,), optional
        int64 if all ids are whole numbers, otherwise an object array of str. All differ.
    labels : ndarray of shape (n_points,), optional
        int64 if all classes are whole numbers, otherwise text; empty where a point has none.
    weights : ndarray of shape (n_points,), optional
        Finite, and at least 0.
    feature_names : list of str, optional
        None if the features are a vector.
    kept : dict of str to ndarray of shape (n_points,)
        Other columns, see ``keep`` in `read_points`.
    source : str
        Name of the file in messages.
    origin : Origin, optional
        Format and columns of the file, for `describe`.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric.tables import PointTable
    >>> table = PointTable(np.eye(3), ids=np.array([10, 20, 30]))
    >>> table.find([30, 10, 99])
    array([ 2,  0, -1])
    """

    points: Any
    ids: NDArray[Any] | None = None
    labels: NDArray[Any] | None = None
    feature_names: list[str] | None = None
    weights: NDArray[Any] | None = None
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
    def identifiers(self) -> Identifiers:
        """Lookup by id, or by row number if there are no ids."""
        return Identifiers(np.arange(len(self)) if self.ids is None else self.ids)

    def find(self, ids: Sequence[int | str] | NDArray[Any]) -> NDArray[np.int64]:
        """Find the row of each id, or -1. A whole number and its text are the same id.

        Parameters
        ----------
        ids : sequence or array of int or str

        Returns
        -------
        ndarray of int64
        """
        if self.ids is None:
            raise TableError(f"{self.source} was read without ids.", "Name the column that holds them ({id}).")
        values = np.array(ids)
        is_whole = values.dtype.kind == "i"
        return self.identifiers.find(values if is_whole else np.array(list(map(str, ids)), dtype=object))

    def take(self, rows: ArrayLike) -> PointTable:
        """Select points by row number or by a mask."""
        rows = np.asarray(rows)
        named = {"ids": self.ids, "labels": self.labels, "weights": self.weights}
        chosen: dict[str, Any] = {name: None if values is None else values[rows] for name, values in named.items()}
        kept = {name: values[rows] for name, values in self.kept.items()}
        return replace(self, points=self.points[rows], kept=kept, **chosen)

    def numbers_kept(self, name: str) -> NDArray[Any]:
        """A kept column, as numbers if it was read from a column of numbers; NaN where it has no value."""
        values = self.kept[name]
        found = self.origin.found if self.origin else ()
        typed = [column for column in found if column.name == name and not isinstance(column.example, str)]
        if values.dtype != object or [column.kind for column in typed] != ["number"]:
            return values  # of CSV too: 007 is no number
        try:
            return np.array([float(text or "nan") for text in values.tolist()])
        except ValueError:
            return values

    def describe(self) -> str:
        """Describe what was read: file, format, features, ids and labels, one line each."""
        rows = f"{plural(len(self), 'point')} with {plural(self.n_features, 'feature')}"
        if self.origin is None:
            return f"{self.source}: {rows}"
        lines = [f"{self.source}: {self.origin.format}, {rows}", f"features: {self.origin.features.describe()}"]
        if self.ids is not None:
            kind = "text" if self.ids.dtype == object else "whole numbers"
            lines.append(f"ids: column {self.origin.columns.id!r}, {kind}, such as {listed(self.ids[:3].tolist())}")
        if self.labels is not None:
            classes, counts = np.unique(self.labels, return_counts=True)
            most = np.argsort(-counts, kind="stable")[:5]
            sizes = [f"{shown(classes[c].item())} ({counts[c]:,})" for c in most] + ["..."] * (len(classes) > len(most))
            several = plural(len(classes), "class", "classes")
            lines.append(f"labels: column {self.origin.columns.label!r}, {several}: {', '.join(sizes)}")
        if self.weights is not None:
            span = f"{self.weights.min():g} to {self.weights.max():g}"
            lines.append(f"weights: column {self.origin.columns.weight!r}, {span}")
        if self.kept:
            lines.append(f"kept: {listed(self.kept)}")
        if self.origin.features.left_out:
            lines.append(f"left out: {listed(self.origin.features.left_out)}")
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
    weight: str | None = None,
    unlabelled: bool = False,
) -> PointTable:
    r"""Read points from a file, or from several files of the same columns.

    Parameters
    ----------
    path : path, pattern such as ``"points/*.parquet"``, or sequence of them
        .csv or .tsv with a header, .jsonl or .ndjson with one object a line (all also .gz or .zst), .parquet, .npy (a
        matrix), .npz (arrays; their names are the columns). "-" is standard input, with one JSON object a line.
    id, label : str, optional
        The columns of the ids and of the class labels. Beside points in .npy, any column may be the path of another
        .npy file with a value for each row.
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
    weight : str, optional
        The column of weights, for `sample_weight` in `boostmetric.BoostMetric.fit`.
    unlabelled : bool, default=False
        Whether rows may have no label: it is then an empty text, which the learners take with ``unlabelled=True``.

    Returns
    -------
    PointTable

    Raises
    ------
    TableError
        If anything is wrong, with the file, the line and the column.

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
    asked = PointColumns(id, label, vector, columns, ignore, keep, weight, unlabelled)
    return read_some_points(open_tables(path), asked)


class NamedColumns:
    """Ids, labels, weights and kept columns of points, collected chunk by chunk."""

    def __init__(self, asked: PointColumns) -> None:
        self._asked = asked
        self._rows, self._ids, self._labels = list[NDArray[np.int64]](), list[Ids](), list[Ids]()
        self._weights = list[NDArray[Any]]()
        self._kept = {name: list[Ids]() for name in several(asked.keep)}

    def add(self, chunk: Chunk, chosen: Any = slice(None), ids: Ids | None = None) -> None:
        """Add the chosen rows of a chunk; `ids` are its ids, if they were read already."""
        asked = self._asked
        if ids is not None or asked.id is not None:
            self._rows.append(chunk.rows[chosen])
            self._ids.append((chunk.ids(asked.id or "") if ids is None else ids)[chosen])
        if asked.label is not None:
            self._labels.append(chunk.classes(asked.label, blank=asked.unlabelled)[chosen])
        if asked.weight is not None:
            weights = chunk.numbers(asked.weight)
            negative = np.flatnonzero(weights < 0)
            problem = "a weight below 0"
            chunk.complaints.add(chunk.rows[negative], problem, "Weights are at least 0: correct these.", asked.weight)
            self._weights.append(weights[chosen])
        for name, parts in self._kept.items():
            parts.append(chunk.classes(name, blank=True)[chosen])

    def checked(self, table_set: TableSet[Table]) -> dict[str, Any]:
        """Attributes of a `PointTable`; ids that are there twice are refused."""
        ids, labels = (joined(parts) if parts else None for parts in (self._ids, self._labels))
        if self._asked.id is not None and ids is not None:
            refuse_repeated_ids(table_set.location, ids, joined(self._rows), self._asked.id)
        if labels is not None and labels.dtype == object:
            labels = labels.astype(str)
        weights = np.concatenate(self._weights) if self._weights else None
        kept = {name: joined(parts) for name, parts in self._kept.items()}
        return {"ids": ids, "labels": labels, "weights": weights, "kept": kept}


def late_columns(features: Features, asked: PointColumns) -> Sequence[str]:
    """Patterns of columns that may come late in JSON lines: any, unless all columns of numbers are features."""
    return several(asked.ignore) if features.chosen else ("*",)


def read_some_points(table_set: TableSet[Table], asked: PointColumns, only: Ids | None = None) -> PointTable:
    """As `read_points`; of `only`, the known ones of these ids, or row numbers, which then become ids, are kept."""
    features, known = features_of(table_set, asked), None if only is None else Identifiers(only)
    expected, n, width = (table_set.n_rows or 0) if only is None else len(only), 0, None
    points, named = np.empty((0, 0), dtype=features.dtype), NamedColumns(asked)
    for chunk in table_set.chunks(asked.wanted(features)):
        block, ids = features.of(chunk, width), None
        chosen: Any = slice(None)
        width = block.shape[1]
        if known is not None:
            ids = chunk.rows if asked.id is None else chunk.ids(asked.id)
            chosen = known.find(ids) >= 0
        points = _appended(points, n, block[chosen], expected)
        n += len(block[chosen])
        named.add(chunk, chosen, ids)
    columns = named.checked(table_set)
    if width == 0:
        raise table_set.error(f"the vectors in column {features.names[0]!r} are empty.")
    if len(points) > n:
        points.resize((n, points.shape[1]), refcheck=False)
    feature_names = None if features.is_vector else list(features.names)
    origin = Origin(table_set.format, features, asked, tuple(table_set.first.columns.values()))
    return PointTable(points, feature_names=feature_names, source=str(table_set), origin=origin, **columns)


def _appended(array: NDArray[Any], n: int, block: NDArray[Any], expected: int) -> NDArray[Any]:
    """Append a block to the first n rows of an array, which grows in place if possible."""
    end = n + len(block)
    if not n and end >= expected:  # perhaps all there is, and used as it is
        return np.require(block, array.dtype, ["C", "W"])
    if not n:
        array = np.empty((expected, block.shape[1]), dtype=array.dtype)
    elif end > len(array):
        array = np.require(array, requirements="O")
        array.resize((max(end, len(array) * 5 // 4), block.shape[1]), refcheck=False)
    array[n:end] = block
    return array
