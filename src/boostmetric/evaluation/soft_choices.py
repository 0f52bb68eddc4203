"""Loss of comparisons by soft choice: how unlikely it is that near pairs are picked rather than far ones.

One is picked at random among a near pair and the far pairs of its group, shorter ones more likely: with probabilities
in proportion to exp(-s d), d being the squared distance. The loss is minus the logarithm of the probability that it is
the near pair. That is McFadden's model of choice ("Conditional logit analysis of qualitative choice behavior", 1974),
and much like the soft neighbours of Goldberger et al. ("Neighbourhood components analysis", 2004). It changes smoothly
with the metric, unlike the number of satisfied comparisons, and so tells more metrics apart. The sharpness s is the one
with the smallest loss, so that only ratios of distances count.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from boostmetric.arrays.types import FloatArray
from boostmetric.comparisons import Comparisons
from boostmetric.evaluation.task import ScoreSample

# Newton's method for the sharpness ends when a step changes it by less than this fraction, or after so many steps; a
# step changes it by this factor at most.
_ENOUGH = 1e-3
_MOST_STEPS = 40
_LARGEST_FACTOR = 4.0


class SoftChoices:
    """Near pairs, each to be picked among the far pairs of its group.

    Parameters
    ----------
    comparisons : Comparisons
        With all far pairs `listed`.

    Notes
    -----
    The near pairs of a group share its weight. Cost: a few exponentials for each far pair.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric import Comparisons
    >>> from boostmetric.evaluation.soft_choices import SoftChoices
    >>> answers = SoftChoices(Comparisons.from_triplets([[0, 1, 2], [3, 4, 5], [6, 8, 7]]))
    >>> two_of_three = np.array([1.0, 2.0, 1.0, 2.0, 1.0, 2.0])  # of 01, 02, 34, 35, 67, 68
    >>> float(round(answers.losses(two_of_three).mean[0], 4))  # the entropy of two in three
    0.6365
    """

    def __init__(self, comparisons: Comparisons) -> None:
        n_near, n_far = comparisons.side_sizes
        is_near = comparisons._sides.row % 2 == 0
        self._near, self._far = comparisons.members[is_near], comparisons.members[~is_near]
        self._group = np.repeat(np.arange(comparisons.n_groups), n_near)
        self._far_starts, self._n_far = np.cumsum(n_far) - n_far, n_far
        self._weight = (comparisons.weights / n_near)[self._group]
        of = comparisons.anchors[self._group]
        _, self._row = np.unique(self._near if (of == of[0]).all() else of, return_inverse=True)
        self._sharpness = 0.0

    def losses(self, distance: FloatArray) -> ScoreSample:
        """Losses at the best sharpness, added up by anchor; if there is one anchor, by near pair.

        Parameters
        ----------
        distance : ndarray of shape (n_pairs,)
            Squared distance of each pair of the comparisons.
        """
        near, far = distance[self._near], distance[self._far]
        unit = float(np.concatenate([near, far]).mean())
        loss = self._smallest(near / unit, far / unit) if unit > 0 else np.log1p(self._n_far[self._group])
        sums = np.bincount(self._row, self._weight * loss).astype(np.float64)
        weight = np.bincount(self._row, self._weight).astype(np.float64)
        return ScoreSample(sums[:, None], weight, np.arange(len(weight)))

    def _smallest(self, near: FloatArray, far: FloatArray) -> FloatArray:
        """Loss of each near pair at the sharpness where their mean, a convex function of it, is smallest."""
        s = self._sharpness or 1.0
        for _ in range(_MOST_STEPS):
            loss, slope, curvature = self._at(s, near, far)
            aim = s - slope / curvature if curvature > 0 else s
            aim = float(np.clip(aim, s / _LARGEST_FACTOR, s * _LARGEST_FACTOR))
            if abs(aim - s) < _ENOUGH * s:
                break
            s = aim
        self._sharpness = s  # of metrics that resemble each other, it is about the same
        return loss

    def _at(self, s: float, near: FloatArray, far: FloatArray) -> tuple[FloatArray, float, float]:
        """Loss of each near pair, and the first and second derivative of their weighted sum by s."""
        exponent = -s * far
        top = np.maximum.reduceat(exponent, self._far_starts)
        mass = np.exp(exponent - np.repeat(top, self._n_far))
        total = self._of_groups(mass)
        mean = self._of_groups(mass * far) / total
        variance = np.maximum(self._of_groups(mass * far * far) / total - mean**2, 0.0)
        odds = (top + np.log(total))[self._group] + s * near  # logarithm of those to pick a far pair
        missed, gap = expit(odds), near - mean[self._group]
        slope = float(self._weight @ (missed * gap))
        curvature = float(self._weight @ (missed * ((1.0 - missed) * gap**2 + variance[self._group])))
        return np.logaddexp(0.0, odds), slope, curvature

    def _of_groups(self, values: FloatArray) -> FloatArray:
        return np.asarray(np.add.reduceat(values, self._far_starts))


def some_groups(comparisons: Comparisons, most: int, rng: np.random.RandomState) -> Comparisons:
    """Draw groups at random with about `most` pairs in all, at least one; their far pairs are listed."""
    sizes = np.sum(comparisons.side_sizes, axis=0)
    if sizes.sum() <= most:
        return comparisons.listed()
    order = rng.permutation(comparisons.n_groups)
    n = max(1, int(np.searchsorted(np.cumsum(sizes[order]), most)))
    return comparisons.subset(np.sort(order[:n])).listed()
