"""The matrix of features, which takes the memory: chunks are written where they stay."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.tables.arrays import ArrayTable
from boostmetric.tables.complaints import Complaints
from boostmetric.tables.features import Features
from boostmetric.tables.reading import Chunk, TableSet
from boostmetric.tables.values import ColumnPart


class Matrix:
    """The features of all points, grown in place as they are read.

    Parameters
    ----------
    features : Features
    n_rows : int, optional
        How many points there will be, if that is known.
    """

    def __init__(self, features: Features, n_rows: int | None) -> None:
        self._features = features
        self._capacity = n_rows
        self._array = np.empty((0, 0 if features.is_vector else len(features.names)), dtype=features.dtype)
        self._n = 0

    def read(self, table_set: TableSet, chunk: Chunk, complaints: Complaints) -> None:
        """Append the rows of a chunk."""
        if self._features.is_vector:
            (name,) = self._features.names
            size = self._array.shape[1] if self._n else None
            block = ColumnPart(table_set, chunk, name, complaints).vectors(size)
            if len(table_set.tables) == 1 and isinstance(table_set.first, ArrayTable):  # which is one chunk
                self._array, self._n = np.ascontiguousarray(block, dtype=self._features.dtype), len(block)
                return
            if not self._n:
                self._array = np.empty((0, block.shape[1]), dtype=self._features.dtype)
            self._extended(chunk.size)[:] = block
        else:
            rows = self._extended(chunk.size)
            for place, name in enumerate(self._features.names):
                rows[:, place] = ColumnPart(table_set, chunk, name, complaints).numbers()

    def _extended(self, more: int) -> NDArray[Any]:
        """A view of further rows, to be written. The array is enlarged where it is, not copied, if the system can."""
        start, self._n = self._n, self._n + more
        if self._n > len(self._array):
            n_rows = max(self._n, self._capacity or 0, len(self._array) * 5 // 4)
            self._resize(n_rows)
        return self._array[start : self._n]

    def finished(self) -> NDArray[Any]:
        """The matrix."""
        if len(self._array) > self._n:
            self._resize(self._n)
        return self._array

    def _resize(self, n_rows: int) -> None:
        shape = (n_rows, self._array.shape[1])
        if self._array.size == 0:
            self._array = np.empty(shape, dtype=self._features.dtype)
        else:
            self._array.resize(shape, refcheck=False)
