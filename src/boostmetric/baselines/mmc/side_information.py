"""What is known of some samples: which are similar, and which are dissimilar."""

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
    """The distinct points among samples, in features of standard deviation 1, and the way back.

    What is small, or narrow, then does not depend on the units of the features. Samples that are equal are one point,
    because a rotation may round equal rows differently, and would make them differ.

    Attributes
    ----------
    points : ndarray of shape (n_points, n_dimensions)
    number : ndarray of shape (n_samples,)
        The point that each sample is.
    """

    points: FloatArray
    number: NDArray[np.int64]
    _unit: FloatArray
    _exponent: int
    _frame: Frame | None

    @classmethod
    def of(cls, samples: FloatArray, *, rotated: bool) -> Standardized:
        """Standardize samples, and rotate them into their span if that is wanted and they are fewer than features."""
        centred, exponent = scale_in_range(samples)
        spread = np.asarray(centred).std(axis=0)
        unit = np.where(spread > 0, spread, 1.0)
        points, number = np.unique(np.asarray(centred) / unit, axis=0, return_inverse=True)
        frame = Frame.of(points) if rotated else None
        if frame is not None:
            points = np.asarray(frame.points)
        return cls(points, number.reshape(-1), unit, exponent, frame)

    def different(self, pairs: Pairs) -> Pairs:
        """Pairs of samples as pairs of points, without those of equal samples."""
        numbers = self.number[pairs]
        return np.asarray(numbers[numbers[:, 0] != numbers[:, 1]])

    def scatter_of_pairs(self, pairs: Pairs) -> FloatArray:
        """The sum of (a - b)(a - b)' over pairs of samples."""
        numbers = self.different(pairs)
        return PairSet.of(self.points, numbers).gram(np.ones(len(numbers)))

    def scatter_of_classes(self, labels: NDArray[Any]) -> FloatArray:
        """The sum of (a - b)(a - b)' over all pairs of samples of one class, from the deviations from its mean."""
        scatter = np.zeros((self.points.shape[1],) * 2)
        for label in np.unique(labels):
            members = self.points[self.number[labels == label]]
            members -= members[0]  # equal samples then have no deviation, which the mean alone does not promise
            members -= members.mean(axis=0)
            scatter += len(members) * (members.T @ members)
        return scatter

    def as_map(self, rows: FloatArray) -> FloatArray:
        """A linear map of the points as one of the samples."""
        lifted = rows if self._frame is None else self._frame.as_map(rows)
        return np.ldexp(lifted / self._unit, -self._exponent)


def check_pairs(similar: ArrayLike | None, dissimilar: ArrayLike | None, n_samples: int) -> tuple[Pairs, Pairs]:
    """Pairs of samples as they were given, or an error."""
    if similar is None or dissimilar is None:
        given, missing = ("dissimilar", "similar") if similar is None else ("similar", "dissimilar")
        raise ValueError(f"{given} pairs are given, but no {missing} ones: give both, or labels y.")
    both = Comparisons.from_pairs(similar, dissimilar)
    check_in_range(both.n_points - 1, n_samples)
    near, far = np.split(both.pairs[both.members], both.bounds[1:2])
    return near, far


def pairs_of_classes(labels: NDArray[Any], max_pairs: int | None, rng: np.random.RandomState) -> Pairs:
    """Pairs of samples of different classes, or as many of them as allowed, drawn at random without a list of all."""
    _, label = np.unique(labels, return_inverse=True)
    order = np.argsort(label, kind="stable")
    # In this order a sample's pairs with those of later classes are numbered without gaps.
    later = np.searchsorted(label[order], label[order], side="right")
    begin = np.concatenate([[0], np.cumsum(len(order) - later)])
    n_pairs = int(begin[-1])
    if max_pairs is None or n_pairs <= max_pairs:
        chosen = np.arange(n_pairs)
    else:
        chosen = sample_without_replacement(n_pairs, max_pairs, random_state=rng)
    first = np.searchsorted(begin, chosen, side="right") - 1
    second = later[first] + chosen - begin[first]
    return np.asarray(order[np.stack([first, second], axis=1)])
