"""A shard of groups whose far side is "all points of another class"."""

from __future__ import annotations

from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.comparisons import Comparisons
from boostmetric.comparisons.classes import Classes
from boostmetric.kernels import blocks, pairs
from boostmetric.kernels.chebyshev import N_BINS, N_NODES, TO_SERIES, node_coordinates
from boostmetric.kernels.groups import EMPTY, grow
from boostmetric.kernels.lanes import ROWS, WIDTH, aligned, aligned_zeros
from boostmetric.oracles.losses import Loss
from boostmetric.oracles.masses import Mass
from boostmetric.oracles.pair_shard import PairShard
from boostmetric.oracles.point_rows import PointRows
from boostmetric.oracles.protocol import ONE

# If step * (half the range of the coordinates)**2 is at most this, the table of a direction is exact to 1e-15, relative
# to the sums at step 0 and the square of the bin width.
_TABLE_REACH = 30.0
# Far sides whose mean growth is less than this, in units of the squared bin width, are therefore summed pair by pair.
_LEAST_GROWTH = 1e-4
# Directions added in one pass over the pairs.
_AT_ONCE = 16
# Tiles of the exponentials that are rounded to single precision: few enough numbers for the cache.
_TILE_ROWS, _TILE_COLUMNS = 2**8, 2**10


class Columns:
    """All points that have a class, sorted by class: the columns of `kernels.blocks`, shared by shards.

    Attributes
    ----------
    points : PointRows
        The points in the order of the columns.
    label : ndarray of shape (len(points),)
        Their classes.
    column : ndarray of shape (n_points,)
        Column of each point of the problem; -1 for points in no class.
    begin, end : ndarray of shape (n_classes,)
        Range of columns of each class.
    n_columns : int
        Number of columns: the number of points, rounded up to whole registers.
    """

    def __init__(self, points: PointRows, classes: Classes) -> None:
        in_class = np.flatnonzero(classes.label >= 0)
        order = in_class[np.argsort(classes.label[in_class], kind="stable")]
        self.points = points.take(order)
        self.label = classes.label[order]
        self.column = np.full(len(points), -1)
        self.column[order] = np.arange(len(order))
        self.end = np.cumsum(classes.sizes)
        self.begin = self.end - classes.sizes
        self.n_columns = len(order) + -len(order) % WIDTH

        self._lock = Lock()
        self._last: tuple[FloatArray, FloatArray, Line] | None = None
        self._last_along: tuple[FloatArray, FloatArray] | None = None

    def along(self, directions: FloatArray) -> FloatArray:
        """Coordinates of the columns along each direction."""
        z = aligned_zeros(len(directions), self.n_columns)
        for row, xi in zip(z, directions, strict=True):
            row[: len(self.points)] = self.points.times(xi)
        z[:, len(self.points) :] = z[:, :1]  # keep padding within the range of the points
        return z

    def line(self, xi: FloatArray, factors: FloatArray) -> Line:
        """The columns along one or several directions; computed once for all shards."""
        with self._lock:
            if self._last is None or not (np.array_equal(self._last[0], xi) and np.array_equal(self._last[1], factors)):
                # A search for weights asks for the same directions with other factors.
                if self._last_along is None or not np.array_equal(self._last_along[0], xi):
                    self._last_along = xi.copy(), self.along(np.atleast_2d(xi))
                kept_factors = factors.copy()
                self._last = xi.copy(), kept_factors, Line(self._last_along[1], kept_factors)
            return self._last[2]

    @cached_property
    def coordinates(self) -> NDArray[Any]:
        """The points in their precision, padded with zeros to a width that is a multiple of two registers.

        They are dense: this is only used with up to a few hundred features, where the distances take more memory.
        """
        dense = self.points.dense()
        return aligned(np.pad(dense, [(0, self.n_columns - len(dense)), (0, -dense.shape[1] % (2 * WIDTH))]))

    @cached_property
    def numbers(self) -> NDArray[np.uint32]:
        """Column numbers 0, 1, 2, ..."""
        return np.arange(self.n_columns, dtype=np.uint32)


