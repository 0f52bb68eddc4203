"""Passes: learn, find the comparisons anew under the metric learned, and go on.

Targets and impostors that are nearest in the metric to begin with are not the nearest in the one learned from them. In
a further pass they are looked for again, the metric so far is weighed as one weak learner (its directions stay, its
steps are multiplied by one number), and boosting goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from boostmetric.arrays.types import FloatArray
from boostmetric.engines.backend import Backend
from boostmetric.engines.threads import ONE_THREAD
from boostmetric.solver.learn import SolverName, resumed, solve
from boostmetric.solver.problem import Learnable, satisfied
from boostmetric.solver.result import Boosted, Iteration, Progress, StopReason


class Found(NamedTuple):
    """Comparisons found under a metric: those to learn from, and those held out."""

    problem: Learnable
    held_out: Learnable | None


class Finder:
    """Finds comparisons, and remembers those of the last metric: a pass begins with the one that was judged last.

    Attributes
    ----------
    best, score
        The best pass so far, where passes are judged: part of what a checkpoint holds.
    """

    def __init__(self, find: Callable[[FloatArray | None], Found], backend: Backend = ONE_THREAD) -> None:
        self.best: Progress | None = None
        self.score: float | None = None
        self._find = find
        self._backend = backend
        self._last: tuple[FloatArray | None, Found] | None = None

    def __call__(self, components: FloatArray | None) -> Found:
        """Comparisons under the metric of a linear map, or under none."""
        if self._last is None or not np.array_equal(self._last[0], components):  # type: ignore[arg-type]
            self._last = components, self._find(components)
        return self._last[1]

    def judge(self, progress: Progress) -> float:
        """Share of the held-out comparisons, found under a metric itself, that it satisfies."""
        components = progress.linear_map()
        held_out = self(components).held_out
        assert held_out is not None
        return satisfied(held_out, components, self._backend)


def passes(
    find: Finder,
    start: Progress,
    *,
    max_iter: Sequence[int],
    solver: SolverName,
    on_iteration: Callable[[Progress], Sequence[Callable[[Iteration], object]]] = lambda _: (),
    **options: Any,
) -> Iterator[Boosted]:
    """What each pass comes to.

    Parameters
    ----------
    find : Finder
    start : Progress
        Where to begin, or to go on in the pass that it was in.
    max_iter : sequence of int
        Most iterations of each pass.
    on_iteration : callable
        What watches a pass, from where it begins.
    solver, **options
        As for `solve`.
    """
    progress = start
    while True:
        found = find(progress.found_under)
        progress = replace(resumed(progress, found.held_out, solver), best=find.best, score=find.score)
        n_pass, n_before = len(progress.pass_ends), progress.pass_ends[-1] if progress.pass_ends else 0
        boosted = solve(
            found.problem,
            held_out=found.held_out,
            start=progress,
            reweigh=len(progress.history) == n_before,
            max_iter=n_before + max_iter[min(n_pass, len(max_iter) - 1)],
            solver=solver,
            on_iteration=on_iteration(progress),
            **options,
        )
        yield boosted
        if n_pass + 1 >= len(max_iter) or boosted.stop_reason is StopReason.CALLBACK:
            return
        progress = boosted.next_pass()


def best_pass(find: Finder, start: Progress, learned: Iterator[Boosted], **options: Any) -> Boosted:
    """The last pass before one that did not improve held-out comparisons; it may be where all began.

    Parameters
    ----------
    find : Finder
    start : Progress
        Where the passes began, or went on.
    learned : iterator of Boosted
        The passes; not asked for more than needed.
    **options
        As for `solve`.
    """
    find.best, find.score = start.best, start.score
    if find.best is None and not start.history and len(start.step_sizes):
        find.best, find.score = start, find.judge(start)
    for boosted in learned:
        score = find.judge(boosted) if len(boosted.step_sizes) else -np.inf
        if find.best is not None and find.score is not None and not score > find.score:
            asked = boosted.stop_reason is StopReason.CALLBACK
            return _kept(find, find.best, StopReason.CALLBACK if asked else StopReason.PASSES, **options)
        find.best, find.score = boosted, score
    return replace(boosted, best=None, score=None)


def _kept(find: Finder, best: Progress, reason: StopReason, **options: Any) -> Boosted:
    """An earlier metric as the result."""
    if not isinstance(best, Boosted):  # but where all began, or what was read from a checkpoint
        begins = not best.history
        options["reweigh"] = begins
        best = solve(find(best.found_under).problem, start=best, max_iter=len(best.history), **options)
        reason = StopReason.NO_HEADROOM if begins else reason
    return replace(best, stop_reason=reason, best=None, score=None)
