"""A sitting: questions are handed out, answers are stored, and what was learned so far is told."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from boostmetric.arrays.identifiers import Identifiers, Ids
from boostmetric.arrays.types import FloatArray
from boostmetric.judge.answers import AnswerFile
from boostmetric.judge.lesson import unpacked
from boostmetric.judge.questions import Questions
from boostmetric.judge.records import Id, Judge, Question

_AHEAD = 3  # questions that the page holds
_RECENT = 20  # answers, for the pace
_LONGEST = 120.0  # seconds for an answer; more is a pause


@dataclass(frozen=True)
class Objects:
    """What is judged.

    Attributes
    ----------
    ids : ndarray of shape (n_points,)
    points : ndarray of shape (n_points, n_features)
    texts : list of str, optional
    pictures : list of Path, optional
    feature_names : list of str, optional
    """

    ids: Ids
    points: FloatArray
    texts: Sequence[str] | None = None
    pictures: Sequence[Path] | None = None
    feature_names: list[str] | None = None


class Sitting:
    """Answers the requests of pages; any thread may call it.

    Parameters
    ----------
    file : AnswerFile
    objects : Objects
    judges : sequence of Judge
        Who may answer.
    """

    def __init__(self, file: AnswerFile, objects: Objects, judges: Sequence[Judge]) -> None:
        self.file, self.objects = file, objects
        self._by_token = {judge.token: judge for judge in judges}
        self._questions = Questions(file, objects.ids, objects.points)
        self._rows = Identifiers(objects.ids)
        self._lesson: tuple[int, dict[str, Any]] | None = None
        self._lock = threading.Lock()
        self.outcome: dict[str, Any] | None = None

    def judge_of(self, token: str) -> Judge | None:
        """Return the judge who has this link, or None."""
        return self._by_token.get(token)

    @property
    def all_done(self) -> bool:
        """Whether every judge has finished."""
        mine = {judge.number for judge in self._by_token.values()}
        return all(judge.done for judge in self.file.judges() if judge.number in mine)

    def page(self, judge: Judge) -> dict[str, Any]:
        """Everything a page needs to begin, or to go on after it was away.

        Parameters
        ----------
        judge : Judge
        """
        mode = self.file.mode
        return {
            "mode": {
                "name": mode.name,
                "text": mode.text,
                "options": mode.n_options,
                "chosen": mode.n_chosen,
                "head": mode.has_head,
            },
            "judge": judge.name,
            "alone": len(self._by_token) == 1,
            **self.next(judge),
        }

    def next(self, judge: Judge) -> dict[str, Any]:
        """The open questions, and what was learned.

        Parameters
        ----------
        judge : Judge
        """
        self._follow()
        with self._lock:  # one question is never handed out twice
            questions = self._questions.ahead(judge, _AHEAD)
        return {
            "questions": [self._told(question) for question in questions],
            "last": self.file.last_key(judge),
            "progress": self._progress(judge),
            "lesson": None if self._lesson is None else self._lesson[1],
            "finished": None if self.outcome is None else {name: self.outcome[name] for name in ("text", "commands")},
        }

    def answer(self, judge: Judge, question: int, chosen: Sequence[Id], key: str, seconds: float) -> dict[str, Any]:
        """Store an answer; see `AnswerFile.answer`.

        Parameters
        ----------
        judge : Judge
        question : int
        chosen : sequence of int or str
        key : str
        seconds : float
        """
        self.file.answer(judge, question, chosen, key=key, seconds=min(seconds, _LONGEST))
        return self.next(judge)

    def undo(self, judge: Judge, key: str) -> dict[str, Any]:
        """Take an answer back; its question is the next one. See `AnswerFile.undo`.

        Parameters
        ----------
        judge : Judge
        key : str
        """
        self.file.undo(judge, key)
        return self.next(judge)

    def _follow(self) -> None:
        """Take up the last lesson, if it is a new one."""
        last = self.file.last_lesson()
        if last is None or (self._lesson is not None and self._lesson[0] == last[0]):
            return
        number, result, members = last
        maps = unpacked(members) if result["halves"]["on"] else []
        if all(components.shape[1] == self.objects.points.shape[1] for components in maps):
            self._questions.members = maps
        self._lesson = number, result

    def _told(self, question: Question) -> dict[str, Any]:
        return {"number": question.number, "objects": [self._object(id) for id in question.shown]}

    def _object(self, id: Id) -> dict[str, Any]:
        ids = np.array([id], dtype=np.int64 if isinstance(id, int) else object)
        row = int(self._rows.find(ids)[0])
        known = row >= 0
        texts, pictures = self.objects.texts, self.objects.pictures
        return {
            "id": id,
            "text": texts[row] if known and texts is not None else None if pictures is not None else str(id),
            "picture": f"picture/{row}" if known and pictures is not None else None,
        }

    def _progress(self, judge: Judge) -> dict[str, Any]:
        count, recent = self.file.progress(judge, _RECENT)
        return {"answers": count, "seconds": statistics.median(recent) if recent else None}
