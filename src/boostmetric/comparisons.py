"""Comparisons "this pair is closer than that pair", as pairs and groups.

A *pair* is two point numbers. A *group* has near pairs, far pairs and a weight, and stands for every comparison of one
of its near pairs with one of its far pairs. One triplet is a group of one near and one far pair; three targets and
all impostors of a point are one group too. The loss of a group factorises into a sum over its near pairs times a sum
over its far pairs, so the cost of learning grows with the members of the groups and not with the comparisons they stand
for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from boostmetric.ragged import Ragged

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    IntArray = NDArray[np.int32]
    FloatArray = NDArray[np.float64]

# Pairs and points are numbered with 32 bits: half the memory, and far pairs are what there is most of.
_LARGEST_POINT = 2**31 - 2


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Pairs of points, and groups that compare near pairs with far pairs.

    Use a builder, such as `from_labels` or `from_triplets`, rather than this constructor, which checks nothing.

    Attributes
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        The distinct pairs of points, each once with its smaller number first, in ascending order.
    members : ndarray of shape (n_members,)
        Pair numbers, group after group, near pairs before far pairs.
    bounds : ndarray of shape (2 * n_groups + 1,)
        Near pairs of group g: ``members[bounds[2g]:bounds[2g + 1]]``; its far pairs:
        ``members[bounds[2g + 1]:bounds[2g + 2]]``. No side is empty.
    weights : ndarray of shape (n_groups,)
        Positive weights of the groups; weight 2 counts as every comparison of the group given twice.

    Examples
    --------
    >>> from boostmetric import Comparisons
    >>> Comparisons.from_triplets([[0, 1, 2], [0, 1, 3], [4, 5, 6]])
    Comparisons(n_comparisons=3, n_pairs=5, n_groups=2)
    """

    pairs: IntArray
    members: IntArray
    bounds: NDArray[np.int64]
    weights: FloatArray

    @classmethod
    def from_labels(
        cls, X: ArrayLike, y: ArrayLike, n_neighbors: int = 3, n_impostors: int | Literal["all"] = 3
    ) -> Comparisons:
        """Compare each point's nearest points of its class with its nearest points of other classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The points.
        y : array-like of shape (n_samples,)
            Their class labels.
        n_neighbors : int, default=3
            Targets of each point: nearest points of the same class. Points of a smaller class have fewer targets, and
            a point alone in its class serves as an impostor only; both give a warning.
        n_impostors : int or "all", default=3
            Impostors of each point: nearest points of other classes, or all of them.

        Returns
        -------
        Comparisons
            One group for each point: its targets against its impostors.

        Notes
        -----
        Cost: for every class a search among its own points and one among all others; with ``n_impostors="all"`` about
        50 bytes for every ordered pair of differently labelled points, and 65 in a fit.

        Examples
        --------
        >>> from boostmetric import Comparisons
        >>> X, y = [[0.0], [1.0], [5.0], [6.0]], ["a", "a", "b", "b"]
        >>> Comparisons.from_labels(X, y, n_neighbors=1, n_impostors=2)
        Comparisons(n_comparisons=8, n_pairs=6, n_groups=4)
        """
        from boostmetric.mining import mine

        anchors, targets, impostors = mine(X, y, n_neighbors=n_neighbors, n_impostors=n_impostors)
        return cls._from_anchors(anchors, targets, impostors)

    @classmethod
    def from_triplets(cls, triplets: ArrayLike) -> Comparisons:
        """Compare by triplets (i, j, k): point i is closer to j than to k.

        Parameters
        ----------
        triplets : array-like of int of shape (n_triplets, 3)
            Point numbers, counted from 0. The three points of a triplet must differ.

        Returns
        -------
        Comparisons
            The triplets of an anchor i that are exactly all combinations of some j with some k form one group; all
            other triplets are single comparisons.

        Examples
        --------
        >>> from boostmetric import Comparisons
        >>> Comparisons.from_triplets([[0, 1, 3], [0, 1, 4], [0, 2, 3], [0, 2, 4]])
        Comparisons(n_comparisons=4, n_pairs=4, n_groups=1)
        """
        t = _check_triplets(triplets)
        t = t[np.lexsort((t[:, 2], t[:, 1], t[:, 0]))]
        product = _in_full_product(t)
        single, grouped = t[~product], t[product]

        anchors, row = np.unique(grouped[:, 0], return_inverse=True)
        sides = []
        for column in (1, 2):
            point, size = _distinct_by_row(row, grouped[:, column], len(anchors))
            sides.append(
                Ragged.from_sizes(
                    np.concatenate([point, single[:, column]]),
                    np.concatenate([size, np.ones(len(single), dtype=np.int64)]),
                )
            )
        return cls._from_anchors(np.concatenate([anchors, single[:, 0]]), *sides)

    @classmethod
    def _from_anchors(cls, anchors: NDArray[Any], near: Ragged, far: Ragged) -> Comparisons:
        """One group for each anchor: its pairs with the near points against its pairs with the far points."""
        near_then_far = np.arange(2 * len(anchors)).reshape(2, -1).T.ravel()
        sides = Ragged.stack([near, far]).take(near_then_far)
        anchor = np.repeat(anchors, near.sizes + far.sizes)
        pairs, members = _number_pairs(anchor, sides.values)
        return cls(pairs, members, sides.bounds, np.ones(len(anchors)))

    @property
    def n_pairs(self) -> int:
        """Number of distinct pairs of points."""
        return len(self.pairs)

    @property
    def n_groups(self) -> int:
        """Number of groups, single comparisons included."""
        return len(self.weights)

    @property
    def n_comparisons(self) -> int:
        """Number of comparisons "near pair closer than far pair" that the groups stand for."""
        sizes = np.diff(self.bounds)
        return int(np.dot(sizes[::2], sizes[1::2]))

    @property
    def n_points(self) -> int:
        """Number of points that the pairs need: one more than the largest point number."""
        return int(self.pairs.max()) + 1

    def __repr__(self) -> str:
        return f"Comparisons(n_comparisons={self.n_comparisons}, n_pairs={self.n_pairs}, n_groups={self.n_groups})"

    def quadruplets(self) -> Iterator[tuple[int, int, int, int]]:
        """Every comparison as (i, j, k, l): the pair i, j closer than the pair k, l. Linear in `n_comparisons`."""
        for g in range(self.n_groups):
            low, middle, high = self.bounds[2 * g : 2 * g + 3]
            for near in self.pairs[self.members[low:middle]].tolist():
                for far in self.pairs[self.members[middle:high]].tolist():
                    yield (*near, *far)

    def take(self, groups: NDArray[Any]) -> Comparisons:
        """The given groups, in the given order, with the pairs they need numbered anew.

        Parameters
        ----------
        groups : ndarray of int
            Group numbers.
        """
        sides = Ragged(self.members, self.bounds).take(np.stack([2 * groups, 2 * groups + 1], axis=1).ravel())
        needed = np.zeros(self.n_pairs, dtype=bool)
        needed[sides.values] = True
        new_number = np.cumsum(needed, dtype=np.int32) - np.int32(1)
        return Comparisons(self.pairs[needed], new_number[sides.values], sides.bounds, self.weights[groups])


