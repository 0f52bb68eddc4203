"""What a metric does to the vectors of documents and of queries, as lists of numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from boostmetric.arrays.validation import check_choice
from boostmetric.export import Learned, query_side
from boostmetric.export.matrix import metric_of
from boostmetric.metric import MahalanobisMetric

Side = Literal["both", "query"]
AnyMetric = MahalanobisMetric | Learned | str | Path


class Sides:
    """A metric for documents and queries, or for queries alone.

    Parameters
    ----------
    metric : MahalanobisMetric, fitted learner, or path of a model file
    side : {"both", "query"}
    """

    def __init__(self, metric: AnyMetric, side: Side) -> None:
        check_choice("side", side, ("both", "query"))
        self.metric = MahalanobisMetric.load(metric) if isinstance(metric, str | Path) else metric_of(metric)
        self.side = side
        self._query = self.metric.transform if side == "both" else query_side(self.metric).transform_queries

    def documents(self, vectors: Sequence[Sequence[float]]) -> list[list[float]]:
        """Vectors of documents, as the index has them."""
        if self.side == "query" or not len(vectors):
            return [list(vector) for vector in vectors]
        found: list[list[float]] = self.metric.transform(vectors).tolist()
        return found

    def query(self, vector: Sequence[float]) -> list[float]:
        """Vector of a query, to search the index with."""
        found: list[float] = self._query(vector).tolist()
        return found

    @property
    def name(self) -> str:
        """Short name that changes with the metric, for caches of embeddings."""
        content: Any = np.ascontiguousarray(self.metric.components)
        digest = hashlib.sha256(content.data)
        digest.update(repr((content.shape, self.metric.normalize, self.side)).encode())
        return f"boostmetric-{digest.hexdigest()[:12]}"
