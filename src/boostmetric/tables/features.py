"""Choice of the columns that are features."""

from __future__ import annotations

import fnmatch
import glob
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import listed, literal, plural, shown
from boostmetric.tables.arrays import ArrayTable
from boostmetric.tables.complaints import TableError, missing_column
from boostmetric.tables.reading import Column, Table, TableSet, Wanted
from boostmetric.tables.values import Chunk

# Numbers in columns of these names are seldom features, and a metric learned from a label among them looks perfect.
_INDEX = {"", "Unnamed: 0", "__index_level_0__"}  # as pandas calls it
_SELDOM_FEATURES = {"id", "index", "label", "labels", "class", "target", *map(str.casefold, _INDEX)}
_SAY = "Say what they are ({id}, {label}), leave them out ({ignore}), or name the features ({columns})."


@dataclass(frozen=True)
class PointColumns:
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


@dataclass(frozen=True)
class Features:
    """Columns of numbers, or one column of vectors, and the columns that are left out.

    `dtype` is float32 if that is exact for every number. `chosen` means that no parameter names the features.
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
    """Choose the features by the first table; all others must have them too.

    Features are the named columns, or the only column of lists, or all columns of numbers.
    """
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
        raise TableError(
            f"{table.path}: column {vector!r} does not hold lists of numbers{_such_as(table.columns[vector])}. Vectors "
            "are lists in Parquet and JSON lines, and matrices in npy and npz; CSV has a column for each number."
        )
    chosen = asked.columns is None and vector is None
    if chosen:
        _refuse_doubtful(table, free)
    used = tuple(dict.fromkeys(names)) if vector is None else (vector,)
    if not used:
        raise TableError(
            f"{table.path}: there are no columns of numbers to use as features. It has {listed(table.columns, 20)}."
        )
    for name in used if vector is None else ():
        if table.columns[name].kind == "list":
            problem = f"{table.path}: column {name!r} holds lists, and columns must hold one number each."
            raise TableError(problem, "Use it alone, as {vector}.")
    left_out = tuple(name for name in table.columns if name not in used and name not in claimed)
    dtype = np.result_type(np.float32, *_dtypes(table_set, used, chosen))
    return Features(used, vector is not None, left_out, chosen, dtype)


def _dtypes(table_set: TableSet[Table], names: Sequence[str], chosen: bool) -> Iterator[np.dtype[Any]]:
    """Yield the types of the features in all tables."""
    first = table_set.first
    for table in table_set.tables:
        new = [name for name in table.columns if name not in first.columns]
        if chosen and new:
            raise TableError(
                f"{table.path}: has {listed(new)}, which {first.path} does not have. All files must have the same",
                "columns, or the features must be named ({columns}).",
            )
        yield from (table.column(name, "of features").dtype for name in names)


def _matching(table: Table, patterns: Sequence[str], what: str, exclude: Collection[str] = ()) -> list[str]:
    """Find columns by name, or by a pattern such as ``"f*"``."""
    names = []
    for pattern in patterns:
        found = fnmatch.filter(table.columns, pattern) if glob.has_magic(pattern) else []
        if pattern not in table.columns and not found:
            raise missing_column(table.path, f"column {what}", pattern, table.columns)
        names += [pattern] if pattern in table.columns else [name for name in found if name not in exclude]
    return names


def _only_vector(table: Table, free: Sequence[Column]) -> str | None:
    """Return the column of lists, or None to use columns of numbers."""
    lists = [column.name for column in free if column.kind == "list"]
    if isinstance(table, ArrayTable):
        lists = ["X"] if "X" in lists else lists
        arrays = ", ".join(f"{name} {dtype} {shape}" for name, (shape, dtype) in table.shapes.items())
        if not lists:
            problem = f"{table.path}: there is no matrix of numbers ({arrays})."
            raise TableError(problem, "Points are an array of shape (points, features).")
        if len(lists) > 1:
            raise TableError(f"{table.path}: there are several matrices ({arrays}).", "Name one as {vector}.")
    if len(lists) > 1:
        raise TableError(f"{table.path}: columns {listed(lists)} hold lists.", "Name the one to use as {vector}.")
    return lists[0] if lists else None


def _refuse_doubtful(table: Table, free: Sequence[Column]) -> None:
    """Raise an error where a wrong guess would go unnoticed."""
    texts = [column for column in free if column.kind != "number"]
    doubtful = [
        column
        for column in free
        if column.name.strip().casefold() in _SELDOM_FEATURES or column.name.casefold().endswith("_id")
    ]
    if texts and any(len(values[texts[0].name]) for values in table.chunks(Wanted([texts[0].name]))):
        brackets = any(str(column.example).startswith("[") for column in texts if isinstance(column.example, str))
        lists = " Lists of numbers are read from Parquet and JSON lines, not from CSV." if brackets else ""
        raise TableError(f"{table.path}: {_hold(texts)} no numbers{_such_as(texts[0])}.", _SAY + lists)
    if doubtful and not texts:
        index = " What pandas writes of its index is left away by index=False."
        problem = f"{_hold(doubtful)} numbers that would be used as features, which by the name they seldom are."
        is_index = any(column.name in _INDEX for column in doubtful)
        raise TableError(f"{table.path}: {problem}", _SAY + index * is_index)


def _hold(columns: Sequence[Column]) -> str:
    names = listed(column.name for column in columns)
    return f"columns {names} hold" if len(columns) > 1 else f"column {names} holds"


def _such_as(column: Column) -> str:
    return f" but, for example, {shown(column.example)}" if column.example not in (None, "") else ""


def several(names: str | Sequence[str]) -> list[str]:
    """Return a list of names, of which one may be given alone."""
    return [names] if isinstance(names, str) else list(names)
