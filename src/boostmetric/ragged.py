"""Rows of different lengths in two arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths: row r is ``values[bounds[r]:bounds[r + 1]]``."""

    values: NDArray[Any]
    bounds: NDArray[np.int64]

    @classmethod
    def from_sizes(cls, values: NDArray[Any], sizes: NDArray[np.integer[Any]]) -> Ragged:
        """Cut `values` into rows of the given sizes."""
        return cls(values, np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]))

    @classmethod
    def stack(cls, parts: list[Ragged]) -> Ragged:
        """All rows of all parts, one part below the other."""
        values = np.concatenate([part.values for part in parts])
        return cls.from_sizes(values, np.concatenate([part.sizes for part in parts]))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Length of each row."""
        return np.diff(self.bounds)

    def take(self, rows: NDArray[np.integer[Any]]) -> Ragged:
        """The given rows in the given order."""
        sizes = self.sizes[rows]
        taken = Ragged.from_sizes(self.values, sizes)
        # Position in `values` of every element: the start of its row, plus its place in the row.
        position = np.arange(taken.bounds[-1]) + np.repeat(self.bounds[rows] - taken.bounds[:-1], sizes)
        return Ragged(self.values[position], taken.bounds)
