"""A metric from few answers, which is never much worse than the base.

The setting is bounded: the Euclidean distance as the start, short steps, and few of them. How many, or none at all, is
chosen by answers that are left out in turn; a learned metric must do better than the base by one standard error there.
With 20 answers, this loses about half of the gain where learning helps, and nearly all of the harm where it does not
(docs/judge.md has figures).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.comparisons import Comparisons
from boostmetric.estimators import ComparisonBoostMetric
from boostmetric.judge.modes import Mode, share_right
from boostmetric.parallel.blas import single_threaded_blas

N_ITERATIONS = (5, 20)
"""Numbers of iterations to choose from, besides none."""

_N_FOLDS, _N_REPEATS = 5, 2
_LEAST = 10  # answers, to learn from


@dataclass(frozen=True)
class Answers:
    """Answers that chose something, as point numbers.

    Attributes
    ----------
    mode : Mode
    shown : ndarray of shape (n_answers, n_shown)
    chosen : list of list of int
    """

    mode: Mode
    shown: IntArray
    chosen: list[list[int]]

    def __len__(self) -> int:
        return len(self.shown)

    @property
    def questions(self) -> IntArray:
        """Number of the question of each answer: the same where it was asked again, or of several judges."""
        numbers: dict[Any, int] = {}
        asked = (self.mode.same(row) for row in self.shown.tolist())
        return np.array([numbers.setdefault(same, len(numbers)) for same in asked], dtype=np.int64)

    def take(self, rows: Any) -> Answers:
        """Select answers by number or by a mask."""
        numbers = np.arange(len(self))[rows]
        return Answers(self.mode, self.shown[numbers], [self.chosen[row] for row in numbers])

    def comparisons(self) -> Comparisons:
        """All comparisons, one group for each answer."""
        return self.mode.build(self.shown, self.chosen)

    def right(self, points: FloatArray) -> FloatArray:
        """For each answer, the share of its comparisons that Euclidean distances between `points` satisfy."""
        rows = zip(self.shown.tolist(), self.chosen, strict=True)
        return share_right([self.mode.comparisons(*row) for row in rows], points)


@dataclass(frozen=True)
class Taught:
    """A metric, and whether it is the base.

    Attributes
    ----------
    components : ndarray of shape (rank, n_features)
    n_iter : int
        Iterations; 0 for the base.
    """

    components: FloatArray
    n_iter: int


def learner(n_iter: int) -> ComparisonBoostMetric:
    """The estimator of the bounded setting."""
    return ComparisonBoostMetric(loss="logistic", init="identity", learning_rate=0.3, max_iter=n_iter, random_state=0)


def learn(answers: Answers, points: FloatArray, seed: int = 0) -> Taught:
    """Learn a metric, or keep the base.

    Parameters
    ----------
    answers : Answers
    points : ndarray of shape (n_points, n_features)
    seed : int
        Random seed of the folds.
    """
    with single_threaded_blas():  # once, not for each of many short fits
        n_iter = choose(answers, points, seed)
        return Taught(fitted(answers, points, n_iter), n_iter)


def fitted(answers: Answers, points: FloatArray, n_iter: int) -> FloatArray:
    """The linear map that a number of iterations learns; the identity for none."""
    if not n_iter or not len(answers):
        return np.eye(points.shape[1])
    components: FloatArray = learner(n_iter).fit(answers.comparisons(), points=points).components_
    return components


def choose(answers: Answers, points: FloatArray, seed: int = 0) -> int:
    """Choose the number of iterations by answers that are left out in turn; 0 keeps the base."""
    if len(answers) < _LEAST:
        return 0
    base = answers.right(points)
    gain = {n_iter: np.zeros(len(answers)) for n_iter in N_ITERATIONS}
    of_question = answers.questions
    for repeat in range(_N_REPEATS):
        fold = np.random.default_rng([seed, repeat]).permutation(of_question.max() + 1)[of_question] % _N_FOLDS
        for number in range(_N_FOLDS):
            out = fold == number
            for n_iter in N_ITERATIONS:
                components = fitted(answers.take(~out), points, n_iter)
                gain[n_iter][out] += answers.take(out).right(points @ components.T) - base[out]
    best = max(N_ITERATIONS, key=lambda n_iter: float(gain[n_iter].mean()))
    mean, error = standard_error(gain[best] / _N_REPEATS)
    return best if mean > error else 0


def standard_error(values: Sequence[float] | FloatArray) -> tuple[float, float]:
    """Mean and its standard error, which is never less than that of one answer."""
    some = np.asarray(values)
    return float(some.mean()), max(float(some.std() / np.sqrt(len(some))), 1.0 / len(some))
