"""Splits of comparisons: training and held-out groups that have no pair and no anchor in common."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from boostmetric.arrays.errors import plural
from boostmetric.arrays.validation import check_choice, check_number
from boostmetric.comparisons.components import drawn_together, group_components
from boostmetric.comparisons.grouping import drawn

if TYPE_CHECKING:
    from boostmetric.comparisons.comparisons import Comparisons

SplitBy = Literal["components", "anchors"]


def split(
    comparisons: Comparisons, test_size: float, random_state: int | np.random.RandomState | None, by: SplitBy
) -> tuple[Comparisons, Comparisons]:
    """Training and held-out comparisons, see `Comparisons.split`."""
    check_number("test_size", test_size, above=0.0, below=1.0)
    check_choice("by", by, get_args(SplitBy))
    rng = check_random_state(random_state)
    n_anchors = len(np.unique(comparisons.anchors))
    if n_anchors > 1:
        parts = _by_anchors(comparisons, test_size, rng, by)
    else:
        parts = _by_pairs(comparisons.listed(), test_size, rng)
    train, held_out = parts
    if train is None or held_out is None:
        raise ValueError(
            f"{plural(comparisons.n_comparisons, 'comparison')} about {plural(n_anchors, 'point')}: too few, or "
            "sharing too many pairs, to hold some out. Give your own held-out comparisons, or a smaller share."
        )
    return train, held_out


def _by_anchors(
    comparisons: Comparisons, test_size: float, rng: np.random.RandomState, by: SplitBy
) -> tuple[Comparisons | None, Comparisons | None]:
    """Hold out the groups of some anchors; without their pairs, the others are learned from."""
    anchors, first, number = np.unique(comparisons.anchors, return_index=True, return_inverse=True)
    together = None
    if by == "components":
        component = group_components(comparisons)[first]
        together = drawn_together(component, test_size, rng) if component.max() + 1 < len(anchors) else None
    held_out = (drawn(len(anchors), test_size, rng) if together is None else together)[number]
    members_held_out = np.repeat(held_out, comparisons._group_sizes)
    in_test = _holding(comparisons, members_held_out)
    classes = comparisons.classes
    if classes is not None:
        in_test |= classes.contain(comparisons.pairs, comparisons.anchors[held_out & comparisons.is_open])
        # Points of held-out pairs, since the other point of such a pair may be any anchor.
        unanchored = np.repeat(held_out & (comparisons.anchors < 0), comparisons._group_sizes)
        unanchored_points = comparisons.pairs[comparisons.members[unanchored]].ravel()
        apart = np.concatenate([comparisons.anchors[held_out], unanchored_points])
        classes = classes.without(apart[(apart >= 0) & (apart < len(classes.label))])
    rest = comparisons._sides.where(~in_test[comparisons.members])
    train = replace(comparisons, classes=classes)._without_empty(rest)
    return train, comparisons._without_empty(comparisons._sides.where(members_held_out))


def _by_pairs(
    comparisons: Comparisons, test_size: float, rng: np.random.RandomState
) -> tuple[Comparisons | None, Comparisons | None]:
    """Hold out some of the near and some of the far pairs of a single anchor."""
    near = _holding(comparisons, comparisons._sides.row % 2 == 0)
    in_test = np.empty(len(comparisons.pairs), dtype=bool)
    for side in (near, ~near):
        in_test[side] = drawn(int(side.sum()), test_size, rng)
    sides, held_out = comparisons._sides, in_test[comparisons.members]
    return comparisons._without_empty(sides.where(~held_out)), comparisons._without_empty(sides.where(held_out))


def _holding(comparisons: Comparisons, members: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask of the pairs that are among these members."""
    pairs = np.zeros(len(comparisons.pairs), dtype=bool)
    pairs[comparisons.members[members]] = True
    return pairs
