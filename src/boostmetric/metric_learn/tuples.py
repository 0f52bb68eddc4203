"""Tuples of points as rows of point numbers, and labels as tuples."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.types import FloatArray
from boostmetric.comparisons import Comparisons
from boostmetric.metric_learn.constraints import Constraints


def numbered(tuples: NDArray[Any]) -> tuple[FloatArray, NDArray[np.int64]]:
    """Points of tuples, and the tuples as rows of their numbers.

    Points that occur twice are two points: tuples may contradict each other, or compare a point with itself.
    """
    points = np.asarray(tuples, dtype=np.float64).reshape(-1, tuples.shape[2])
    return points, np.arange(len(points)).reshape(tuples.shape[:2])


def compared(tuples: NDArray[Any], weights: Any = None) -> tuple[FloatArray, Comparisons]:
    """Distinct points of triplets or quadruplets, and the comparisons of these.

    Points that are equal within a tuple are two points: it may compare a point with itself.
    """
    points, _ = numbered(tuples)
    first, number = _distinct(points)
    points, size = points[first], tuples.shape[1]
    rows = number.reshape(-1, size)
    for column in range(1, size):
        again = (rows[:, :column] == rows[:, column, None]).any(axis=1)
        copies = points[rows[again, column]]
        rows[again, column] = len(points) + np.arange(len(copies))
        points = np.concatenate([points, copies])
    builder = Comparisons.from_triplets if size == 3 else Comparisons.from_quadruplets
    return points, builder(rows, weights, grouped=False)


def _distinct(points: FloatArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number of the first of each group of equal points, and the group of each; by sums of their bits."""
    factors = np.random.default_rng(0).integers(2**63, size=points.shape[1], dtype=np.uint64)
    sums = np.ascontiguousarray(points).view(np.uint64) @ (2 * factors + np.uint64(1))
    _, first, number = np.unique(sums, return_index=True, return_inverse=True)
    if not np.array_equal(points[first[number]], points):  # two sums are equal by chance
        _, first, number = np.unique(points, axis=0, return_index=True, return_inverse=True)
    return first, number.reshape(-1)


def similar_and_dissimilar(pairs: NDArray[Any], y: NDArray[Any]) -> tuple[FloatArray, dict[str, NDArray[np.int64]]]:
    """Points of pairs, and the pairs as our learners take them."""
    check_both_kinds(y)
    points, rows = numbered(pairs)
    return points, {"similar": rows[np.asarray(y) == 1], "dissimilar": rows[np.asarray(y) == -1]}


def check_both_kinds(y: NDArray[Any]) -> None:
    """Raise an error if there are only similar or only dissimilar pairs."""
    for name, value in {"similar": 1, "dissimilar": -1}.items():
        if not (np.asarray(y) == value).any():
            raise ValueError(f"No pair is {name}: all of y is {-value}. Give pairs of both kinds.")


def pairs_from_labels(X: FloatArray, y: Any, n_constraints: int | None, random_state: Any) -> tuple[Any, Any]:
    """Pairs of points, and 1 or -1, drawn from labels."""
    a, b, c, d = Constraints(y).positive_negative_pairs(_number(y, n_constraints), random_state=random_state)
    rows = np.concatenate([np.stack([a, b], axis=1), np.stack([c, d], axis=1)])
    return X[rows], np.repeat([1, -1], [len(a), len(c)])


def quadruplets_from_labels(X: FloatArray, y: Any, n_constraints: int | None, random_state: Any) -> Any:
    """Quadruplets of points, drawn from labels."""
    draw = Constraints(y).positive_negative_pairs
    return X[np.stack(draw(_number(y, n_constraints), same_length=True, random_state=random_state), axis=1)]


def _number(y: Any, n_constraints: int | None) -> int:
    """Number of constraints: by default 20 for each pair of classes."""
    if n_constraints is not None:
        return n_constraints
    return 20 * len(np.unique(y)) ** 2


def warn_of_default_basis(n_basis: int) -> None:
    """Warn as metric-learn does where `n_basis` is not given."""
    warnings.warn(
        f"As no value for `n_basis` was selected, the number of basis will be set to n_basis= {n_basis}", stacklevel=4
    )
