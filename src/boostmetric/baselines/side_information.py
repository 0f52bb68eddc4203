"""Similar and dissimilar pairs of samples, given or from labels, and their scatter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.random import sample_without_replacement

from boostmetric.arrays.frame import Frame, scale_in_range
from boostmetric.arrays.numbering import check_in_range
from boostmetric.arrays.types import FloatArray
from boostmetric.baselines.pair_set import PairSet
from boostmetric.comparisons import Comparisons

Pairs = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Standardized:
    """Distinct points among samples, standardized, with the inverse map.

    What counts as small or narrow then does not depend on the units of the features. Equal samples become one point,
    because a rotation may round equal rows differently and make them differ.

    Attributes
    ----------
    points : ndarray of shape (n_points, n_dimensions)
    number : ndarray of shape (n_samples,)
        Point number of each sample.
    """

    points: FloatArray
    number: NDArray[np.int64]
    _unit: FloatArray
    _exponent: int
    _frame: Frame | None

    @classmethod
    def of(cls, samples: FloatArray, *, rotated: bool) -> Standardized:
        """Standardize samples; if `rotated` and there are fewer samples than features, rotate them into their span."""
        centred, exponent = scale_in_range(samples)
        spread = np.asarray(centred).std(axis=0)
        unit = np.where(spread > 0, spread, 1.0)
        points, number = np.unique(np.asarray(centred) / unit, axis=0, return_inverse=True)
        frame = Frame.of(points) if rotated else None
        if frame is not None:
            points = np.asarray(frame.points)
        return cls(points, number.reshape(-1), unit, exponent, frame)

    def different(self, pairs: Pairs) -> Pairs:
        """Convert pairs of samples to pairs of points, leaving out pairs of equal samples."""
        numbers = self.number[pairs]
        return np.asarray(numbers[numbers[:, 0] != numbers[:, 1]])

    def scatter_of_pairs(self, pairs: Pairs) -> FloatArray:
        """Sum of (a - b)(a - b)' over pairs of samples."""
        numbers = self.different(pairs)
        return PairSet.of(self.points, numbers).gram(np.ones(len(numbers)))

    def scatter_of_classes(self, labels: NDArray[Any]) -> FloatArray:
        """Sum of (a - b)(a - b)' over all pairs of samples of one class, from the deviations from the class mean."""
        scatter = np.zeros((self.points.shape[1],) * 2)
        for label in np.unique(labels):
            members = self.points[self.number[labels == label]]
            members -= members[0]  # so that equal samples have exactly no deviation, despite rounding of the mean
            members -= members.mean(axis=0)
            scatter += len(members) * (members.T @ members)
        return scatter

    def as_map(self, rows: FloatArray) -> FloatArray:
        """Convert a linear map of the points to one of the samples."""
        lifted = rows if self._frame is None else self._frame.as_map(rows)
        return np.ldexp(lifted / self._unit, -self._exponent)


def check_pairs(similar: ArrayLike | None, dissimilar: ArrayLike | None, n_samples: int) -> tuple[Pairs, Pairs]:
    """Check pairs of samples, and return them."""
    if similar is None or dissimilar is None:
        given, missing = ("dissimilar", "similar") if similar is None else ("similar", "dissimilar")
        raise ValueError(f"{given} pairs are given, but no {missing} ones. Pass both, or labels y.")
    both = Comparisons.from_pairs(similar, dissimilar)
    check_in_range(both.n_points - 1, n_samples)
    near, far = np.split(both.pairs[both.members], both.bounds[1:2])
    return near, far


def pairs_of_classes(
    labels: NDArray[Any], max_pairs: int | None, rng: np.random.RandomState, *, same: bool = False
) -> Pairs:
    """Pairs of samples of different classes, or of the same one; a random draw if there are more than `max_pairs`.

    The draw is made without listing all pairs.
    """
    _, label = np.unique(labels, return_inverse=True)
    order = np.argsort(label, kind="stable")
    # In this order, the partners of a sample that come after it have consecutive numbers.
    later = np.searchsorted(label[order], label[order], side="right")
    first_partner, end = (np.arange(1, len(order) + 1), later) if same else (later, len(order))
    begin = np.concatenate([[0], np.cumsum(end - first_partner)])
    n_pairs = int(begin[-1])
    if max_pairs is None or n_pairs <= max_pairs:
        chosen = np.arange(n_pairs)
    else:
        chosen = sample_without_replacement(n_pairs, max_pairs, random_state=rng)
    first = np.searchsorted(begin, chosen, side="right") - 1
    second = first_partner[first] + chosen - begin[first]
    return np.asarray(order[np.stack([first, second], axis=1)])


def drawn_pairs(labels: NDArray[Any], n_pairs: int | None, rng: np.random.RandomState) -> tuple[Pairs, Pairs]:
    """As many similar as dissimilar pairs, drawn at random: at most `n_pairs`, or 20 per pair of classes, of each kind.

    The number is that of Davis et al. (2007).
    """
    if n_pairs is None:
        n_pairs = 20 * len(np.unique(labels)) ** 2
    near, far = (pairs_of_classes(labels, n_pairs, rng, same=same) for same in (True, False))
    return near, far
