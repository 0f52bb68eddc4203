"""A page in the browser where people teach the distance: questions, their answers, and a model that follows them.

`answers` is the file of judges, questions, answers (`records`) and what was learned. `modes` says what a question shows
and what its answer means, `questions` what is asked next. `lesson` learns (`learning`) and measures (`measures`);
`worker` does so in a process of its own. `sitting`, `server` and `serving` show the questions, within `limits`;
`finish` writes the model.
"""

from boostmetric.judge.answers import AnswerFile
from boostmetric.judge.modes import MODES, Mode
from boostmetric.judge.questions import Questions
from boostmetric.judge.records import GivenAnswer, Judge, Question
from boostmetric.judge.worker import learn_again

__all__ = ["MODES", "AnswerFile", "GivenAnswer", "Judge", "Mode", "Question", "Questions", "learn_again"]
