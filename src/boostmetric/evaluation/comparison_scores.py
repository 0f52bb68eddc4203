"""Count the comparisons that a metric satisfies, anchor by anchor.

A comparison is satisfied if its far pair is longer than its near pair; pairs of equal length do not satisfy it, as in
`ComparisonBoostMetric.score`. Comparisons are counted group by group from sorted distances, so the cost of a group
grows with its pairs, not its comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist

from boostmetric.arrays.frame import Given, largest_size, times_power_of_two
from boostmetric.arrays.numbering import check_in_range
from boostmetric.arrays.types import FloatArray
from boostmetric.comparisons import Comparisons

_CHUNK = 2**22  # numbers held at once
_MOST_EXPONENT = 400  # coordinates with larger exponents are scaled before squaring


class Satisfied(NamedTuple):
    """Weight of the satisfied comparisons, and of all comparisons.

    Attributes
    ----------
    of : ndarray of shape (n,)
        Anchor or pair that a row stands for.
    satisfied, weight : ndarray of shape (n,)
    """

    of: NDArray[np.int64]
    satisfied: FloatArray
    weight: FloatArray

    @property
    def accuracy(self) -> float:
        """Weighted fraction of the comparisons that are satisfied."""
        return float(self.satisfied.sum() / self.weight.sum())


def comparison_accuracy(comparisons: Comparisons, points: Given) -> Satisfied:
    """Count the comparisons that Euclidean distances satisfy, for each anchor.

    Parameters
    ----------
    comparisons : Comparisons
    points : ndarray or csr_array of shape (n_points, n_features)
        Mapped by a metric, or as given.

    Returns
    -------
    Satisfied
        One row for each anchor, in ascending order; groups without an anchor have a row each.

    Notes
    -----
    Cost: computing and sorting the distances of all pairs. Far sides that are not listed take no memory.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric import Comparisons
    >>> from boostmetric.evaluation.comparison_scores import comparison_accuracy
    >>> triplets = Comparisons.from_triplets([[0, 1, 2], [0, 1, 3], [3, 0, 2]])
    >>> by_anchor = comparison_accuracy(triplets, np.array([[0.0], [1.0], [2.0], [4.0]]))
    >>> by_anchor.satisfied, by_anchor.weight
    (array([2., 0.]), array([2., 1.]))
    >>> round(by_anchor.accuracy, 3)
    0.667
    """
    if not comparisons.n_groups:
        raise ValueError("There are no comparisons: at least one is needed.")
    check_in_range(comparisons.n_points - 1, points.shape[0])
    points = _in_range(points)
    counted = [
        (part.anchors, part.weights * satisfied, part.weights * np.multiply(*part.side_sizes))
        for part, satisfied in _counted(comparisons, points)
    ]
    return _added_up(*(np.concatenate(column) for column in zip(*counted, strict=True)))


def accuracy_by_pair(comparisons: Comparisons, points: Given) -> tuple[Satisfied, Satisfied]:
    """Count the same comparisons twice: once per near pair, and once per far pair.

    For comparisons that all share one anchor, or have none, like those of `Comparisons.from_pairs`. Pairs are numbered
    as in `Comparisons.listed`.
    """
    listed = comparisons.listed()
    check_in_range(listed.n_points - 1, points.shape[0])
    points = _in_range(points)
    counts = _counts(listed, points)
    group = listed._sides.row // 2
    is_near = listed._sides.row % 2 == 0
    n_near, n_far = listed.side_sizes
    weight = listed.weights[group]
    sides = []
    for of_side, others in ((is_near, n_far), (~is_near, n_near)):
        satisfied, total = weight * counts, weight * others[group]
        sides.append(_added_up(listed.members[of_side], satisfied[of_side], total[of_side]))
    return sides[0], sides[1]


def _in_range(points: Given) -> Given:
    """Divide points by a power of two if their squares would overflow or underflow; the order of lengths is kept."""
    values: Any = points.data if sparse.issparse(points) else points
    exponent = int(np.frexp(largest_size(values))[1])
    return points if abs(exponent) < _MOST_EXPONENT else times_power_of_two(points, -exponent)


def _counted(comparisons: Comparisons, points: Given) -> Iterator[tuple[Comparisons, NDArray[np.int64]]]:
    """Yield all groups, in parts, with the number of satisfied comparisons of each group."""
    is_open = comparisons.is_open
    if not is_open.all():
        part = comparisons.subset(~is_open)
        yield part, _by_group(part, _counts(part, points))
    groups = np.flatnonzero(is_open)
    size = max(1, _CHUNK // points.shape[0])
    for begin in range(0, len(groups), size):
        part = comparisons.subset(groups[begin : begin + size])
        if sparse.issparse(points):
            part = part.listed()
            yield part, _by_group(part, _counts(part, points))
        else:
            yield part, _count_open(part, points)


def _count_open(comparisons: Comparisons, points: NDArray[Any]) -> NDArray[np.int64]:
    """Count satisfied comparisons of groups whose far sides are all points of other classes, without listing them."""
    assert comparisons.classes is not None
    label = np.full(len(points), -1, dtype=np.int32)
    label[: len(comparisons.classes.label)] = comparisons.classes.label
    anchors, side = comparisons.anchors, comparisons._sides.row
    distance = cdist(points[anchors], points, "sqeuclidean")
    near = side // 2
    near_distance = distance[near, comparisons.pairs[comparisons.members].sum(axis=1) - anchors[near]]
    distance[(label < 0) | (label == label[anchors][:, None])] = -np.inf
    # The first near pair of every group, then the second, ...
    place = np.arange(len(near)) - comparisons.bounds[:-1:2][near]
    satisfied = np.zeros(len(anchors), dtype=np.int64)
    for p in range(int(place.max()) + 1):
        group = near[place == p]
        satisfied[group] += (distance[group] > near_distance[place == p, None]).sum(axis=1)
    return satisfied


def _counts(comparisons: Comparisons, points: Given) -> NDArray[np.int64]:
    """Number of far pairs longer than each near member, and of near pairs shorter than each far member."""
    distance = pair_distances(points, comparisons.pairs)[comparisons.members]
    side = comparisons._sides.row
    is_near, group = side % 2 == 0, side // 2
    # Ascending in each group; among equal distances, far pairs come first, so that none of them counts as longer.
    order = np.lexsort((is_near, distance, group))
    near_before = np.cumsum(is_near[order])
    n_near = np.diff(comparisons.bounds)[::2]
    n_far = np.diff(comparisons.bounds)[1::2]
    sorted_group = group[order]
    # Subtract the counts of earlier groups.
    near_before = near_before - (np.cumsum(n_near) - n_near)[sorted_group]
    far_before = np.cumsum(~is_near[order]) - (np.cumsum(n_far) - n_far)[sorted_group]
    counts = np.empty(len(order), dtype=np.int64)
    counts[order] = np.where(is_near[order], n_far[sorted_group] - far_before, near_before)
    return counts


def _by_group(comparisons: Comparisons, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of satisfied comparisons of each group."""
    side = comparisons._sides.row
    near = side % 2 == 0
    return np.bincount(side[near] // 2, counts[near], minlength=comparisons.n_groups).astype(np.int64)


def pair_distances(points: Given, pairs: NDArray[np.integer[Any]]) -> FloatArray:
    """Squared Euclidean distance of each pair, computed in chunks."""
    answer = np.empty(len(pairs))
    size = max(1, _CHUNK // points.shape[1])
    for begin in range(0, len(pairs), size):
        first, second = pairs[begin : begin + size].T
        difference = points[first].astype(np.float64) - points[second].astype(np.float64)
        square = difference.multiply(difference) if sparse.issparse(difference) else difference * difference
        answer[begin : begin + size] = np.asarray(square.sum(axis=1)).ravel()
    return answer


def _added_up(of: NDArray[Any], satisfied: NDArray[Any], weight: NDArray[Any]) -> Satisfied:
    distinct, number = np.unique(of, return_inverse=True)
    sums = [np.bincount(number, values).astype(np.float64) for values in (satisfied, weight)]
    return Satisfied(distinct.astype(np.int64), *sums)
