"""Projection of points to two dimensions, before and after: principal components, aligned with each other."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy import sparse

from boostmetric.arrays.frame import Given, centre_and_scale
from boostmetric.arrays.types import FloatArray
from boostmetric.metric.mahalanobis import with_fixed_signs


class Plane(NamedTuple):
    """Points projected to the plane in which they spread the most.

    Attributes
    ----------
    coordinates : ndarray of shape (n_points, 2)
        In [-1, 1], with one scale for both axes.
    share : float
        Share of the squared distances between the points that lies in the plane.
    """

    coordinates: FloatArray
    share: float


def principal_plane(points: Given) -> Plane:
    """Project points to their first two principal components.

    Parameters
    ----------
    points : ndarray or csr_array of shape (n_points, n_features)

    Notes
    -----
    Cost: one eigendecomposition of a symmetric matrix, whose size is the smaller of the numbers of features and points.
    Sparse points stay sparse.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric.report.projection import principal_plane
    >>> plane = principal_plane(np.array([[0.0, 3.0, 5.0], [1.0, 3.0, 5.0], [4.0, 3.0, 5.0]]))
    >>> plane.coordinates[:, 0].round(9), round(plane.share, 9)
    (array([-1. , -0.5,  1. ]), 1.0)
    """
    rows, _ = centre_and_scale(points)
    n, n_features = rows.shape
    found = np.zeros((n, 2))
    if not sparse.issparse(rows) and n_features <= n:
        square = rows.T @ rows
        total = float(np.trace(square))
        size = min(2, n_features)
        _, vectors = scipy.linalg.eigh(square, subset_by_index=[n_features - size, n_features - 1])
        found[:, :size] = rows @ vectors[:, ::-1]
    else:
        squares: Any = rows @ rows.T
        products = squares.toarray() if sparse.issparse(squares) else squares
        products -= products.mean(axis=0)
        products -= products.mean(axis=1, keepdims=True)
        total = float(np.trace(products))
        size = min(2, n)
        values, vectors = scipy.linalg.eigh(products, subset_by_index=[n - size, n - 1])
        found[:, :size] = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1]
    found = with_fixed_signs(found.T).T
    share = float(np.square(found).sum()) / total if total > 0 else 1.0
    found -= (found.max(axis=0) + found.min(axis=0)) / 2
    return Plane(found / (np.abs(found).max(initial=0.0) or 1.0), min(1.0, share))


def turned(coordinates: FloatArray, towards: FloatArray) -> FloatArray:
    """Rotate, and mirror if needed, points of a plane so that they match others as closely as possible.

    The sign of a principal component is arbitrary, and so is the order of two components of the same size. No distance
    changes; what still moves between the two pictures moves for a reason.

    Parameters
    ----------
    coordinates, towards : ndarray of shape (n_points, 2)

    Returns
    -------
    ndarray of shape (n_points, 2)
        In [-1, 1] again.
    """
    rotation, _ = scipy.linalg.orthogonal_procrustes(coordinates, towards)
    found = coordinates @ rotation
    found -= (found.max(axis=0) + found.min(axis=0)) / 2
    return np.asarray(found / (np.abs(found).max(initial=0.0) or 1.0))
