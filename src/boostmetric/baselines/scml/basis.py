"""Directions of which SCML chooses: discriminants of regions, or of a few comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.utils.random import sample_without_replacement

from boostmetric.arrays.types import FloatArray
from boostmetric.comparisons import Comparisons
from boostmetric.neighbors import nearest

# Samples of each class around the centre of a region, as in the paper.
_SIZES = (10, 20, 50)
_RIDGE = 1e-3


def discriminants(points: FloatArray, labels: NDArray[Any], n_basis: int, rng: np.random.RandomState) -> FloatArray:
    """Fisher's discriminants of regions: of the samples of each class that are the nearest to the centre of a cluster.

    Implements section "Basis set" of Shi, Bellet and Sha (2014): clusters by k-means, regions of several sizes.

    Returns
    -------
    ndarray of shape (at most n_basis, n_features)
        Unit vectors.
    """
    classes, label = np.unique(labels, return_inverse=True)
    per_region = min(len(classes) - 1, points.shape[1])
    distinct = len(np.unique(points, axis=0))
    n_clusters = min(-(-n_basis // (per_region * len(_SIZES))), distinct)
    centres = KMeans(n_clusters, n_init=1, random_state=rng).fit(points).cluster_centers_
    members = [np.flatnonzero(label == c) for c in range(len(classes))]
    order = [inside[nearest(points[inside], centres, min(max(_SIZES), len(inside)))] for inside in members]
    rows = []
    for i in range(n_clusters):
        for size in _SIZES:
            chosen = [row[i, :size] for row in order]
            rows.append(_fisher([points[numbers] for numbers in chosen])[:per_region])
    return np.concatenate(rows)[:n_basis]


def _fisher(parts: list[FloatArray]) -> FloatArray:
    """Directions of largest scatter of the means relative to that within the parts, as unit rows."""
    means = np.array([part.mean(axis=0) for part in parts])
    residuals = np.concatenate([part - mean for part, mean in zip(parts, means, strict=True)])
    return _ratio(residuals.T @ residuals, (means - means.mean(axis=0)).T @ (means - means.mean(axis=0)))


def differences(points: FloatArray, comparisons: Comparisons, n_basis: int, rng: np.random.RandomState) -> FloatArray:
    """Directions in which the far pairs of a few comparisons, drawn at random, differ more than the near pairs.

    Returns
    -------
    ndarray of shape (n_basis, n_features)
        Unit vectors.
    """
    every = points[comparisons.pairs[:, 0]] - points[comparisons.pairs[:, 1]]
    near, far = comparisons.pair_numbers()
    n_features = points.shape[1]
    per_draw = max(1, n_features // 2)
    size = min(2 * n_features, len(near))
    draws = range(-(-n_basis // per_draw))
    chosen = np.array([sample_without_replacement(len(near), size, random_state=rng) for _ in draws])
    near, far = every[near[chosen]], every[far[chosen]]
    rows = _ratio(near.transpose(0, 2, 1) @ near, far.transpose(0, 2, 1) @ far)
    return np.asarray(rows[:, :per_draw].reshape(-1, n_features)[:n_basis])


def _ratio(near: FloatArray, far: FloatArray) -> FloatArray:
    """Directions of largest ratio of `far` to `near`, as unit rows; of one pair of matrices or of many."""
    n = near.shape[-1]
    size = np.maximum(np.trace(near + far, axis1=-2, axis2=-1) / n, np.finfo(np.float64).tiny)
    whitening = np.linalg.inv(np.linalg.cholesky(near + (_RIDGE * size)[..., None, None] * np.eye(n)))
    _, vectors = np.linalg.eigh(whitening @ far @ np.swapaxes(whitening, -2, -1))
    rows = np.swapaxes(vectors, -2, -1)[..., ::-1, :] @ whitening
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))
