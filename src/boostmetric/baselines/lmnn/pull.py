"""Coordinates in which targets pull equally along all axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.frame import Frame, scale_in_range
from boostmetric.arrays.types import FloatArray
from boostmetric.metric.starts import spread
from boostmetric.solver.result import scaled

_EPS = float(np.finfo(np.float64).eps)
# Along axes in which targets hardly differ, coordinates are stretched only up to this limit (on squares).
_LEAST_PULL = 1e-8
# Entries of a table of pairs and features processed at once.
_PART = 2**22


@dataclass(frozen=True)
class PullCoordinates:
    """Points in the axes that they span, in units in which targets pull with force 1, up to a limit.

    Up to rounding, these coordinates do not depend on the units of the features: the points are standardized, then
    whitened, which drops directions in which they do not differ; only then is it decided what is small.

    Attributes
    ----------
    points : ndarray of shape (n_points, n_axes)
    pull : ndarray of shape (n_axes,)
        Weighted sum of the squared differences of targets along each axis: 1, less along axes where they hardly differ,
        or 0 where they do not.
    """

    points: FloatArray
    pull: FloatArray
    _frame: Frame
    _unit: FloatArray
    _exponent: int
    _forward: FloatArray
    _backward: FloatArray
    _lengths: FloatArray  # squared lengths and inner products of the axes in the features

    @classmethod
    def of(cls, samples: FloatArray, pairs: NDArray[np.int64], weights: FloatArray) -> PullCoordinates:
        """Find coordinates for samples.

        Parameters
        ----------
        samples : ndarray of shape (n_samples, n_features)
        pairs : ndarray of shape (n_pairs, 2)
            Pairs of a sample and a target.
        weights : ndarray of shape (n_pairs,)
        """
        centred, exponent = scale_in_range(samples)
        unit = spread(np.asarray(centred))
        frame = Frame.of(np.asarray(centred) / unit)
        points = np.asarray(frame.points)
        values, vectors = np.linalg.eigh(points.T @ points / len(points))
        spanned = values > len(values) * _EPS * values[-1]
        if not spanned.any():  # all points are equal: any axis will do
            spanned[-1], values = True, np.ones_like(values)
        lengths = np.sqrt(values[spanned])
        white = points @ (vectors[:, spanned] / lengths)

        forces, axes = np.linalg.eigh(_scatter(white, pairs, weights))
        largest = forces[-1] if forces[-1] > 0 else 1.0
        forces[forces <= len(forces) * _EPS * largest] = 0.0
        stretch = np.sqrt(np.maximum(forces, _LEAST_PULL * largest))
        forward = (vectors[:, spanned] / lengths) @ (axes / stretch)
        features = frame.lift(forward.T) / unit
        return cls(
            points=np.ascontiguousarray(white @ (axes / stretch)),
            pull=forces / np.square(stretch),
            _frame=frame,
            _unit=unit,
            _exponent=exponent,
            _forward=forward,
            _backward=(vectors[:, spanned] * lengths) @ (axes * stretch),
            _lengths=features @ features.T,
        )

    def lower(self, components: FloatArray | None) -> FloatArray:
        """Convert a linear map of the samples (None is the identity) to one of these points, up to a factor."""
        if components is not None:
            rows = self._frame.lower(components * self._unit)
        elif self._frame.basis is not None:  # the identity itself may be large
            rows = self._unit[:, None] * self._frame.basis
        else:
            rows = np.diag(self._unit)
        return np.asarray(rows @ self._backward)

    def lift(self, rows: FloatArray) -> FloatArray:
        """Convert a linear map of these points to one of the samples."""
        return np.ldexp(self._frame.as_map(rows @ self._forward.T) / self._unit, -self._exponent)

    def trace(self, rows: FloatArray) -> float:
        """Trace, in the features, of the metric of a linear map of these points, computed without lifting the map."""
        return scaled(float(np.sum((rows @ self._lengths) * rows)), -2 * (self._frame.exponent + self._exponent))


def _scatter(points: FloatArray, pairs: NDArray[np.int64], weights: FloatArray) -> FloatArray:
    """Sum of the weighted outer products (a - b)(a - b)'.

    Computed from the differences, which are exactly 0 where targets agree; sums over all pairs of points at once would
    leave an error as large as the rounding of the points.
    """
    total = np.zeros((points.shape[1],) * 2)
    n_rows = max(1, _PART // points.shape[1])
    for begin in range(0, len(pairs), n_rows):
        part = slice(begin, begin + n_rows)
        difference = points[pairs[part, 0]] - points[pairs[part, 1]]
        difference *= np.sqrt(weights[part])[:, None]
        total += difference.T @ difference
    return total
