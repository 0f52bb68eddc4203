"""The kinds of questions: what is shown, what is chosen, and which comparisons an answer gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.comparisons import Comparisons


@dataclass(frozen=True)
class Mode:
    """A kind of question.

    Attributes
    ----------
    name : str
    text : str
        The question, as people read it.
    n_options : int
        Number of objects to choose from.
    n_chosen : int
        Number of objects that an answer chooses, if it is not "cannot say".
    has_head : bool
        Whether the options are compared with a head, which is shown first.
    """

    name: str
    text: str
    n_options: int
    n_chosen: int
    has_head: bool

    @property
    def n_shown(self) -> int:
        """Number of objects of a question, with the head."""
        return self.n_options + self.has_head

    def same(self, shown: Sequence[int | str]) -> tuple[object, ...]:
        """What is equal for two questions that differ by the order of the options only."""
        head, options = (shown[0], shown[1:]) if self.has_head else (None, shown)
        return (head, frozenset(options))

    def shuffled(self, shown: Sequence[int | str], rng: np.random.Generator) -> tuple[int | str, ...]:
        """The same question with its options in another order."""
        head, options = (tuple(shown[:1]), shown[1:]) if self.has_head else ((), shown)
        order = rng.permutation(len(options))
        if (order == np.arange(len(order))).all():
            order = order[::-1]
        return (*head, *(options[i] for i in order))

    def comparisons(self, shown: Sequence[int | str], chosen: Sequence[int | str]) -> list[tuple[int | str, ...]]:
        """Rows (anchor, near, far) that an answer gives; none for "cannot say".

        Parameters
        ----------
        shown, chosen : sequence of int or str

        Raises
        ------
        ValueError
            If this is no answer to the question.
        """
        options = shown[1:] if self.has_head else shown
        if len(set(chosen)) != len(chosen) or not set(chosen) <= set(options):
            raise ValueError(f"An answer chooses among {list(options)}. Got {list(chosen)}.")
        if len(chosen) not in (0, self.n_chosen):
            raise ValueError(f"An answer chooses {self.n_chosen} of {self.n_options}, or none. Got {len(chosen)}.")
        others = [option for option in options if option not in chosen]
        if not chosen:
            return []
        if self.has_head:
            return [(shown[0], near, far) for near in chosen for far in others]
        (one, two), (odd,) = others, chosen
        return [(one, two, odd), (two, one, odd)]

    def build(self, shown: IntArray, chosen: Sequence[Sequence[int]]) -> Comparisons:
        """Build comparisons of point numbers, one group for each answer.

        Parameters
        ----------
        shown : ndarray of shape (n_answers, n_shown)
        chosen : sequence of sequences of int
            None of them empty.
        """
        if self.has_head:
            return Comparisons.from_choices(
                shown[:, 0], shown[:, 1:], [np.array(some, dtype=np.int64) for some in chosen]
            )
        return Comparisons.from_odd_one_out(shown, np.array([some[0] for some in chosen], dtype=np.int64))

    def favourites(self, mapped: FloatArray) -> NDArray[np.bool_]:
        """What a metric would choose.

        Parameters
        ----------
        mapped : ndarray of shape (n_questions, n_shown, n_components)
            The objects of the questions, mapped by the metric.

        Returns
        -------
        ndarray of bool of shape (n_questions, n_options)
        """
        if self.has_head:
            distance = ((mapped[:, 1:] - mapped[:, :1]) ** 2).sum(axis=2)
        else:  # the odd one is that across from the shortest side
            distance = ((np.roll(mapped, -1, axis=1) - np.roll(mapped, -2, axis=1)) ** 2).sum(axis=2)
        rank = np.argsort(np.argsort(distance, axis=1, kind="stable"), axis=1)
        return np.asarray(rank < self.n_chosen)


MODES = {
    mode.name: mode
    for mode in (
        Mode("triplet", "Which one is more like this?", 2, 1, has_head=True),
        Mode("odd", "Which one is the odd one out?", 3, 1, has_head=False),
        Mode("choice", "Which two are most like this?", 8, 2, has_head=True),
    )
}
"""Kinds of questions by name."""


def share_right(rows: Iterable[ArrayLike], points: FloatArray) -> FloatArray:
    """For each answer, the share of its comparisons that Euclidean distances satisfy.

    Parameters
    ----------
    rows : iterable of arrays of shape (n_comparisons, 3)
        Rows (anchor, near, far) of each answer.
    points : ndarray of shape (n_points, n_features)
        Mapped by a metric, or as given.
    """
    each = [np.asarray(some, dtype=np.int64).reshape(-1, 3) for some in rows]
    if not each:
        return np.empty(0)
    anchor, near, far = (points[column] for column in np.concatenate(each).T)
    right = ((anchor - far) ** 2).sum(axis=1) > ((anchor - near) ** 2).sum(axis=1)
    of = np.repeat(np.arange(len(each)), [len(some) for some in each])
    return np.asarray(np.bincount(of, right, minlength=len(each)) / np.bincount(of, minlength=len(each)))
