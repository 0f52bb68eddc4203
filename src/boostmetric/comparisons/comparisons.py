"""Comparisons "this pair is closer than that pair", as pairs and groups.

A *pair* is two point numbers. A *group* has near pairs, far pairs and a weight, and represents every comparison of one
of its near pairs with one of its far pairs. A triplet is a group with one near and one far pair; three targets and all
impostors of a point also form one group. The loss of a group factorises into a sum over its near pairs times a sum over
its far pairs, so the cost of learning grows with the number of members, not with the number of comparisons.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from boostmetric.arrays.numbering import as_array, check_weights, number_pairs
from boostmetric.arrays.ragged import Ragged
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import as_list
from boostmetric.comparisons import judged, labelled, searched
from boostmetric.comparisons.classes import Classes
from boostmetric.comparisons.grouping import near_then_far
from boostmetric.comparisons.rankings import Groups

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from boostmetric.arrays.frame import Given
    from boostmetric.comparisons.positives import FarSearch
    from boostmetric.comparisons.split import SplitBy

    Int32Array = NDArray[np.int32]

# A subset with fewer members than this fraction of all pairs is numbered by sorting, not by a pass over the pairs.
_SMALL_SUBSET = 0.1


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Pairs of points, and groups that compare near pairs with far pairs.

    Use a builder such as `from_labels` or `from_triplets` rather than this constructor, which does not validate.

    Attributes
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Distinct pairs of points, each with its smaller number first, in ascending order.
    members : ndarray of shape (n_members,)
        Pair numbers, group after group, near pairs before far pairs.
    bounds : ndarray of shape (2 * n_groups + 1,)
        Near pairs of group g are ``members[bounds[2g]:bounds[2g + 1]]``, its far pairs
        ``members[bounds[2g + 1]:bounds[2g + 2]]``. A far side without members is *open*: it represents the pairs of the
        anchor with all points of other classes.
    weights : ndarray of shape (n_groups,)
        Positive weights of the groups; weight 2 is the same as giving every comparison of the group twice.
    anchors : ndarray of shape (n_groups,)
        The point, or query, that each group is about; `split` never puts it on both sides. Groups that are not about
        a single point have distinct negative numbers.
    classes : Classes, optional
        The class of each point; None if no far side is open.
    search : FarSearch, optional
        How to find the far sides again under another metric, see `found_again`; None if they are given. Groups that
        are selected, split or weighted keep it; what is concatenated does not.

    Notes
    -----
    The comparisons are a sequence of groups. ``comparisons[numbers]`` returns a `subset`, so scikit-learn's
    cross-validation can use them as samples.

    Examples
    --------
    >>> from boostmetric import Comparisons
    >>> Comparisons.from_triplets([[0, 1, 2], [0, 1, 3], [4, 5, 6]])
    Comparisons(n_comparisons=3, n_pairs=5, n_groups=2)
    """

    pairs: Int32Array
    members: Int32Array
    bounds: NDArray[np.int64]
    weights: FloatArray
    anchors: NDArray[np.int64]
    classes: Classes | None = None
    search: FarSearch | None = None

    # Builders, each in the file of its kind.
    from_labels = classmethod(labelled.from_labels)
    from_triplets = classmethod(judged.from_triplets)
    from_quadruplets = classmethod(judged.from_quadruplets)
    from_pairs = classmethod(judged.from_pairs)
    from_groups = classmethod(judged.from_groups)
    from_odd_one_out = classmethod(judged.from_odd_one_out)
    from_choices = classmethod(judged.from_choices)
    from_rankings = classmethod(searched.from_rankings)
    from_clicks = classmethod(searched.from_clicks)
    from_positives = classmethod(searched.from_positives)
    _of_neighbors = classmethod(labelled.of_neighbors)

    @classmethod
    def concatenate(cls, parts: Sequence[Comparisons]) -> Comparisons:
        """Concatenate the groups of several comparisons of the same points."""
        parts = as_list("parts", parts)
        if not parts:
            raise ValueError("There is nothing to concatenate: parts is empty.")
        for part in parts:
            if not isinstance(part, cls):
                raise TypeError(f"parts must be Comparisons. Got {reprlib.repr(part)}.")
        classes = next((part.classes for part in parts if part.classes is not None), None)
        parts = [part if part.classes is None or part.classes == classes else part.listed() for part in parts]
        bounds, anchors, n_members, n_unanchored = [np.zeros(1, dtype=np.int64)], [], 0, 0
        for part in parts:
            bounds.append(part.bounds[1:] + n_members)
            anchors.append(np.where(part.anchors < 0, part.anchors - n_unanchored, part.anchors))
            n_members += len(part.members)
            n_unanchored -= int(part.anchors.min(initial=0))
        first, second = np.concatenate([part.pairs[part.members] for part in parts]).T
        weights = np.concatenate([part.weights for part in parts])
        return cls._build(first, second, np.concatenate(bounds), weights, np.concatenate(anchors), classes)

    @classmethod
    def _from_anchors(
        cls, anchors: NDArray[Any], near: Ragged, far: Ragged, weights: FloatArray, classes: Classes | None = None
    ) -> Comparisons:
        """Build one group per anchor: its pairs with the near points against its pairs with the far points."""
        short = (Ragged(side.values.astype(np.int32, copy=False), side.bounds) for side in (near, far))
        sides = near_then_far(*short)
        anchor = np.repeat(anchors.astype(np.int32), near.sizes + far.sizes)
        return cls._build(anchor, sides.values, sides.bounds, weights, anchors.astype(np.int64), classes)

    @classmethod
    def _from_pairs(cls, sides: Ragged, weights: FloatArray, anchors: NDArray[np.int64]) -> Comparisons:
        """Build groups whose near and far sides are rows of pairs of point numbers."""
        return cls._build(sides.values[:, 0], sides.values[:, 1], sides.bounds, weights, anchors)

    @classmethod
    def _build(
        cls,
        first: NDArray[Any],
        second: NDArray[Any],
        bounds: NDArray[np.int64],
        weights: FloatArray,
        anchors: NDArray[np.int64],
        classes: Classes | None = None,
    ) -> Comparisons:
        """Number the pairs of all members and drop groups of weight 0."""
        pairs, members = number_pairs(first, second)
        comparisons = cls(pairs, members, bounds, weights, anchors, classes)
        return comparisons if weights.all() else comparisons.subset(weights > 0)

    @property
    def n_pairs(self) -> int:
        """Number of distinct pairs of points."""
        if self.classes is None:
            return len(self.pairs)
        anchors = self.anchors[self.is_open]
        return int(self.classes.n_pairs(anchors) + np.sum(~self.classes.contain(self.pairs, anchors)))

    @property
    def n_groups(self) -> int:
        """Number of groups, including single comparisons."""
        return len(self.weights)

    @property
    def is_open(self) -> NDArray[np.bool_]:
        """Mask of the groups whose far side is all points of other classes."""
        return np.asarray(self.bounds[1::2] == self.bounds[2::2])

    @property
    def side_sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Number of near pairs and number of far pairs of each group."""
        near, far = np.diff(self.bounds).reshape(-1, 2).T
        if self.classes is not None:
            far = np.where(self.is_open, self.classes.n_others(np.where(self.is_open, self.anchors, 0)), far)
        return near, far

    @property
    def n_comparisons(self) -> int:
        """Number of comparisons "near pair closer than far pair" that the groups represent."""
        return int(np.dot(*self.side_sizes))

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all comparisons; their number if no weights were given."""
        near, far = self.side_sizes
        return float(np.dot(self.weights, near * far))

    @property
    def points(self) -> NDArray[np.int64]:
        """Numbers of the points that occur, in ascending order."""
        label = np.empty(0, dtype=np.int32) if self.classes is None else self.classes.label
        occurs = np.zeros(max(int(self.pairs.max(initial=-1)) + 1, len(label)), dtype=bool)
        occurs[: len(label)] = label >= 0
        own = np.unique(label[self.anchors[self.is_open]])
        if len(own) == 1:  # no anchor has impostors of this class
            occurs[: len(label)] &= label != own
        occurs[self.pairs] = True
        return np.flatnonzero(occurs)

    @property
    def n_points(self) -> int:
        """Number of points needed for the pairs: one more than the largest point number."""
        points = self.points
        return int(points[-1]) + 1 if len(points) else 0

    @property
    def shape(self) -> tuple[int]:
        """``(n_groups,)``, from which scikit-learn takes the number of samples."""
        return (self.n_groups,)

    def __len__(self) -> int:
        return self.n_groups

    def __getitem__(self, groups: Any) -> Comparisons:
        if isinstance(groups, tuple):  # scikit-learn indexes with (numbers, ...)
            groups = groups[0]
        return self.subset(np.arange(self.n_groups)[groups])

    def __repr__(self) -> str:
        return f"Comparisons(n_comparisons={self.n_comparisons}, n_pairs={self.n_pairs}, n_groups={self.n_groups})"

    def quadruplets(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield every comparison as (i, j, k, l): pair (i, j) closer than pair (k, l). Linear in `n_comparisons`."""
        for g in range(self.n_groups):
            low, middle, high = self.bounds[2 * g : 2 * g + 3]
            far_pairs = self.pairs[self.members[middle:high]]
            if self.classes is not None and middle == high:
                others = self.classes.others(self.anchors[g])
                far_pairs = np.stack([np.full_like(others, self.anchors[g]), others], axis=1)
            for near in self.pairs[self.members[low:middle]].tolist():
                for far in np.sort(far_pairs).tolist():
                    yield (*near, *far)

    def listed(self) -> Comparisons:
        """List all far pairs that are given by classes. Linear in their number."""
        if self.classes is None:
            return self
        groups = np.flatnonzero(self.is_open)
        others = [self.classes.others(anchor) for anchor in self.anchors[groups]]
        sizes = np.diff(self.bounds)
        sizes[2 * groups + 1] = [len(points) for points in others]
        pairs = np.empty((sizes.sum(), 2), dtype=np.int64)
        is_open = np.repeat(np.isin(np.arange(len(sizes)), 2 * groups + 1), sizes)
        pairs[~is_open] = self.pairs[self.members]
        pairs[is_open, 0] = np.repeat(self.anchors[groups], sizes[2 * groups + 1])
        pairs[is_open, 1] = np.concatenate(others)
        return self._from_pairs(Ragged.from_sizes(pairs, sizes), self.weights, self.anchors)

    def pair_numbers(self) -> tuple[Int32Array, Int32Array]:
        """Near and far pair of every comparison, as indices into `pairs`, in the order of `quadruplets`.

        All far pairs must be `listed`.
        """
        if self.classes is not None:
            raise ValueError("Some far pairs are given by classes and have no numbers. Use listed().pair_numbers().")
        n_near, n_far = np.diff(self.bounds).reshape(-1, 2).T
        group = np.repeat(np.arange(self.n_groups), n_near * n_far)
        place = np.arange(len(group)) - np.repeat(np.cumsum(n_near * n_far) - n_near * n_far, n_near * n_far)
        near, far = np.divmod(place, n_far[group])
        return self.members[self.bounds[2 * group] + near], self.members[self.bounds[2 * group + 1] + far]

    def shares(self) -> FloatArray:
        """Weight of every comparison, that of its group, in the order of `quadruplets`; they add up to 1.

        All far pairs must be `listed`.

        Examples
        --------
        >>> from boostmetric import Comparisons
        >>> Comparisons.from_quadruplets([[0, 1, 2, 3], [4, 5, 6, 7]], [1.0, 3.0]).shares()
        array([0.25, 0.75])
        """
        n_near, n_far = self.side_sizes
        weights = np.repeat(self.weights, n_near * n_far)
        return np.asarray(weights / weights.sum())

    def reweighted(self, weights: ArrayLike) -> Comparisons:
        """Multiply the weights of the groups.

        Parameters
        ----------
        weights : array-like of shape (n_groups,)
            Factor for each group; 0 leaves it out.
        """
        factors = check_weights("weights", weights, self.n_groups, "group")
        product = check_weights("weights, multiplied,", self.weights * factors, self.n_groups, "group")
        return replace(self, weights=product).subset(product > 0)

    def renumbered(self, used: NDArray[np.int64] | None = None) -> Comparisons:
        """Renumber the points that occur from 0, in the order of `points`.

        Parameters
        ----------
        used : ndarray of int, optional
            The points to number, ascending: those that occur, and perhaps others.
        """
        used = self.points if used is None else used
        number = np.full(max(int(used[-1]), int(self.anchors.max())) + 1, -1, dtype=np.int32)
        number[used] = np.arange(len(used))
        # An anchor that does not occur, such as a query, has no number here.
        anchors = np.where(self.anchors >= 0, number[np.maximum(self.anchors, 0)], -1)
        anchors = np.where(anchors >= 0, anchors, -1 - np.arange(len(self)))
        renumbered = replace(self, pairs=number[self.pairs], anchors=anchors, search=None)
        if self.classes is None:
            return renumbered
        label = np.append(self.classes.label, np.full(len(number), -1, dtype=np.int32))[used]
        return replace(renumbered, classes=Classes(label))

    def found_again(self, points: Given, mapped: Given) -> Comparisons:
        """Find the far sides again under a metric; comparisons that are given are the same under every metric.

        After `from_positives`, the far side of a group is the documents that are nearest to its query.

        Parameters
        ----------
        points : {ndarray, csr_array} of shape (n_points, n_features)
        mapped : {ndarray, csr_array} of shape (n_points, n_dimensions)
            The same points, mapped by the metric.

        Examples
        --------
        >>> import numpy as np
        >>> from boostmetric import Comparisons
        >>> points = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 9.0], [3.0, 0.0], [9.0, 1.0]])
        >>> one = Comparisons.from_positives([0], [1], points=points, corpus=[2, 3, 4], n_nearest=1, n_random=0)
        >>> list(one.quadruplets()), list(one.found_again(points, points * [1, 0]).quadruplets())
        ([(0, 1, 0, 3)], [(0, 1, 0, 2)])
        """
        if self.search is None:
            return self
        others = self.pairs[self.members].sum(axis=1) - np.repeat(self.anchors, self._group_sizes)
        near, far = (Ragged(others, self.bounds).take(np.arange(side, 2 * self.n_groups, 2)) for side in (0, 1))
        groups = self.search.again(Groups(self.anchors, near, far, self.weights), points, mapped)
        return replace(self._from_anchors(*groups), search=self.search)

    def subset(self, groups: ArrayLike) -> Comparisons:
        """Select the given groups, in the given order.

        Parameters
        ----------
        groups : array-like of int, or of bool of shape (n_groups,)
            Group numbers, or a mask of the groups to keep.
        """
        numbers = as_array("groups", groups)
        try:
            chosen = np.atleast_1d(np.arange(self.n_groups)[numbers if numbers.size else numbers.astype(int)])
        except (IndexError, TypeError, ValueError) as error:
            raise ValueError(
                f"groups must be numbers from 0 to {self.n_groups - 1}, or {self.n_groups} booleans: {error}. Got "
                f"{reprlib.repr(groups)}."
            ) from None
        if chosen.ndim != 1:
            raise ValueError(f"groups must be a list of numbers. Got shape {numbers.shape}.")
        sides = self._sides.take(np.stack([2 * chosen, 2 * chosen + 1], axis=1).ravel())
        return self._with(sides, self.weights[chosen], self.anchors[chosen])

    def split(
        self,
        test_size: float = 0.1,
        random_state: int | np.random.RandomState | None = None,
        *,
        by: SplitBy = "components",
    ) -> tuple[Comparisons, Comparisons]:
        """Split into training and held-out comparisons that have no pair and no anchor in common.

        Parameters
        ----------
        test_size : float, default=0.1
            Fraction of the anchors (or queries) to hold out. Groups without an anchor are held out individually. If all
            groups have the same anchor, as after `from_pairs`, its pairs are split instead.
        random_state : int, RandomState or None, default=None
            Random seed for choosing the anchors.
        by : {"components", "anchors"}, default="components"
            "components" also keeps anchors on one side that share points they should be near to, such as queries with a
            relevant document in common, directly or through others: else remembering the document looks like learning.
            If nearly all anchors are connected, it is the same as "anchors".

        Returns
        -------
        train, test : Comparisons
            Held-out pairs are removed from the training groups, which lose those comparisons.
        """
        from boostmetric.comparisons.split import split

        return split(self, test_size, random_state, by)

    @property
    def _sides(self) -> Ragged:
        """Near and far pairs of each group, as rows 2g and 2g + 1."""
        return Ragged(self.members, self.bounds)

    @property
    def _group_sizes(self) -> NDArray[np.int64]:
        return np.diff(self.bounds[::2])

    def _without_empty(self, sides: Ragged) -> Comparisons | None:
        """Keep the groups that still have both near and far pairs; None if there are none."""
        near, far = sides.sizes.reshape(-1, 2).T
        if self.classes is not None:
            in_class = self.classes.label[np.where(self.is_open, self.anchors, 0)] >= 0
            far = np.where(self.is_open, in_class * self.side_sizes[1], far)
        whole = np.flatnonzero((near > 0) & (far > 0))
        if not len(whole):
            return None
        kept = sides.take(np.stack([2 * whole, 2 * whole + 1], axis=1).ravel())
        return self._with(kept, self.weights[whole], self.anchors[whole])

    def _with(self, sides: Ragged, weights: FloatArray, anchors: NDArray[np.int64]) -> Comparisons:
        """Build groups with the given sides, renumbering the pairs they need."""
        members: NDArray[Any]
        if len(sides.values) < _SMALL_SUBSET * len(self.pairs):
            needed, members = np.unique(sides.values, return_inverse=True)
        else:
            needed = np.zeros(len(self.pairs), dtype=bool)
            needed[sides.values] = True
            members = (np.cumsum(needed, dtype=np.int32) - 1)[sides.values]
        some_open = not sides.sizes[1::2].all()
        classes = self.classes if some_open else None
        members = members.astype(np.int32)
        return Comparisons(self.pairs[needed], members, sides.bounds, weights, anchors, classes, self.search)
