"""The coordinates in which we compute: centred, scaled by a power of two, and rotated into the span of the data.

A Mahalanobis metric only sees differences of points, so the origin is free; it is put at the mean, because the
Laplacian form of A_hat subtracts large numbers when the data lie far from zero. Dividing by a power of two loses no
bits and keeps squares away from overflow and underflow. When there are fewer points than features, all differences lie
in a space no larger than the number of points: a rotation into it is exact and makes 10,000 features with 500 points
500. Sparse points are scaled only: a mean or a rotation would fill them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy import sparse

FloatArray = NDArray[np.float64]
Coordinates: TypeAlias = NDArray[np.float64] | sparse.csr_array
Given: TypeAlias = NDArray[np.floating[Any]] | sparse.csr_array

# Squares of the spread must be ordinary float64 numbers, since step sizes and eigenvalues are returned in its units.
_MOST_EXPONENT = 510
# Rows of which copies are made at once.
_ROWS_AT_ONCE = 2**14


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

    def place(self, points: Given) -> Coordinates:
        """Other points in these coordinates, up to a shift that no distance sees."""
        centred, exponent = centre_and_scale(points)
        coordinates = _times_power_of_two(centred, exponent - self.exponent)
        return coordinates if self.basis is None else np.ascontiguousarray(coordinates @ self.basis)


class Extent(NamedTuple):
    """Where points lie that are in several places: each says so of its own, and `Origin.of` them all is for all.

    Attributes
    ----------
    n : int
    mean, low, high : ndarray of shape (n_features,)
    """

    n: int
    mean: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, points: NDArray[np.floating[Any]]) -> Extent:
        """Of some points."""
        low, high = points.min(axis=0).astype(np.float64), points.max(axis=0).astype(np.float64)
        middle = 0.5 * low + 0.5 * high  # from which the mean is told, so that no sum overflows
        total = np.zeros(points.shape[1])
        for begin in range(0, len(points), _ROWS_AT_ONCE):
            total += np.sum((points[begin : begin + _ROWS_AT_ONCE] - middle) / len(points), axis=0)
        return cls(len(points), middle + total, low, high)


class Origin(NamedTuple):
    """A common origin and scale of points that are in several places.

    Attributes
    ----------
    mean : ndarray of shape (n_features,)
    exponent : int
        As that of `Axes`.
    """

    mean: FloatArray
    exponent: int

    @classmethod
    def of(cls, extents: Sequence[Extent]) -> Origin:
        """For points in all these places; those in several count several times, which matters to no distance."""
        n = sum(extent.n for extent in extents)
        mean = np.sum([extent.n / n * extent.mean for extent in extents], axis=0)
        # Half of it, which cannot overflow.
        reach = max(largest_size(0.5 * side - 0.5 * mean) for extent in extents for side in (extent.low, extent.high))
        exponent = int(np.frexp(reach)[1]) + 1
        _check_exponent(exponent)
        return cls(mean, exponent)

    def place(self, points: NDArray[np.floating[Any]]) -> FloatArray:
        """Points in these coordinates."""
        placed = points.astype(np.float64, order="C")
        placed -= self.mean
        return np.asarray(np.ldexp(placed, -self.exponent, out=placed))


def largest_size(numbers: NDArray[Any]) -> float:
    """The largest absolute value, without an array of all of them."""
    return float(max(numbers.max(initial=0.0), -numbers.min(initial=0.0)))


def centre_and_scale(points: Given) -> tuple[Coordinates, int]:
    """Points less their mean, divided by the power of two that brings the largest coordinate into [1/2, 1)."""
    if sparse.issparse(points):
        rows = sparse.csr_array(points, dtype=np.float64)
        _, size = np.frexp(np.abs(rows.data).max(initial=0.0))
        return _times_power_of_two(rows, -int(size)), int(size)
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


def _times_power_of_two(points: Any, exponent: int) -> Any:
    if sparse.issparse(points):
        return sparse.csr_array((np.ldexp(points.data, exponent), points.indices, points.indptr), shape=points.shape)
    return np.ldexp(points, exponent)
