"""Nearest neighbours among points that are read block by block; the same ones as if all were in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.frame import Given, Shift
from boostmetric.arrays.point_blocks import ROWS, PointBlocks
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.neighbors.nearest_points import nearest, rounding_of_distances
from boostmetric.neighbors.streams import NearestSoFar
from boostmetric.parallel.blas import single_threaded_blas

OnProgress = Callable[[int, int], None]


class Extent(NamedTuple):
    """Smallest and largest coordinates of points, each of shape (n_dimensions,), which determine the rounding."""

    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, points: FloatArray) -> Extent:
        """Extent of some points; without points it is empty, and any point widens it."""
        return cls(points.min(axis=0, initial=math.inf), points.max(axis=0, initial=-math.inf))

    def with_(self, other: Extent) -> Extent:
        """Extent of both sets of points together."""
        return Extent(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    @property
    def rounding(self) -> float:
        """Distances that differ by no more than this count as equal."""
        return rounding_of_distances(np.stack([self.low, self.high]))

    @property
    def size(self) -> float:
        """Largest absolute coordinate."""
        return float(max(np.abs(self.low).max(), np.abs(self.high).max()))


class BlockSearch:
    """Search among points that are read once now, for the rounding of their distances, and once for each search.

    Parameters
    ----------
    read : callable
        Yields the points in blocks of consecutive rows, each time it is called.
    n_jobs : int or None, default=-1
        Number of threads, as in joblib. The result does not depend on it.
    """

    def __init__(self, read: Callable[[], Iterator[NDArray[Any]]], n_jobs: int | None = -1) -> None:
        self._read, self._n_threads = read, joblib.effective_n_jobs(n_jobs)
        blocks = read()
        first = next(blocks)
        self._origin, self._extent = first[0], Extent.of(first)
        for block in blocks:
            self._extent = self._extent.with_(Extent.of(block))

    def nearest(self, queries: NDArray[Any], k: int, own: IntArray | None = None) -> tuple[IntArray, FloatArray]:
        """Row numbers and distances of the nearest points; `own` are numbers of the queries, if they are points."""
        whole = self._extent.with_(Extent.of(queries))
        shift = Shift.of(self._origin, whole.low, whole.high)
        search = NearestSoFar(
            shift.coordinates_of(queries),
            np.zeros(len(queries), dtype=np.int64),
            np.full(len(queries), -1) if own is None else own,
            k,
            1,  # there are no other classes
            float(np.ldexp(self._extent.rounding, -shift.exponent)),
            n_threads=self._n_threads,
        )
        first = 0
        for block in self._read():
            with single_threaded_blas():  # our own threads share the queries
                search.offer(shift.coordinates_of(block), np.zeros(len(block), dtype=np.int64), first)
            first += len(block)
        rows, distances = search.nearest_of_class(k)
        return rows, np.ldexp(distances, shift.exponent)


def nearest_among(
    points: Given | PointBlocks,
    asked: Given | PointBlocks | None,
    rows: IntArray,
    n_neighbors: int,
    on_progress: OnProgress | None = None,
) -> IntArray:
    """Find the nearest points of some rows, nearest first; distances that differ by rounding errors are equal.

    Parameters
    ----------
    points : ndarray, csr_array or PointBlocks of shape (n_points, n_features)
    asked : ndarray, csr_array or PointBlocks of shape (n_asked, n_features), or None
        None asks about the points themselves, which are not their own neighbours.
    rows : ndarray of int
        Rows to ask about, in ascending order.
    n_neighbors : int
    on_progress : callable, optional
        Called with the number of points read so far, and of those to read, if points are read in blocks.

    Returns
    -------
    ndarray of shape (n_rows, n_neighbors)
        Point numbers.
    """
    queries = points if asked is None else asked
    if isinstance(points, PointBlocks):
        return _in_blocks(points, queries, rows, n_neighbors, asked is None, on_progress)
    rounding = rounding_of_distances(points)
    if isinstance(queries, PointBlocks):
        return np.concatenate([nearest(points, block, n_neighbors, rounding) for block in queries[rows].blocks()])
    if asked is not None:
        return nearest(points, asked[rows], n_neighbors, rounding)
    if 2 * len(rows) > points.shape[0]:
        return np.asarray(nearest(points, None, n_neighbors, rounding)[rows])
    found = nearest(points, points[rows], n_neighbors + 1, rounding)
    left_out = found == rows[:, None]
    left_out[~left_out.any(axis=1), -1] = True
    return np.asarray(found[~left_out].reshape(-1, n_neighbors))


def _in_blocks(
    points: PointBlocks,
    queries: Given | PointBlocks,
    rows: IntArray,
    n_neighbors: int,
    without_self: bool,
    on_progress: OnProgress | None,
) -> IntArray:
    n_read, n_to_read = 0, len(points) * (1 + -(-len(rows) // ROWS))

    def read() -> Iterator[NDArray[Any]]:
        nonlocal n_read
        for block in points.blocks():
            yield block
            n_read += len(block)
            if on_progress is not None:
                on_progress(n_read, n_to_read)

    search, found, first = BlockSearch(read), [], 0
    for block in _blocks_of(queries, rows):
        own = rows[first : first + len(block)] if without_self else None
        found.append(search.nearest(block, n_neighbors, own)[0])
        first += len(block)
    return np.concatenate(found)


def _blocks_of(queries: Given | PointBlocks, rows: IntArray) -> Iterator[NDArray[Any]]:
    if isinstance(queries, PointBlocks):
        yield from queries[rows].blocks()
        return
    for start in range(0, len(rows), ROWS):
        yield queries[rows[start : start + ROWS]]
