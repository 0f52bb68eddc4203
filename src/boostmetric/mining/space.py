"""Queries and documents as mapped by a metric, and their distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from boostmetric.arrays.frame import Given
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.evaluation.task import check_queries
from boostmetric.metric.mahalanobis import MahalanobisMetric, as_metric, check_columns
from boostmetric.neighbors import distances_to, rounding_of_distances

_CHUNK = 2**20  # numbers held at once


@dataclass(frozen=True, eq=False)
class Space:
    """Points whose Euclidean distance, times ``2**exponent``, is the distance of the metric.

    Attributes
    ----------
    queries, documents : ndarray or csr_array of shape (n, n_dimensions)
        The same object, if the documents are the queries. No coordinate is larger than 1, so that squares stay in
        range.
    exponent : int
    rounding : float
        Distances between these points that differ by no more than this count as equal.
    """

    queries: Given
    documents: Given
    exponent: int
    rounding: float

    @classmethod
    def of(cls, queries: Any, documents: Any, metric: Any) -> Space:
        """Check the points, and map them."""
        learned = as_metric(metric)
        points = check_queries(queries, documents)
        if learned is not None:
            check_columns(queries, learned.feature_names)
            check_columns(documents, learned.feature_names)
            names = ("queries", "documents")[: len(points)]
            points = tuple(_mapped(name, given, learned) for name, given in zip(names, points, strict=True))
        exponent = int(np.frexp(max(map(_largest, points)))[1])
        rounding = float(np.ldexp(rounding_of_distances(points[-1]), -exponent))
        scaled = [_scaled(given, exponent) for given in points]
        return cls(scaled[0], scaled[-1], exponent, rounding)

    @property
    def is_one_set(self) -> bool:
        """Whether the documents are the queries."""
        return self.queries is self.documents

    def to_documents(self, queries: IntArray, documents: IntArray) -> FloatArray:
        """Distances from each query to the documents in its row, by number; infinite for numbers below 0."""
        there = documents >= 0
        if sparse.issparse(self.documents):
            distance = np.full(documents.shape, np.inf)
            row, column = np.nonzero(there)
            distance[row, column] = self._pairs(self.queries, queries[row], documents[row, column])
            return distance
        distance = distances_to(self.documents, self.queries[queries], np.where(there, documents, 0))
        distance[~there] = np.inf
        return distance

    def of_pairs(self, queries: IntArray, documents: IntArray) -> FloatArray:
        """Distance between each query and one document."""
        return self._pairs(self.queries, queries, documents)

    def of_documents(self, first: IntArray, second: IntArray) -> FloatArray:
        """Distances between pairs of documents."""
        return self._pairs(self.documents, first, second)

    @property
    def _longest(self) -> int:
        """Maximum number of stored values per point."""
        points: Any = self.documents
        return 1 + int(np.diff(points.indptr).max(initial=0)) if sparse.issparse(points) else int(points.shape[1])

    def _pairs(self, points: Given, first: IntArray, second: IntArray) -> FloatArray:
        distance = np.empty(len(first))
        size = max(1, _CHUNK // self._longest)
        for start in range(0, len(first), size):
            rows = slice(start, start + size)
            difference: Any = points[first[rows]] - self.documents[second[rows]]
            squares = difference.multiply(difference) if sparse.issparse(difference) else np.square(difference)
            distance[rows] = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
        return distance


def _mapped(name: str, points: Given, metric: MahalanobisMetric) -> FloatArray:
    mapped = metric._mapped(points)
    wrong = np.flatnonzero(~np.isfinite(mapped).all(axis=1))
    if len(wrong):
        raise ValueError(
            f"The metric maps row {wrong[0]} of the {name} to numbers that are too large to hold. Rescale the points."
        )
    return mapped


def _largest(points: Given) -> float:
    """Largest absolute coordinate."""
    values: Any = points.data if sparse.issparse(points) else points
    return float(max(values.max(initial=0.0), -values.min(initial=0.0)))


def _scaled(points: Any, exponent: int) -> Given:
    """Points in float64, divided by a power of two, which is exact."""
    if sparse.issparse(points):
        values = np.ldexp(points.data.astype(np.float64), -exponent)
        return sparse.csr_array((values, points.indices, points.indptr), shape=points.shape)
    return np.ldexp(points.astype(np.float64, order="C"), -exponent)
