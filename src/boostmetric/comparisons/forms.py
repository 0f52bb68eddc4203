"""Comparisons in the forms that estimators accept: rows of point numbers, rows of points, or `Comparisons`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from boostmetric.arrays.numbering import as_array, check_numbers
from boostmetric.arrays.types import IntArray
from boostmetric.arrays.validation import checked, n_dimensions
from boostmetric.comparisons.comparisons import Comparisons
from boostmetric.comparisons.thresholds import choose_threshold


def hold_points(comparisons: object) -> bool:
    """Whether the rows hold the points themselves (metric-learn's tuples) instead of their numbers."""
    if isinstance(comparisons, Comparisons):
        return False
    if isinstance(comparisons, (list, tuple)) and comparisons:  # look at the first row only, to avoid converting all
        return n_dimensions(comparisons[0]) == 2
    return n_dimensions(comparisons) == 3


def as_rows(comparisons: Any, points: Any) -> tuple[IntArray | Comparisons, Any]:
    """Convert to rows of 2 to 4 point numbers, or `Comparisons`; also return their points."""
    if isinstance(comparisons, Comparisons):
        return comparisons, points
    given = as_array("comparisons", comparisons)
    if given.ndim not in (2, 3) or given.shape[1] not in (2, 3, 4):
        raise ValueError(
            "comparisons must be rows (i, j, k), (i, j, k, l) or, with y, (i, j) of point numbers, the same with "
            f"points instead of numbers, or Comparisons. Got shape {given.shape}."
        )
    if 0 in given.shape:
        raise ValueError(f"comparisons are empty: their shape is {given.shape}. At least one is needed.")
    if given.ndim == 2:
        return check_numbers("comparisons", given), points
    tuples = checked(check_array, given, dtype=[np.float64, np.float32], allow_nd=True)
    distinct, number = np.unique(tuples.reshape(-1, tuples.shape[2]), axis=0, return_inverse=True)
    return number.reshape(tuples.shape[:2]), distinct


def as_comparisons(
    rows: IntArray | Comparisons, y: ArrayLike | None, weights: ArrayLike | None, *, by_number: bool = True
) -> Comparisons:
    """Build comparisons from rows, with `y` for pairs and weights for the rest.

    If the rows were not given `by_number`, errors must not mention point numbers.
    """
    if not isinstance(rows, Comparisons) and not by_number:
        _refuse_equal_points(rows)
    if not isinstance(rows, Comparisons) and rows.shape[1] == 2:
        return _from_signed_pairs(rows, y, weights)
    if y is not None:
        raise ValueError("y says which pairs are similar and is only for rows (i, j). Leave it out.")
    if isinstance(rows, Comparisons):
        return rows if weights is None else rows.reweighted(weights)
    builder = Comparisons.from_triplets if rows.shape[1] == 3 else Comparisons.from_quadruplets
    return builder(rows, weights)


def _refuse_equal_points(rows: IntArray) -> None:
    within_pairs = rows[:, ::2] == rows[:, 1::2] if rows.shape[1] != 3 else np.diff(np.sort(rows)) == 0
    equal = within_pairs.any(axis=1)
    if equal.any():
        raise ValueError(
            f"comparisons[{int(np.flatnonzero(equal)[0])}] compares equal points, which no metric can tell apart "
            f"({int(equal.sum())} of {len(rows)} rows). Remove these rows."
        )


def _from_signed_pairs(pairs: IntArray, y: ArrayLike | None, weights: ArrayLike | None) -> Comparisons:
    if y is None:
        raise ValueError("Rows (i, j) need y: 1 for similar points, -1 for dissimilar ones.")
    if weights is not None:
        raise ValueError(
            "Pairs cannot be weighted individually: they form one group, every similar pair against every dissimilar "
            "one. Use weighted quadruplets (similar pair, dissimilar pair) instead."
        )
    sign = np.asarray(y)
    if sign.shape != (len(pairs),):
        raise ValueError(f"y must hold one sign for each of the {len(pairs)} pairs. Got shape {sign.shape}.")
    odd = ~np.isin(sign, (-1, 1))
    if odd.any():
        raise ValueError(f"y must be 1 for similar and -1 for dissimilar pairs. Got {sign[odd][0]}.")
    for value, word in ((1, "similar"), (-1, "dissimilar")):
        if not (sign == value).any():
            raise ValueError(f"No pair is {word}: all of y is {-value}. Give pairs of both kinds.")
    return Comparisons.from_pairs(pairs[sign == 1], pairs[sign == -1])


def squared_distance(points: NDArray[np.float64], pairs: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
    """Squared Euclidean distance between the points of each pair."""
    return np.asarray(np.square(points[pairs[:, 0]] - points[pairs[:, 1]]).sum(axis=1))


def best_threshold(distance: NDArray[np.float64], similar: NDArray[np.bool_]) -> float:
    """The distance that best separates similar pairs (below it) from dissimilar ones."""
    return choose_threshold(distance, similar)
