"""The choice of "auto" for given comparisons: where to start, how long the steps are, and how many there are.

Some comparisons are held out, several times over where there are few. Each *recipe*, a start and a learning rate,
learns from the others, and after each iteration we count the held-out comparisons that the metric satisfies. The mean
over the splits is a curve over the iterations, and the highest point of all curves is the best. A single split would
choose by chance: with a hundred judgements, ten iterations more or fewer differ by one or two answers.

The best of many candidates is partly so by chance. So it is chosen only if it is better than the first start, the
Euclidean distance where the start is chosen too, by more than one standard error of the difference between the two on
the same anchors, or two where anchors are few; else that start is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np

from boostmetric.arrays.errors import plural
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import warn
from boostmetric.evaluation.comparison_task import ComparisonTask
from boostmetric.evaluation.task import ScoreSample
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.starts import Init, start_in_words
from boostmetric.solver.passes import learn_in_passes
from boostmetric.solver.plan import Plan, Settings, Watcher
from boostmetric.solver.problem import Problem, satisfied
from boostmetric.solver.result import Boosted, Iteration, Progress
from boostmetric.solver.sources import Compared

# What is chosen from.
COMPARED_STARTS: tuple[Init, ...] = ("identity", "standardized")
LEARNING_RATES = (1.0, 0.3)
# Fraction of the anchors to hold out, and how often: fewer times from these numbers of anchors on.
_HELD_OUT = 0.2
_N_SPLITS = ((10_000, 1), (1_000, 3), (0, 5))
# Standard errors by which a candidate must be better to be chosen instead of the start: fewer from this number of
# anchors on. And the number of anchors of a split below which no error is known.
_ERRORS = ((500, 1.0), (0, 2.0))
_FEWEST_ANCHORS = 5
# Iterations to wait for an improvement.
_PATIENCE = 50


@dataclass(frozen=True)
class ComparisonCandidate:
    """A metric that could be the result.

    Attributes
    ----------
    init : Init
    learning_rate : float
    n_iter : int
        Iterations; 0 for the start.
    satisfied : float
        Fraction of held-out comparisons that are satisfied, averaged over the splits.
    normalize : bool
        Whether mapped points are compared at unit length.
    """

    init: Init
    learning_rate: float
    n_iter: int
    satisfied: float
    normalize: bool = False

    @property
    def error(self) -> float:
        """Fraction of held-out comparisons that are not satisfied."""
        return 1.0 - self.satisfied


@dataclass(frozen=True)
class ComparisonChoice:
    """Tries recipes, judges them, and decides.

    Attributes
    ----------
    problem : Problem
        What to learn from.
    held_out : Problem, optional
        What to validate on; by default parts of the problem, of which the rest is learned from.
    inits : sequence of Init
    learning_rates : sequence of float
    max_iter : int
        Most iterations.
    normalize : bool or "auto"
        Whether mapped points are compared at unit length.
    settings : Settings
        Its learning rate does not count.
    """

    problem: Problem
    held_out: Problem | None
    inits: Sequence[Init]
    learning_rates: Sequence[float]
    max_iter: int
    normalize: bool | str
    settings: Settings

    def decide(
        self,
        on_candidate: Callable[[ComparisonCandidate], bool] = lambda candidate: False,
        on_step: Callable[[int, int, str], None] = lambda done, total, what: None,
    ) -> tuple[ComparisonCandidate, list[ComparisonCandidate]]:
        """Try candidates; return the best, and all: the start of each recipe, and its best iteration.

        Parameters
        ----------
        on_candidate : callable
            Called with each candidate; returns whether to stop the search.
        on_step : callable
            Called with the number of steps made, the largest number there may be, and what is tried.
        """
        splits = list(self._splits())
        recipes = list(product(self.inits, self.learning_rates))
        if not splits:
            given = plural(self.problem.comparisons.n_comparisons, "comparison")
            warn(
                f"{given}: too few, or with too many pairs in common, to validate on. The start is kept. Add "
                'comparisons, or set what is "auto" to learn without validation.'
            )
            return ComparisonCandidate(*recipes[0], 0, np.nan, self.normalize is True), []
        found: list[ComparisonCandidate] = []
        for number, (init, rate) in enumerate(recipes):
            on_step(number, len(recipes), f"{start_in_words(init)}, learning rate {rate:g}")
            found += self._followed(init, rate, splits)
            if on_candidate(found[-1]):
                break
        best = max(found, key=lambda candidate: (candidate.satisfied, -candidate.n_iter))
        if not self._is_clearly_better(best, found[0], splits):
            best = found[0]
        if self.normalize:
            unit = self._at_unit_length(best, splits)
            found.append(unit)
            if self.normalize is True or self._is_clearly_better(unit, best, splits):
                best = unit
        on_step(len(recipes), len(recipes), "")
        return best, found

    def _splits(self) -> Iterator[tuple[Problem, Problem]]:
        if self.held_out is not None:
            yield self.problem, self.held_out
            return
        for _ in range(int(self._by_anchors(_N_SPLITS))):
            try:
                yield self.problem.split(_HELD_OUT, self.settings.rng.randint(2**31 - 1))
            except ValueError:  # too few
                return

    def _followed(
        self, init: Init, rate: float, splits: Sequence[tuple[Problem, Problem]]
    ) -> list[ComparisonCandidate]:
        """The start of a recipe, and its best iteration."""
        curves: list[list[float]] = []
        for train, test in splits:
            curves.append([satisfied(test, self._start(init, train), self.settings.backend)])
            self._learn(init, rate, train, self.max_iter, test, partial(_note, curves[-1]))
        # A curve ends when it no longer rises; there it goes on level.
        length = max(len(curve) for curve in curves)
        mean = np.mean([curve + curve[-1:] * (length - len(curve)) for curve in curves], axis=0)
        numbers = [0] if length == 1 else [0, 1 + int(mean[1:].argmax())]
        return [ComparisonCandidate(init, rate, n_iter, float(mean[n_iter])) for n_iter in numbers]

    def _at_unit_length(
        self, candidate: ComparisonCandidate, splits: Sequence[tuple[Problem, Problem]]
    ) -> ComparisonCandidate:
        """The same, judged at unit length."""
        unit = replace(candidate, normalize=True)
        shares = []
        for train, test in splits:
            mapped = self._mapped(unit, train, test)
            shares.append(satisfied(mapped, np.eye(mapped.n_features), self.settings.backend))
        return replace(unit, satisfied=float(np.mean(shares)))

    def _is_clearly_better(
        self, candidate: ComparisonCandidate, other: ComparisonCandidate, splits: Sequence[tuple[Problem, Problem]]
    ) -> bool:
        """Whether a candidate satisfies more than by chance, each anchor being one answer."""
        gain = candidate.satisfied - other.satisfied
        if not gain > 0:
            return False
        squares = []
        for train, test in splits:
            mapped = [self._mapped(one, train, test) for one in (other, candidate)]
            task = ComparisonTask(mapped[0].comparisons, (mapped[0].points,))
            samples = [task.measure([problem.points]) for problem in mapped]
            squares.append(sum(_square_error(*pair) for pair in zip(*samples, strict=True)))
        # Splits overlap: together they hold out this many times as much as one of them.
        n = (1.0 - (1.0 - _HELD_OUT) ** len(splits)) / _HELD_OUT if len(splits) > 1 else 1.0
        return bool(gain > self._by_anchors(_ERRORS) * np.sqrt(np.mean(squares) / n))

    def _by_anchors(self, table: Sequence[tuple[int, float]]) -> float:
        """What a table says for this number of anchors."""
        n_anchors = len(np.unique(self.problem.comparisons.anchors))
        return next(value for at_least, value in table if n_anchors >= at_least)

    def _mapped(self, candidate: ComparisonCandidate, train: Problem, test: Problem) -> Problem:
        """Held-out comparisons of points that are mapped by a candidate, learned from the others."""
        components = self._start(candidate.init, train)
        if candidate.n_iter:
            boosted = self._learn(candidate.init, candidate.learning_rate, train, candidate.n_iter)
            components = boosted.linear_map()
        needed = test.restricted()
        if not len(components):  # all distances are zero
            return needed._replace(points=np.zeros((needed.points.shape[0], 1)))
        metric = MahalanobisMetric(components, normalize=candidate.normalize)
        return needed._replace(points=metric.transform(needed.points))

    def _learn(
        self,
        init: Init,
        rate: float,
        train: Problem,
        max_iter: int,
        held_out: Problem | None = None,
        *watchers: Watcher,
    ) -> Boosted:
        source = Compared(train)
        return learn_in_passes(
            Plan(
                source,
                Progress.beginning(source.start(init), source.n_features),
                (max_iter,),
                replace(self.settings, learning_rate=rate),
                held_out=None if held_out is None else Compared(held_out),
                patience=_PATIENCE,
                watchers=watchers,
            )
        )

    def _start(self, init: Init, train: Problem) -> FloatArray:
        """Linear map of a start; "zero" has no rows."""
        components = Compared(train).start(init)
        return np.zeros((0, train.n_features)) if components is None else components


def _note(curve: list[float], record: Iteration) -> None:
    curve.append(record.held_out or 0.0)


def _square_error(base: ScoreSample, other: ScoreSample) -> float:
    """Squared standard error of the difference between two means."""
    change, weight = (other.sums - base.sums)[:, 0], base.weight
    n, total = len(weight), float(weight.sum())
    if n < _FEWEST_ANCHORS:
        return np.inf
    rest = change - weight * (change.sum() / total)
    return float(n / (n - 1) * np.square(rest).sum() / total**2)
