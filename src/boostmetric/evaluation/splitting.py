"""Split rows into training and test sets, without leaking between them.

For comparisons use `Comparisons.split`, which also keeps pairs apart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d

from boostmetric.arrays.numbering import number_values
from boostmetric.arrays.types import IntArray
from boostmetric.arrays.validation import check_number
from boostmetric.comparisons.components import components, drawn_together
from boostmetric.comparisons.grouping import drawn

# Fewer labelled rows than this are not split: "auto" cross-validates on all of them, and learns from all.
FEW_ROWS = 1500
# Default fraction to hold out, of the rows of each class or of the anchors.
TEST_FRACTION = 0.2


def fraction_to_hold_out(n_rows: int) -> float:
    """Fraction of labelled rows to validate on: a fifth, or 0 if there are few rows.

    Parameters
    ----------
    n_rows : int

    Examples
    --------
    >>> from boostmetric.evaluation import fraction_to_hold_out
    >>> fraction_to_hold_out(178), fraction_to_hold_out(10_000)
    (0.0, 0.2)
    """
    return TEST_FRACTION if n_rows >= FEW_ROWS else 0.0


def split_rows(
    y: ArrayLike, test_fraction: float = TEST_FRACTION, random_state: int | np.random.RandomState | None = None
) -> tuple[IntArray, IntArray]:
    """Split labelled rows so that every class with more than one row is on both sides, in proportion.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Label of each row.
    test_fraction : float, default=0.2
        Fraction of the rows to test on. At least one row of each class stays in training.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    train, test : ndarray of int
        Row numbers in ascending order.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric.evaluation import split_rows
    >>> y = np.repeat(["a", "b", "c"], [10, 10, 1])
    >>> train, test = split_rows(y, 0.2, random_state=0)
    >>> np.unique(y[test], return_counts=True)[1].tolist()
    [2, 2]
    """
    check_number("test_fraction", test_fraction, above=0.0, below=1.0)
    labels = column_or_1d(y)
    order = np.lexsort((check_random_state(random_state).permutation(len(labels)), labels))
    in_order = labels[order]
    first = np.concatenate([[True], in_order[1:] != in_order[:-1]])
    free = order[~first]  # one row of each class stays in training
    share = min(1.0, test_fraction * len(labels) / max(1, len(free)))
    place = np.arange(len(free))
    held_out = np.zeros(len(labels), dtype=bool)
    held_out[free[np.floor((place + 1) * share + 1e-9) > np.floor(place * share + 1e-9)]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def split_queries(
    queries: ArrayLike,
    test_fraction: float = 0.2,
    random_state: int | np.random.RandomState | None = None,
    *,
    documents: ArrayLike | None = None,
    relevant: ArrayLike | None = None,
) -> tuple[IntArray, IntArray]:
    """Split rows of judgements or clicks so that no query is on both sides, nor a relevant document.

    Parameters
    ----------
    queries : array-like of shape (n_rows,)
        Query of each row: numbers or strings.
    test_fraction : float, default=0.2
        Share of the queries to test on: at least one, and not all.
    random_state : int, RandomState or None, default=None
    documents : array-like of shape (n_rows,), optional
        Document of each row. Queries with a relevant document in common, directly or through other queries, are then on
        the same side, unless nearly all are connected.
    relevant : array-like of bool of shape (n_rows,), optional
        Whether the document is relevant; by default all are.

    Returns
    -------
    train, test : ndarray of int
        Row numbers in ascending order.

    Examples
    --------
    >>> from boostmetric.evaluation import split_queries
    >>> split_queries(["q1", "q1", "q2", "q3", "q2"], test_fraction=0.3, random_state=0)
    (array([0, 1, 2, 4]), array([3]))
    >>> documents = ["a", "b", "b", "c", "d"]  # q1 and q2 share b
    >>> split_queries(["q1", "q1", "q2", "q3", "q2"], test_fraction=0.3, random_state=0, documents=documents)
    (array([0, 1, 2, 4]), array([3]))
    """
    if documents is None:
        return _split("queries", queries, test_fraction, random_state)
    check_number("test_fraction", test_fraction, above=0.0, below=1.0)
    rng = check_random_state(random_state)
    asked, query = number_values("queries", column_or_1d(queries))
    _, document = number_values("documents", column_or_1d(documents))
    check_consistent_length(query, document, relevant)
    rows = np.arange(len(query)) if relevant is None else np.flatnonzero(column_or_1d(relevant))
    together = drawn_together(components(query[rows], document[rows], len(asked)), test_fraction, rng)
    if together is None:
        return _split("queries", queries, test_fraction, rng)
    return np.flatnonzero(~together[query]), np.flatnonzero(together[query])


def split_classes(
    y: ArrayLike, test_fraction: float = 0.2, random_state: int | np.random.RandomState | None = None
) -> tuple[IntArray, IntArray]:
    """Split labelled rows so that no class is on both sides, to test on unseen classes.

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
        raise ValueError(f"A split needs at least 2 {noun}, one for each side. Got {len(distinct)}.")
    held_out = drawn(len(distinct), test_fraction, check_random_state(random_state))[number]
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
