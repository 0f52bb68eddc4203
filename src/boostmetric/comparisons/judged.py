"""Builders of comparisons from what people said: triplets, quadruplets, pairs, groups, odd ones out and choices.

Each is a class method of `boostmetric.Comparisons`, which lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from boostmetric.arrays.numbering import check_numbers, check_rows, check_weights, number_pairs, refuse_rows
from boostmetric.arrays.ragged import Ragged
from boostmetric.arrays.types import FloatArray
from boostmetric.comparisons.choices import groups_from_choices, groups_from_odd_ones
from boostmetric.comparisons.grouping import (
    answered,
    cancelled,
    check_pairs,
    check_side,
    full_products,
    near_then_far,
    shared_points,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from boostmetric.comparisons.comparisons import Comparisons
    from boostmetric.comparisons.grouping import Contradictions


def from_triplets(
    cls: type[Comparisons],
    triplets: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    grouped: bool = True,
    answers: ArrayLike | None = None,
) -> Comparisons:
    """Compare by triplets (i, j, k): point i is closer to j than to k.

    Parameters
    ----------
    triplets : array-like of int of shape (n_triplets, 3)
        Point numbers, counted from 0. The three points of a triplet must differ.
    weights : array-like of shape (n_triplets,), optional
        Weights of the triplets; 2 is the same as giving the triplet twice, 0 leaves it out.
    grouped : bool, default=True
        Whether triplets may form groups, see below. Otherwise each is a separate comparison, even if it is given
        several times. Groups are faster. With the logistic loss, where a group counts once, the learned metric
        depends on this choice.
    answers : array-like of shape (n_triplets,), optional
        Answers to "is i closer to j than to k?": 1 for yes, -1 for no (k is closer), 0 for a tie or "cannot say".
        Ties say nothing about which is closer, and are left out. Triplets that contradict each other are weighed
        against each other by the loss.

    Returns
    -------
    Comparisons
        The triplets of an anchor i that have the same weight and are exactly all combinations of some j with some
        k form one group; all other triplets are single comparisons. The weights of a triplet given several times
        are added up.

    Examples
    --------
    >>> from boostmetric import Comparisons
    >>> Comparisons.from_triplets([[0, 1, 3], [0, 1, 4], [0, 2, 3], [0, 2, 4]])
    Comparisons(n_comparisons=4, n_pairs=4, n_groups=1)
    """
    t = check_rows("triplets", triplets, 3, "(i, j, k) for i closer to j than to k")
    same = (t[:, 0] == t[:, 1]) | (t[:, 0] == t[:, 2]) | (t[:, 1] == t[:, 2])
    refuse_rows("triplets", t, same, "its three points must differ", "Remove these rows.")
    weight = check_weights("weights", weights, len(t), "triplet")
    q, weight = answered(t[:, [0, 1, 0, 2]], weight, answers)
    return _single(cls, q, weight, grouped)


def from_quadruplets(
    cls: type[Comparisons],
    quadruplets: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    grouped: bool = True,
    answers: ArrayLike | None = None,
) -> Comparisons:
    """Compare by quadruplets (i, j, k, l): points i and j are closer to each other than k and l are.

    Parameters
    ----------
    quadruplets : array-like of int of shape (n_quadruplets, 4)
        Point numbers, counted from 0.
    weights : array-like of shape (n_quadruplets,), optional
        Weights of the quadruplets; 2 is the same as giving the quadruplet twice, 0 leaves it out.
    grouped : bool, default=True
        As in `from_triplets`.
    answers : array-like of shape (n_quadruplets,), optional
        As in `from_triplets`.

    Returns
    -------
    Comparisons
        Single comparisons. Those whose two pairs share a point are triplets and form groups as in `from_triplets`.

    Examples
    --------
    >>> from boostmetric import Comparisons
    >>> Comparisons.from_quadruplets([[0, 1, 2, 3], [0, 1, 4, 5]])
    Comparisons(n_comparisons=2, n_pairs=3, n_groups=2)
    """
    q = check_rows("quadruplets", quadruplets, 4, "(i, j, k, l) for i closer to j than k to l")
    point = (q[:, 0] == q[:, 1]) | (q[:, 2] == q[:, 3])
    refuse_rows("quadruplets", q, point, "a point is paired with itself", "Remove these rows.")
    same = (np.sort(q[:, :2]) == np.sort(q[:, 2:])).all(axis=1)
    refuse_rows("quadruplets", q, same, "a pair is compared with itself", "Remove these rows.")
    weight = check_weights("weights", weights, len(q), "quadruplet")
    q, weight = answered(q, weight, answers)
    return _single(cls, q, weight, grouped)


def from_pairs(
    cls: type[Comparisons], similar: ArrayLike, dissimilar: ArrayLike, *, contradictions: Contradictions = "weigh"
) -> Comparisons:
    """Compare every pair of similar points with every pair of dissimilar points (the input of Xing et al.).

    Parameters
    ----------
    similar, dissimilar : array-like of int of shape (n, 2)
        Pairs of point numbers, counted from 0. A pair that is given twice counts twice.
    contradictions : {"weigh", "refuse"}, default="weigh"
        What to do with pairs that are both similar and dissimilar. "weigh": they count as often as one side has
        them more often than the other, and not at all if both have them equally often. "refuse": an error.

    Returns
    -------
    Comparisons
        One group.

    Examples
    --------
    >>> from boostmetric import Comparisons
    >>> Comparisons.from_pairs(similar=[[0, 1], [2, 3]], dissimilar=[[0, 2], [1, 3], [1, 2]])
    Comparisons(n_comparisons=6, n_pairs=5, n_groups=1)
    """
    near, far = cancelled(check_pairs("similar", similar), check_pairs("dissimilar", dissimilar), contradictions)
    sides = Ragged.from_sizes(np.concatenate([near, far]), np.array([len(near), len(far)]))
    return cls._from_pairs(sides, np.ones(1), -np.ones(1, dtype=np.int64))


def from_groups(
    cls: type[Comparisons],
    near: Sequence[ArrayLike] | NDArray[Any],
    far: Sequence[ArrayLike] | NDArray[Any],
    weights: ArrayLike | None = None,
    *,
    anchors: ArrayLike | None = None,
) -> Comparisons:
    """Compare every near pair of a group with every far pair of that group.

    Parameters
    ----------
    near, far : sequence of array-like
        One array per group: of shape (n, 2) with pairs of point numbers or, with `anchors`, of shape (n,) with the
        points that the anchor should be near to or far from. Arrays of equal size may be stacked.
    weights : array-like of shape (n_groups,), optional
        Weights of the groups; 2 is the same as giving the group twice, 0 leaves it out.
    anchors : array-like of int of shape (n_groups,), optional
        The point that each group is about.

    Returns
    -------
    Comparisons

    Examples
    --------
    >>> from boostmetric import Comparisons
    >>> Comparisons.from_groups(anchors=[0, 5], near=[[1, 2], [6]], far=[[3, 4], [7, 8, 9]])
    Comparisons(n_comparisons=7, n_pairs=8, n_groups=2)
    """
    about = None if anchors is None else check_numbers("anchors", anchors).reshape(-1)
    near_pairs, far_pairs = check_side("near", near, about), check_side("far", far, about)
    if len(near_pairs) != len(far_pairs):
        raise ValueError(f"near has {len(near_pairs)} groups, but far has {len(far_pairs)}. Give both for each group.")
    n_groups = len(near_pairs)
    comparisons = cls._from_pairs(
        near_then_far(near_pairs, far_pairs),
        np.ones(n_groups),
        -1 - np.arange(n_groups) if about is None else about,
    )
    for group, (i, j) in _on_both_sides(comparisons):
        raise ValueError(f"The pair ({i}, {j}) is both near and far in group {group}. Remove it from one of the two.")
    return comparisons if weights is None else comparisons.reweighted(weights)


def from_odd_one_out(
    cls: type[Comparisons], shown: ArrayLike, odd: ArrayLike, weights: ArrayLike | None = None
) -> Comparisons:
    """Compare by answers to "which of these three is the odd one out?".

    Parameters
    ----------
    shown : array-like of int of shape (n_answers, 3)
        Point numbers of the three points of each question.
    odd : array-like of int of shape (n_answers,)
        Point number of the odd one of each; -1 where the answer was "cannot say", which gives no comparison.
    weights : array-like of shape (n_answers,), optional
        Weights of the answers; 2 is the same as giving the answer twice, 0 leaves it out.

    Returns
    -------
    Comparisons
        One group for each answer: the pair that is not odd against its two pairs with the odd point.

    Examples
    --------
    >>> from boostmetric import Comparisons
    >>> Comparisons.from_odd_one_out([[0, 1, 2], [3, 4, 5]], odd=[2, -1])
    Comparisons(n_comparisons=2, n_pairs=3, n_groups=1)
    """
    sides, weight = groups_from_odd_ones(shown, odd, weights)
    return cls._from_pairs(sides, weight, -1 - np.arange(len(weight)))


def from_choices(
    cls: type[Comparisons],
    heads: ArrayLike,
    shown: Sequence[ArrayLike] | NDArray[Any],
    chosen: Sequence[ArrayLike] | NDArray[Any],
    weights: ArrayLike | None = None,
) -> Comparisons:
    """Compare by answers to "which of these are most like this one?".

    Parameters
    ----------
    heads : array-like of int of shape (n_answers,)
        Point number that each question is about.
    shown : sequence of n_answers array-likes of int
        Point numbers to choose from.
    chosen : sequence of n_answers array-likes of int
        Those that were chosen. An answer that chose none or all gives no comparison.
    weights : array-like of shape (n_answers,), optional
        Weights of the answers; 2 is the same as giving the answer twice, 0 leaves it out.

    Returns
    -------
    Comparisons
        One group for each answer: what was chosen against what was shown and not chosen.

    Examples
    --------
    >>> from boostmetric import Comparisons
    >>> Comparisons.from_choices([0], shown=[[1, 2, 3, 4, 5, 6, 7, 8]], chosen=[[4, 7]])
    Comparisons(n_comparisons=12, n_pairs=8, n_groups=1)
    """
    return cls._from_anchors(*groups_from_choices(heads, shown, chosen, weights))


def _single(cls: type[Comparisons], quadruplets: NDArray[np.int64], weights: FloatArray, grouped: bool) -> Comparisons:
    """Build single comparisons; if `grouped`, merge those of one anchor and weight that form a full product."""
    q, weights = quadruplets[weights > 0], weights[weights > 0]
    pairs, number = number_pairs(q[:, ::2].ravel(), q[:, 1::2].ravel())
    near_and_far = number.reshape(-1, 2)
    if not grouped:
        return cls(pairs, number, np.arange(len(number) + 1), weights, shared_points(pairs, *near_and_far.T))
    sides, weights, anchors = full_products(pairs, near_and_far.astype(np.int64), weights)
    return cls(pairs, sides.values.astype(np.int32), sides.bounds, weights, anchors)


def _on_both_sides(comparisons: Comparisons) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield each group that has a pair on both sides, and that pair."""
    n_pairs, side = len(comparisons.pairs), comparisons._sides.row
    key = side // 2 * n_pairs + comparisons.members
    far = side % 2 == 1
    for both in key[far][np.isin(key[far], key[~far], kind="sort")].tolist():
        i, j = comparisons.pairs[both % n_pairs].tolist()
        yield both // n_pairs, (i, j)
