"""Which columns of a table are the features of its points."""

from __future__ import annotations

import fnmatch
import glob
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from boostmetric.tables.arrays import ArrayTable
from boostmetric.tables.complaints import TableError, listed, missing_column, plural, shown
from boostmetric.tables.reading import Column, Table

# Numbers in columns of these names are seldom features, and a metric learned from a label among them looks perfect.
_INDEX = {"", "Unnamed: 0", "__index_level_0__"}  # as pandas calls it
_SELDOM_FEATURES = {"id", "index", "label", "labels", "class", "target", *map(str.casefold, _INDEX)}


@dataclass(frozen=True)
class Features:
    """Columns of numbers, or one column of vectors.

    Attributes
    ----------
    names : tuple of str
        The columns; one if `is_vector`.
    is_vector : bool
    dtype : dtype
        float32 where that holds every number of the columns exactly, float64 elsewhere.
    left_out : tuple of str
        Columns that are neither features nor anything else that was asked for.
    chosen : bool
        Whether no option named them.
    """

    names: tuple[str, ...]
    is_vector: bool
    dtype: np.dtype[Any]
    left_out: tuple[str, ...]
    chosen: bool

    def describe(self) -> str:
        """For people."""
        what = "the vector in column" if self.is_vector else plural(len(self.names), "column") + ":"
        return f"{what} {listed(self.names, 8)}, as {self.dtype}"


def choose_features(
    table: Table,
    claimed: Collection[str],
    vector: str | None,
    columns: Sequence[str] | None,
    ignore: Sequence[str],
) -> Features:
    """The features of a table: those that are named, else its only column of lists, else all numbers.

    Parameters
    ----------
    table : Table
    claimed : collection of str
        Columns that are something else, such as the ids.
    vector : str, optional
        The column of lists to use.
    columns : sequence of str, optional
        The columns of numbers to use, by name or by pattern.
    ignore : sequence of str
        Columns to leave out, by name or by pattern.
    """
    if vector is not None and columns is not None:
        raise TableError(f"Give vector ({vector!r}) or columns ({listed(columns)}), not both.")
    ignored = set(_matching(table, ignore, "to ignore"))
    free = [column for name, column in table.columns.items() if name not in ignored and name not in claimed]
    if columns is not None:
        names = tuple(dict.fromkeys(_matching(table, columns, "of features", exclude={*ignored, *claimed})))
        return _columns(table, names, claimed, chosen=False)
    if vector is None:
        vector = _only_vector(table, free)
    elif table.column(vector, "of vectors").kind != "list":
        raise TableError(
            f"{table.path}: column {vector!r} does not hold lists of numbers{_such_as(table.columns[vector])}. Vectors "
            "are lists in Parquet and JSON lines, and matrices in npy and npz; CSV has a column for each number."
        )
    if vector is not None:
        dtype = np.result_type(np.float32, table.columns[vector].dtype)
        return Features((vector,), True, dtype, _others(table, [vector], claimed), chosen=False)
    _refuse_doubtful(table, free)
    return _columns(table, tuple(column.name for column in free), claimed, chosen=True)


def _columns(table: Table, names: tuple[str, ...], claimed: Collection[str], *, chosen: bool) -> Features:
    if not names:
        raise TableError(
            f"{table.path}: there are no columns of numbers to use as features. It has {listed(table.columns, 20)}."
        )
    lists = [name for name in names if table.columns[name].kind == "list"]
    if lists:
        raise TableError(
            f"{table.path}: column {lists[0]!r} holds lists, and columns must hold one number each. Use it alone, as "
            "vector."
        )
    dtype = np.result_type(np.float32, *(table.columns[name].dtype for name in names))
    return Features(names, False, dtype, _others(table, names, claimed), chosen)


def _others(table: Table, names: Collection[str], claimed: Collection[str]) -> tuple[str, ...]:
    used = {*names, *claimed}
    return tuple(name for name in table.columns if name not in used)


def _matching(table: Table, patterns: Sequence[str], what: str, exclude: Collection[str] = ()) -> list[str]:
    """Columns by name, or by a pattern such as ``"f*"``."""
    names = []
    for pattern in patterns:
        if pattern in table.columns:
            names.append(pattern)
            continue
        found = fnmatch.filter(table.columns, pattern) if glob.has_magic(pattern) else []
        if not found:
            raise missing_column(str(table.path), f"column {what}", pattern, list(table.columns))
        names += [name for name in found if name not in exclude]
    return names


def _only_vector(table: Table, free: Sequence[Column]) -> str | None:
    """The column of lists, None if columns of numbers are to be used."""
    lists = [column.name for column in free if column.kind == "list"]
    if isinstance(table, ArrayTable):
        if "X" in lists:
            return "X"
        if len(lists) != 1:
            arrays = ", ".join(f"{name} {dtype} {shape}" for name, (shape, dtype) in table.shapes.items())
            which = "there are several matrices" if lists else "there is no matrix of numbers"
            remedy = "Name one as vector." if lists else "Points are an array of shape (points, features)."
            raise TableError(f"{table.path}: {which} ({arrays}). {remedy}")
    if len(lists) > 1:
        raise TableError(f"{table.path}: columns {listed(lists)} hold lists. Name the one to use as vector.")
    return lists[0] if lists else None


def _refuse_doubtful(table: Table, free: Sequence[Column]) -> None:
    """Refuse to guess where a wrong guess would not be noticed."""
    texts = [column for column in free if column.kind != "number"]
    if texts:
        if next(iter(table.chunks([texts[0].name])), None) is None:
            return  # no rows, which tell nothing of columns; reading says so
        names = [column.name for column in texts]
        brackets = any(isinstance(column.example, str) and column.example.startswith("[") for column in texts)
        lists = " Lists of numbers are read from Parquet and JSON lines, not from CSV." if brackets else ""
        raise TableError(
            f"{table.path}: {_column_or_columns(names)} no numbers{_such_as(texts[0])}. Say what they are (id, "
            f"label), leave them out (ignore), or name the features (columns).{lists}"
        )
    doubtful = [
        column.name
        for column in free
        if column.name.strip().casefold() in _SELDOM_FEATURES or column.name.casefold().endswith("_id")
    ]
    if doubtful:
        index = " What pandas writes of its index is left away by index=False." if _INDEX & {*doubtful} else ""
        raise TableError(
            f"{table.path}: {_column_or_columns(doubtful)} numbers that would be used as features, which by the name "
            "they seldom are. Say what they are (id, label), leave them out (ignore), or name the features (columns)."
            f"{index}"
        )


def _column_or_columns(names: Sequence[str]) -> str:
    return f"column{'s' * (len(names) > 1)} {listed(names)} hold{'s' * (len(names) == 1)}"


def _such_as(column: Column) -> str:
    return f" but, for example, {shown(column.example)}" if column.example not in (None, "") else ""
