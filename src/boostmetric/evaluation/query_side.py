"""Ranking with unchanged documents: only the queries are mapped, and an index compares by inner product.

That is what an index can do whose vectors cannot change, if it stores no number per document either (see
`boostmetric.export.query_side`). It is another ranking than that of the learned distance, and may be worse than the
base.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from boostmetric.arrays.point_blocks import PointBlocks
from boostmetric.arrays.types import FloatArray
from boostmetric.evaluation.task import Points
from boostmetric.export.query_side import QuerySide
from boostmetric.metric import MahalanobisMetric


def query_side_points(metric: MahalanobisMetric, queries: Points, documents: Points) -> tuple[Points, Points]:
    """Points whose Euclidean distances rank unchanged documents by their inner products with the mapped queries.

    One more coordinate makes all documents equally long, and then the nearest has the largest inner product.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.evaluation.query_side import query_side_points
    >>> queries, documents = np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [3.0, 4.0]])
    >>> asked, searched = query_side_points(MahalanobisMetric(np.eye(2)), queries, documents)
    >>> np.linalg.norm(asked - searched, axis=1).round(2)  # inner products 1 and 3
    array([6.32, 4.47])
    """
    side = QuerySide(metric)
    mapped = _in_memory(queries, side.transform_queries)
    blocks = documents.blocks() if isinstance(documents, PointBlocks) else [documents]
    longest = max(float(_squares(block).max(initial=0.0)) for block in blocks)
    lengths = np.linalg.norm(mapped, axis=1)
    # Of the length of the documents, so that the distance keeps the digits of the inner product.
    asked = mapped * (np.sqrt(longest) / (lengths.max(initial=0.0) or 1.0))
    asked = np.concatenate([asked, np.zeros((len(asked), 1))], axis=1)

    def lengthened(documents: Any) -> Any:
        last = np.sqrt(np.maximum(longest - _squares(documents), 0.0))[:, None]
        if sparse.issparse(documents):
            return sparse.csr_array(sparse.hstack([documents, sparse.csr_array(last)]))
        return np.concatenate([np.asarray(documents, dtype=np.float64), last], axis=1)

    if isinstance(documents, PointBlocks):
        return asked, documents.map(lengthened, documents.shape[1] + 1)
    return sparse.csr_array(asked) if sparse.issparse(documents) else asked, lengthened(documents)


def _squares(points: Any) -> FloatArray:
    """Squared lengths."""
    squares = points.multiply(points) if sparse.issparse(points) else np.square(points, dtype=np.float64)
    return np.asarray(squares.sum(axis=1)).ravel()


def _in_memory(points: Points, function: Callable[[Any], FloatArray]) -> FloatArray:
    """Points that `function` makes of others."""
    if isinstance(points, PointBlocks):
        return np.concatenate([function(block) for block in points.blocks()])
    return function(points)
