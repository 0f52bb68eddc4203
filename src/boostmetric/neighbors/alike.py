"""Nearest points of the same class.

Classes are often many and small: a search for each of them would take longer to prepare than to carry out. So distances
within small classes are all computed, class by class, in compiled code.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from boostmetric.arrays.frame import Given
from boostmetric.arrays.ragged import Ragged
from boostmetric.neighbors.nearest_points import MOST_ROUNDING, in_threads, nearest, scaled

_MOST_IN_A_SMALL_CLASS = 256  # points; larger classes are searched
_DISTANCES = 2**17  # per piece of work of a thread


def nearest_alike(
    points: Given,
    label: NDArray[np.int64],
    n_neighbors: int,
    rounding: float = 0.0,
    *,
    is_asked: NDArray[np.bool_] | None = None,
    device: str = "cpu",
) -> tuple[NDArray[np.int64], Ragged]:
    """Find the nearest points of the same class for each point that has any, nearest first.

    Parameters
    ----------
    points : ndarray or csr_array of shape (n_points, n_features)
    label : ndarray of shape (n_points,)
        Class number of each point.
    n_neighbors : int
        Number of points to find; fewer in classes that are too small.
    rounding, device
        As in `nearest`.
    is_asked : ndarray of bool of shape (n_points,), optional
        Points to find the neighbours of; by default all.

    Returns
    -------
    anchors : ndarray of shape (n_anchors,)
        The points asked about that are not alone in their class, in ascending order.
    found : Ragged with n_anchors rows
        Point numbers.
    """
    is_asked = np.ones(len(label), dtype=bool) if is_asked is None else is_asked
    order, sizes = np.argsort(label, kind="stable"), np.bincount(label)
    classes = [inside for inside in np.split(order, np.cumsum(sizes)[:-1]) if len(inside) > 1]
    small = [] if sparse.issparse(points) else [c for c in classes if len(c) <= _MOST_IN_A_SMALL_CLASS]
    large = classes if sparse.issparse(points) else [c for c in classes if len(c) > _MOST_IN_A_SMALL_CLASS]
    anchors, found = _in_small_classes(points, small, n_neighbors, rounding, is_asked)
    for inside in large:
        k = min(n_neighbors, len(inside) - 1)
        rows = Ragged.from_rows(inside[nearest(points[inside], None, k, rounding, device=device)])
        asked = is_asked[inside]
        anchors.append(inside[asked])
        found.append(rows.take(np.flatnonzero(asked)))
    if not anchors:
        return np.empty(0, dtype=np.int64), Ragged.from_sizes(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    anchor = np.concatenate(anchors)
    ascending = np.argsort(anchor)
    return anchor[ascending], Ragged.stack(found).take(ascending)


def _in_small_classes(
    points: NDArray[np.floating],
    classes: list[NDArray[np.int64]],
    n_neighbors: int,
    rounding: float,
    is_asked: NDArray[np.bool_],
) -> tuple[list[NDArray[np.int64]], list[Ragged]]:
    """The points asked about and their neighbours, from all distances within the classes."""
    if not classes:
        return [], []
    from boostmetric.kernels import brute_force

    points, _, exponent = scaled(points, points)
    rounding = float(np.ldexp(rounding, -exponent))
    order, sizes = np.concatenate(classes), np.array([len(inside) for inside in classes])
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    picked = np.zeros((len(order), n_neighbors), dtype=np.int64)

    def work(piece: tuple[int, int]) -> None:
        begin, end = piece
        largest = int(sizes[begin:end].max())
        scratch = np.zeros(brute_force.SCRATCH), np.empty(largest), np.empty(largest), np.zeros(largest, dtype=np.int64)
        inside = slice(bounds[begin], bounds[end])
        fixed = points, order[inside], bounds[begin : end + 1] - bounds[begin], is_asked
        brute_force.pick_alike(*fixed, rounding, MOST_ROUNDING, *scratch, picked[inside])

    cuts = np.searchsorted(np.cumsum(sizes**2), np.arange(0, int(np.square(sizes).sum()), _DISTANCES)[1:])
    ends = np.unique([0, *cuts, len(classes)])
    in_threads(work, list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)))
    n_found = np.repeat(np.minimum(sizes - 1, n_neighbors), sizes)
    asked = np.flatnonzero(is_asked[order])
    values = picked[asked][np.arange(n_neighbors) < n_found[asked, None]]
    return [order[asked]], [Ragged.from_sizes(values, n_found[asked])]
