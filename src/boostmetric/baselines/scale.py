"""The scale of a data set: the distance of nearest neighbours."""

from __future__ import annotations

import numpy as np

from boostmetric.arrays.types import FloatArray
from boostmetric.neighbors import nearest


def distance_of_neighbors(points: FloatArray) -> float:
    """Median distance of points from their nearest neighbours, ignoring distances of 0; 1 if all are 0.

    The median, because one outlier may be farther away than all other points together.
    """
    distances = np.linalg.norm(points - points[nearest(points, None, 1)[:, 0]], axis=1)
    return float(np.median(distances[distances > 0])) if distances.any() else 1.0
