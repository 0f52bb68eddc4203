"""Constraints from labels, of which -1 is unknown."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from boostmetric.arrays.ragged import Ragged
from boostmetric.baselines.side_information import pairs_of_classes
from boostmetric.comparisons.labels import mine

__all__ = ["Constraints"]

Indices = NDArray[np.int64]


class Constraints:
    """Pairs, triplets and chunks from labels.

    Parameters
    ----------
    partial_labels : array-like of int of shape (n_samples,)
        Labels; negative ones are unknown.
    """

    def __init__(self, partial_labels: ArrayLike) -> None:
        self.partial_labels = np.asanyarray(partial_labels, dtype=int)

    def positive_negative_pairs(
        self, n_constraints: int, same_length: bool = False, random_state: Any = None
    ) -> tuple[Indices, Indices, Indices, Indices]:
        """Draw pairs of equal labels, and pairs of different ones, at random and without repetition.

        Parameters
        ----------
        n_constraints : int
            Number of pairs of either kind; if there are fewer, a warning says how many.
        same_length : bool, default=False
            Whether to drop pairs of the kind of which there are more.
        random_state : int, RandomState or None, default=None

        Returns
        -------
        a, b, c, d : ndarrays of int
            The points a[i] and b[i] have equal labels, c[i] and d[i] different ones.
        """
        rng = check_random_state(random_state)
        known = np.flatnonzero(self.partial_labels >= 0)
        kinds = []
        for same, name in ((True, "positive"), (False, "negative")):
            pairs = pairs_of_classes(self.partial_labels[known], n_constraints, rng, same=same)
            if len(pairs) < n_constraints:
                warnings.warn(
                    f"Only generated {len(pairs)} {name} constraints (requested {n_constraints})", stacklevel=2
                )
            kinds.append(known[rng.permutation(pairs)].reshape(-1, 2))
        if same_length:
            fewer = min(map(len, kinds))
            kinds = [pairs[:fewer] for pairs in kinds]
        (a, b), (c, d) = (pairs.T for pairs in kinds)
        return a, b, c, d

    def generate_knntriplets(self, X: ArrayLike, k_genuine: int, k_impostor: int) -> Indices:
        """Compare the nearest samples of the same label with the nearest of other labels, for each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        k_genuine, k_impostor : int
            Numbers of nearest samples; if a class has fewer, a warning says so.

        Returns
        -------
        ndarray of int of shape (n_triplets, 3)
        """
        known = np.flatnonzero(self.partial_labels >= 0)
        labels = self.partial_labels[known]
        self._warn_of_few(labels, k_genuine, k_impostor)
        points = np.asarray(X)[known]
        anchors, near, far = mine(points, labels, n_neighbors=k_genuine, n_impostors=k_impostor, quiet=True)
        assert isinstance(far, Ragged)
        sizes = near.sizes * far.sizes
        place = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        row = np.repeat(np.arange(len(anchors)), sizes)
        genuine, impostor = np.divmod(place, far.sizes[row])
        columns = (anchors[row], near.values[near.bounds[row] + genuine], far.values[far.bounds[row] + impostor])
        return np.asarray(known[np.stack(columns, axis=1)])

    def chunks(self, n_chunks: int = 100, chunk_size: int = 2, random_state: Any = None) -> Indices:
        """Draw groups of samples of the same label at random; each sample is in one at most.

        Parameters
        ----------
        n_chunks, chunk_size : int, default=100, 2
        random_state : int, RandomState or None, default=None

        Returns
        -------
        ndarray of int of shape (n_samples,)
            Number of the chunk of each sample, or -1.
        """
        rng = check_random_state(random_state)
        possible: list[Indices] = []
        for label in np.unique(self.partial_labels[self.partial_labels >= 0]):
            members = rng.permutation(np.flatnonzero(self.partial_labels == label))
            possible += [members[i : i + chunk_size] for i in range(0, len(members) - chunk_size + 1, chunk_size)]
        if len(possible) < n_chunks:
            raise ValueError(
                f"Not enough possible chunks of {chunk_size} elements in each class to form expected {n_chunks} chunks "
                f"- maximum number of chunks is {len(possible)}"
            )
        numbers = np.full(len(self.partial_labels), -1)
        for number, chosen in enumerate(rng.permutation(len(possible))[:n_chunks]):
            numbers[possible[chosen]] = number
        return numbers

    @staticmethod
    def _warn_of_few(labels: Indices, k_genuine: int, k_impostor: int) -> None:
        for label, size in zip(*np.unique(labels, return_counts=True), strict=True):
            others = len(labels) - size
            if k_genuine + 1 > size:
                warnings.warn(
                    f"The class {label} has {size} elements, which is not sufficient to generate {k_genuine + 1} "
                    f"genuine neighbors as specified by k_genuine. Will generate {size - 1} genuine neighbors instead."
                    "\n",
                    stacklevel=3,
                )
            if k_impostor > others:
                warnings.warn(
                    f"The class {label} has {others} elements of other classes, which is not sufficient to generate "
                    f"{k_impostor} impostor neighbors as specified by k_impostor. Will generate {others} impostor "
                    "neighbors instead.\n",
                    stacklevel=3,
                )
