"""A table as the other modules see it, whatever its format: named columns, read in chunks of rows.

A *table* is one file. It knows its columns before its rows are read, and yields the values of those that are asked for
chunk by chunk, so that no more than a chunk is held twice. A *table set* is several tables that are read as one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from boostmetric.arrays.errors import literal
from boostmetric.tables.complaints import Complaints, TableError, listed, missing_column, plural
from boostmetric.tables.values import Chunk, Values


@dataclass(frozen=True)
class Column:
    """A column before its rows are read; where the file has no types, by the first value, the example."""

    name: str
    kind: Literal["number", "text", "list", "other"]
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float64))
    example: object = None


class Wanted(NamedTuple):
    """Columns to read: of names or marks, of numbers or vectors; `strict` is to note others that turn up late."""

    names: Sequence[str]
    numbers: Sequence[str] = ()
    strict: bool = False

    @property
    def columns(self) -> list[str]:
        """All of them, once each."""
        return list(dict.fromkeys([*self.numbers, *self.names]))


class Table(ABC):
    """One file with named columns."""

    format: str  # for people
    columns: dict[str, Column]  # in the order of the file
    n_rows: int | None = None  # None if that is known only after reading

    def __init__(self, path: Path) -> None:
        self.path = path
        self.late: dict[str, int] = {}  # columns that turned up while reading (JSON lines), with their first row

    @abstractmethod
    def chunks(self, wanted: Wanted) -> Iterator[dict[str, Values]]:
        """The values of some columns, chunk by chunk."""

    def location(self, row: int) -> str:
        """Where a row is found: by its number, counted from 0, unless the format has lines."""
        return f"{self.path}, row {row} (counted from 0)"

    def column(self, name: str, what: str) -> Column:
        """A column by its name; `what` says what it was asked for."""
        if name not in self.columns:
            raise missing_column(self.path, f"column {what}", name, self.columns)
        return self.columns[name]


T = TypeVar("T", bound=Table, covariant=True)


class TableSet(Generic[T]):
    """Several files of the same columns, at least one, read as one table, row after row."""

    def __init__(self, tables: Sequence[T]) -> None:
        self.tables = tables
        self._starts = [0]

    def __str__(self) -> str:
        more = len(self.tables) - 1
        return f"{self.first.path} and {plural(more, 'more file')}" if more else str(self.first.path)

    @property
    def first(self) -> T:
        """The table whose columns the others must have as well."""
        return self.tables[0]

    @property
    def format(self) -> str:
        """For people."""
        return ", ".join(dict.fromkeys(table.format for table in self.tables))

    @property
    def n_rows(self) -> int | None:
        """Rows of all tables, if known before reading."""
        counts = [table.n_rows for table in self.tables if table.n_rows is not None]
        return sum(counts) if len(counts) == len(self.tables) else None

    def chunks(self, wanted: Wanted) -> Iterator[Chunk]:
        """As of one table; after the last one, complaints of all are raised, or of files that have no rows at all."""
        complaints, n = Complaints(self.location), 0
        self._starts = [n]
        for table in self.tables:
            for name in wanted.columns:
                if name not in table.columns:
                    other = "" if table is self.first else f"{literal(str(self.first.path))} has it."
                    raise missing_column(table.path, "column", name, table.columns, other)
            for values in table.chunks(wanted):
                size = len(next(iter(values.values())))
                if size:
                    yield Chunk(np.arange(n, n + size), values, complaints)
                n += size
            self._starts.append(n)
        if not n:
            held = f" It has the columns {listed(self.first.columns)}." if self.first.columns else ""
            raise TableError(f"{self}: there are no rows.{held} At least one is needed.")
        complaints.raise_if_any()

    def location(self, row: int, column: str | None = None) -> str:
        """File and line (or row) of a row that was read, for a message."""
        # Files without rows start where the next one does, which is the one that has the row.
        number = min(bisect_right(self._starts, row), len(self.tables)) - 1
        where = self.tables[number].location(row - self._starts[number])
        return where if column is None else f"{where}, column {column!r}"
