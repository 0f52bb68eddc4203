"""Comparisons of LMNN: fixed targets against impostors, which are searched again as the metric changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.numbering import check_weights_of_anchors
from boostmetric.arrays.ragged import Ragged
from boostmetric.arrays.types import FloatArray
from boostmetric.comparisons import Comparisons
from boostmetric.comparisons.labels import mine
from boostmetric.neighbors import others_within

# Number of pairs when a sample of the anchors is compared with all impostors.
_SAMPLE = 500_000
_EVERYWHERE = 1e300  # a squared distance beyond all others


@dataclass(frozen=True)
class Neighborhoods:
    """Anchors with their targets, and the class of each point, which determines its impostors.

    Attributes
    ----------
    label : ndarray of shape (n_points,)
        Class number of each point.
    anchors : ndarray of shape (n_anchors,)
    targets : Ragged with n_anchors rows
        Point numbers of the targets.
    weights : ndarray of shape (n_anchors,)
    """

    label: NDArray[np.int64]
    anchors: NDArray[np.int64]
    targets: Ragged
    weights: FloatArray

    @classmethod
    def of(
        cls, mapped: FloatArray, y: NDArray[Any], n_neighbors: int, weights: FloatArray, *, quiet: bool
    ) -> Neighborhoods:
        """Create neighbourhoods with the nearest points of the same class as targets."""
        anchors, targets, _ = mine(mapped, y, n_neighbors=n_neighbors, n_impostors="all", quiet=quiet)
        check_weights_of_anchors(weights[anchors])
        counts = np.flatnonzero(weights[anchors] > 0)
        return cls(
            np.unique(y, return_inverse=True)[1], anchors[counts], targets.take(counts), weights[anchors[counts]]
        )

    @property
    def total_weight(self) -> float:
        """Total weight of the comparisons of all targets with all samples of other classes."""
        n_others = len(self.label) - np.bincount(self.label)[self.label[self.anchors]]
        return float(np.sum(self.weights * self.targets.sizes * n_others))

    def target_pairs(self) -> tuple[NDArray[np.int64], FloatArray]:
        """Pairs to pull together, and their weights."""
        anchor = np.repeat(self.anchors, self.targets.sizes)
        return np.stack([anchor, self.targets.values], axis=1), np.repeat(self.weights, self.targets.sizes)

    def find(self, mapped: FloatArray, reach: float, most: int | None = None) -> Comparisons | None:
        """Compare targets with all impostors that are closer than the farthest target plus the margin.

        Parameters
        ----------
        mapped : ndarray of shape (n_points, n_rows)
            Points under the metric.
        reach : float
            Factor on the squared distance within which impostors are searched.
        most : int, optional
            Stop and return None if the total number of impostors is larger.
        """
        between = mapped[np.repeat(self.anchors, self.targets.sizes)] - mapped[self.targets.values]
        farthest = np.maximum.reduceat(np.square(between).sum(axis=1), self.targets.bounds[:-1])
        return self._comparisons(mapped, np.arange(len(self.anchors)), reach * (1 + farthest), most)

    def sample(self, mapped: FloatArray) -> Comparisons:
        """Compare targets with all impostors, for a sample of the anchors."""
        n_anchors = min(len(self.anchors), max(10, _SAMPLE // len(mapped)))
        some = np.linspace(0, len(self.anchors) - 1, n_anchors).astype(np.int64)
        comparisons = self._comparisons(mapped, some, np.full(n_anchors, _EVERYWHERE), None)
        assert comparisons is not None
        return comparisons

    def _comparisons(
        self, mapped: FloatArray, rows: NDArray[np.int64], squares: FloatArray, most: int | None
    ) -> Comparisons | None:
        """Compare targets of the anchors in some rows with impostors within a squared distance."""
        far = others_within(mapped, self.label, self.anchors[rows], squares, most)
        if far is None:
            return None
        some = np.flatnonzero(far.sizes)
        near, rows = self.targets.take(rows[some]), rows[some]
        return Comparisons._from_anchors(self.anchors[rows], near, far.take(some), self.weights[rows])


class Given:
    """Given comparisons, used instead of neighbourhoods."""

    def __init__(self, comparisons: Comparisons) -> None:
        self._comparisons = comparisons
        self.total_weight = comparisons.total_weight

    def target_pairs(self) -> tuple[NDArray[np.int64], FloatArray]:
        """Near pairs, once per anchor, with the largest of their weights."""
        given = self._comparisons
        near = Ragged(given.members, given.bounds).take(np.arange(0, 2 * given.n_groups, 2))
        n_pairs = len(given.pairs)
        anchor = np.unique(given.anchors, return_inverse=True)[1]
        once, number = np.unique(anchor[near.row] * n_pairs + near.values, return_inverse=True)
        weights = np.zeros(len(once))
        np.maximum.at(weights, number, given.weights[near.row])
        return given.pairs[once % n_pairs].astype(np.int64), weights

    def find(self, mapped: FloatArray, reach: float, most: int | None = None) -> Comparisons:
        """Return all comparisons."""
        return self._comparisons

    def sample(self, mapped: FloatArray) -> Comparisons:
        """Return all comparisons."""
        return self._comparisons
