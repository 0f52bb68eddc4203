"""Which of two pairs of points is closer: triplets and quadruplets as samples of a classifier."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import as_numbers


def as_tuples(tuples: ArrayLike) -> NDArray[Any]:
    """Check tuples of points, of shape (n, 2 to 4, n_features), and return them as an array on the host."""
    points: NDArray[Any] = as_numbers("The tuples", tuples)
    if points.ndim != 3 or points.shape[1] not in (2, 3, 4):
        raise ValueError(
            "Tuples must be points of shape (n_tuples, 2, n_features) for pairs, (n_tuples, 3, n_features) for "
            f"triplets or (n_tuples, 4, n_features) for quadruplets. Got shape {points.shape}."
        )
    return points


def near_and_far(tuples: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The pairs that should be near, and those that should be far, of triplets or quadruplets.

    Parameters
    ----------
    tuples : ndarray of shape (n, 3 or 4) or (n, 3 or 4, n_features)
        Point numbers, or points.

    Returns
    -------
    near, far : ndarray of shape (n, 2) or (n, 2, n_features)
    """
    if tuples.shape[1] == 3:
        return tuples[:, [0, 1]], tuples[:, [0, 2]]
    return tuples[:, :2], tuples[:, 2:]


class CloserPairMixin:
    """Methods that tell which pair of a triplet (a, b, c) or a quadruplet (a, b, c, d) of points is closer."""

    @abstractmethod
    def distance(self, a: ArrayLike, b: ArrayLike) -> FloatArray:
        """Distances between points of `a` and points of `b`, row by row."""

    def decision_function(self, tuples: ArrayLike) -> FloatArray:
        """Squared distance of c and d (or of a and c) minus that of a and b.

        Parameters
        ----------
        tuples : array-like of shape (n_tuples, 3 or 4, n_features)
            Triplets (a, b, c) or quadruplets (a, b, c, d) of points.

        Returns
        -------
        ndarray of shape (n_tuples,)
        """
        points = as_tuples(tuples)
        if points.shape[1] == 2:
            raise ValueError(
                "Pairs alone cannot be compared. Give triplets or quadruplets of points; for pairs, call "
                "calibrate_threshold of a learner."
            )
        near, far = (self.distance(pairs[:, 0], pairs[:, 1]) for pairs in near_and_far(points))
        with np.errstate(over="ignore"):
            return (far - near) * (far + near)  # squares may overflow, and their difference be NaN

    def predict(self, tuples: ArrayLike) -> NDArray[np.int64]:
        """1 where a and b are closer than c and d (or than a and c), else -1.

        Parameters
        ----------
        tuples : array-like
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (n_tuples,)
        """
        return np.where(self.decision_function(tuples) > 0, 1, -1)

    def score(self, tuples: ArrayLike) -> float:
        """Fraction of the tuples in which a and b are closer than c and d (or than a and c).

        Parameters
        ----------
        tuples : array-like
            As in `decision_function`.

        Returns
        -------
        float
        """
        margins = self.decision_function(tuples)
        if not len(margins):
            raise ValueError("There are no tuples: at least one is needed.")
        return float(np.mean(margins > 0))
