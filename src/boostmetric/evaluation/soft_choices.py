"""Loss of comparisons by soft choice: how unlikely it is that near pairs are picked rather than far ones.

One is picked at random among a near pair and the far pairs of its group, shorter ones more likely: with probabilities
in proportion to exp(-s d), d being the squared distance. The loss is minus the logarithm of the probability that it is
the near pair. That is McFadden's model of choice ("Conditional logit analysis of qualitative choice behavior", 1974),
and much like the soft neighbours of Goldberger et al. ("Neighbourhood components analysis", 2004). It changes smoothly
with the metric, unlike the number of satisfied comparisons, and so tells more metrics apart.

Answers may be wrong. So there is a least probability, as in the choice for labels: a pair that cannot be explained
costs the logarithm of its inverse, and no more. The sharpness s is the one with the smallest loss, so that only ratios
of distances count.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from boostmetric.arrays.types import FloatArray
from boostmetric.comparisons import Comparisons
from boostmetric.evaluation.task import ScoreSample

# Probability that any answer is given, whatever the distances are.
_LEAST_PROBABILITY = 0.05
# Logarithms of the sharpness to search between, for squared distances whose mean is 1, and how precisely.
_SHARPNESS = (-3.0, 5.5)
_PRECISION = 0.02


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
    >>> answers = SoftChoices(Comparisons.from_triplets([[0, 1, 2], [3, 4, 5]]))
    >>> answers.losses(np.array([1.0, 2.0, 2.0, 2.0])).mean.round(2)  # right, and a tie
    array([0.32])
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

    def losses(self, distance: FloatArray) -> ScoreSample:
        """Losses at the best sharpness, added up by anchor; if there is one anchor, by near pair.

        Parameters
        ----------
        distance : ndarray of shape (n_pairs,)
            Squared distance of each pair of the comparisons.
        """
        near, far = distance[self._near], distance[self._far]
        unit = float(np.concatenate([near, far]).mean()) or 1.0
        near, far = near / unit, far / unit

        def total(logarithm: float) -> float:
            return float(self._weight @ self._loss(np.exp(logarithm), near, far))

        best = minimize_scalar(total, bounds=_SHARPNESS, method="bounded", options={"xatol": _PRECISION}).x
        loss = self._loss(np.exp(best), near, far)
        sums = np.bincount(self._row, self._weight * loss).astype(np.float64)
        weight = np.bincount(self._row, self._weight).astype(np.float64)
        return ScoreSample(sums[:, None], weight, np.arange(len(weight)))

    def _loss(self, s: float, near: FloatArray, far: FloatArray) -> FloatArray:
        """Loss of each near pair."""
        shortest = np.minimum.reduceat(far, self._far_starts)
        mass = np.add.reduceat(np.exp(s * (np.repeat(shortest, self._n_far) - far)), self._far_starts)
        odds = (np.log(mass) - s * shortest)[self._group] + s * near  # logarithm of those to pick a far pair
        return np.asarray(-np.log(_LEAST_PROBABILITY + (1.0 - _LEAST_PROBABILITY) * expit(-odds)))


def some_groups(comparisons: Comparisons, most: int, rng: np.random.RandomState) -> Comparisons:
    """Draw groups at random with about `most` pairs in all, at least one; their far pairs are listed."""
    sizes = np.sum(comparisons.side_sizes, axis=0)
    if sizes.sum() <= most:
        return comparisons.listed()
    order = rng.permutation(comparisons.n_groups)
    n = max(1, int(np.searchsorted(np.cumsum(sizes[order]), most)))
    return comparisons.subset(np.sort(order[:n])).listed()
