"""What is asked next: held-out questions, repeated ones, and of the others half at random and half by a committee.

Purposes are dealt out in blocks of twenty questions a judge: four are drawn at random and held out, one is asked again,
and of the other fifteen half are drawn at random and half are those about which the members of a committee disagree
most. Unless the points
are so few that all questions were asked, none is both held out and asked to learn from, by whomever.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from boostmetric.arrays.identifiers import Ids
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.judge.answers import AnswerFile
from boostmetric.judge.modes import Mode
from boostmetric.judge.records import Id, Judge, Question

RANDOM, COMMITTEE, HELD_OUT, REPEAT = "random", "committee", "held-out", "repeat"
"""Purposes of questions."""

_BLOCK = 20
_N_HELD_OUT, _N_REPEATS = 4, 1
_APART = 8  # answers between a question and its repetition, at least
_POOL = 300  # questions from which a committee chooses one
_TRIES = 50  # to draw a question that was not asked before

Members = Sequence[FloatArray]


class Questions:
    """Chooses questions.

    Parameters
    ----------
    file : AnswerFile
    ids : ndarray of shape (n_points,)
        Ids of the points.
    points : ndarray of shape (n_points, n_features)

    Attributes
    ----------
    members : list of ndarray of shape (rank, n_features)
        Linear maps of the committee; without any, all questions are random.
    """

    def __init__(self, file: AnswerFile, ids: Ids, points: FloatArray) -> None:
        mode = file.mode
        if len(points) < mode.n_shown:
            raise ValueError(
                f"A question shows {mode.n_shown} objects, and there are {len(points)} points. Give more points."
            )
        self.members: Members = ()
        self._file, self._mode, self._points, self._names = file, mode, points, ids
        self._asked: dict[tuple[object, ...], bool] = {}  # whether a question is held out
        for question in file.questions():
            self._note(question)

    def _note(self, question: Question) -> None:
        if question.purpose != REPEAT:
            self._asked[self._mode.same(question.shown)] = question.purpose == HELD_OUT

    def ahead(self, judge: Judge, n: int) -> list[Question]:
        """Return the open questions of a judge, and choose new ones until there are n.

        Parameters
        ----------
        judge : Judge
        n : int
        """
        questions = self._file.open_questions(judge)
        while len(questions) < n:
            questions.append(self._next(judge, questions))
            self._note(questions[-1])
        return questions

    def _next(self, judge: Judge, waiting: Sequence[Question]) -> Question:
        mine = self._file.questions(judge)
        rng = np.random.default_rng([self._file.seed, judge.number, len(mine)])
        purpose = self._purpose(judge, len(mine))
        if purpose == REPEAT:
            again = self._to_repeat(judge, mine, rng)
            if again is not None:
                return self._file.ask(judge, REPEAT, self._mode.shuffled(again.shown, rng), again.number)
            purpose = RANDOM
        if purpose == COMMITTEE and len(self.members) > 1:
            heads = {question.shown[0] for question in waiting}
            shown = self._most_disputed(rng, heads)
            if shown is not None:
                return self._file.ask(judge, COMMITTEE, shown)
        if purpose == COMMITTEE:
            purpose = RANDOM
        return self._file.ask(judge, purpose, self._drawn(rng, held_out=purpose == HELD_OUT))

    def _purpose(self, judge: Judge, number: int) -> str:
        """The purpose of a judge's question, which does not depend on any answer."""
        block, place = divmod(number, _BLOCK)
        n_learned = _BLOCK - _N_HELD_OUT - _N_REPEATS
        n_random = (n_learned + block % 2) // 2
        purposes: list[str] = [HELD_OUT] * _N_HELD_OUT + [REPEAT] * _N_REPEATS
        purposes += [RANDOM] * n_random + [COMMITTEE] * (n_learned - n_random)
        order = np.random.default_rng([self._file.seed, judge.number, block, 1]).permutation(_BLOCK)
        return purposes[int(order[place])]

    def _to_repeat(self, judge: Judge, mine: Sequence[Question], rng: np.random.Generator) -> Question | None:
        """Choose a question that was drawn at random, answered a while ago, and not asked twice."""
        twice = {question.repeats for question in mine}
        answered = [judged for judged in self._file.judged() if judged.question.judge == judge.number]
        known = [
            judged.question
            for judged in answered[: max(0, len(answered) - _APART)]
            if judged.chosen and judged.question.purpose in (RANDOM, HELD_OUT) and judged.question.number not in twice
        ]
        return known[int(rng.integers(len(known)))] if known else None

    def _drawn(self, rng: np.random.Generator, *, held_out: bool) -> tuple[Id, ...]:
        """Draw a question at random: one that was not asked before, or at least not for the other purpose."""
        otherwise = None
        for _ in range(_TRIES):
            rows = rng.choice(len(self._points), self._mode.n_shown, replace=False)
            shown = self._ids(rows)
            before = self._asked.get(self._mode.same(shown))
            if before is None:
                return shown
            if before == held_out:
                otherwise = shown
        return otherwise if otherwise is not None else shown

    def _most_disputed(self, rng: np.random.Generator, heads: set[Id]) -> tuple[Id, ...] | None:
        """Of questions drawn at random, return that about which the members disagree most."""
        n_points, n_shown = len(self._points), self._mode.n_shown
        if n_points <= 4 * n_shown:
            pool = np.argsort(rng.random((_POOL, n_points)), axis=1)[:, :n_shown]
        else:
            pool = rng.integers(n_points, size=(2 * _POOL, n_shown))
            ordered = np.sort(pool, axis=1)
            pool = pool[(ordered[:, 1:] != ordered[:, :-1]).all(axis=1)]
        order = np.argsort(-disagreement(self._mode, self.members, self._points, pool), kind="stable")
        for row in order:
            shown = self._ids(pool[row])
            is_new = self._mode.same(shown) not in self._asked
            if is_new and not (self._mode.has_head and shown[0] in heads):
                return shown
        return None

    def _ids(self, rows: IntArray) -> tuple[Id, ...]:
        ids: tuple[Id, ...] = tuple(self._names[rows].tolist())
        return ids


def disagreement(mode: Mode, members: Members, points: FloatArray, shown: IntArray) -> FloatArray:
    """How much the members of a committee disagree about questions: the variance of their votes, over the options.

    Parameters
    ----------
    mode : Mode
    members : sequence of ndarray of shape (rank, n_features)
    points : ndarray of shape (n_points, n_features)
    shown : ndarray of shape (n_questions, n_shown)
        Point numbers.

    Returns
    -------
    ndarray of shape (n_questions,)
    """
    rows, place = np.unique(shown, return_inverse=True)
    some, place = points[rows].astype(np.float64), place.reshape(shown.shape)
    votes = np.mean([mode.favourites((some @ member.T)[place]) for member in members], axis=0)
    answer: FloatArray = (votes * (1.0 - votes)).sum(axis=1)
    return answer
