"""Export a metric as a faiss index."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from boostmetric.arrays.errors import ParameterError
from boostmetric.export.matrix import Learned, metric_of, rounded
from boostmetric.metric import MahalanobisMetric
from boostmetric.optional import require
from boostmetric.storage.files import replacing


def to_faiss(metric: MahalanobisMetric | Learned, path: str | os.PathLike[str], index: str = "Flat") -> Path:
    """Write an empty faiss index that takes untransformed vectors and searches by the learned distance.

    It is an ``IndexPreTransform``: a ``LinearTransform`` with the components of the metric, before an index with the
    Euclidean distance. It transforms both the vectors that are added and the queries. If the metric scales points to
    unit length (`normalize`), a ``NormalizationTransform`` follows the ``LinearTransform``.

    Parameters
    ----------
    metric : MahalanobisMetric or fitted learner
    path : str or path
        Path of the file, for ``faiss.read_index``; an existing file is replaced.
    index : str, default="Flat"
        Index of the transformed vectors, as a string for ``faiss.index_factory``: "Flat" compares with all of them,
        "HNSW32" and "IVF1024,Flat" with some, "SQfp16" stores them in float16, "L2norm,Flat" compares angles. An index
        that needs training, such as IVF, is written untrained: read it and call its ``train``.

    Returns
    -------
    Path
        Path of the file.

    Notes
    -----
    faiss computes in float32, and returns squared distances; of vectors of unit length, 2 - 2 cos.

    Examples
    --------
    >>> import tempfile
    >>> import faiss
    >>> import numpy as np
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.export import to_faiss
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     index = faiss.read_index(str(to_faiss(MahalanobisMetric([[2.0, 0.0]]), f"{folder}/metric.faiss")))
    >>> index.add(np.array([[0.0, 0.0], [1.0, 5.0]], dtype=np.float32))
    >>> squared, numbers = index.search(np.array([[0.9, 0.0]], dtype=np.float32), 1)
    >>> int(numbers[0, 0]), round(float(squared[0, 0]), 4)
    (1, 0.04)
    """
    faiss = require("faiss", "faiss", "Writing a faiss index")
    if not isinstance(index, str):
        raise TypeError(f"index must be a string for faiss.index_factory, such as 'Flat' or 'HNSW32'. Got {index!r}.")
    path, learned = Path(path), metric_of(metric)
    matrix = rounded(learned, "float32")
    n_features, n_components = matrix.shape
    linear = faiss.LinearTransform(n_features, n_components, False)
    faiss.copy_array_to_vector(np.ascontiguousarray(matrix.T).ravel(), linear.A)
    linear.is_trained = True
    try:
        inner = faiss.index_factory(n_components, index, faiss.METRIC_L2)
    except RuntimeError as error:
        reason = str(error).rpartition(": ")[2]
        raise ParameterError(
            "faiss cannot make an index with {n} dimensions from {index}={given!r}: {reason}. Its wiki lists what "
            "faiss.index_factory accepts; 'Flat' and 'HNSW32' always work.",
            n=n_components,
            given=index,
            reason=reason,
        ) from error
    if learned.normalize:
        written = faiss.IndexPreTransform(faiss.NormalizationTransform(n_components, 2.0), inner)
        written.prepend_transform(linear)
    else:
        written = faiss.IndexPreTransform(linear, inner)
    with replacing(path) as temporary, temporary.open("wb") as file:
        # Not by faiss, which only prints that a file could not be written to its end.
        file.write(faiss.serialize_index(written).data)
    return path
