"""Whether new points are still like those a metric was learned from.

Three things are compared: the lengths of the vectors, their variances along the axes of the mapped reference, and the
distances to their nearest neighbour in the reference. Each is a number between two sets of points, which is large where
they differ. How large it is by chance is measured on the reference: random parts of it are compared in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from boostmetric.arrays.errors import plural
from boostmetric.arrays.frame import Given
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_number
from boostmetric.evaluation.task import check_points, in_one_space
from boostmetric.metric.mahalanobis import as_metric

_MOST_ROWS = 500  # of each part; more would find differences that do not matter
_FEWEST_ROWS = 10
_N_DRAWS = 100
_MOST_KEPT = 5000  # rows of both from which the parts are drawn
_CHANCE = 0.99  # share of comparisons within the reference that stay below
_NAMES = ("lengths", "spectrum", "neighbors")
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Drift:
    """How much new points differ from the reference in one respect.

    Attributes
    ----------
    name : {"lengths", "spectrum", "neighbors"}
    value : float
        The difference. For lengths and neighbours, the largest difference between the two distribution functions, from
        0 to 1; for the spectrum, the sum of the changes of all variances, as a share of the total variance.
    chance : float
        What 99 in 100 differences between random parts of the reference do not exceed.
    tolerance : float
        Differences up to this do not matter.
    """

    name: str
    value: float
    chance: float
    tolerance: float

    @property
    def has_drifted(self) -> bool:
        """Whether the difference is larger than both chance and tolerance."""
        return self.value > max(self.chance, self.tolerance)


def drift(
    metric: Any, X: Any, reference: Any, *, tolerance: float = 0.1, random_state: int | np.random.RandomState | None = 0
) -> tuple[Drift, Drift, Drift]:
    """Measure whether new points are still like those a metric was learned from.

    Parameters
    ----------
    metric : fitted learner or MahalanobisMetric
    X : {array-like, sparse matrix} of shape (n_points, n_features)
        New points, at least 10.
    reference : {array-like, sparse matrix} of shape (n_reference, n_features)
        Points that the metric was learned from, at least 30.
    tolerance : float, default=0.1
        Differences up to this are no drift, however certain.
    random_state : int, RandomState or None, default=0
        Random seed of the rows that are compared, at most 500 new ones and 1,500 of the reference at a time.

    Returns
    -------
    tuple of three Drift
        Of the lengths, as given; of the spectrum under the metric, about the mean of the reference, so that a shift of
        all points shows; and of the distances to the nearest neighbour in the reference, under the metric.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.evaluation import drift
    >>> rng = np.random.default_rng(0)
    >>> metric, reference = MahalanobisMetric(np.eye(3)), rng.standard_normal((600, 3))
    >>> [found.name for found in drift(metric, rng.standard_normal((300, 3)), reference) if found.has_drifted]
    []
    >>> [found.name for found in drift(metric, rng.standard_normal((300, 3)) + 2, reference) if found.has_drifted]
    ['lengths', 'spectrum', 'neighbors']
    """
    check_number("tolerance", tolerance)
    learned = as_metric(metric)
    if learned is None:
        raise TypeError("metric must be a fitted learner or a MahalanobisMetric. Got None.")
    new, known = in_one_space("X", check_points("X", X), "reference", check_points("reference", reference))
    rng = check_random_state(random_state)
    size = min(new.shape[0], known.shape[0] // 3, _MOST_ROWS)
    if size < _FEWEST_ROWS:
        raise ValueError(
            f"{plural(new.shape[0], 'new point')} and {known.shape[0]:,} of the reference are too few to compare. Give "
            f"at least {_FEWEST_ROWS} and {3 * _FEWEST_ROWS}."
        )
    new, known = (points[np.sort(rng.permutation(points.shape[0])[:_MOST_KEPT])] for points in (new, known))
    lengths = [_lengths(points) for points in (new, known)]
    mapped = [learned.transform(points) for points in (new, known)]
    centre = mapped[1].mean(axis=0)
    _, axes = np.linalg.eigh(np.cov(mapped[1], rowvar=False).reshape(len(centre), -1))
    along = [(points - centre) @ axes for points in mapped]

    found = np.empty((_N_DRAWS, 3, 2))
    for differences in found:
        # The new points, and a part of the reference, are each compared with a second part; a third is searched.
        asked = rng.permutation(len(lengths[0]))[:size]
        same, other, searched = rng.permutation(len(lengths[1]))[: 3 * size].reshape(3, size)
        rows = [(0, asked), (1, same), (1, other)]
        length = [lengths[which][some] for which, some in rows]
        variance = [np.square(along[which][some]).mean(axis=0) for which, some in rows]
        nearest = [_to_nearest(along[which][some], along[1][searched]) for which, some in rows]
        for column in (0, 1):
            change = np.abs(variance[column] - variance[2]).sum() / max(float(variance[2].sum()), _TINY)
            differences[:, column] = _between(length[column], length[2]), change, _between(nearest[column], nearest[2])
    values, chances = np.median(found[..., 0], axis=0), np.quantile(found[..., 1], _CHANCE, axis=0)
    made = [Drift(*cells, float(tolerance)) for cells in zip(_NAMES, values.tolist(), chances.tolist(), strict=True)]
    return made[0], made[1], made[2]


def _lengths(points: Given) -> FloatArray:
    given: Any = points
    squares = given.multiply(given) if sparse.issparse(given) else np.square(given, dtype=np.float64)
    return np.sqrt(np.asarray(squares.sum(axis=1), dtype=np.float64).ravel())


def _to_nearest(points: FloatArray, searched: FloatArray) -> FloatArray:
    """Distance of each point to the nearest of others."""
    squares = np.square(points).sum(axis=1)[:, None] - 2 * points @ searched.T + np.square(searched).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(squares.min(axis=1), 0.0)))


def _between(first: FloatArray, second: FloatArray) -> float:
    """Largest difference between the distribution functions of two samples (Kolmogorov and Smirnov)."""
    at = np.concatenate([first, second])
    shares = [np.searchsorted(np.sort(sample), at, side="right") / len(sample) for sample in (first, second)]
    return float(np.abs(shares[0] - shares[1]).max())
