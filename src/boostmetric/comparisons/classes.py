"""Which class each point belongs to, for far sides that are "all points of another class" and need no list."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.types import IntArray


@dataclass(frozen=True, eq=False)
class Classes:
    """The class of each point.

    Attributes
    ----------
    label : ndarray of shape (n_points,)
        Class numbers from 0 on; a point of class -1 is in no class, and on no far side.
    """

    label: NDArray[np.int32]

    @property
    def sizes(self) -> IntArray:
        """Points of each class."""
        return np.bincount(self.label[self.label >= 0], minlength=int(self.label.max(initial=-1)) + 1)

    def others(self, point: int) -> IntArray:
        """The points of other classes."""
        return np.flatnonzero((self.label >= 0) & (self.label != self.label[point]))

    def n_others(self, points: IntArray) -> IntArray:
        """How many points of other classes each point has."""
        own = np.append(self.sizes, 0)[self.label[points]]  # class -1: the last, of no points
        return np.asarray(self.sizes.sum() - own)

    def n_pairs(self, points: IntArray) -> int:
        """Distinct pairs of the given points with points of other classes."""
        given = np.unique(points)
        label = np.full_like(self.label, -1)
        label[given] = self.label[given]
        seen_twice = Classes(label).n_others(given[self.label[given] >= 0]).sum() // 2
        return int(self.n_others(given).sum() - seen_twice)

    def contain(self, pairs: NDArray[np.int32], points: IntArray) -> NDArray[np.bool_]:
        """Which pairs are one of the given points with a point of another class."""
        given = np.zeros(int(max(pairs.max(initial=-1), points.max(initial=-1), len(self.label) - 1)) + 1, dtype=bool)
        given[points] = True
        label = np.full(len(given), -1)
        label[: len(self.label)] = self.label
        first, second = pairs.T
        with_second = given[first] & (label[second] >= 0)
        with_first = given[second] & (label[first] >= 0)
        return np.asarray((with_first | with_second) & (label[first] != label[second]))

    def without(self, points: IntArray) -> Classes:
        """The same, with the given points in no class."""
        label = self.label.copy()
        label[points] = -1
        return Classes(label)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Classes) and np.array_equal(self.label, other.label)

    __hash__ = None  # type: ignore[assignment]
