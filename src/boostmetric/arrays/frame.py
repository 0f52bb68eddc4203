"""The coordinates in which we compute: centred, scaled by a power of two, and rotated into the span of the data.

A Mahalanobis metric only sees differences of points, so the origin is free; it is put at the mean, because the
Laplacian form of A_hat subtracts large numbers when the data lie far from zero. Dividing by a power of two loses no
bits and keeps squares away from overflow and underflow. When there are fewer points than features, all differences lie
in a space no larger than the number of points: a rotation into it is exact and makes 10,000 features with 500 points
500. Sparse points are scaled only: a mean or a rotation would fill them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy import sparse

from boostmetric.arrays.types import FloatArray

Coordinates: TypeAlias = NDArray[np.float64] | sparse.csr_array
Given: TypeAlias = NDArray[np.floating[Any]] | sparse.csr_array

# Squares of the spread must be ordinary float64 numbers, since step sizes and eigenvalues are returned in its units.
_MOST_EXPONENT = 510


@dataclass(frozen=True)
class Axes:
    """The way back from the coordinates of the computation.

    Attributes
    ----------
    exponent : int
        The largest coordinate after centring lies between ``2**(exponent - 1)`` and ``2**exponent``.
    basis : ndarray of shape (n_features, n_dimensions) or None
        Orthonormal columns that span the centred points; None where no rotation was needed.
    """

    exponent: int
    basis: FloatArray | None

    def lift(self, vectors: FloatArray) -> FloatArray:
        """Rows of `vectors`, given in these coordinates, as directions among the original features."""
        return vectors if self.basis is None else vectors @ self.basis.T

    def as_map(self, rows: FloatArray) -> FloatArray:
        """A linear map of these coordinates as one of the points that were given."""
        return np.ldexp(self.lift(rows), -self.exponent)

    def lower(self, vectors: FloatArray, known: FloatArray | None = None) -> FloatArray:
        """Directions among the original features in these coordinates, less what the points do not reach.

        Coordinates that are `known` from an earlier frame of the same points are taken over if they fit this one, so
        that no bit changes; another computer may have factorised the points in another way.
        """
        if self.basis is None:
            return vectors
        fits = known is not None and known.shape == (len(vectors), self.basis.shape[1])
        if known is not None and fits and np.allclose(self.lift(known), vectors, rtol=0.0, atol=1e-12):
            return known
        return vectors @ self.basis


@dataclass(frozen=True)
class Frame(Axes):
    """Points in the coordinates of the computation, and the way back.

    Attributes
    ----------
    points : ndarray or csr_array of shape (n_points, n_dimensions)
        ``2**-exponent * (given - mean) @ basis``.
    """

    points: Coordinates

    @classmethod
    def of(cls, points: Given) -> Frame:
        """Coordinates for the given points. Cost: one QR factorisation when there are fewer points than features."""
        centred, exponent = scale_in_range(points)
        if sparse.issparse(centred) or points.shape[0] >= points.shape[1]:
            return cls(exponent, None, centred)
        basis, _ = scipy.linalg.qr(centred.T, mode="economic", check_finite=False)
        return cls(exponent, basis, np.ascontiguousarray(centred @ basis))

    def coordinates_of(self, points: Given) -> Coordinates:
        """Other points in these coordinates, up to a shift that no distance sees."""
        centred, exponent = centre_and_scale(points)
        coordinates = times_power_of_two(centred, exponent - self.exponent)
        return coordinates if self.basis is None else np.ascontiguousarray(coordinates @ self.basis)


def largest_size(numbers: NDArray[Any]) -> float:
    """The largest absolute value, without an array of all of them."""
    return float(max(numbers.max(initial=0.0), -numbers.min(initial=0.0)))


def centre_and_scale(points: Given) -> tuple[Coordinates, int]:
    """Points less their mean, divided by the power of two that brings the largest coordinate into [1/2, 1)."""
    if sparse.issparse(points):
        rows = sparse.csr_array(points, dtype=np.float64)
        _, size = np.frexp(np.abs(rows.data).max(initial=0.0))
        return times_power_of_two(rows, -int(size)), int(size)
    # Once before the mean, whose sum could overflow, and once after.
    _, size = np.frexp(largest_size(points))
    scaled = points.astype(np.float64, order="C")
    np.ldexp(scaled, -int(size), out=scaled)
    scaled -= scaled[0]  # equal points are then exactly zero, which the mean alone does not promise
    scaled -= scaled.mean(axis=0)
    largest = largest_size(scaled)
    if largest == 0.0:
        return scaled, 0
    _, spread = np.frexp(largest)
    return np.ldexp(scaled, -int(spread), out=scaled), int(size) + int(spread)


@dataclass(frozen=True)
class Shift:
    """Dense points less one point, divided by a power of two that brings the largest coordinate into [1/2, 1).

    All follows from that point and the range of each coordinate, to the last bit: so those who have a part of the
    points each get the same numbers as one who has them all, which with a mean, a sum in some order, they would not.

    Attributes
    ----------
    origin : ndarray of shape (n_features,)
        The point, divided by ``2**size`` already, so that no difference overflows.
    size, spread : int
        Exponents to divide by before and after.
    """

    origin: FloatArray
    size: int
    spread: int

    @classmethod
    def of(cls, point: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> Shift:
        """For points whose coordinates lie between `low` and `high`, both of which some point has."""
        size = int(np.frexp(max(largest_size(low), largest_size(high)))[1])
        shift = cls(np.ldexp(point.astype(np.float64), -size), size, 0)
        # Rounding keeps the order, so that no other difference is larger.
        largest = max(largest_size(shift.coordinates_of(end[None])) for end in (low, high))
        return replace(shift, spread=int(np.frexp(largest)[1]) if largest else -size)

    @classmethod
    def to_the_middle(cls, low: NDArray[Any], high: NDArray[Any]) -> Shift:
        """Less the middle of the range; an error where squared distances of the points could not be held."""
        low, high = low.astype(np.float64), high.astype(np.float64)
        shift = cls.of(0.5 * low + 0.5 * high, low, high)
        _check_exponent(shift.exponent)
        return shift

    @property
    def exponent(self) -> int:
        """Of the power of two that distances are divided by."""
        return self.size + self.spread

    def coordinates_of(self, points: NDArray[Any]) -> FloatArray:
        """Points in these coordinates."""
        placed = points.astype(np.float64, order="C")
        np.ldexp(placed, -self.size, out=placed)
        placed -= self.origin
        return np.ldexp(placed, -self.spread, out=placed)


def scale_in_range(points: Given) -> tuple[Coordinates, int]:
    """`centre_and_scale`, or an error where squared distances of the points could not be held."""
    centred, exponent = centre_and_scale(points)
    _check_exponent(exponent)
    return centred, exponent


def _check_exponent(exponent: int) -> None:
    if abs(exponent) > _MOST_EXPONENT:
        raise ValueError(
            f"The points spread over about 1e{round(exponent * np.log10(2.0))}, and squared distances of that size "
            "cannot be held. Rescale the features, for example with sklearn.preprocessing.StandardScaler."
        )


def times_power_of_two(points: Any, exponent: int) -> Any:
    """Points, dense or sparse, in other units; no bit changes as long as they stay in range."""
    if sparse.issparse(points):
        return sparse.csr_array((np.ldexp(points.data, exponent), points.indices, points.indptr), shape=points.shape)
    return np.ldexp(points, exponent)
