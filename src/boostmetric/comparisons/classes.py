"""The class of each point, for far sides that are "all points of another class" and need not be listed."""

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
        Class numbers from 0; points with -1 belong to no class and are on no far side.
    """

    label: NDArray[np.int32]

    @property
    def sizes(self) -> IntArray:
        """Number of points in each class."""
        return np.bincount(self.label[self.label >= 0], minlength=int(self.label.max(initial=-1)) + 1)

    def others(self, point: int) -> IntArray:
        """Points of other classes than the given point's."""
        return np.flatnonzero((self.label >= 0) & (self.label != self.label[point]))

    def n_others(self, points: IntArray) -> IntArray:
        """Number of points of other classes, for each given point."""
        own = np.append(self.sizes, 0)[self.label[points]]  # class -1 selects the appended 0
        return np.asarray(self.sizes.sum() - own)

    def n_pairs(self, points: IntArray) -> int:
        """Number of distinct pairs of a given point and a point of another class."""
        given = np.unique(points)
        label = np.full_like(self.label, -1)
        label[given] = self.label[given]
        seen_twice = Classes(label).n_others(given[self.label[given] >= 0]).sum() // 2
        return int(self.n_others(given).sum() - seen_twice)

    def contain(self, pairs: NDArray[np.int32], points: IntArray) -> NDArray[np.bool_]:
        """Mask of the pairs that consist of a given point and a point of another class."""
        given = np.zeros(int(max(pairs.max(initial=-1), points.max(initial=-1), len(self.label) - 1)) + 1, dtype=bool)
        given[points] = True
        label = np.full(len(given), -1)
        label[: len(self.label)] = self.label
        first, second = pairs.T
        with_second = given[first] & (label[second] >= 0)
        with_first = given[second] & (label[first] >= 0)
        return np.asarray((with_first | with_second) & (label[first] != label[second]))

    def without(self, points: IntArray) -> Classes:
        """Copy in which the given points belong to no class."""
        label = self.label.copy()
        label[points] = -1
        return Classes(label)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Classes) and np.array_equal(self.label, other.label)

    __hash__ = None  # type: ignore[assignment]
