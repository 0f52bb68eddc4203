"""Ranking with unchanged documents: only the queries are mapped, and an index compares by inner product.

That is what an index can do whose vectors cannot change, if it stores no number per document either (see
`boostmetric.export.query_side`). It is another ranking than that of the learned distance, and may be worse than the
base.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from boostmetric.arrays.frame import Given
from boostmetric.export.query_side import QuerySide
from boostmetric.metric import MahalanobisMetric


def query_side_points(metric: MahalanobisMetric, queries: Given, documents: Given) -> tuple[Given, Given]:
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
    mapped = QuerySide(metric).transform_queries(queries)
    given: Any = documents
    squares = given.multiply(given) if sparse.issparse(given) else np.square(given, dtype=np.float64)
    square = np.asarray(squares.sum(axis=1)).ravel()
    longest = float(square.max(initial=0.0))
    last = np.sqrt(np.maximum(longest - square, 0.0))[:, None]
    lengths = np.linalg.norm(mapped, axis=1)
    # Of the length of the documents, so that the distance keeps the digits of the inner product.
    asked = mapped * (np.sqrt(longest) / (lengths.max(initial=0.0) or 1.0))
    asked = np.concatenate([asked, np.zeros((len(asked), 1))], axis=1)
    if sparse.issparse(documents):
        return sparse.csr_array(asked), sparse.csr_array(sparse.hstack([documents, sparse.csr_array(last)]))
    return asked, np.concatenate([np.asarray(documents, dtype=np.float64), last], axis=1)
