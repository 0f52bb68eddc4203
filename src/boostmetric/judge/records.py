"""What a file of answers holds: judges, questions, and the answers that were given."""

from __future__ import annotations

from dataclasses import dataclass

Id = int | str
"""Id of an object, or its row number where points have no ids."""


class AnswerFileError(ValueError):
    """A file of answers cannot be used; the message says why and what to do."""


class StaleAnswerError(ValueError):
    """An answer to a question that is not open to this judge."""


@dataclass(frozen=True)
class Judge:
    """Somebody who answers.

    Attributes
    ----------
    number : int
    name : str
    token : str
        The secret part of the link.
    done : bool
        Whether this judge has finished.
    left_out : bool
        Whether the model leaves out these answers.
    """

    number: int
    name: str
    token: str
    done: bool
    left_out: bool


@dataclass(frozen=True)
class Question:
    """A question to one judge.

    Attributes
    ----------
    number : int
    judge : int
    purpose : str
        "random", "committee", "held-out" or "repeat".
    shown : tuple of int or str
        Ids of the objects, in the order shown; the head is first, if there is one.
    repeats : int, optional
        The question that is asked again.
    """

    number: int
    judge: int
    purpose: str
    shown: tuple[Id, ...]
    repeats: int | None = None


@dataclass(frozen=True)
class GivenAnswer:
    """A question with its answer.

    Attributes
    ----------
    question : Question
    chosen : tuple of int or str
        Ids of what was chosen; empty for "cannot say".
    seconds : float
        Time between seeing the question and answering it.
    at : float
        Time of the answer, in seconds since 1970.
    """

    question: Question
    chosen: tuple[Id, ...]
    seconds: float
    at: float