def _check_triplets(triplets: ArrayLike) -> NDArray[np.int64]:
    """Triplets as an int64 array, or an error that names the first bad one."""
    t = np.asarray(triplets)
    if t.ndim != 2 or t.shape[1] != 3:
        raise ValueError(
            f"triplets must have shape (n_triplets, 3): rows (i, j, k), i closer to j than to k. Got shape {t.shape}."
        )
    if len(t) == 0:
        raise ValueError("There are no triplets: at least one comparison is needed.")
    if not np.issubdtype(t.dtype, np.integer):
        raise TypeError(
            f"triplets must hold whole point numbers, but their type is {t.dtype}. "
            "If the values are whole, convert them with .astype(int)."
        )
    if t.min() < 0:
        row = int(np.flatnonzero((t < 0).any(axis=1))[0])
        raise ValueError(
            f"Triplet {row} is {tuple(t[row].tolist())}: point numbers count from 0 and cannot be negative."
        )
    if t.max() > _LARGEST_POINT:
        row = int(np.flatnonzero((t > _LARGEST_POINT).any(axis=1))[0])
        raise ValueError(
            f"Triplet {row} is {tuple(t[row].tolist())}: point numbers above {_LARGEST_POINT} cannot be held."
        )
    same = (t[:, 0] == t[:, 1]) | (t[:, 0] == t[:, 2]) | (t[:, 1] == t[:, 2])
    if same.any():
        row = int(np.flatnonzero(same)[0])
        raise ValueError(
            f"Triplet {row} is {tuple(t[row].tolist())}: its three points must differ ({int(same.sum())} of {len(t)} "
            "triplets repeat a point). Remove these rows."
        )
    return t.astype(np.int64)


def _in_full_product(t: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the sorted triplets belong to an anchor whose triplets are all combinations of its j with its k."""
    _, row, n_triplets = np.unique(t[:, 0], return_inverse=True, return_counts=True)
    n_near, n_far = (_distinct_by_row(row, t[:, column], len(n_triplets))[1] for column in (1, 2))
    repeated = np.append(False, (t[1:] == t[:-1]).all(axis=1))
    full = (n_near * n_far == n_triplets) & (n_triplets > 1) & (np.bincount(row, weights=repeated) == 0)
    return np.asarray(full[row])


def _distinct_by_row(
    row: NDArray[np.integer[Any]], value: NDArray[np.int64], n_rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct values of each row, rows one after the other, and how many each row has."""
    span = int(value.max(initial=0)) + 1
    distinct = np.unique(row * span + value)
    return distinct % span, np.bincount(distinct // span, minlength=n_rows)


def _number_pairs(a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Distinct unordered pairs of (a, b) in ascending order, and the number of each given pair among them."""
    n = int(max(a.max(), b.max())) + 1
    key = np.minimum(a, b).astype(np.int64) * n + np.maximum(a, b)
    if n * n <= 4 * key.size:
        # Most pairs of points occur: a table of all of them is smaller than the lists, and needs no sorting.
        present = np.zeros(n * n, dtype=bool)
        present[key] = True
        distinct = np.flatnonzero(present)
        number = (np.cumsum(present, dtype=np.int32) - np.int32(1))[key]
    else:
        distinct, number = np.unique(key, return_inverse=True)
    return np.stack(np.divmod(distinct, n), axis=1).astype(np.int32), number.astype(np.int32, copy=False)
