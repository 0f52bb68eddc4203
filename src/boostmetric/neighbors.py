"""Nearest neighbours, for mining and for scoring."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors


def nearest(
    points: NDArray[np.floating[Any]], queries: NDArray[np.floating[Any]] | None, n_neighbors: int
) -> NDArray[np.int64]:
    """Numbers of the nearest points of each query, nearest first.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    queries : ndarray of shape (n_queries, n_features) or None
        None asks for the neighbours of the points themselves, a point never being its own neighbour.
    n_neighbors : int
        At most the number of points (less one without queries).

    Returns
    -------
    ndarray of shape (n_queries, n_neighbors)
    """
    search = NearestNeighbors(n_neighbors=n_neighbors).fit(points)
    return np.asarray(search.kneighbors(queries, return_distance=False))
