"""Tables of any format: named columns, read in chunks of rows.

A *table* is one file. Its columns are known before its rows are read. A *table set* is several tables that are read as
one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from boostmetric.arrays.errors import listed, literal, plural
from boostmetric.tables.complaints import Complaints, TableError, missing_column
from boostmetric.tables.values import Chunk, Values


@dataclass(frozen=True)
class Column:
    """A column of a file. In files without types, `example`, the first value, determines the kind."""

    name: str
    kind: Literal["number", "text", "list", "other"]
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float64))
    example: object = None


class Wanted(NamedTuple):
    """Columns to read as names or marks, and as numbers or vectors; `strict` records columns that appear late."""

    names: Sequence[str]
    numbers: Sequence[str] = ()
    strict: bool = False

    @property
    def columns(self) -> list[str]:
        """All columns, without repetition."""
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
        """Yield the values of columns in chunks."""

    def location(self, row: int) -> str:
        """Location of a row, for a message: its number from 0, or its line in text."""
        return f"{self.path}, row {row} (counted from 0)"

    def column(self, name: str, what: str) -> Column:
        """Return a column by name; `what` is its purpose, for the error if it is missing."""
        if name not in self.columns:
            raise missing_column(self.path, f"column {what}", name, self.columns)
        return self.columns[name]


T = TypeVar("T", bound=Table, covariant=True)


class TableSet(Generic[T]):
    """One or more files with the same columns, read as one table."""

    def __init__(self, tables: Sequence[T]) -> None:
        self.tables = tables
        self._starts = [0]

    def __str__(self) -> str:
        more = len(self.tables) - 1
        return f"{self.first.path} and {plural(more, 'more file')}" if more else str(self.first.path)

    @property
    def first(self) -> T:
        """The table whose columns all others must have."""
        return self.tables[0]

    @property
    def format(self) -> str:
        """Formats of the files, for a description."""
        return ", ".join(dict.fromkeys(table.format for table in self.tables))

    @property
    def n_rows(self) -> int | None:
        """Number of rows of all tables, or None if not known before reading."""
        counts = [table.n_rows for table in self.tables if table.n_rows is not None]
        return sum(counts) if len(counts) == len(self.tables) else None

    def chunks(self, wanted: Wanted) -> Iterator[Chunk]:
        """Yield chunks of all tables; at the end, raise the collected errors, or an error if there are no rows."""
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
        """Location of a row, for a message: the file, the line or row number, and the column."""
        # Files without rows start where the next one does, which is the one that has the row.
        number = min(bisect_right(self._starts, row), len(self.tables)) - 1
        where = self.tables[number].location(row - self._starts[number])
        return where if column is None else f"{where}, column {column!r}"
