"""IntArray to learn from and rows to test on, with nothing on both sides that would make the test easy.

For comparisons use `Comparisons.split`, which also keeps pairs apart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state, column_or_1d

from boostmetric.arrays.numbering import number_values
from boostmetric.arrays.types import IntArray
from boostmetric.arrays.validation import check_number
from boostmetric.comparisons.grouping import drawn


def split_queries(
    queries: ArrayLike, test_fraction: float = 0.2, random_state: int | np.random.RandomState | None = None
) -> tuple[IntArray, IntArray]:
    """Divide rows of judgements or clicks so that no query is on both sides.

    Parameters
    ----------
    queries : array-like of shape (n_rows,)
        Query of each row: numbers or strings.
    test_fraction : float, default=0.2
        Share of the queries to test on: at least one, and not all.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    train, test : ndarray of int
        Row numbers in ascending order.

    Examples
    --------
    >>> from boostmetric.evaluation import split_queries
    >>> split_queries(["q1", "q1", "q2", "q3", "q2"], test_fraction=0.3, random_state=0)
    (array([0, 1, 2, 4]), array([3]))
    """
    return _split("queries", queries, test_fraction, random_state)


def split_classes(
    y: ArrayLike, test_fraction: float = 0.2, random_state: int | np.random.RandomState | None = None
) -> tuple[IntArray, IntArray]:
    """Divide labelled rows so that no class is on both sides: a test on classes that were never seen.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Label of each row.
    test_fraction : float, default=0.2
        Share of the classes to test on: at least one, and not all.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    train, test : ndarray of int
        Row numbers in ascending order.

    Examples
    --------
    >>> from boostmetric.evaluation import split_classes
    >>> split_classes([0, 0, 1, 1, 2, 2], test_fraction=0.4, random_state=0)
    (array([0, 1, 2, 3]), array([4, 5]))
    """
    return _split("classes", y, test_fraction, random_state)


def _split(
    noun: str, values: ArrayLike, test_fraction: float, random_state: int | np.random.RandomState | None
) -> tuple[IntArray, IntArray]:
    check_number("test_fraction", test_fraction, above=0.0, below=1.0)
    distinct, number = number_values(noun, column_or_1d(values))
    if len(distinct) < 2:
        raise ValueError(f"There must be at least 2 {noun} to have some on each side. Got {len(distinct)}.")
    held_out = drawn(len(distinct), test_fraction, check_random_state(random_state))[number]
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
