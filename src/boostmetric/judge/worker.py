"""The process that learns while people answer. It shares nothing with the server but the file of answers."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

from boostmetric.arrays.identifiers import Ids
from boostmetric.arrays.types import FloatArray
from boostmetric.judge.answers import AnswerFile
from boostmetric.judge.lesson import Record, packed, teach, unpacked

_log = logging.getLogger(__name__)
_PAUSE = 0.25  # seconds between two looks at the file


def started(path: Path, ids: Ids, points: FloatArray) -> BaseProcess:
    """Start the process. It ends with this one, or when it is terminated.

    Parameters
    ----------
    path : Path
        The file of answers, which exists.
    ids : ndarray of shape (n_points,)
    points : ndarray of shape (n_points, n_features)
    """
    process = multiprocessing.get_context("spawn").Process(
        target=_work, args=(path, ids, points, os.getpid()), name="boostmetric judge: learning", daemon=True
    )
    process.start()
    return process


def _work(path: Path, ids: Ids, points: FloatArray, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both processes; the other one ends this one
    with AnswerFile(path) as file:
        seen: tuple[int, int] | None = None
        while os.getppid() == parent:
            count = file.count()
            if count == seen:
                time.sleep(_PAUSE)
                continue
            seen = count
            try:
                learn_again(file, ids, points)
            except Exception:  # a lesson that fails is not the last one: the next answer may be the remedy
                _log.exception("A lesson failed; answers are stored all the same.")


def learn_again(file: AnswerFile, ids: Ids, points: FloatArray) -> None:
    """Learn from the answers so far, and store the lesson.

    Parameters
    ----------
    file : AnswerFile
    ids : ndarray of shape (n_points,)
    points : ndarray of shape (n_points, n_features)
    """
    earlier = [(n, components) for n, map in file.earlier_maps() for components in unpacked(map)]
    earlier = [(n, components) for n, components in earlier if components.shape[1] == points.shape[1]]
    lesson = teach(Record(file, ids), points, earlier)
    result = lesson.result
    file.add_lesson(result["n_learned"], result, packed([lesson.learned.components]), packed(lesson.members))
