"""Rows of different lengths, stored in two arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]


def run_starts(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """Start positions of runs of rows that are equal in all columns."""
    if not len(columns[0]):
        return np.empty(0, dtype=np.int64)
    changed = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return np.flatnonzero(np.append(True, changed))


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths: row r is ``values[bounds[r]:bounds[r + 1]]``."""

    values: NDArray[Any]
    bounds: NDArray[np.int64]

    @classmethod
    def from_sizes(cls, values: NDArray[Any], sizes: Integers) -> Ragged:
        """Cut `values` into rows of the given sizes."""
        return cls(values, np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]))

    @classmethod
    def from_rows(cls, table: NDArray[Any]) -> Ragged:
        """Make rows of equal length from the rows of a table."""
        return cls.from_sizes(table.ravel(), np.full(len(table), table.shape[1]))

    @classmethod
    def from_ranges(cls, values: NDArray[Any], starts: Integers, sizes: Integers) -> Ragged:
        """Take ``values[starts[r]:starts[r] + sizes[r]]`` as row r; rows may overlap."""
        rows = cls.from_sizes(values, sizes)
        # Position in `values` of every element: the start of its row, plus its place in the row.
        position = np.repeat(starts - rows.bounds[:-1], sizes)
        position += np.arange(rows.bounds[-1])
        return cls(values[position], rows.bounds)

    @classmethod
    def from_starts(cls, values: NDArray[Any], starts: Integers) -> Ragged:
        """Cut `values` into rows that begin at the given positions."""
        return cls(values, np.append(starts, len(values)).astype(np.int64))

    @classmethod
    def stack(cls, parts: list[Ragged]) -> Ragged:
        """Concatenate the rows of all parts."""
        values = np.concatenate([part.values for part in parts])
        return cls.from_sizes(values, np.concatenate([part.sizes for part in parts]))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Length of each row."""
        return np.diff(self.bounds)

    @property
    def row(self) -> NDArray[np.int64]:
        """Row number of each value."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def take(self, rows: Integers) -> Ragged:
        """Select the given rows, in the given order; all in their order are not copied."""
        if len(rows) == len(self) and np.array_equal(rows, np.arange(len(self))):
            return self
        return Ragged.from_ranges(self.values, self.bounds[rows], self.sizes[rows])

    def where(self, kept: NDArray[np.bool_]) -> Ragged:
        """Drop the values where `kept` is False."""
        return Ragged.from_sizes(self.values[kept], np.bincount(self.row[kept], minlength=len(self)))