class Line:
    """Columns along one or several directions.

    Attributes
    ----------
    z : ndarray of shape (n_directions, n_columns)
        Coordinates.
    factors : ndarray of shape (n_directions,)
    reach : float
        Largest step for which a table (see `kernels.blocks.block_table`) is accurate; negative for several directions.
    least_growth : float
        Smallest mean growth of a far side for which it is accurate.
    """

    def __init__(self, z: FloatArray, factors: FloatArray) -> None:
        self.z, self.factors = z, factors
        self._low, self._width = z[0].min(), np.ptp(z[0]) / N_BINS
        has_table = len(z) == 1 and factors[0] == 1.0 and self._width > 0.0
        self.reach = _TABLE_REACH / (0.5 * N_BINS * self._width) ** 2 if has_table else -1.0
        self.least_growth = _LEAST_GROWTH * self._width**2

    @property
    def nodes(self) -> FloatArray:
        """Coordinates of the nodes of a table."""
        return node_coordinates(self._low, self._width)

    @cached_property
    def sorted_columns(self) -> tuple[NDArray[np.uint32], IntArray, FloatArray]:
        """Columns sorted by bin in each tile, the starts of their runs, and the polynomials at their coordinates."""
        n_columns = self.z.shape[1]
        place = (self.z[0] - self._low) / self._width
        b = np.minimum(place.astype(np.int64), N_BINS - 1)
        run = np.arange(n_columns) // blocks.TILE * N_BINS + b
        order = np.argsort(run, kind="stable")
        starts = np.searchsorted(run[order], np.arange(-(-n_columns // blocks.TILE) * N_BINS + 1))
        polynomials = chebyshev.chebvander(2 * (place - b)[order] - 1, N_NODES - 1) @ TO_SERIES
        return order.astype(np.uint32), starts, aligned(polynomials)


class BlockShard(PairShard):
    """Groups with an anchor each, and all points of other classes on the far side (see `kernels.blocks`)."""

    def __init__(self, points: PointRows, comparisons: Comparisons, loss: Loss, columns: Columns) -> None:
        order = np.argsort(columns.column[comparisons.anchors], kind="stable")
        comparisons = comparisons.subset(order)
        super().__init__(points, comparisons, loss)
        self._columns = columns
        self._own = columns.column[comparisons.anchors]
        self._omega = comparisons.weights
        self._log_omega = np.log(self._omega)

        n_near, _ = comparisons.side_sizes
        places = int(n_near.max()) + -int(n_near.max()) % WIDTH
        self._members = np.full((len(n_near), places), len(comparisons.pairs), dtype=np.uint32)
        self._members[np.arange(places) < n_near[:, None]] = comparisons.members
        self._near_d, self._near_h = aligned_zeros(2, *self._members.shape)

        n_rows = len(n_near) + -len(n_near) % ROWS
        label = columns.label[self._own]
        self._left, self._right = _ranges(columns, np.pad(label, (0, n_rows - len(label)), mode="edge"))
        self._d, self._e = aligned_zeros(n_rows, columns.n_columns), aligned_zeros(n_rows, columns.n_columns)
        self._lowest, self._near_sum, self._far_sum, self._unit = np.zeros((4, n_rows))
        self._line = Line(np.zeros((1, columns.n_columns)), ONE)
        self._table, self._table_is_made = aligned_zeros(n_rows, N_BINS * N_NODES), False

    def gram(self) -> FloatArray:
        near = self._points.gram(self._starts, self._second, self._c)
        points = self._columns.coordinates
        if self._points.is_single:
            return np.asarray((near + self._far_gram(points)) / self._mass)
        sums, degree = aligned_zeros(len(self._e), points.shape[1]), aligned_zeros(self._columns.n_columns)
        factor = self._unit * self._near_sum
        blocks.block_products(self._e, self._left, self._right, self._columns.numbers, points, factor, sums, degree)
        n_rows, n_features = len(self._own), self.n_features
        np.add.at(degree, self._own, factor[:n_rows] * self._far_sum[:n_rows])
        half = points[:, :n_features].T @ (points[:, :n_features] * (0.5 * degree)[:, None])
        half -= points[self._own, :n_features].T @ (sums[:n_rows, :n_features] * factor[:n_rows, None])
        return np.asarray((near + half + half.T) / self._mass)

    def _far_gram(self, points: NDArray[np.float32]) -> FloatArray:
        """Sum over the far pairs for `gram`, from products in single precision."""
        sums, degree, factor = self._products(points)
        n_rows, n_features = len(self._own), self.n_features
        np.add.at(degree, self._own, factor[:n_rows] * self._far_sum[:n_rows])
        # Scaled, because the range of single precision is small.
        exponent = int(np.frexp(degree.max())[1])
        weighted = points[:, :n_features] * np.sqrt(np.ldexp(0.5 * degree, -exponent)).astype(np.float32)[:, None]
        half = (weighted.T @ weighted).astype(np.float64)
        rows = np.ldexp(sums[:, :n_features], -exponent)
        half -= points[self._own, :n_features].T @ rows.astype(np.float32)
        return np.asarray(np.ldexp(half + half.T, exponent))

    def _products(self, values: NDArray[np.float32]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """E values, the column sums of E, and factors, E being exponentials of far pairs times their row's factor.

        E is rounded to single precision, tile by tile; sums over tiles are in double.
        """
        n_rows = len(self._own)
        sums, column_sums = np.zeros((n_rows, values.shape[1])), aligned_zeros(self._columns.n_columns)
        factor = self._unit * self._near_sum
        for begin in range(0, n_rows, _TILE_ROWS):
            end = min(begin + _TILE_ROWS, n_rows)
            for first in range(0, self._columns.n_columns, _TILE_COLUMNS):
                last = min(first + _TILE_COLUMNS, self._columns.n_columns)
                tile = self._points.scratch.room("tile", end - begin, last - first, dtype=np.float32)
                bounds = (self._left, self._right, begin, first)
                blocks.block_tile(self._e, *bounds, factor, tile, column_sums)
                sums[begin:end] += tile @ values[first:last]
        return sums, column_sums, factor

    def matvec(self, x: FloatArray) -> FloatArray:
        (z,) = self._columns.along(x[None])
        n_rows = len(self._own)
        factor, own, flow = self._unit * self._near_sum, np.zeros(len(self._e)), np.empty(len(self._e))
        own[:n_rows] = z[self._own]
        columns = aligned_zeros(2, self._columns.n_columns)
        blocks.block_flow(self._e, self._left, self._right, factor, own, z, flow, columns)
        out = columns[0] * z - columns[1]
        np.add.at(out, self._own, (factor * (self._far_sum * own - flow))[:n_rows])
        far = self._columns.points.transposed_times(out[: len(self._columns.points)])
        return np.asarray(super().matvec(x) + far / self._mass)

    def project(self, xi: FloatArray, factors: FloatArray = ONE, along: FloatArray | None = None) -> None:
        self._line, self._table_is_made = self._columns.line(xi, factors), False
        super().project(xi, factors, along)

    def _forget(self) -> None:
        self._near_d[:] = 0.0
        self._near_d[self._members == len(self._second)] = -EMPTY
        columns = self._columns
        for i, (left, right) in enumerate(zip(self._left, self._right, strict=True)):
            own = columns.label[self._own[min(i, len(self._own) - 1)]]
            begin, end = columns.begin[own], columns.end[own]
            self._d[i, :left] = self._d[i, right:] = 0.0
            self._d[i, begin : min(left, end)] = self._d[i, max(begin, right) : end] = EMPTY
            self._d[i, len(columns.points) :] = EMPTY

    def _distances(self) -> tuple[FloatArray, ...]:
        return self._near_d, self._d

    def extend(self, directions: FloatArray, step_sizes: FloatArray) -> Mass:
        for begin in range(0, len(directions), _AT_ONCE):
            block, steps = directions[begin : begin + _AT_ONCE], step_sizes[begin : begin + _AT_ONCE]
            along = self._points.times_each(block)
            for xi, z, step in zip(block, along, steps, strict=True):
                super().project(xi, along=z)
                grow(self._near_d.reshape(-1), self._near_h.reshape(-1), step)
            z = self._columns.line(block, np.ascontiguousarray(steps)).z
            blocks.block_extend(self._d, z, np.ascontiguousarray(steps), self._own, self._left, self._right)
        self._set_growths(np.zeros(len(self._c)))
        self._line, self._table_is_made = Line(np.zeros((1, self._columns.n_columns)), ONE), False
        return self.commit(0.0)

    def _gains(self, directions: FloatArray) -> FloatArray:
        if not self._points.is_single:
            return np.array([xi @ self.matvec(xi) for xi in directions])
        # sum of f e (a - b)^2 over the pairs of an anchor a and a column b
        z = self._columns.line(directions, np.ones(len(directions))).z
        sums, column_sums, factor = self._products(np.ascontiguousarray(z.T, dtype=np.float32))
        n_rows, own = len(self._own), z[:, self._own]
        factor = factor[:n_rows]
        far = (own**2) @ (factor * self._far_sum[:n_rows]) - 2 * (own * sums.T).sum(axis=1)
        far += (z**2) @ column_sums
        return np.asarray(super()._gains(directions) + far / self._mass)

    def _set_growths(self, h: FloatArray) -> None:
        pairs.gather(h, self._members.reshape(-1), self._near_h.reshape(-1))

    def _grow(self, step: float) -> None:
        grow(self._near_d.reshape(-1), self._near_h.reshape(-1), step)
        blocks.block_grow(self._d, self._line.z, self._line.factors, step, self._own, self._left, self._right)

    def _moments(self, w: float) -> FloatArray:
        sums = np.empty(4)
        with_table = w <= self._line.reach
        if with_table and not self._table_is_made:
            blocks.block_table(self._e, self._left, self._right, *self._line.sorted_columns, self._table)
            self._table_is_made = True
        rows = (self._own, self._left, self._right, self._near_d, self._near_h, self._omega, self._log_omega)
        kept = (self._lowest, self._far_sum)
        table = (with_table, self._table, self._line.nodes, self._line.least_growth)
        line = (self._line.z, self._line.factors)
        blocks.block_moments(self._code, self._d, *line, w, *rows, *kept, *table, sums)
        return sums

    def _move(self, step: float) -> FloatArray:
        sums = np.empty(4)
        rows = (self._own, self._left, self._right, self._near_d, self._near_h, self._omega, self._log_omega)
        kept = (self._lowest, self._near_sum, self._far_sum, self._unit)
        line = (self._line.z, self._line.factors)
        blocks.block_weights(self._code, self._d, self._e, *line, step, *rows, *kept, sums)
        blocks.block_near_coefficients(self._near_h, self._members, self._unit, self._far_sum, self._c)
        return sums


def _ranges(columns: Columns, label: NDArray[np.int32]) -> tuple[IntArray, IntArray]:
    """Bounds of the columns before and after the own class, in whole registers, and equal for every ROWS rows."""
    left, right = -(-columns.begin[label] // WIDTH) * WIDTH, columns.end[label] // WIDTH * WIDTH
    left = np.repeat(left.reshape(-1, ROWS).max(axis=1), ROWS)
    right = np.repeat(right.reshape(-1, ROWS).min(axis=1), ROWS)
    return left, np.maximum(left, right)
