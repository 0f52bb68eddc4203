"""Sides of groups: validation of user input, and merging of single comparisons that form a product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from boostmetric.arrays.numbering import check_lists, check_rows, number_pairs, refuse_rows
from boostmetric.arrays.ragged import Ragged, run_starts
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import as_list, as_numbers, check_choice

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

# What to do with statements that contradict each other.
Contradictions = Literal["weigh", "refuse"]
CONTRADICTIONS = ("weigh", "refuse")


def near_then_far(near: Ragged, far: Ragged) -> Ragged:
    """Interleave the rows: one of `near`, then one of `far`."""
    return Ragged.stack([near, far]).take(np.arange(2 * len(near)).reshape(2, -1).T.ravel())


def check_pairs(name: str, pairs: ArrayLike) -> NDArray[np.int64]:
    """Validate pairs of distinct points."""
    rows = check_rows(name, pairs, 2, "a pair each")
    refuse_rows(name, rows, rows[:, 0] == rows[:, 1], "a point is paired with itself", "Remove these rows.")
    return rows


def cancelled(
    near: NDArray[np.int64], far: NDArray[np.int64], contradictions: Contradictions
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Weigh pairs that are on both sides: what occurs as often on one side as on the other is dropped from both."""
    check_choice("contradictions", contradictions, CONTRADICTIONS)
    distinct, number = number_pairs(*np.concatenate([near, far]).T)
    sides = number[: len(near)], number[len(near) :]
    counts = np.minimum(*(np.bincount(side, minlength=len(distinct)) for side in sides))
    if contradictions == "refuse" and counts.any():
        i, j = distinct[np.argmax(counts > 0)].tolist()
        raise ValueError(
            f"The pair ({i}, {j}) is both similar and dissimilar. Remove it from one of the two, or have such pairs "
            'weighed against each other (contradictions="weigh").'
        )
    left = []
    for pairs, side in zip((near, far), sides, strict=True):
        order = np.argsort(side, kind="stable")
        first = run_starts(side[order])
        place = np.empty(len(side), dtype=np.int64)
        place[order] = np.arange(len(side)) - np.repeat(first, np.diff(np.append(first, len(side))))
        left.append(pairs[place >= counts[side]])
    for name, pairs in zip(("similar", "dissimilar"), left, strict=True):
        if not len(pairs):
            other = "dissimilar" if name == "similar" else "similar"
            raise ValueError(
                f"Every {name} pair is {other} as often, so that nothing is left of them. Give pairs that do not "
                "contradict each other."
            )
    return left[0], left[1]


def answered(
    quadruplets: NDArray[np.int64], weights: FloatArray, answers: ArrayLike | None
) -> tuple[NDArray[np.int64], FloatArray]:
    """Turn quadruplets round where the answer is -1, and give those without a preference, 0, no weight."""
    if answers is None:
        return quadruplets, weights
    if np.asarray(answers).dtype == bool:
        raise ValueError(
            "answers are booleans, and False would be 0, a tie. Give 1 for yes and -1 for no, np.where(answers, 1, -1)."
        )
    answer = as_numbers("answers", answers)
    if answer.shape != weights.shape:
        raise ValueError(f"answers must hold one number for each of the {len(weights)} rows. Got shape {answer.shape}.")
    odd = ~np.isin(answer, (-1, 0, 1))
    if odd.any():
        raise ValueError(f"answers must be 1 (yes), -1 (no) or 0 (a tie). Got {answer[odd][0]:g}.")
    weights = np.where(answer == 0, 0.0, weights)
    if not weights.any():
        raise ValueError("All answers are ties, which say nothing about what is closer. Give some that are not.")
    return np.where(answer[:, None] == -1, quadruplets[:, [2, 3, 0, 1]], quadruplets), weights


