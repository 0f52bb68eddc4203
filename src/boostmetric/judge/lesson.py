"""One lesson: learn from the answers so far, and measure on those that are never learned from."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.identifiers import Identifiers, Ids
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.estimators import committee
from boostmetric.judge.answers import AnswerFile
from boostmetric.judge.learning import Answers, Taught, fitted, learn, learner, standard_error
from boostmetric.judge.measures import Measured, ceiling, consistency, difference, is_enough, share
from boostmetric.judge.questions import COMMITTEE, HELD_OUT, RANDOM, REPEAT
from boostmetric.judge.records import GivenAnswer

_N_MEMBERS = 8
_N_HALVES = 4  # random halves of the answers, for the gain of the last doubling
_LEAST_LEARNED = 10  # answers, before anything is learned
_LEAST_OF_HALF, _LEAST_HELD_OUT = 15, 10  # before the two halves are compared
_MOST_ITERATIONS = 20


class Record:
    """Answers of a file, by what they are for, with the objects as point numbers.

    Answers about objects that are not among the points, and those of judges who are left out, do not count. What was
    held out is never among `learned`, whoever answered it.

    Parameters
    ----------
    file : AnswerFile
    ids : ndarray of shape (n_points,)
    """

    def __init__(self, file: AnswerFile, ids: Ids) -> None:
        self.judges = file.judges()
        self.mode = file.mode
        left_out = {judge.number for judge in self.judges if judge.left_out}
        find = Identifiers(ids).find
        judged = [one for one in file.judged() if one.question.judge not in left_out]
        rows = [find(_as_ids(one.question.shown, ids)) for one in judged]
        known = [number for number, some in enumerate(rows) if (some >= 0).all()]
        self.n_unknown = len(judged) - len(known)
        self.judged = [judged[number] for number in known]
        self.rows: IntArray = np.array([rows[number] for number in known], dtype=np.int64).reshape(
            -1, self.mode.n_shown
        )
        self._place = {one.question.number: place for place, one in enumerate(self.judged)}

    @cached_property
    def answered(self) -> NDArray[np.bool_]:
        """Whether each answer chose something."""
        return np.array([bool(one.chosen) for one in self.judged], dtype=bool)

    @cached_property
    def purposes(self) -> NDArray[np.str_]:
        """Purpose of each question."""
        return np.array([one.question.purpose for one in self.judged], dtype="<U9")

    @cached_property
    def is_held_out(self) -> NDArray[np.bool_]:
        """Whether each answer is to a question that was held out, by anybody."""
        asked = [self.mode.same(one.question.shown) for one in self.judged]
        held_out = {same for same, purpose in zip(asked, self.purposes, strict=True) if purpose == HELD_OUT}
        return np.array([same in held_out for same in asked], dtype=bool)

    @cached_property
    def learned(self) -> IntArray:
        """Numbers of the answers to learn from, in order; repetitions among them."""
        return np.flatnonzero(self.answered & ~self.is_held_out)

    @cached_property
    def held_out(self) -> IntArray:
        """Numbers of the answers to measure on."""
        return np.flatnonzero(self.answered & (self.purposes == HELD_OUT))

    def answers(self, numbers: IntArray) -> Answers:
        """Some of the answers, as point numbers."""
        chosen = []
        for number in numbers:
            one = self.judged[number]
            row = dict(zip(one.question.shown, self.rows[number].tolist(), strict=True))
            chosen.append([row[id] for id in one.chosen])
        return Answers(self.mode, self.rows[numbers], chosen)

    def repeated(self, judge: int | None = None) -> list[tuple[Any, Any]]:
        """Comparisons of first and second answers, of all judges or of one."""
        pairs = []
        for one in self.judged:
            first = self._place.get(one.question.repeats or 0)
            if one.question.purpose == REPEAT and first is not None and judge in (None, one.question.judge):
                pairs.append((self._stated(self.judged[first]), self._stated(one)))
        return pairs

    def _stated(self, one: GivenAnswer) -> list[tuple[int | str, ...]]:
        return self.mode.comparisons(one.question.shown, one.chosen)


@dataclass(frozen=True)
class Lesson:
    """What was learned and measured.

    Attributes
    ----------
    learned : Taught
    members : list of ndarray
        Linear maps of the committee.
    result : dict
        The measures, for JSON.
    """

    learned: Taught
    members: list[FloatArray]
    result: dict[str, Any]


def teach(answers: Record, points: FloatArray, earlier: Sequence[tuple[int, FloatArray]] = ()) -> Lesson:
    """Learn from answers, and measure.

    Parameters
    ----------
    answers : Record
    points : ndarray of shape (n_points, n_features)
    earlier : sequence of (int, ndarray)
        Numbers of answers, and linear maps learned from them, for the curve.
    """
    some, held_out = answers.answers(answers.learned), answers.answers(answers.held_out)
    enough = len(some) >= _LEAST_LEARNED
    learned = learn(some, points) if enough else Taught(np.eye(points.shape[1]), 0)
    base = held_out.right(points)
    now = held_out.right(points @ learned.components.T)
    halves = _halves(answers, points, held_out)
    gain = _gain_of_doubling(some, points, held_out, now, learned.n_iter) if enough else None
    curve = [(n, held_out.right(points @ components.T)) for n, components in earlier if n < len(some)]
    return Lesson(
        learned,
        _members(some, points) if enough else [],
        {
            "n_answers": len(answers.judged),
            "n_learned": len(some),
            "n_held_out": len(held_out),
            "n_cannot_say": int(np.sum(~answers.answered)),
            "n_unknown": answers.n_unknown,
            "n_iter": learned.n_iter,
            "base": _told(share(base)),
            "learned": _told(share(now)),
            "difference": _told(difference(now - base)),
            "curve": [
                {"n": n, "agreement": float(right.mean())} for n, right in [*curve, (len(some), now)] if len(right)
            ],
            "gain_of_doubling": _told(gain),
            "enough": is_enough(gain),
            "halves": halves,
            **_consistency(answers),
            "judges": [_of_judge(answers, judge, points, learned) for judge in answers.judges],
        },
    )


def _members(some: Answers, points: FloatArray) -> list[FloatArray]:
    n_iter = _MOST_ITERATIONS
    members = committee(
        learner(n_iter), some.comparisons(), points=points, n_members=_N_MEMBERS, random_state=len(some)
    )
    return [member.components for member in members]


def _gain_of_doubling(
    some: Answers, points: FloatArray, held_out: Answers, now: FloatArray, n_iter: int
) -> Measured | None:
    """How much more held-out answers are right than after half of the answers."""
    if len(held_out) < _LEAST_HELD_OUT:
        return None
    before = np.zeros(len(held_out))
    for number in range(_N_HALVES):
        half = some.take(np.random.default_rng([len(some), number]).permutation(len(some))[: len(some) // 2])
        before += held_out.right(points @ fitted(half, points, n_iter).T) / _N_HALVES
    return difference(now - before)


def _halves(answers: Record, points: FloatArray, held_out: Answers) -> dict[str, Any]:
    """What equally many answers of both halves teach, and whether the committee goes on asking."""
    random, asked = (
        np.array([n for n in answers.learned if answers.purposes[n] == purpose], dtype=np.int64)
        for purpose in (RANDOM, COMMITTEE)
    )
    n = min(len(random), len(asked))
    if n < _LEAST_OF_HALF or len(held_out) < _LEAST_HELD_OUT:
        return {"n": n, "on": True}
    right = [
        held_out.right(points @ fitted(answers.answers(numbers[:n]), points, _MOST_ITERATIONS).T)
        for numbers in (random, asked)
    ]
    mean, error = standard_error(right[1] - right[0])
    return {
        "n": n,
        "on": mean >= -error,
        "random": _told(share(right[0])),
        "committee": _told(share(right[1])),
        "difference": _told(difference(right[1] - right[0])),
    }


def _consistency(answers: Record, judge: int | None = None) -> dict[str, Any]:
    same = consistency(answers.repeated(judge))
    if same is None:
        return {"consistency": None, "ceiling": None}
    most = Measured(ceiling(same.mean), ceiling(same.low), ceiling(same.high), same.n)
    return {"consistency": _told(same), "ceiling": _told(most)}


def _of_judge(answers: Record, judge: Any, points: FloatArray, learned: Taught) -> dict[str, Any]:
    mine = np.array([one.question.judge == judge.number for one in answers.judged], dtype=bool)
    held_out = answers.answers(np.array([n for n in answers.held_out if mine[n]], dtype=np.int64))
    seconds = [one.seconds for one in answers.judged if one.question.judge == judge.number]
    return {
        "name": judge.name,
        "left_out": judge.left_out,
        "n": int(mine.sum()),
        "seconds": float(np.median(seconds)) if seconds else None,
        "agreement": _told(share(held_out.right(points @ learned.components.T))),
        **_consistency(answers, judge.number),
    }


def _told(measured: Measured | None) -> dict[str, Any] | None:
    return None if measured is None else measured.as_dict()


def _as_ids(shown: Sequence[int | str], ids: Ids) -> Ids:
    if ids.dtype.kind == "i" and all(isinstance(id, int) for id in shown):
        return np.array(shown, dtype=np.int64)
    return np.array(list(map(str, shown)), dtype=object)


def packed(maps: Sequence[FloatArray]) -> bytes:
    """Linear maps as bytes, in single precision."""
    buffer = io.BytesIO()
    np.savez(buffer, *[components.astype(np.float32) for components in maps])
    return buffer.getvalue()


def unpacked(content: bytes | None) -> list[FloatArray]:
    """Linear maps from bytes; nothing in them is executed."""
    if not content:
        return []
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return [arrays[name].astype(np.float64) for name in arrays.files]
