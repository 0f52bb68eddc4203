"""A page in the browser where people teach the distance: questions, their answers, and a model that follows them.

`answers` is the file: judges, questions, answers and what was learned. `questions` decides what is asked next, `lesson`
learns and measures, `worker` does so in a process of its own, `server` and `page` show the questions, and `finish`
writes the model.
"""

from boostmetric.judge.answers import AnswerFile, Judge, Judged, Question
from boostmetric.judge.modes import MODES, Mode

__all__ = ["MODES", "AnswerFile", "Judge", "Judged", "Mode", "Question"]
