"""Export a metric for an index whose vectors cannot change: only the queries do.

With X = L'L, the squared distance between a query q and a document d is ``q'Xq - 2 (q'Xd - d'Xd / 2)``. The first term
is the same for all documents, so the nearest document has the largest ``<Xq, d> - d'Xd / 2``: an inner product of the
transformed query with the unchanged document, plus one number per document that does not depend on the query.

If the metric scales points to unit length, the nearest document has the largest cosine of Lq and Ld, which is
``<L'Lq / |Lq|, d> / |Ld|``: the number of the document is a factor, ``1 / |Ld|``, instead of a term.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from boostmetric.arrays.tensors import finite, lengths
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_choice, check_number
from boostmetric.export.matrix import Learned, metric_of, rounded
from boostmetric.metric.mahalanobis import MahalanobisMetric
from boostmetric.storage.files import replacing

_SHARE = 0.125  # largest appended coordinate, as a share of the length of a document
_FLATTEST, _STEEPEST = 2.0**-1000, 2.0**1000  # bounds within which the inverse does not overflow either


class QuerySide:
    """The learned distance as inner products with unchanged documents.

    With the number of each document, it is exact::

        score = transform_queries(queries) @ documents.T + document_numbers(documents)

    ranks documents as the learned distance does, the nearest first. For an index that supports only inner products,
    `extended_queries` and `extended_documents` append the number as one more coordinate.

    If the metric scales points to unit length (`normalize`), the number is a factor::

        score = transform_queries(queries) @ documents.T * document_numbers(documents)

    is the cosine of the mapped vectors. `extended_documents` then multiplies documents by their numbers, and appends
    nothing. An index that compares unchanged documents by inner product or cosine alone cannot give this order, because
    a document's length after the map is not its own length.

    Without the numbers, ``transform_queries(queries) @ documents.T`` is an approximation that may be worse than the
    distance before learning: it prefers documents that the metric makes long. Measure it before using it.

    Parameters
    ----------
    metric : MahalanobisMetric or fitted learner
    document_length : float, default=1.0
        Approximate Euclidean length of a document, 1 for embeddings of unit length. It only determines `scale`.

    Attributes
    ----------
    metric : MahalanobisMetric
    scale : float
        Power of two by which `extended_queries` and `extended_documents` multiply the metric. It keeps the appended
        coordinate below an eighth of the length of a document. An exact search does not need this, but the graph of an
        HNSW index links documents by their inner products, which a large coordinate would dominate. 1 if the metric
        scales points to unit length.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.export import query_side
    >>> metric = MahalanobisMetric([[1.0, 0.0], [0.0, 0.1]])
    >>> documents, queries = np.array([[0.0, 1.0], [0.5, 0.0]]), np.array([[0.1, 0.0]])
    >>> side = query_side(metric)
    >>> scores = side.transform_queries(queries) @ documents.T + side.document_numbers(documents)
    >>> scores.round(3)
    array([[-0.005, -0.075]])
    >>> metric.distance(queries, documents).round(3)
    array([0.141, 0.4  ])
    >>> extended = side.extended_queries(queries) @ side.extended_documents(documents).T
    >>> np.allclose(extended, side.scale * scores)
    True
    """

    def __init__(self, metric: MahalanobisMetric | Learned, document_length: float = 1.0) -> None:
        check_number("document_length", document_length, above=0)
        self.metric = metric_of(metric)
        # |d'Xd| / 2 is at most this factor times the length of d.
        steepest = float(self.metric.eigenvalues[0]) * document_length / 2
        if not steepest < _STEEPEST:
            raise ValueError(
                f"Under this metric the numbers of documents of length {document_length:g} become {steepest:g}, which "
                "is too large. Divide the components by a power of two, which changes no neighbours."
            )
        is_scaled = steepest > _FLATTEST and not self.metric.normalize
        self.scale = float(2.0 ** np.floor(np.log2(_SHARE / steepest))) if is_scaled else 1.0

    @property
    def matrix(self) -> FloatArray:
        """Matrix X, of shape (n_features, n_features): ``queries @ matrix`` are the transformed queries."""
        return self.metric.matrix

    def transform_queries(self, queries: ArrayLike | sparse.sparray) -> FloatArray:
        """Map each query q to Xq; if the metric scales points to unit length, to ``Xq / |Lq|``.

        Parameters
        ----------
        queries : array-like of shape (..., n_features), or sparse matrix of shape (n_queries, n_features)

        Returns
        -------
        ndarray of shape (..., n_features)
        """
        mapped = self.metric.transform(queries)  # Lq, or Lq / |Lq|
        with np.errstate(over="ignore", invalid="ignore"):  # see `finite`
            return np.asarray(finite(mapped @ self.metric.components))

    def document_numbers(self, documents: ArrayLike | sparse.sparray) -> FloatArray:
        """Compute the number -d'Xd / 2 of each document d; if the metric scales points to unit length, ``1 / |Ld|``.

        Parameters
        ----------
        documents : array-like of shape (..., n_features), or sparse matrix of shape (n_documents, n_features)

        Returns
        -------
        ndarray of shape (...)
            A document that the map takes to zero has the number 0.
        """
        if self.metric.normalize:
            length = lengths(MahalanobisMetric(self.metric.components).transform(documents))
            with np.errstate(over="ignore"):  # see `finite`
                inverse = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
            return np.asarray(finite(inverse[..., None])[..., 0])
        mapped = self.metric.transform(documents)
        with np.errstate(over="ignore"):  # see `finite`
            return np.asarray(-0.5 * finite(np.square(mapped).sum(axis=-1, keepdims=True))[..., 0])

    def extended_queries(self, queries: ArrayLike | sparse.sparray) -> FloatArray:
        """Transform queries for inner products with `extended_documents`: append a coordinate.

        Parameters
        ----------
        queries : array-like of shape (..., n_features), or sparse matrix of shape (n_queries, n_features)

        Returns
        -------
        ndarray of shape (..., n_features + 1)
            Xq times `scale`, followed by a 1. If the metric scales points to unit length, the result of
            `transform_queries`, of shape (..., n_features).
        """
        if self.metric.normalize:
            return self.transform_queries(queries)
        changed = self.transform_queries(queries) * self.scale
        return _with_last(changed, np.ones(changed.shape[:-1]))

    def extended_documents(self, documents: ArrayLike | sparse.sparray) -> FloatArray:
        """Prepare documents for inner products with `extended_queries`: append a coordinate.

        Parameters
        ----------
        documents : array-like of shape (..., n_features), or sparse matrix of shape (n_documents, n_features)

        Returns
        -------
        ndarray of shape (..., n_features + 1)
            The unchanged document, followed by its number times `scale`. If the metric scales points to unit length,
            the document times its number, of shape (..., n_features).
        """
        numbers = self.document_numbers(documents) * self.scale
        dense: Any = sparse.csr_array(documents).toarray() if sparse.issparse(documents) else documents
        vectors = np.asarray(dense, dtype=np.float64)
        if self.metric.normalize:
            with np.errstate(over="ignore", invalid="ignore"):  # see `finite`
                return np.asarray(finite(vectors * numbers[..., None]))
        return _with_last(vectors, numbers)

    def __repr__(self) -> str:
        return f"QuerySide({self.metric!r}, scale={self.scale:g})"


def query_side(metric: MahalanobisMetric | Learned, document_length: float = 1.0) -> QuerySide:
    """Export a metric for an index whose vectors cannot change: only the queries do.

    Parameters
    ----------
    metric : MahalanobisMetric or fitted learner
    document_length : float, default=1.0
        As in `QuerySide`.

    Returns
    -------
    QuerySide

    Examples
    --------
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.export import query_side
    >>> query_side(MahalanobisMetric([[2.0, 0.0]])).transform_queries([[1.0, 5.0]])
    array([[4., 0.]])
    """
    return QuerySide(metric, document_length)


def to_query_side(
    metric: MahalanobisMetric | Learned,
    path: str | os.PathLike[str],
    dtype: str = "float32",
    document_length: float = 1.0,
) -> Path:
    """Write what a service needs for the query-side form, as an .npz file with three arrays.

    - ``queries`` of shape (n_features, n_features): ``Q @ queries`` are the transformed queries;
    - ``documents`` of shape (n_features, n_components): ``-0.5 * ((D @ documents) ** 2).sum(axis=1)`` are the numbers
      of the documents;
    - ``scale``: factor for both the transformed queries and the numbers, if the number is appended to the document as a
      coordinate, and a 1 to the query.

    If the metric scales points to unit length (`normalize`), there is a fourth array, ``normalize``, which is true. The
    numbers are then ``1 / np.linalg.norm(D @ documents, axis=1)``; they multiply inner products, and the scale is 1.

    Parameters
    ----------
    metric : MahalanobisMetric or fitted learner
    path : str or path
        Path of the .npz file; an existing file is replaced.
    dtype : {"float16", "float32", "float64"}, default="float32"
        Precision of both matrices.
    document_length : float, default=1.0
        As in `QuerySide`.

    Returns
    -------
    Path
        Path of the file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.export import to_query_side
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     arrays = dict(np.load(to_query_side(MahalanobisMetric([[2.0, 0.0]]), f"{folder}/query-side.npz")))
    >>> np.array([[1.0, 5.0]]) @ arrays["queries"]
    array([[4., 0.]])
    """
    check_choice("dtype", dtype, ("float16", "float32", "float64"))
    path, side = Path(path), QuerySide(metric, document_length)
    arrays: dict[str, Any] = {
        # X is symmetric, so it is its own transpose.
        "queries": rounded(MahalanobisMetric(side.matrix, normalize=side.metric.normalize), dtype),
        "documents": rounded(side.metric, dtype),
        "scale": np.array(side.scale),
        **({"normalize": np.array(True)} if side.metric.normalize else {}),
    }
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)
    return path


def _with_last(vectors: FloatArray, last: FloatArray) -> FloatArray:
    """Append a coordinate to each vector."""
    return np.concatenate([vectors, last[..., None]], axis=-1)
