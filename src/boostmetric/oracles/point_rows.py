"""Points of a shard, dense or sparse, and the products with them that the verbs need."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from boostmetric.arrays.frame import largest_size
from boostmetric.arrays.types import FloatArray
from boostmetric.kernels import pairs
from boostmetric.kernels.lanes import WIDTH, aligned
from boostmetric.parallel.crew import Crew
from boostmetric.parallel.scratch import Scratch

# Up to this fraction of the points is copied for a shard; with more, the copies of all shards would fill the memory.
_MOST_TAKEN = 0.5
# Nanoseconds of work that are worth handing to a thread; more pieces than this would not run at the same time.
_PIECE_COST = 5e6
_MOST_PIECES = 64
# The same in multiplications.
_PRODUCTS_PER_PIECE = 2**22
# Rows of a product in single precision: few, so that little is lost in its sums, and the rows stay in the cache.
_ROWS_IN_SINGLE = 2**9
# Each piece has a sum in double precision, which is large beside points in single precision.
_MOST_PIECES_IN_SINGLE = 2**4
# Of the powers of two that coefficients are divided by, so that the inverse is a float64.
_LEAST_EXPONENT = -1000

UintArray = NDArray[np.uint32]
Starts = NDArray[np.int64]


class LastProduct:
    """The points along several directions, computed once for all shards that share the points."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: tuple[FloatArray, FloatArray] | None = None

    def along(self, directions: FloatArray, times: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Compute times(directions), or return it if it was computed last."""
        with self._lock:
            if self._last is None or not np.array_equal(self._last[0], directions):
                self._last = None  # frees it
                self._last = directions.copy(), times(directions)
            return self._last[1]


class PointRows(Protocol):
    """The matrix A with one point per row.

    Attributes
    ----------
    n_features : int
    direction_cost : float
        Approximate nanoseconds that a shard spends on these points to find a direction, regardless of its pairs.
    scratch : Scratch
        Scratch arrays, shared by all shards of a problem.
    crew : Crew
        Threads that share the pieces of a shard's work.
    is_single : bool
        Whether they are in single precision.
    """

    n_features: int
    is_single: bool
    direction_cost: float
    scratch: Scratch
    crew: Crew

    def __len__(self) -> int: ...

    def share(self, rows: NDArray[np.bool_]) -> tuple[PointRows, NDArray[np.int32]]:
        """Points of one shard, and the number of each among them. If most are needed, all are shared."""
        ...

    def take(self, rows: NDArray[np.int64]) -> PointRows:
        """Select the given points, in the given order."""
        ...

    def dense(self) -> NDArray[Any]:
        """A as a dense array, in its precision."""
        ...

    def times(self, x: FloatArray) -> FloatArray:
        """Compute A x."""
        ...

    def times_each(self, directions: FloatArray) -> FloatArray:
        """Compute A x for each row x, as rows, to the same bits as `times`."""
        ...

    def along(self, directions: FloatArray) -> FloatArray:
        """Compute A x for each row x, as columns, faster than `times`. The last result is kept, for other shards."""
        ...

    def transposed_times(self, y: FloatArray) -> FloatArray:
        """Compute A' y."""
        ...

    def gram(self, starts: Starts, second: UintArray, c: FloatArray) -> FloatArray:
        """Compute A' Lap(c) A = sum_p c_p (a - b)(a - b)' over pairs of points (see `kernels.pairs`)."""
        ...


def as_points(coordinates: FloatArray | sparse.csr_array, crew: Crew | None = None) -> PointRows:
    """Wrap dense or sparse points; large products are done by a crew, if there is one."""
    crew = crew or Crew()
    return SparsePoints(coordinates, crew) if sparse.issparse(coordinates) else DensePoints.of(coordinates, crew)


def _numbers(rows: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Number of each row among the chosen ones."""
    return np.cumsum(rows, dtype=np.int32) - np.int32(1)


class DensePoints:
    """Points in an array, padded with columns of zeros to a multiple of ``lanes.WIDTH``.

    If they are in single precision, so are the factors of matrix products; sums over many points are in double.
    """

    def __init__(self, padded: NDArray[Any], n_features: int, crew: Crew, scratch: Scratch) -> None:
        self._padded = aligned(padded)
        self._coordinates = self._padded[:, :n_features]
        self.is_single = padded.dtype == np.float32
        self.crew = crew
        self._product = LastProduct()
        self.scratch = scratch
        self.n_features = n_features
        # A row of sums for each point, and the product of these with the points.
        self.direction_cost = len(padded) * n_features * (4 + n_features / 20)

    @classmethod
    def of(cls, coordinates: FloatArray, crew: Crew) -> DensePoints:
        """Copy points into an array of the right width."""
        n_features = coordinates.shape[1]
        missing = -n_features % WIDTH
        padded = np.pad(coordinates, [(0, 0), (0, missing)]) if missing else coordinates
        return cls(padded, n_features, crew, Scratch())

    def __len__(self) -> int:
        return len(self._padded)

    def share(self, rows: NDArray[np.bool_]) -> tuple[DensePoints, NDArray[np.int32]]:
        if rows.mean() > _MOST_TAKEN:
            return self, np.arange(len(rows), dtype=np.int32)
        return DensePoints(self._padded[rows], self.n_features, self.crew, self.scratch), _numbers(rows)

    def take(self, rows: NDArray[np.int64]) -> DensePoints:
        return DensePoints(self._padded[rows], self.n_features, self.crew, self.scratch)

    def dense(self) -> NDArray[Any]:
        return self._coordinates

    def times(self, x: FloatArray) -> FloatArray:
        (z,) = self.times_each(x[None])
        return np.asarray(z)

    def times_each(self, directions: FloatArray) -> FloatArray:
        padded = np.zeros((len(directions), self._padded.shape[1]))
        padded[:, : self.n_features] = directions
        out = np.empty((len(directions), len(self)))
        self.crew.each(lambda piece: pairs.times_each(self._padded, padded, *piece, out), self._equal_pieces(out.size))
        return out

    def _equal_pieces(self, n_products: int) -> list[tuple[int, int]]:
        """Ranges of points for a number of inner products, of which only the last may end within a register."""
        n_pieces = max(1, min(_MOST_PIECES, n_products * self.n_features // _PRODUCTS_PER_PIECE))
        cuts = [len(self) * i // (n_pieces * WIDTH) * WIDTH for i in range(n_pieces)]
        return list(pairwise([*cuts, len(self)]))

    def along(self, directions: FloatArray) -> FloatArray:
        return self._product.along(directions, self._times_all)

    def _times_all(self, directions: FloatArray) -> FloatArray:
        """Compute A x for each row x, as columns, by products of matrices."""
        factor = np.ascontiguousarray(directions.T, dtype=self._padded.dtype)
        out = np.empty((len(self), len(directions)), dtype=self._padded.dtype)
        self.crew.each(
            lambda piece: np.matmul(self._coordinates[slice(*piece)], factor, out=out[slice(*piece)]),
            self._equal_pieces(out.size),
        )
        return out

    def transposed_times(self, y: FloatArray) -> FloatArray:
        if self.is_single:
            out = np.zeros(self._padded.shape[1])
            pairs.transposed_times(self._padded, y, out)
            return out[: self.n_features]
        return np.asarray(self._coordinates.T @ y)

    def gram(self, starts: Starts, second: UintArray, c: FloatArray) -> FloatArray:
        exponent = 0
        if self.is_single:  # which has a small range
            exponent = max(int(np.frexp(largest_size(c[: starts[-1]]))[1]), _LEAST_EXPONENT)
        scale = math.ldexp(1.0, -exponent)
        # Scratch of this thread, which does nothing else until all pieces are done; other threads write to their own.
        degree, pieces = self.scratch.room("degree", len(self)), self._pieces(starts)
        degree[:] = 0.0
        is_known = len(pieces) > 1  # otherwise it is summed on the way
        if is_known:
            pairs.degrees(starts, second, c, degree)

        def product(piece: tuple[int, int]) -> FloatArray:
            begin, end = piece
            if self.is_single:
                return self._sum_of_products(starts, second, c, scale, degree, is_known, begin, end)
            rows = self.scratch.room("rows", end - begin, self._padded.shape[1])
            pairs.half_laplacian(starts, second, c, scale, degree, is_known, self._padded, begin, end, rows)
            return np.asarray(self._coordinates[begin:end].T @ rows[:, : self.n_features])

        half = self.crew.total(product, pieces)
        return np.asarray(np.ldexp(half + half.T, exponent) if exponent else half + half.T)

    def _sum_of_products(
        self,
        starts: Starts,
        second: UintArray,
        c: FloatArray,
        scale: float,
        degree: FloatArray,
        is_known: bool,
        begin: int,
        end: int,
    ) -> FloatArray:
        """Product of some rows of the points and of the Laplacian: in double precision, from short ones in single."""
        half = np.zeros((self.n_features, self.n_features))
        for first in range(begin, end, _ROWS_IN_SINGLE):
            last = min(first + _ROWS_IN_SINGLE, end)
            rows = self.scratch.room("single rows", last - first, self._padded.shape[1], dtype=np.float32)
            pairs.half_laplacian(starts, second, c, scale, degree, is_known, self._padded, first, last, rows)
            half += self._coordinates[first:last].T @ rows[:, : self.n_features]
        return half

    def _pieces(self, starts: Starts) -> list[tuple[int, int]]:
        """Ranges of points whose pairs take equally long to sum; a pair belongs to its first point.

        Their number, and so the bits of the sum, depends only on the problem.
        """
        n_pairs, pair_cost = int(starts[-1]), self.n_features / 3
        most = _MOST_PIECES_IN_SINGLE if self.is_single else _MOST_PIECES
        n_pieces = min(most, int((self.direction_cost + n_pairs * pair_cost) / _PIECE_COST), len(self))
        if n_pieces < 2:
            return [(0, len(self))]
        cost = starts * pair_cost + np.linspace(0.0, self.direction_cost, len(starts))
        inner = np.searchsorted(cost, cost[-1] * np.arange(1, n_pieces) / n_pieces)
        cuts = [0, *np.unique(inner[(inner > 0) & (inner < len(self))]).tolist(), len(self)]
        return list(pairwise(cuts))


class SparsePoints:
    """Points in compressed rows; only made dense where all pairs of points are in memory anyway."""

    def __init__(self, rows: sparse.csr_array, crew: Crew, scratch: Scratch | None = None) -> None:
        self._rows = rows
        self.crew = crew
        self._product = LastProduct()
        self.is_single = False
        self.scratch = Scratch() if scratch is None else scratch
        self.n_features = int(rows.shape[1])
        # A few dozen products with the matrix and its transpose.
        self.direction_cost = 100.0 * (rows.nnz + rows.shape[0])

    def __len__(self) -> int:
        return int(self._rows.shape[0])

    def share(self, rows: NDArray[np.bool_]) -> tuple[SparsePoints, NDArray[np.int32]]:
        if rows.mean() > _MOST_TAKEN:
            return self, np.arange(len(rows), dtype=np.int32)
        return SparsePoints(self._rows[rows], self.crew, self.scratch), _numbers(rows)

    def take(self, rows: NDArray[np.int64]) -> SparsePoints:
        return SparsePoints(self._rows[rows], self.crew, self.scratch)

    def dense(self) -> FloatArray:
        return np.asarray(self._rows.toarray())

    def times(self, x: FloatArray) -> FloatArray:
        return np.asarray(self._rows @ x)

    def times_each(self, directions: FloatArray) -> FloatArray:
        return np.stack([self.times(x) for x in directions])

    def along(self, directions: FloatArray) -> FloatArray:
        return self._product.along(directions, lambda rows: np.asarray(self._rows @ rows.T.astype(self._rows.dtype)))

    def transposed_times(self, y: FloatArray) -> FloatArray:
        return np.asarray(self._rows.T @ y)

    def gram(self, starts: Starts, second: UintArray, c: FloatArray) -> FloatArray:
        n, first, c = len(self), np.repeat(np.arange(len(self)), np.diff(starts)), c[: starts[-1]]
        degree = np.bincount(first, c, minlength=n) + np.bincount(second, c, minlength=n)
        entries, every = np.concatenate([0.5 * degree, -c]), np.arange(n)
        rows, columns = np.concatenate([every, first]), np.concatenate([every, second])
        half_laplacian = sparse.csr_array((entries, (rows, columns)), shape=(n, n))
        half: Any = self._rows.T @ (half_laplacian @ self._rows)
        return np.asarray((half + half.T).toarray())
