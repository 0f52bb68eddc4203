"""Coordinates for the computation: centred, scaled by a power of two, and rotated into the span of the data.

A Mahalanobis metric only sees differences between points, so the origin is arbitrary. We put it at the mean, because
the Laplacian form of A_hat subtracts large numbers when the data are far from zero. Dividing by a power of two loses no
bits and keeps squares from overflowing or underflowing. With fewer points than features, all differences lie in a space
of at most as many dimensions as points; rotating into it is exact and reduces, for example, 10,000 features with 500
points to 500 dimensions. Sparse points are only scaled, because centring or rotating would make them dense.

Points in single precision stay so if they have many features, such as embeddings: they take half the memory, and
products with them half the time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy import sparse

from boostmetric.arrays.types import FloatArray

InDouble: TypeAlias = NDArray[np.float64] | sparse.csr_array
Coordinates: TypeAlias = InDouble | NDArray[np.float32]
Given: TypeAlias = NDArray[np.floating[Any]] | sparse.csr_array

# The square of the spread must be a normal float64, since step sizes and eigenvalues are returned in its units.
_MOST_EXPONENT = 510
# The inverse of the power of two of this exponent is a float64.
_LEAST_EXPONENT = -1023
# Points in single precision stay so from this many features on, if their exponent is at most this.
_FEWEST_FEATURES_IN_SINGLE, _MOST_EXPONENT_IN_SINGLE = 32, 60
# Rows in double precision in memory at once.
_AT_ONCE = 2**10
_CACHE_LINE = 64


@dataclass(frozen=True)
class Axes:
    """Mapping from the coordinates of the computation back to the original features.

    Attributes
    ----------
    exponent : int
        The largest coordinate after centring lies between ``2**(exponent - 1)`` and ``2**exponent``.
    basis : ndarray of shape (n_features, n_dimensions) or None
        Orthonormal columns that span the centred points; None if no rotation was needed.
    """

    exponent: int
    basis: FloatArray | None

    def lift(self, vectors: FloatArray) -> FloatArray:
        """Convert the rows of `vectors` from these coordinates to directions in the original features."""
        return vectors if self.basis is None else vectors @ self.basis.T

    def as_map(self, rows: FloatArray) -> FloatArray:
        """Convert a linear map on these coordinates to one on the original points."""
        return np.ldexp(self.lift(rows), -self.exponent)

    def lower(self, vectors: FloatArray, known: FloatArray | None = None) -> FloatArray:
        """Convert directions in the original features to these coordinates, dropping parts outside the points' span.

        Coordinates `known` from an earlier frame of the same points are reused if they fit this one, so that no bit
        changes. They may not fit: another computer may have factorised the points differently.
        """
        if self.basis is None:
            return vectors
        fits = known is not None and known.shape == (len(vectors), self.basis.shape[1])
        if known is not None and fits and np.allclose(self.lift(known), vectors, rtol=0.0, atol=1e-12):
            return known
        return vectors @ self.basis


@dataclass(frozen=True)
class Frame(Axes):
    """Points in the coordinates of the computation, with the mapping back.

    Attributes
    ----------
    points : ndarray or csr_array of shape (n_points, n_dimensions)
        ``2**-exponent * (given - mean) @ basis``.
    """

    points: Coordinates

    @classmethod
    def of(cls, points: Given) -> Frame:
        """Build the frame of the given points. Cost: one QR factorisation if there are fewer points than features."""
        if stays_single(points) and points.shape[0] >= points.shape[1]:
            single, exponent = _in_single(points)
            return cls(exponent, None, single)
        centred, exponent = scale_in_range(points)
        if sparse.issparse(centred) or points.shape[0] >= points.shape[1]:
            return cls(exponent, None, centred)
        basis, _ = scipy.linalg.qr(centred.T, mode="economic", check_finite=False)
        return cls(exponent, basis, np.ascontiguousarray(centred @ basis))

    def coordinates_of(self, points: Given) -> Coordinates:
        """Convert other points to these coordinates, up to a shift that does not affect distances."""
        centred: Any
        if self.basis is None and stays_single(points):
            centred, exponent = _in_single(points)
        else:
            centred, exponent = centre_and_scale(points)
        coordinates = times_power_of_two(centred, exponent - self.exponent)
        return coordinates if self.basis is None else np.ascontiguousarray(coordinates @ self.basis)


def largest_size(numbers: NDArray[Any]) -> float:
    """Largest absolute value, computed without an array of absolute values."""
    return float(max(numbers.max(initial=0.0), -numbers.min(initial=0.0)))


def centre_and_scale(points: Given) -> tuple[InDouble, int]:
    """Centre points and divide them by the power of two that brings the largest coordinate into [1/2, 1)."""
    if sparse.issparse(points):
        rows = sparse.csr_array(points, dtype=np.float64)
        _, size = np.frexp(np.abs(rows.data).max(initial=0.0))
        return times_power_of_two(rows, -int(size)), int(size)
    size = math.frexp(largest_size(points))[1]
    if abs(size) > _MOST_EXPONENT:  # the sum below could overflow, or lose bits
        points = np.ldexp(points.astype(np.float64), -size)
    else:
        size = 0
    # The first point makes equal points exactly zero, which the mean alone does not guarantee.
    centred = np.subtract(points, points[0], dtype=np.float64, order="C")
    centred -= np.einsum("ij->j", centred) / len(centred)  # takes half the time of mean(axis=0)
    largest = largest_size(centred)
    if largest == 0.0:
        return centred, 0
    spread = max(math.frexp(largest)[1], _LEAST_EXPONENT)
    centred *= math.ldexp(1.0, -spread)
    return centred, size + spread


def stays_single(points: Given) -> bool:
    """Whether points are in single precision, and computed with in single precision."""
    if sparse.issparse(points) or points.dtype != np.float32 or points.shape[1] < _FEWEST_FEATURES_IN_SINGLE:
        return False
    return bool(abs(np.frexp(largest_size(points))[1]) <= _MOST_EXPONENT_IN_SINGLE)


def _in_single(points: NDArray[Any]) -> tuple[NDArray[np.float32], int]:
    """Same as `centre_and_scale`, rounded to single precision, without a copy in double precision."""
    first = points[0].astype(np.float64)
    pieces = [slice(begin, begin + _AT_ONCE) for begin in range(0, len(points), _AT_ONCE)]
    centre = first + sum((points[piece] - first).sum(axis=0) for piece in pieces) / len(points)
    centred = _empty_at_a_cache_line(points.shape)
    for piece in pieces:
        centred[piece] = points[piece] - centre
    exponent = int(np.frexp(largest_size(centred))[1])
    return np.ldexp(centred, -exponent, out=centred), exponent


def _empty_at_a_cache_line(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """An array that the kernels take as it is (see `kernels.lanes.aligned`), without a copy."""
    room = np.empty(4 * math.prod(shape) + _CACHE_LINE, dtype=np.uint8)
    offset = -room.ctypes.data % _CACHE_LINE
    return room[offset:][: 4 * math.prod(shape)].view(np.float32).reshape(shape)


@dataclass(frozen=True)
class Shift:
    """Shift of dense points by one point, and division by the power of two that brings the largest into [1/2, 1).

    The result depends only on that point and the range of each coordinate, down to the last bit. So workers that each
    hold a part of the points get the same numbers as one that holds them all; with a mean, whose sum depends on the
    order, they would not.

    Attributes
    ----------
    origin : ndarray of shape (n_features,)
        The point, already divided by ``2**size`` so that no difference overflows.
    size, spread : int
        Exponents of the powers of two to divide by before and after the shift.
    """

    origin: FloatArray
    size: int
    spread: int

    @classmethod
    def of(cls, point: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> Shift:
        """Build the shift for points whose coordinates range from `low` to `high`, both attained."""
        size = int(np.frexp(max(largest_size(low), largest_size(high)))[1])
        shift = cls(np.ldexp(point.astype(np.float64), -size), size, 0)
        # Rounding preserves order, so no other difference is larger.
        largest = max(largest_size(shift.coordinates_of(end[None])) for end in (low, high))
        return replace(shift, spread=int(np.frexp(largest)[1]) if largest else -size)

    @classmethod
    def to_the_middle(cls, low: NDArray[Any], high: NDArray[Any]) -> Shift:
        """Shift by the middle of the range; raise an error if squared distances would be out of float64's range."""
        low, high = low.astype(np.float64), high.astype(np.float64)
        shift = cls.of(0.5 * low + 0.5 * high, low, high)
        _check_exponent(shift.exponent)
        return shift

    @property
    def exponent(self) -> int:
        """Exponent of the power of two that distances are divided by."""
        return self.size + self.spread

    def coordinates_of(self, points: NDArray[Any]) -> FloatArray:
        """Convert points to these coordinates."""
        placed = points.astype(np.float64, order="C")
        np.ldexp(placed, -self.size, out=placed)
        placed -= self.origin
        return np.ldexp(placed, -self.spread, out=placed)


def scale_in_range(points: Given) -> tuple[InDouble, int]:
    """Same as `centre_and_scale`, but raise an error if squared distances would be out of float64's range."""
    centred, exponent = centre_and_scale(points)
    _check_exponent(exponent)
    return centred, exponent


def _check_exponent(exponent: int) -> None:
    if abs(exponent) > _MOST_EXPONENT:
        raise ValueError(
            f"The points spread over about 1e{round(exponent * np.log10(2.0))}, and squared distances of that size "
            "do not fit into float64. Rescale the features, for example with sklearn.preprocessing.StandardScaler."
        )


def times_power_of_two(points: Any, exponent: int) -> Any:
    """Multiply dense or sparse points by ``2**exponent``; exact as long as they stay in range."""
    if sparse.issparse(points):
        return sparse.csr_array((np.ldexp(points.data, exponent), points.indices, points.indptr), shape=points.shape)
    return np.ldexp(points, exponent)
