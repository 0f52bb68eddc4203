"""Groups from answers of people: the odd one out of three, and those of several that are most like a head.

An answer becomes one group, so it counts once, however many comparisons it gives. With the logistic loss these groups
are the usual models of choice: the pair that is not odd is chosen among three with probabilities proportional to
``exp(-squared distance)``, and so is a single object among several (McFadden, "Conditional logit analysis of
qualitative choice behavior", 1974).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boostmetric.arrays.numbering import as_array, check_lists, check_numbers, check_rows, check_weights, refuse_rows
from boostmetric.arrays.ragged import Ragged
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.comparisons.grouping import near_then_far

CANNOT_SAY = -1
"""Odd one out where the answer was "cannot say"."""


def groups_from_odd_ones(shown: ArrayLike, odd: ArrayLike, weights: ArrayLike | None) -> tuple[Ragged, FloatArray]:
    """Sides and weights of the groups of `boostmetric.Comparisons.from_odd_one_out`."""
    rows = check_rows("shown", shown, 3, "the three points of a question")
    same = (rows[:, 0] == rows[:, 1]) | (rows[:, 0] == rows[:, 2]) | (rows[:, 1] == rows[:, 2])
    refuse_rows("shown", rows, same, "its three points must differ", "Remove these rows.")
    answers = as_array("odd", odd)
    if answers.shape != (len(rows),):
        raise ValueError(f"odd must hold one point for each of the {len(rows)} questions. Got shape {answers.shape}.")
    if answers.dtype.kind not in "iu":
        raise TypeError(f"odd must hold integer point numbers, but their type is {answers.dtype}.")
    answers = answers.astype(np.int64)
    said = np.flatnonzero(answers != CANNOT_SAY)
    is_odd = rows[said] == answers[said, None]
    unknown = said[~is_odd.any(axis=1)]
    if len(unknown):
        first = int(unknown[0])
        raise ValueError(
            f"odd[{first}] is {answers[first]}, which is not among the points shown, {tuple(rows[first].tolist())}. "
            f"Give one of them, or {CANNOT_SAY} for an answer that could not be given."
        )
    if not len(said):
        raise ValueError(f"There are no answers: all of odd are {CANNOT_SAY}. At least one is needed.")
    others = rows[said][~is_odd].reshape(-1, 2)
    far = np.stack([others, np.repeat(answers[said, None], 2, axis=1)], axis=2).reshape(-1, 2)
    ones = np.ones(len(said), dtype=np.int64)
    sides = near_then_far(Ragged.from_sizes(others, ones), Ragged.from_sizes(far, 2 * ones))
    return sides, _weights(weights, len(rows), said)


def groups_from_choices(
    heads: ArrayLike,
    shown: Sequence[ArrayLike] | NDArray[Any],
    chosen: Sequence[ArrayLike] | NDArray[Any],
    weights: ArrayLike | None,
) -> tuple[IntArray, Ragged, Ragged, FloatArray]:
    """Heads, points near to and far from them, and weights of the groups of `boostmetric.Comparisons.from_choices`."""
    about = check_numbers("heads", heads).reshape(-1)
    offered, picked = check_lists("shown", shown), check_lists("chosen", chosen)
    if not len(about) == len(offered) == len(picked):
        raise ValueError(
            f"heads, shown and chosen must have one entry for each answer. Got {len(about)}, {len(offered)} and "
            f"{len(picked)}."
        )
    _refuse_repeated("shown", offered)
    _refuse_repeated("chosen", picked)
    itself = offered.values == about[offered.row]
    if itself.any():
        answer = int(offered.row[itself][0])
        raise ValueError(f"shown[{answer}] contains its head, point {about[answer]}. Remove it.")
    span = 1 + max(int(offered.values.max(initial=0)), int(picked.values.max(initial=0)))
    is_chosen = np.isin(offered.row * span + offered.values, picked.row * span + picked.values)
    n_chosen = np.bincount(offered.row[is_chosen], minlength=len(about))
    if (n_chosen != picked.sizes).any():
        answer = int(np.flatnonzero(n_chosen != picked.sizes)[0])
        point = np.setdiff1d(picked.take(np.array([answer])).values, offered.take(np.array([answer])).values)[0]
        raise ValueError(
            f"chosen[{answer}] contains point {point}, which was not shown. Add it to shown, or remove it."
        )
    said = np.flatnonzero((n_chosen > 0) & (n_chosen < offered.sizes))
    if not len(said):
        raise ValueError(
            "No answer gives a comparison: each chose none or all of what was shown. At least one must choose some."
        )
    near, far = offered.where(is_chosen).take(said), offered.where(~is_chosen).take(said)
    return about[said], near, far, _weights(weights, len(about), said)


def _weights(weights: ArrayLike | None, n_answers: int, said: IntArray) -> FloatArray:
    """Weights of the answers that give comparisons."""
    of_said = check_weights("weights", weights, n_answers, "answer")[said]
    if not of_said.any():
        raise ValueError("weights are 0 for every answer that gives a comparison. Give a positive weight to some.")
    return of_said


def _refuse_repeated(name: str, lists: Ragged) -> None:
    order = np.lexsort((lists.values, lists.row))
    twice = (np.diff(lists.values[order]) == 0) & (np.diff(lists.row[order]) == 0)
    if twice.any():
        place = order[np.flatnonzero(twice)[0]]
        raise ValueError(f"{name}[{lists.row[place]}] contains point {lists.values[place]} twice. Keep one of them.")
