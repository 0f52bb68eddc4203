"""Points under a metric, to measure distances between, in the precision that they are given in."""

from __future__ import annotations

from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.frame import Given, largest_size, stays_single
from boostmetric.arrays.tensors import finite, unit_vectors
from boostmetric.metric.mahalanobis import MahalanobisMetric
from boostmetric.parallel.crew import Crew

# Rows per piece of work of a thread, so that the bits do not depend on the number of threads.
_ROWS = 2**10
# Largest exponent of components whose products with points in single precision are in its range.
_MOST_EXPONENT = 30


def mapped_points(metric: MahalanobisMetric, *parts: Given) -> list[NDArray[Any]]:
    """Map points so that their Euclidean distances are those of a metric, up to a shift of all parts together.

    Parameters
    ----------
    metric : MahalanobisMetric
    *parts : ndarray or csr_array of shape (n_points, n_features)
        Points of equal type.

    Returns
    -------
    list of ndarray of shape (n_points, n_components)
        In single precision for points that are computed with in it (see `arrays.frame.stays_single`); they are centred
        before they are mapped, so that little is lost. Else as from `MahalanobisMetric.transform`.
    """
    components = metric.components
    exponent = int(np.frexp(largest_size(components))[1])
    if abs(exponent) > _MOST_EXPONENT or not all(map(stays_single, parts)):
        return [metric.transform(part) for part in parts]
    short = components.T.astype(np.float32)
    centre = np.zeros(components.shape[1]) if metric.normalize else parts[0].mean(axis=0, dtype=np.float64)
    return [_in_single(part, centre.astype(np.float32), short, normalize=metric.normalize) for part in parts]


def _in_single(
    points: NDArray[Any], centre: NDArray[np.float32], components: NDArray[np.float32], *, normalize: bool
) -> NDArray[np.float32]:
    answer = np.empty((len(points), components.shape[1]), dtype=np.float32)

    def work(begin: int) -> None:
        rows = slice(begin, begin + _ROWS)
        np.matmul(points[rows] - centre, components, out=answer[rows])
        if normalize:
            answer[rows] = unit_vectors(answer[rows])

    with Crew(joblib.effective_n_jobs(-1)) as crew:
        crew.each(work, range(0, len(points), _ROWS))
    mapped: NDArray[np.float32] = finite(answer)
    return mapped
