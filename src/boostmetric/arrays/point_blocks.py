"""Points that are read block by block, because they may not fit into memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROWS = 2**13
"""Points in a block. Fewer take longer, more take memory."""


class PointBlocks(ABC):
    """Points in blocks of consecutive rows, which can be read several times.

    Attributes
    ----------
    shape : tuple (n_points, n_features)
    dtype : dtype
    """

    ndim = 2
    shape: tuple[int, int]
    dtype: np.dtype[Any]

    @abstractmethod
    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield the points, `ROWS` at a time; the last block may be shorter."""

    @abstractmethod
    def __getitem__(self, rows: Any) -> PointBlocks:
        """Choose rows by a mask or by ascending numbers; nothing is read."""

    def __len__(self) -> int:
        return self.shape[0]

    def map(self, function: Callable[[NDArray[Any]], NDArray[Any]], n_features: int) -> PointBlocks:
        """Points that `function` makes of each block when it is read, in double precision."""
        return _Mapped(self, function, n_features)

    def in_memory(self) -> NDArray[Any]:
        """All points as an array."""
        points, n = np.empty(self.shape, dtype=self.dtype), 0
        for block in self.blocks():
            points[n : n + len(block)] = block
            n += len(block)
        return points


class _Mapped(PointBlocks):
    def __init__(self, points: PointBlocks, function: Callable[[NDArray[Any]], NDArray[Any]], n_features: int) -> None:
        self._points, self._function, self._n_features = points, function, n_features
        self.shape, self.dtype = (len(points), n_features), np.dtype(np.float64)

    def __getitem__(self, rows: Any) -> PointBlocks:
        return _Mapped(self._points[rows], self._function, self._n_features)

    def blocks(self) -> Iterator[NDArray[Any]]:
        return map(self._function, self._points.blocks())


class Stacked(PointBlocks):
    """Points of which some follow others; those in memory are sets of points, too."""

    def __init__(self, parts: Sequence[NDArray[Any] | PointBlocks]) -> None:
        self._parts = [part for part in parts if part.shape[0]]
        self._bounds = np.cumsum([0, *(part.shape[0] for part in self._parts)])
        self.shape = (int(self._bounds[-1]), int(parts[0].shape[1]))
        self.dtype = np.result_type(*(part.dtype for part in parts))

    def __getitem__(self, rows: Any) -> PointBlocks:
        numbers = np.arange(len(self))[rows]
        cuts = np.searchsorted(numbers, self._bounds)
        chosen = zip(self._parts, self._bounds, pairwise(cuts), strict=False)
        parts = [part[numbers[first:last] - start] for part, start, (first, last) in chosen]
        return Stacked(parts or [np.empty((0, self.shape[1]), dtype=self.dtype)])

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield the points of one part after the other."""
        for part in self._parts:
            if isinstance(part, PointBlocks):
                yield from part.blocks()
            else:
                yield from (part[start : start + ROWS] for start in range(0, len(part), ROWS))
