"""A table as the other modules see it, whatever its format: named columns, read in chunks of rows.

A *table* is one file. It knows its columns before its rows are read, yields the values of those that are asked for
chunk by chunk, so that no more than a chunk is held twice, and remembers where its rows are, for complaints. *TableSet*
are several tables that are read as one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from boostmetric.tables.complaints import TableError, listed, looking_for, missing_column, plural

# The values of a column in a chunk: an array where the file has types, with two axes for a column of lists;
# otherwise a sequence of text, or of whatever JSON has, None where there is no value.
Values = NDArray[Any] | Sequence[Any]
# About as many values or bytes are read at once; much less is slower, much more shows in the memory.
VALUES_PER_CHUNK = 2**18
BYTES_PER_CHUNK = 2**24


@dataclass(frozen=True)
class Column:
    """A column before its rows are read.

    Attributes
    ----------
    name : str
    kind : {"number", "text", "list", "other"}
        Where the file has no types, by the first value there is.
    dtype : dtype
        Of the numbers in it: float64 where the file does not say.
    example : object
        The first value, where it costs nothing to know it.
    """

    name: str
    kind: Literal["number", "text", "list", "other"]
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float64))
    example: object = None


@dataclass(frozen=True)
class Chunk:
    """Some rows: the number of rows before the first of them, their number, and their values."""

    start: int
    size: int
    values: dict[str, Values]
    typed: bool = True  # False in CSV, where numbers are text as well
    rows: NDArray[np.int64] | None = None  # their numbers, where they do not follow each other

    def row(self, offset: int) -> int:
        """The number of a row in its table."""
        return self.start + offset if self.rows is None else int(self.rows[offset])

    def take(self, chosen: NDArray[np.bool_]) -> Chunk:
        """Some of the rows."""
        offsets = np.flatnonzero(chosen)
        values: dict[str, Values] = {
            name: column[offsets] if isinstance(column, np.ndarray) else [column[i] for i in offsets.tolist()]
            for name, column in self.values.items()
        }
        return Chunk(self.start, len(offsets), values, self.typed, self.start + offsets)


class Table(ABC):
    """One file with named columns.

    Attributes
    ----------
    path : Path
    format : str
        For people.
    columns : dict of str to Column
        In the order of the file.
    n_rows : int or None
        None if that is known only after reading.
    unexpected : dict of str to int
        Columns that were not among `columns` and turned up while reading (JSON lines), with their first row.
    """

    format: str
    columns: dict[str, Column]
    n_rows: int | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unexpected: dict[str, int] = {}

    @abstractmethod
    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """The values of some columns, chunk by chunk; the same columns in every chunk."""

    def location(self, row: int) -> str:
        """Where a row is found: by its number, counted from 0, unless the format has lines."""
        return f"{self.path}, row {row} (counted from 0)"

    def column(self, name: str, what: str) -> Column:
        """A column by its name; `what` says what it was asked for."""
        if name not in self.columns:
            raise missing_column(str(self.path), f"column {what}".strip(), name, list(self.columns))
        return self.columns[name]

    @contextmanager
    def _errors(self, broken: tuple[type[Exception], ...], kind: str) -> Iterator[None]:
        """Around all that reads the file: says what is wrong with one that is gone, or not as it was written.

        Parameters
        ----------
        broken : tuple of exception types
            What is raised where a file of this kind is damaged.
        kind : str
            What it is called in the message.
        """
        try:
            with looking_for(self.path):
                yield
        except TableError:
            raise
        except broken as error:
            reason = str(error).strip().rstrip(".")
            raise TableError(
                f"{self.path}: not a whole {kind} file ({reason}). Write it again, or copy it again if it was copied."
            ) from None


class TableSet:
    """Several files of the same columns, read as one table, row after row.

    Parameters
    ----------
    tables : list of Table
        At least one.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        self.tables = list(tables)
        self._starts = [0]

    def __str__(self) -> str:
        first, more = str(self.tables[0].path), len(self.tables) - 1
        return f"{first} and {plural(more, 'more file')}" if more else first

    @property
    def first(self) -> Table:
        """The table whose columns the others must have as well."""
        return self.tables[0]

    @property
    def format(self) -> str:
        """For people."""
        return ", ".join(dict.fromkeys(table.format for table in self.tables))

    @property
    def n_rows(self) -> int | None:
        """Rows of all tables, if known before reading."""
        counts = [table.n_rows for table in self.tables]
        return None if None in counts else sum(count for count in counts if count is not None)

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """As of one table; refuses files that have no rows at all."""
        self._starts = [0]
        for table in self.tables:
            for name in names:
                if name not in table.columns:
                    other = "" if table is self.first else f" {self.first.path} has it."
                    raise missing_column(str(table.path), "column", name, list(table.columns), other)
            start = end = self._starts[-1]
            for chunk in table.chunks(names):
                end = start + chunk.start + chunk.size
                yield replace(chunk, start=start + chunk.start)
            self._starts.append(end)
        if self._starts[-1] == 0:
            held = f" It has the columns {listed(self.first.columns)}." if self.first.columns else ""
            raise TableError(f"{self}: there are no rows.{held} At least one is needed.")

    def location(self, row: int, column: str | None = None) -> str:
        """File and line (or row) of a row that was read, for a message."""
        number = min(bisect_right(self._starts, row), len(self.tables)) - 1
        # Files without rows start where the next one does, which is the one that has the row.
        where = self.tables[number].location(row - self._starts[number])
        return where if column is None else f"{where}, column {column!r}"
