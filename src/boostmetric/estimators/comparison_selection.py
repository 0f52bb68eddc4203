"""The choice of "auto" for given comparisons: where to start, how long the steps are, and how many there are.

Some comparisons are held out, several times over where there are few. Each *recipe*, a start and a learning rate,
learns from the others, and after each iteration we count the held-out comparisons that the metric satisfies. The mean
over the splits is a curve over the iterations, and the highest point of all curves is chosen. A single split would
choose by chance: with a hundred judgements, ten iterations more or fewer differ by one or two answers.
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
# Fraction of the anchors to hold out, and how often: fewer times from these numbers of comparisons on.
_HELD_OUT = 0.2
_N_SPLITS = ((100_000, 1), (10_000, 3), (0, 5))
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
        if self.normalize:
            unit = self._at_unit_length(best, splits)
            found.append(unit)
            n_held_out = splits[0][1].comparisons.n_comparisons
            chance = np.sqrt(best.satisfied * best.error / n_held_out)
            if self.normalize is True or unit.satisfied > best.satisfied + chance:
                best = unit
        on_step(len(recipes), len(recipes), "")
        return best, found

    def _splits(self) -> Iterator[tuple[Problem, Problem]]:
        if self.held_out is not None:
            yield self.problem, self.held_out
            return
        n_comparisons = self.problem.comparisons.n_comparisons
        for _ in range(next(n for at_least, n in _N_SPLITS if n_comparisons >= at_least)):
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
        shares = []
        for train, test in splits:
            boosted = self._learn(candidate.init, candidate.learning_rate, train, candidate.n_iter)
            metric = MahalanobisMetric(boosted.linear_map(), normalize=True)
            mapped = test._replace(points=metric.transform(test.points))
            shares.append(satisfied(mapped, np.eye(len(metric.components)), self.settings.backend))
        return replace(candidate, satisfied=float(np.mean(shares)), normalize=True)

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
