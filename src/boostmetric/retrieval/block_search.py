"""Search among points that are read block by block, because they may not fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from boostmetric.arrays.errors import ParameterError
from boostmetric.arrays.point_blocks import PointBlocks
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.arrays.validation import as_numbers, check_count
from boostmetric.metric.mahalanobis import as_metric
from boostmetric.neighbors.in_blocks import BlockSearch
from boostmetric.retrieval.backends import in_order
from boostmetric.retrieval.mapping import mapped_rows

_QUERIES = 2**13  # searched at once: the points are read and mapped again for more


def search_blocks(
    metric: Any,
    points: PointBlocks,
    Q: ArrayLike | sparse.sparray,
    k: int = 10,
    *,
    n_jobs: int | None = -1,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[IntArray, FloatArray]:
    """Find the k nearest points of each query, among points that are read block by block.

    The result is that of the exact `MetricIndex`, which holds all points in memory.

    Parameters
    ----------
    metric : fitted learner, MahalanobisMetric or None
        None is the Euclidean distance.
    points : PointBlocks
        Points to search among: `PointTable.points` of `boostmetric.tables.open_points`.
    Q : {array-like, sparse matrix} of shape (n_queries, n_features)
    k : int, default=10
        Number of neighbours, at most the number of points.
    n_jobs : int or None, default=-1
        Number of threads, as in joblib; -1 is one for each processor. The result does not depend on it.
    on_progress : callable, optional
        Called with the number of points read, and the number to read.

    Returns
    -------
    rows : ndarray of shape (n_queries, k)
        Row numbers of the points, nearest first.
    distances : ndarray of shape (n_queries, k)

    Notes
    -----
    Points are read twice, first to know the rounding of their distances; and as often again for each further 8192
    queries. Memory: the queries in double precision, some blocks of points, and 16 MB per thread.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.retrieval import search_blocks
    >>> from boostmetric.tables import open_points
    >>> path = Path(tempfile.mkdtemp()) / "points.npy"
    >>> np.save(path, [[0.0, 0.0], [3.0, 0.0], [1.0, 20.0]])
    >>> metric = MahalanobisMetric([[1.0, 0.0], [0.0, 0.1]])
    >>> rows, distances = search_blocks(metric, open_points(path).points, [[1.0, 0.0]], k=2)
    >>> rows.tolist(), distances.tolist()
    ([[0, 1]], [[1.0, 2.0]])
    """
    check_count("k", k)
    learned, n, n_features = as_metric(metric), *points.shape
    if k > n:
        raise ParameterError("{k}={most} is more than the {n} points to search among. Lower {k}.", most=k, n=n)
    given = sparse.csr_array(Q) if sparse.issparse(Q) else as_numbers("Q", Q)
    if given.ndim != 2 or given.shape[1] != n_features:
        raise ValueError(f"Q must have shape (n_queries, {n_features}), as the points have. Got {given.shape}.")
    starts = range(0, given.shape[0], _QUERIES)
    n_read, n_to_read = 0, n * (1 + len(starts))

    def read() -> Iterator[FloatArray]:
        nonlocal n_read
        first = 0
        for block in points.blocks():
            yield mapped_rows(learned, block, first, "the points")
            first += len(block)
            n_read += len(block)
            if on_progress is not None:
                on_progress(n_read, n_to_read)

    search = BlockSearch(read, n_jobs)
    found = [(np.empty((0, k), dtype=np.int64), np.empty((0, k)))]
    for start in starts:
        queries = mapped_rows(learned, given[start : start + _QUERIES], start, "Q")
        found.append(search.nearest(queries, int(k)))
    rows, distances = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return rows, in_order(distances)
