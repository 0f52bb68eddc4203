"""Tables of any format: named columns, known before the rows are read, and the rows in chunks."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from boostmetric.arrays.errors import listed, literal, plural
from boostmetric.tables.complaints import Complaints, TableError
from boostmetric.tables.values import Chunk, Values


class Column(NamedTuple):
    """A column of a file: "number", "text", "list" (of numbers) or "other"; where types are unknown, by an example."""

    name: str
    kind: str
    dtype: np.dtype[Any] = np.dtype(np.float64)
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

    n_rows: int | None = None  # None if that is known only after reading

    def __init__(self, path: Path, format: str) -> None:
        self.path, self.format = path, format
        self.columns: dict[str, Column] = {}  # in the order of the file
        self.late: dict[str, int] = {}  # columns that turned up while reading (JSON lines), with their first row

    @abstractmethod
    def chunks(self, wanted: Wanted) -> Iterator[dict[str, Values]]:
        """Yield the values of columns in chunks."""

    def location(self, row: int) -> str:
        """Location of a row, for a message: its number from 0, or its line in text."""
        return f"{self.path}, row {row} (counted from 0)"

    def column(self, name: str, what: str, remedy: str = "") -> Column:
        """Return a column by name; `what` is its purpose, for the error if it is missing."""
        if name in self.columns:
            return self.columns[name]
        folded = {other.strip().casefold(): other for other in reversed(self.columns)}
        close = difflib.get_close_matches(name.strip().casefold(), folded, n=1, cutoff=0.8)
        hint = f" Did you mean {folded[close[0]]!r}?" if close else ""
        has = listed(self.columns, 20) or "none"
        raise self.error(f"there is no {f'column {what}'.strip()} {name!r}.{hint} It has {has}.", remedy)

    def refuse_repeated(self, names: Sequence[str], line: int | None = None) -> None:
        """Raise an error if columns have the same name."""
        if twice := sorted(name for name, count in Counter(names).items() if count > 1):
            raise self.error(f"several columns are called {listed(twice)}. Rename them.", line=line)

    def error(self, problem: str, remedy: str = "", line: int | None = None) -> TableError:
        """Return an error about this file, or about a line of it."""
        return TableError(f"{self.path}{'' if line is None else f', line {line}'}: {problem}".rstrip(), remedy)


T = TypeVar("T", bound=Table, covariant=True)


class TableSet(Generic[T]):
    """One or more files, read as one table; all must have the columns of the first."""

    def __init__(self, tables: Sequence[T]) -> None:
        self.tables, self.first = tables, tables[0]
        self.format = ", ".join(dict.fromkeys(table.format for table in tables))
        counts = [table.n_rows for table in tables if table.n_rows is not None]
        self.n_rows = sum(counts) if len(counts) == len(tables) else None  # None if not known before reading
        self._starts = [0]

    def __str__(self) -> str:
        more = len(self.tables) - 1
        return f"{self.first.path} and {plural(more, 'more file')}" if more else str(self.first.path)

    def chunks(self, wanted: Wanted) -> Iterator[Chunk]:
        """Yield chunks of all tables; at the end, raise the collected errors, or an error if there are no rows."""
        complaints, n = Complaints(self.location), 0
        self._starts = [n]
        for table in self.tables:
            for name in wanted.columns:
                table.column(name, "", "" if table is self.first else f"{literal(str(self.first.path))} has it.")
            for values in table.chunks(wanted):
                size = len(next(iter(values.values())))
                if size:
                    yield Chunk(np.arange(n, n + size), values, complaints)
                n += size
            self._starts.append(n)
        if not n:
            held = f" It has the columns {listed(self.first.columns)}." if self.first.columns else ""
            raise self.error(f"there are no rows.{held} At least one is needed.")
        complaints.raise_if_any()

    def location(self, row: int, column: str | None = None) -> str:
        """Location of a row, for a message: the file, the line or row number, and the column."""
        # Files without rows start where the next one does, which is the one that has the row.
        number = min(bisect_right(self._starts, row), len(self.tables)) - 1
        where = self.tables[number].location(row - self._starts[number])
        return where if column is None else f"{where}, column {column!r}"

    def error(self, problem: str, remedy: str = "", kind: type[TableError] = TableError) -> TableError:
        """Return an error about these files."""
        return kind(f"{self}: {problem}".rstrip(), remedy)
