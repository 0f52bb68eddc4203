"""Passes: learn, find the comparisons again under the learned metric, and continue.

Targets and impostors that are nearest in the initial metric are not the nearest in the metric learned from them. In a
further pass they are searched again, the metric so far is reweighed as one weak learner (its directions stay, its steps
are multiplied by one number), and boosting continues from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from boostmetric.arrays.frame import Given
from boostmetric.arrays.types import FloatArray
from boostmetric.parallel.heap import give_back
from boostmetric.solver.learn import resumed, solve
from boostmetric.solver.plan import Plan, Watcher
from boostmetric.solver.problem import Learnable, satisfied
from boostmetric.solver.result import Boosted, Progress, StopReason
from boostmetric.solver.stopping import EarlyStopping

# Numbers in the points of a large problem.
_MANY = 2**20


def is_large(points: Given) -> bool:
    """Whether so much memory may be freed that it is worth giving back."""
    return int(points.shape[0] * points.shape[1]) >= _MANY


def learn_in_passes(plan: Plan) -> Boosted:
    """Carry out a plan.

    Returns
    -------
    Boosted
        The result of the last pass. If there are several passes and comparisons are split, passes are scored: the
        result is the last pass before one that did not improve held-out comparisons, or the start if none did.
    """
    passes = Passes(plan)
    if len(plan.max_iter) == 1 or plan.split is None:
        *_, boosted = passes
        return boosted
    start = plan.start
    passes.best, passes.score = start.best, start.score
    if passes.best is None and not start.history and len(start.step_sizes):
        passes.best, passes.score = start, passes.judge(start)
    for boosted in passes:
        score = passes.judge(boosted) if len(boosted.step_sizes) else -np.inf
        if passes.best is not None and passes.score is not None and not score > passes.score:
            asked = boosted.stop_reason is StopReason.CALLBACK
            return passes.kept(passes.best, StopReason.CALLBACK if asked else StopReason.PASSES)
        passes.best, passes.score = boosted, score
    return replace(boosted, best=None, score=None)


class Found(NamedTuple):
    """Comparisons found under a metric: those to learn from, and the held-out ones."""

    problem: Learnable
    held_out: Learnable | None


class Passes:
    """Iterator over the passes of a plan, each learned when it is needed.

    Attributes
    ----------
    best : Progress, optional
        The best pass so far, if passes are scored; part of a checkpoint.
    score : float, optional
        Score of the best pass.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.best: Progress | None = None
        self.score: float | None = None
        self._last: tuple[FloatArray | None, Found] | None = None

    def __iter__(self) -> Iterator[Boosted]:
        plan, progress = self.plan, self.plan.start
        while True:
            problem, held_out = self._found(progress.found_under, len(progress.pass_ends))
            self._tidy()
            progress = replace(resumed(progress, held_out, plan.settings.solver), best=self.best, score=self.score)
            n_pass, n_before = len(progress.pass_ends), progress.pass_ends[-1] if progress.pass_ends else 0
            is_last = n_pass + 1 >= len(plan.max_iter)
            boosted = solve(
                problem,
                plan.settings,
                held_out=held_out,
                start=progress,
                reweigh=len(progress.history) == n_before,
                max_iter=n_before + plan.max_iter[min(n_pass, len(plan.max_iter) - 1)],
                on_iteration=[*plan.watchers, *self._early_stopping(held_out, progress)],
                certify=is_last or plan.split is not None,  # if passes are scored, an earlier one may be the result
            )
            del problem, held_out
            self._tidy()
            yield boosted
            if is_last or boosted.stop_reason is StopReason.CALLBACK:
                return
            progress = boosted.next_pass()

    def _tidy(self) -> None:
        """Give back the memory that a stage has freed, if it may be much."""
        if is_large(self.plan.source.points_at_hand):
            give_back()

    def _found(self, under: FloatArray | None, n_passes: int) -> Found:
        """Find comparisons under a metric; the last are cached, since a pass begins with the metric scored last."""
        if self._last is None or not np.array_equal(self._last[0], under):  # type: ignore[arg-type]
            plan = self.plan
            self._last = None  # frees it before the next are found
            problem = plan.source.problem(under, n_passes)
            held_out = None if plan.held_out is None else plan.held_out.problem(under, n_passes)
            if plan.split is not None and held_out is None:
                try:
                    problem, held_out = problem.split(*plan.split)
                except ValueError as error:
                    raise ValueError(
                        f"{error} A fit holds some out if early_stopping is set, or n_passes is more than 1: give more "
                        "data or an eval_set, or set neither."
                    ) from None
            found = Found(problem, held_out)
            if plan.split is None:  # no pass is scored
                return found
            self._last = under, found
        return self._last[1]

    def _early_stopping(self, held_out: Learnable | None, progress: Progress) -> list[Watcher]:
        """Callback that stops a pass when held-out comparisons no longer improve, if there are any."""
        if held_out is None:
            return []
        stopping = EarlyStopping(self.plan.patience)
        for record in progress.history:
            if record.held_out is not None:
                stopping.on_iteration(record)
        return [stopping.on_iteration]

    def judge(self, progress: Progress) -> float:
        """Fraction of the held-out comparisons, found under the metric itself, that it satisfies."""
        components = progress.linear_map()
        held_out = self._found(components, len(progress.pass_ends) + 1).held_out
        assert held_out is not None
        return satisfied(held_out, components, self.plan.settings.backend)

    def kept(self, best: Progress, reason: StopReason) -> Boosted:
        """Return an earlier metric as the result."""
        if not isinstance(best, Boosted):  # the start, or read from a checkpoint
            begins = not best.history
            problem = self._found(best.found_under, len(best.pass_ends)).problem
            best = solve(problem, self.plan.settings, start=best, reweigh=begins, max_iter=len(best.history))
            reason = StopReason.KEPT_START if begins else reason
        return replace(best, stop_reason=reason, best=None, score=None)
