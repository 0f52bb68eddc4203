"""The choice of "auto" for given comparisons: where to start, how long the steps are, and how many there are.

Some comparisons are held out, several times over where there are few. Each *recipe*, a start and a learning rate,
learns from the others, and each iteration is judged by the loss of the held-out comparisons: how unlikely it is that
their near pairs are picked among the far ones, shorter pairs more likely (`boostmetric.evaluation.soft_choices`). The
mean over the splits is a curve over the iterations, and the lowest point of all curves is the best. A single split
would choose by chance. So would a count of satisfied comparisons, most of which stay as they are in an iteration.
Learning rates are often as good as each other by this loss. Then the smallest is taken, since short steps spread what
is learned over more directions and so rely less on each.

Where far sides can be found again under the metric, as with positives alone, the best is also learned in passes: as
many iterations, after some of which what is far is found again.

The best of many candidates is partly so by chance. So it is chosen only if it is better than the first start, the
Euclidean distance where the start is chosen too, by more than one standard error of the difference between the two on
the same anchors, or two where anchors are few, and does not satisfy clearly fewer comparisons; else that start is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from boostmetric.arrays.errors import plural
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import warn
from boostmetric.estimators.decision import is_auto
from boostmetric.evaluation.comparison_scores import comparison_accuracy, pair_distances
from boostmetric.evaluation.soft_choices import SoftChoices, some_groups
from boostmetric.evaluation.task import ScoreSample
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.starts import Init, start_in_words
from boostmetric.solver.passes import learn_in_passes
from boostmetric.solver.plan import Plan, Settings, Watcher
from boostmetric.solver.problem import Problem
from boostmetric.solver.result import Boosted, Iteration, Progress
from boostmetric.solver.sources import Compared, Searched, Source, can_find_again

# What is chosen from.
COMPARED_STARTS: tuple[Init, ...] = ("identity", "standardized")
LEARNING_RATES = (1.0, 0.3)
_PASSES = 3
# Fraction of the anchors to hold out, and how often: fewer times from these numbers of anchors on.
_HELD_OUT = 0.2
_N_SPLITS = ((10_000, 1), (1_000, 3), (0, 5))
# Standard errors by which a candidate must be better to be chosen instead of the start: fewer from this number of
# anchors on. And the number of anchors of a split below which no error is known.
_ERRORS = ((500, 1.0), (0, 2.0))
_FEWEST_ANCHORS = 5
# Fraction of the gain over the start that does not decide between learning rates.
_LITTLE_GAIN = 0.1
# Iterations to wait for an improvement.
_PATIENCE = 50
# Of more held-out pairs than this, some groups are drawn to judge by.
_MOST_JUDGED = 2**17


@dataclass(frozen=True)
class ComparisonCandidate:
    """A metric that could be the result.

    Attributes
    ----------
    init : Init
    learning_rate : float
    n_iter : int
        Iterations; 0 for the start.
    loss : float
        Mean loss of held-out comparisons, by which candidates are chosen.
    satisfied : float
        Fraction of them that are satisfied.
    normalize : bool
        Whether mapped points are compared at unit length.
    n_passes : int
        Passes that the iterations are made in, at most.
    """

    init: Init
    learning_rate: float
    n_iter: int
    loss: float
    satisfied: float
    normalize: bool = False
    n_passes: int = 1

    @property
    def max_iter(self) -> tuple[int, ...]:
        """Iterations of each pass; those of the first are the most."""
        each, more = divmod(self.n_iter, self.n_passes)
        return tuple(each + (number < more) for number in range(min(self.n_passes, self.n_iter))) or (0,)

    def source(self, problem: Problem) -> Source:
        """Where the comparisons of each pass come from."""
        return Compared(problem) if self.n_passes == 1 else Searched(problem)

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
    n_passes : int or "auto"
        Number of passes. "auto" is one, or several if they are clearly better.
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
    n_passes: int | str
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
            return ComparisonCandidate(*recipes[0], 0, np.nan, np.nan, self.normalize is True), []
        found: list[_Judged] = []
        for number, (init, rate) in enumerate(recipes):
            on_step(number, len(recipes), f"{start_in_words(init)}, learning rate {rate:g}")
            found += self._followed(init, rate, splits)
            if on_candidate(found[-1].candidate):
                break
        best = min(found, key=lambda judged: (judged.candidate.loss, judged.candidate.n_iter))
        best = self._with_shortest_steps(best, found)
        if not self._is_clearly_better(best, found[0]):
            best = found[0]
        if best.candidate.n_iter and self._most_passes > 1:
            passes = self._judged(replace(best.candidate, n_passes=self._most_passes), splits)
            found.append(passes)
            if self._is_clearly_better(passes, best if is_auto(self.n_passes) else found[0]):
                best = passes
            elif not is_auto(self.n_passes):
                best = found[0]
        if self.normalize:
            unit = self._judged(replace(best.candidate, normalize=True), splits)
            found.append(unit)
            if self.normalize is True or self._is_clearly_better(unit, best):
                best = unit
        on_step(len(recipes), len(recipes), "")
        return best.candidate, [judged.candidate for judged in found]

    @property
    def _most_passes(self) -> int:
        if isinstance(self.n_passes, int):
            return self.n_passes
        return _PASSES if can_find_again(self.problem) else 1

    def _splits(self) -> Iterator[tuple[Problem, HeldOut]]:
        if self.held_out is not None:
            yield self.problem, HeldOut(self.held_out, self.settings.rng)
            return
        for _ in range(int(self._by_anchors(_N_SPLITS))):
            try:
                train, held_out = self.problem.split(_HELD_OUT, self.settings.rng.randint(2**31 - 1))
            except ValueError:  # too few
                return
            yield train, HeldOut(held_out, self.settings.rng)

    def _followed(self, init: Init, rate: float, splits: Sequence[tuple[Problem, HeldOut]]) -> list[_Judged]:
        """The start of a recipe, and its best iteration."""
        curves: list[list[float]] = []
        for train, held_out in splits:
            follow = Follow(held_out)
            self._learn(ComparisonCandidate(init, rate, self.max_iter, np.nan, np.nan), train, follow.on_iteration)
            curves.append(follow.curve)
        # A curve ends when it no longer falls; there it goes on level.
        length = max(len(curve) for curve in curves)
        mean = np.mean([curve + curve[-1:] * (length - len(curve)) for curve in curves], axis=0)
        numbers = [0] if not length else [0, 1 + int(mean.argmin())]
        candidate = ComparisonCandidate(init, rate, 0, np.nan, np.nan, self.normalize is True)
        return [self._judged(replace(candidate, n_iter=n_iter), splits) for n_iter in numbers]

    def _judged(self, candidate: ComparisonCandidate, splits: Sequence[tuple[Problem, HeldOut]]) -> _Judged:
        """A candidate with its scores, learned again on each split."""
        losses, satisfied = [], []
        for train, held_out in splits:
            components = self._start(candidate.init, train)
            if candidate.n_iter:
                components = self._learn(candidate, train).linear_map()
            mapped = held_out.mapped(components, normalize=candidate.normalize)
            losses.append(held_out.losses(pair_distances(mapped, held_out.comparisons.pairs)))
            counted = comparison_accuracy(held_out.comparisons, mapped)
            satisfied.append(ScoreSample(counted.satisfied[:, None], counted.weight, np.arange(len(counted.of))))
        loss, share = (float(np.mean([sample.mean for sample in samples])) for samples in (losses, satisfied))
        return _Judged(replace(candidate, loss=loss, satisfied=share), losses, satisfied)

    def _with_shortest_steps(self, best: _Judged, found: Sequence[_Judged]) -> _Judged:
        """The candidate of the smallest learning rate that gains about as much as the best, from the same start.

        The loss cannot tell them apart if the best is not clearly better, or has little more of its gain.
        """
        if not best.candidate.n_iter:
            return best
        least = best.candidate.loss + _LITTLE_GAIN * (found[0].candidate.loss - best.candidate.loss)
        alike = [
            judged
            for judged in found
            if judged.candidate.n_iter
            and judged.candidate.init is best.candidate.init
            and (judged.candidate.loss <= least or not self._is_clearly_better(best, judged))
        ]
        return min(alike, key=lambda judged: judged.candidate.learning_rate)

    def _is_clearly_better(self, one: _Judged, other: _Judged) -> bool:
        """Whether the loss of a candidate is smaller by more than chance, each anchor being one answer.

        It must not satisfy fewer comparisons by a standard error: with few answers, how sure a metric is of some can
        outweigh that it is wrong about others.
        """
        gain = other.candidate.loss - one.candidate.loss
        lost = other.candidate.satisfied - one.candidate.satisfied
        return bool(
            gain > self._by_anchors(_ERRORS) * _standard_error(other.losses, one.losses)
            and lost <= _standard_error(other.satisfied, one.satisfied)
        )

    def _by_anchors(self, table: Sequence[tuple[int, float]]) -> float:
        """What a table says for this number of anchors."""
        n_anchors = len(np.unique(self.problem.comparisons.anchors))
        return next(value for at_least, value in table if n_anchors >= at_least)

    def _learn(self, candidate: ComparisonCandidate, train: Problem, *watchers: Watcher) -> Boosted:
        source = candidate.source(train)
        return learn_in_passes(
            Plan(
                source,
                Progress.beginning(source.start(candidate.init), source.n_features),
                candidate.max_iter,
                replace(self.settings, learning_rate=candidate.learning_rate),
                watchers=watchers,
            )
        )

    def _start(self, init: Init, train: Problem) -> FloatArray:
        """Linear map of a start; "zero" has no rows."""
        components = Compared(train).start(init)
        return np.zeros((0, train.n_features)) if components is None else components


class HeldOut:
    """Held-out comparisons, or some of them, with the points they refer to.

    Parameters
    ----------
    problem : Problem
    rng : RandomState
        Random generator for drawing some.

    Attributes
    ----------
    points : ndarray or csr_array
    comparisons : Comparisons
    losses : callable
        See `SoftChoices.losses`.
    """

    def __init__(self, problem: Problem, rng: np.random.RandomState) -> None:
        some = some_groups(problem.comparisons, _MOST_JUDGED, rng)
        self.points, self.comparisons, _ = problem._replace(comparisons=some).restricted()
        self.losses = SoftChoices(self.comparisons).losses

    def mapped(self, components: FloatArray, *, normalize: bool = False) -> FloatArray:
        """The points, mapped by a metric."""
        if not len(components):  # all distances are zero
            return np.zeros((self.points.shape[0], 1))
        return MahalanobisMetric(components, normalize=normalize).transform(self.points)


class Follow:
    """Callback that computes the loss of held-out comparisons after each iteration.

    Parameters
    ----------
    held_out : HeldOut

    Attributes
    ----------
    curve : list of float
    """

    def __init__(self, held_out: HeldOut) -> None:
        self.curve: list[float] = []
        self._held_out = held_out
        self._n_directions = 0
        self._distance = np.zeros(len(held_out.comparisons.pairs))

    def on_iteration(self, record: Iteration) -> bool:
        """Judge an iteration; return whether the last ones brought no improvement."""
        assert record.so_far is not None
        progress, held_out = record.so_far(), self._held_out
        if not progress.staged:  # earlier directions have other weights now
            self._n_directions, self._distance = 0, np.zeros(len(self._distance))
        new = slice(self._n_directions, None)
        components = np.sqrt(progress.step_sizes[new])[:, None] * progress.directions[new]
        self._distance += pair_distances(held_out.mapped(components), held_out.comparisons.pairs)
        self._n_directions = len(progress.step_sizes)
        self.curve.append(float(held_out.losses(self._distance).mean[0]))
        return len(self.curve) - 1 - int(np.argmin(self.curve)) >= _PATIENCE


class _Judged(NamedTuple):
    """A candidate, and what it makes of the held-out comparisons of each split, by anchor."""

    candidate: ComparisonCandidate
    losses: list[ScoreSample]
    satisfied: list[ScoreSample]


def _standard_error(base: Sequence[ScoreSample], other: Sequence[ScoreSample]) -> float:
    """Standard error of the difference between two means over splits."""
    squares = [_square_error(*pair) for pair in zip(base, other, strict=True)]
    # Splits overlap: together they hold out this many times as much as one of them.
    n = (1.0 - (1.0 - _HELD_OUT) ** len(squares)) / _HELD_OUT if len(squares) > 1 else 1.0
    return float(np.sqrt(np.mean(squares) / n))


def _square_error(base: ScoreSample, other: ScoreSample) -> float:
    """Squared standard error of the difference between two means."""
    change, weight = (other.sums - base.sums)[:, 0], base.weight
    n, total = len(weight), float(weight.sum())
    if n < _FEWEST_ANCHORS:
        return np.inf
    rest = change - weight * (change.sum() / total)
    return float(n / (n - 1) * np.square(rest).sum() / total**2)