def check_side(name: str, groups: Sequence[ArrayLike] | NDArray[Any], anchors: NDArray[np.int64] | None) -> Ragged:
    """Validate one side of each group and return its pairs; with anchors, pairs of the anchor and the given points."""
    groups = groups if isinstance(groups, np.ndarray) and groups.ndim else as_list(name, groups)
    if not len(groups):
        raise ValueError(f"{name} is empty: at least one group is needed.")
    if anchors is None:
        arrays = [check_pairs(f"{name}[{g}]", pairs) for g, pairs in enumerate(groups)]
        return Ragged.from_sizes(np.concatenate(arrays), np.array([len(pairs) for pairs in arrays]))
    points = check_lists(name, groups)
    if len(points) != len(anchors):
        raise ValueError(f"{name} has {len(points)} groups, but there are {len(anchors)} anchors. Give one per group.")
    if not points.sizes.all():
        raise ValueError(f"{name}[{int(np.argmin(points.sizes))}] is empty. Leave the group out, or add a point.")
    itself = points.values == anchors[points.row]
    if itself.any():
        group = int(points.row[itself][0])
        raise ValueError(f"{name}[{group}] contains its anchor, point {anchors[group]}. Remove it.")
    return Ragged(np.stack([anchors[points.row], points.values], axis=1), points.bounds)


def drawn(n: int, share: float, rng: np.random.RandomState) -> NDArray[np.bool_]:
    """Select about the given share at random: at least one and, of two or more, not all."""
    count = int(np.clip(round(share * n), min(n, 1), max(n - 1, 1)))
    return np.asarray(rng.permutation(n) < count)


def shared_points(pairs: NDArray[Any], near: NDArray[Any], far: NDArray[Any]) -> NDArray[np.int64]:
    """The point that near and far pairs share; a distinct negative number where there is none."""
    shared = (pairs[near][:, :, None] == pairs[far][:, None, :]).any(axis=2)
    return np.where(shared.any(axis=1), np.where(shared[:, 0], *pairs[near].T), -1 - np.arange(len(near)))


def full_products(
    pairs: NDArray[Any], near_and_far: NDArray[np.int64], weights: FloatArray
) -> tuple[Ragged, FloatArray, NDArray[np.int64]]:
    """Group single comparisons of one anchor and weight if they form a full product; keep the others single.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
    near_and_far : ndarray of shape (n_comparisons, 2)
        Pair numbers.
    weights : ndarray of shape (n_comparisons,)
        Weights of the comparisons; those of equal comparisons are added up.

    Returns
    -------
    sides : Ragged
        Near and far pairs of each group, as rows 2g and 2g + 1.
    weights, anchors : ndarray of shape (n_groups,)
    """
    distinct, weights = _add_up(near_and_far, weights)
    near, far = distinct.T
    anchor = shared_points(pairs, near, far)
    row = _number_rows(anchor, weights)
    product = _in_full_product(row, near, far)
    _, first, group = np.unique(row[product], return_index=True, return_inverse=True)
    one_by_one = np.flatnonzero(~product)
    stacked = []
    for side in (near, far):
        pair, size = _distinct_by_row(group, side[product], len(first))
        single = Ragged.from_sizes(side[one_by_one], np.ones(len(one_by_one), dtype=np.int64))
        stacked.append(Ragged.stack([Ragged.from_sizes(pair, size), single]))
    chosen = np.concatenate([np.flatnonzero(product)[first], one_by_one])
    return near_then_far(stacked[0], stacked[1]), weights[chosen], anchor[chosen]


def _add_up(rows: NDArray[np.int64], weights: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
    """Distinct rows in ascending order, with the weights of equal rows added up."""
    order = np.lexsort(rows.T[::-1])
    rows, weights = rows[order], weights[order]
    first = run_starts(*rows.T)
    return rows[first], np.add.reduceat(weights, first)


def _number_rows(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """Number the rows so that numbers are equal exactly where all columns are."""
    number = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        _, value = np.unique(column, return_inverse=True)
        _, number = np.unique(number * (value.max() + 1) + value, return_inverse=True)
    return number


def _in_full_product(row: NDArray[np.int64], near: NDArray[np.int64], far: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mask of the distinct comparisons (near, far) in rows that hold all combinations of their near and far."""
    n_comparisons = np.bincount(row)
    n_near, n_far = (_distinct_by_row(row, side, len(n_comparisons))[1] for side in (near, far))
    return np.asarray(((n_near * n_far == n_comparisons) & (n_comparisons > 1))[row])


def _distinct_by_row(
    row: NDArray[np.int64], value: NDArray[np.int64], n_rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct values of each row, concatenated, and their number in each row."""
    span = int(value.max(initial=0)) + 1
    distinct = np.unique(row * span + value)
    return distinct % span, np.bincount(distinct // span, minlength=n_rows)
