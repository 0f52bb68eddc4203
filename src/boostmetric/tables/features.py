"""Choice of the columns that are features."""

from __future__ import annotations

import fnmatch
import glob
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import listed, literal, plural, shown
from boostmetric.tables.complaints import TableError
from boostmetric.tables.formats import ArrayTable
from boostmetric.tables.reading import Column, Table, TableSet, Wanted
from boostmetric.tables.values import Chunk

# Numbers in columns of these names are seldom features, and a metric learned from a label among them looks perfect.
_INDEX = {"", "Unnamed: 0", "__index_level_0__"}  # as pandas calls it
_SELDOM_FEATURES = {"id", "index", "label", "labels", "class", "target", *map(str.casefold, _INDEX)}
_SAY = "Say what they are ({id}, {label}), leave them out ({ignore}), or name the features ({columns})."


class PointColumns(NamedTuple):
    """Roles of columns, as in the parameters of `read_points`."""

    id: str | None = None
    label: str | None = None
    vector: str | None = None
    columns: str | Sequence[str] | None = None
    ignore: str | Sequence[str] = ()
    keep: str | Sequence[str] = ()

    @property
    def claimed(self) -> dict[str, str]:
        """Columns that are not features, and what they are."""
        keep = dict.fromkeys(several(self.keep), "to keep")
        others = {self.id: "of ids", self.label: "of labels"}
        return {name: what for name, what in (others | keep | others).items() if name is not None}


class Features(NamedTuple):
    """Columns of numbers, or one column of vectors; `chosen` means that no parameter names them.

    `dtype` is float32 if that is exact for every number.
    """

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
    others = {*claimed, *_matching(table, several(asked.ignore), "to ignore")}
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
        new = [name for name in other.columns if name not in table.columns]
        if chosen and new:
            problem = f"has {listed(new)}, which {table.path} does not have. All files must have the same columns,"
            raise other.error(problem, "or the features must be named ({columns}).")
        dtypes += [other.column(name, "of features").dtype for name in used]
    left_out = tuple(name for name in table.columns if name not in used and name not in claimed)
    return Features(used, vector is not None, left_out, chosen, np.result_type(np.float32, *dtypes))


def _matching(table: Table, patterns: Sequence[str], what: str, exclude: Collection[str] = ()) -> list[str]:
    """Find columns by name, or by a pattern such as ``"f*"``."""
    names = []
    for pattern in patterns:
        found = fnmatch.filter(table.columns, pattern) if glob.has_magic(pattern) else []
        if pattern in table.columns or not found:
            found = [table.column(pattern, what).name]
        else:
            found = [name for name in found if name not in exclude]
        names += found
    return names


def _only_vector(table: Table, free: Sequence[Column]) -> str | None:
    """Return the column of lists, or None to use columns of numbers."""
    lists = [column.name for column in free if column.kind == "list"]
    if isinstance(table, ArrayTable):
        lists = ["X"] if "X" in lists else lists
        arrays = ", ".join(f"{name} {dtype} {shape}" for name, (shape, dtype) in table.shapes.items())
        if not lists:
            remedy = "Points are an array of shape (points, features)."
            raise table.error(f"there is no matrix of numbers ({arrays}).", remedy)
        if len(lists) > 1:
            raise table.error(f"there are several matrices ({arrays}).", "Name one as {vector}.")
    if len(lists) > 1:
        raise table.error(f"columns {listed(lists)} hold lists.", "Name the one to use as {vector}.")
    return lists[0] if lists else None


def _refuse_doubtful(table: Table, free: Sequence[Column]) -> None:
    """Raise an error where a wrong guess would go unnoticed."""
    texts = [column for column in free if column.kind != "number"]
    if texts and any(len(values[texts[0].name]) for values in table.chunks(Wanted([texts[0].name]))):
        brackets = any(isinstance(column.example, str) and column.example.startswith("[") for column in texts)
        lists = " Lists of numbers are read from Parquet and JSON lines, not from CSV." if brackets else ""
        raise table.error(f"{_hold(texts)} no numbers{_such_as(texts[0])}.", _SAY + lists)
    doubtful = [
        column
        for column in free
        if column.name.strip().casefold() in _SELDOM_FEATURES or column.name.casefold().endswith("_id")
    ]
    if doubtful and not texts:
        is_index = any(column.name in _INDEX for column in doubtful)
        index = " What pandas writes of its index is left away by index=False." if is_index else ""
        problem = f"{_hold(doubtful)} numbers that would be used as features, which by the name they seldom are."
        raise table.error(problem, _SAY + index)


def _hold(columns: Sequence[Column]) -> str:
    names = listed(column.name for column in columns)
    return f"columns {names} hold" if len(columns) > 1 else f"column {names} holds"


def _such_as(column: Column) -> str:
    return f" but, for example, {shown(column.example)}" if column.example not in (None, "") else ""


def several(names: str | Sequence[str]) -> list[str]:
    """Return a list of names, of which one may be given alone."""
    return [names] if isinstance(names, str) else list(names)
