"""Validation and pairing of point numbers given by users; errors name the first bad one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boostmetric.arrays.ragged import Ragged
from boostmetric.arrays.tensors import as_numpy
from boostmetric.arrays.validation import as_numbers

# Pairs and points are numbered with 32 bits, which halves the memory of far pairs, the largest arrays.
_LARGEST_POINT = 2**31 - 2
# Sums of weights over any number of comparisons must not overflow.
_LARGEST_WEIGHT = 1e100


def as_array(name: str, values: ArrayLike) -> NDArray[Any]:
    """Convert `values` to an array; raise an error if its rows have different lengths."""
    try:
        return np.asarray(as_numpy(values))
    except ValueError:
        raise ValueError(f"{name} must be an array; its rows have different lengths.") from None


def check_numbers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Convert point numbers of any shape to int64; raise an error that names the first bad one."""
    numbers = as_array(name, values)
    if numbers.size and not np.issubdtype(numbers.dtype, np.integer):
        raise TypeError(
            f"{name} must hold integer point numbers, but their type is {numbers.dtype}. "
            "If the values are whole, convert them with .astype(int)."
        )
    bad = (numbers < 0) | (numbers > _LARGEST_POINT) if numbers.size else np.zeros(numbers.shape, dtype=bool)
    if bad.any():
        place = tuple(map(int, np.argwhere(bad)[0]))
        value = int(numbers[place])
        remedy = (
            "point numbers count from 0 and cannot be negative"
            if value < 0
            else f"point numbers above {_LARGEST_POINT} are not supported"
        )
        raise ValueError(f"{name}{list(place) if place else ''} is {value}: {remedy}.")
    return numbers.astype(np.int64)


def check_rows(name: str, rows: ArrayLike, n_columns: int, meaning: str) -> NDArray[np.int64]:
    """Convert rows of point numbers to int64, or raise an error."""
    numbers = as_array(name, rows)
    if numbers.ndim != 2 or numbers.shape[1] != n_columns:
        raise ValueError(f"{name} must be rows of {n_columns} point numbers, {meaning}. Got shape {numbers.shape}.")
    if len(numbers) == 0:
        raise ValueError(f"There are no {name}: at least one is needed.")
    return check_numbers(name, numbers)


def check_in_range(largest: int, n_points: int) -> None:
    """Raise an error if the largest point number is out of range."""
    if largest >= n_points:
        raise ValueError(
            f"The comparisons name point {largest}, but there are only {n_points} points (0 to {n_points - 1}). Check "
            "that they refer to these points, counted from 0."
        )


class RowsError(ValueError):
    """Rows that mean nothing: `rows` has the numbers of all of them, and `reason` says what is wrong."""

    def __init__(self, message: str, rows: NDArray[np.int64], reason: str) -> None:
        super().__init__(message)
        self.rows, self.reason = rows, reason

    def __reduce__(self) -> tuple[Any, ...]:
        return RowsError, (str(self), self.rows, self.reason)


def refuse_rows(name: str, rows: NDArray[np.int64], bad: NDArray[np.bool_], reason: str, remedy: str) -> None:
    """Raise an error that names the first bad row, if there is one."""
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        count = f"({int(bad.sum())} of {len(rows)} {name})"
        message = f"{name}[{first}] is {tuple(rows[first].tolist())}: {reason} {count}. {remedy}"
        raise RowsError(message, np.flatnonzero(bad), reason)


def check_lists(name: str, lists: Sequence[ArrayLike] | NDArray[Any]) -> Ragged:
    """Convert lists of point numbers, one list per group, to rows."""
    if isinstance(lists, np.ndarray) and lists.ndim == 2:
        return Ragged.from_sizes(check_numbers(name, lists).ravel(), np.full(len(lists), lists.shape[1]))
    rows = [as_array(f"{name}[{row}]", numbers) for row, numbers in enumerate(lists)]
    for number, row in enumerate(rows):
        if row.ndim != 1:
            raise ValueError(f"{name}[{number}] must be a list of point numbers. Got shape {row.shape}.")
    sizes = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
    try:  # all at once: a check for each of a hundred thousand lists takes seconds
        values = check_numbers(name, np.concatenate([*(row for row in rows if len(row)), np.empty(0, dtype=np.int64)]))
    except (TypeError, ValueError):
        for number, row in enumerate(rows):
            check_numbers(f"{name}[{number}]", row)
        raise
    return Ragged.from_sizes(values, sizes)


def check_weights(name: str, weights: ArrayLike | None, n_weights: int, of_what: str) -> NDArray[np.float64]:
    """Convert weights to float64, with ones if None; at least one must be positive."""
    if weights is None:
        return np.ones(n_weights)
    values = as_numbers(name, weights)
    if values.ndim == 0:
        values = np.full(n_weights, float(values))
    if values.shape != (n_weights,):
        raise ValueError(f"{name} must hold one number for each {of_what}, {n_weights} in all. Got {values.shape}.")
    bad = ~((values >= 0) & (values <= _LARGEST_WEIGHT))
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{name}[{first}] is {values[first]}: weights must be finite and at least 0, and at most "
            f"{_LARGEST_WEIGHT:g}; 0 leaves a {of_what} out."
        )
    if n_weights and not values.any():
        raise ValueError(
            f"{name} are all zero, which leaves out every {of_what}. Give a positive weight to those that matter."
        )
    return values


def check_weights_of_anchors(weights: NDArray[np.float64]) -> None:
    """Raise an error if the sample weights leave nothing to compare."""
    if not weights.any():
        raise ValueError(
            "sample_weight is zero for every sample that has another of its class, so there is nothing to compare."
        )


def number_values(name: str, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Number the distinct values in ascending order; return them and the number of each given value."""
    try:
        distinct, number = np.unique(values, return_inverse=True)
    except TypeError as error:
        raise TypeError(f"{name} must be all strings or all numbers, with none missing: {error}.") from None
    return distinct, number


def number_pairs(a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Number the distinct unordered pairs (a, b) in ascending order; return them and the number of each given pair."""
    n = int(max(a.max(initial=-1), b.max(initial=-1))) + 1
    key = np.minimum(a, b).astype(np.uint32 if n * n <= 2**32 else np.int64)
    key *= key.dtype.type(n)
    np.add(key, np.maximum(a, b), out=key, casting="unsafe")
    distinct, number = _number_distinct(key, n * n)
    pairs = np.empty((2, len(distinct)), dtype=np.int32).T  # column by column: shards take the second as it is
    np.divmod(distinct, distinct.dtype.type(n), out=(pairs[:, 0], pairs[:, 1]), casting="unsafe")
    return pairs, number


def _number_distinct(keys: NDArray[Any], n_keys: int) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Number the distinct ones of some keys below `n_keys` in ascending order, in less memory than `numpy.unique`."""
    if n_keys <= 4 * keys.size:
        # Most keys occur, so a table of all is smaller than the lists and needs no sorting.
        present = np.zeros(n_keys, dtype=bool)
        present[keys] = True
        return np.flatnonzero(present), (np.cumsum(present, dtype=np.int32) - np.int32(1))[keys]
    order = np.argsort(keys)
    ascending = keys[order]
    is_first = np.ones(len(keys), dtype=bool)
    np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
    number = np.empty(len(keys), dtype=np.int32)
    number[order] = np.cumsum(is_first, dtype=np.int32) - np.int32(1)
    return ascending[is_first], number
