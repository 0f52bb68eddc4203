"""Nearest neighbours, for mining and for scoring: the same ones from every search method.

Data on a grid (whole numbers, or one decimal as in Iris) are full of equal distances, and which of several equally near
points a search returns depends on its method and on the last bit of each coordinate. So distances that the precision of
the data cannot tell apart count as equal here, and among equals the lowest number comes first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

Points = NDArray[np.floating[Any]]

_SPARE = 8  # candidates beyond those asked for, so that ties at the end of the list are seen
_CHUNK = 2**22  # coordinates of candidates held at once


def rounding_of_distances(points: Points) -> float:
    """How far a distance between two of the points may be off because their coordinates are rounded."""
    return float(2 * np.sqrt(points.shape[1]) * np.finfo(points.dtype).eps * np.abs(points).max())


def nearest(points: Points, queries: Points | None, n_neighbors: int, rounding: float = 0.0) -> NDArray[np.int64]:
    """Numbers of the nearest points of each query, nearest first.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    queries : ndarray of shape (n_queries, n_features) or None
        None asks for the neighbours of the points themselves, a point never being its own neighbour.
    n_neighbors : int
        At most the number of points (less one without queries).
    rounding : float, default=0.0
        Distances that differ by no more than this are equal; among equals the lowest number comes first.

    Returns
    -------
    ndarray of shape (n_queries, n_neighbors)
    """
    alone = queries is None
    asked = points if queries is None else queries
    most = len(points) - alone
    answer = np.empty((len(asked), n_neighbors), dtype=np.int64)
    open_rows = np.arange(len(asked))
    n_candidates = n_neighbors + _SPARE
    search = NearestNeighbors().fit(points)
    while len(open_rows):
        n_candidates = min(n_candidates, most)
        candidates = search.kneighbors(asked[open_rows], n_candidates + alone, return_distance=False)
        if alone:
            candidates = _without_self(candidates, open_rows)
        candidates, settled = _in_order(points, asked[open_rows], candidates, n_neighbors, rounding)
        answer[open_rows] = candidates[:, :n_neighbors]
        open_rows = open_rows[~settled] if n_candidates < most else open_rows[:0]
        n_candidates *= 4
    return answer


def _without_self(candidates: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Take each point out of its own row; where copies of it crowded it out, take out the last."""
    own = candidates == rows[:, None]
    own[~own.any(axis=1), -1] = True
    return np.asarray(candidates[~own].reshape(len(rows), -1))


def _in_order(
    points: Points, queries: Points, candidates: NDArray[np.int64], n_neighbors: int, rounding: float
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Candidates sorted by distance and then number, and whether points beyond them could not tie with the last one."""
    distance = np.empty(candidates.shape)
    n_rows = max(1, _CHUNK // (candidates.shape[1] * points.shape[1]))
    for start in range(0, len(queries), n_rows):
        rows = slice(start, start + n_rows)
        # From the differences: the searches expand the square, and lose half of the digits of short distances.
        distance[rows] = np.linalg.norm(points[candidates[rows]] - queries[rows, None], axis=2)
    order = np.argsort(distance, axis=1)
    distance = np.take_along_axis(distance, order, axis=1)
    candidates = np.take_along_axis(candidates, order, axis=1)
    # Neighbours in this order that are closer to each other than the rounding share a rank.
    rank = np.cumsum(np.diff(distance, axis=1, prepend=distance[:, :1]) > rounding, axis=1)
    order = np.lexsort((candidates, rank), axis=1)
    settled = rank[:, -1] > rank[:, n_neighbors - 1]
    return np.take_along_axis(candidates, order, axis=1), settled
