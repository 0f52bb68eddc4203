"""Learning a metric from points and comparisons: choose coordinates, boost, and convert back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import numpy as np

from boostmetric.arrays.errors import ParameterError
from boostmetric.arrays.frame import Axes, Given
from boostmetric.comparisons import Comparisons
from boostmetric.oracles.losses import LOSSES, LossName
from boostmetric.oracles.protocol import Oracle
from boostmetric.solver.corrective import Corrective
from boostmetric.solver.loop import FindStep, Solver, Stagewise, boost, rebuilt, roll_back
from boostmetric.solver.plan import Settings, SolverName, Watcher
from boostmetric.solver.problem import Learnable, Problem
from boostmetric.solver.result import Boosted, Iteration, Progress, StopReason, scaled
from boostmetric.solver.step import bisection_step, exact_step

AnyProgress = TypeVar("AnyProgress", bound=Progress)
SOLVERS: dict[str, Callable[[FindStep, Settings], Solver]] = {
    "stagewise": lambda find_step, settings: Stagewise(find_step, settings.learning_rate, settings.block_size),
    "corrective": lambda find_step, settings: Corrective(find_step),
}
STEP_FINDERS = {"exact": exact_step, "bisection": bisection_step}
# A start that does not lower the loss is scaled to change the comparisons by this much (root mean square): it still
# orders the distances, and steps of boosting soon outweigh it.
_LEAST_CHANGE = 1e-6


def learn(
    points: Given,
    comparisons: Comparisons,
    *,
    loss: LossName = "exponential",
    max_iter: int = 500,
    start: Progress | None = None,
    reweigh: bool = False,
    held_out: Learnable | None = None,
    on_iteration: Sequence[Watcher] = (),
    **settings: Any,
) -> Boosted:
    """Learn a metric from points and comparisons of their pairs, in one pass.

    Parameters
    ----------
    points : ndarray or csr_array of shape (n_points, n_features)
    comparisons : Comparisons
    loss : str
    max_iter, start, reweigh, held_out, on_iteration
        As in `solve`.
    **settings
        Other fields of `Settings`.
    """
    return solve(
        Problem(points, comparisons),
        Settings(loss=LOSSES[loss], **settings),
        max_iter=max_iter,
        start=start,
        reweigh=reweigh,
        held_out=held_out,
        on_iteration=on_iteration,
    )


def solve(
    problem: Learnable,
    settings: Settings,
    *,
    max_iter: int = 500,
    start: Progress | None = None,
    reweigh: bool = False,
    held_out: Learnable | None = None,
    on_iteration: Sequence[Watcher] = (),
    certify: bool = True,
) -> Boosted:
    """Learn a metric from comparisons of pairs of points.

    Parameters
    ----------
    problem : Learnable
        The points and comparisons.
    settings : Settings
    max_iter : int
        Maximum number of iterations, including those of `start`.
    start : Progress, optional
        Progress to continue from; by default, X = 0. Scores in its history must refer to the same `held_out`.
    reweigh : bool, default=False
        Whether to treat the metric of `start` as a weak learner, whose weight is found as for any other: all its steps
        are multiplied by one number. If it does not lower the loss, that number is close to 0.
    held_out : Learnable, optional
        Comparisons to monitor. The result is the metric that satisfies most of them, among all iterations and `start`.
    on_iteration : sequence of callables
        Each is called with every `Iteration`; boosting stops when one returns True or a `StopReason`.
    certify : bool, default=True
        Whether the result has its duality gap; without it, the last of `max_iter` iterations takes less time.
    """
    solver = settings.solver
    fingerprint = cache(lambda: problem.restricted().fingerprint(settings.loss, settings.regularization))
    watched_fingerprint = cache(lambda: "" if held_out is None else held_out.fingerprint())
    given = Progress.nothing(problem.n_features) if start is None else resumed(start, held_out, solver)
    if given.problem and given.problem != fingerprint():
        raise ParameterError(
            "The checkpoint belongs to another fit: its points, comparisons, loss or regularization are not those "
            "given. Leave {resume_from} out to start over. With {early_stopping} or {n_passes}, comparisons are held "
            "out at random: set {random_state} to a number to hold out the same ones again."
        )

    staged = given.staged and solver == "stagewise"
    with _opened(problem, held_out, settings) as (frame, oracle):

        def in_user_units(progress: AnyProgress) -> AnyProgress:
            # Keep the given directions as they are, because these points may span only a part of them.
            unaltered = solver == "stagewise" or len(progress.history) == len(given.history)
            n_given = min(len(given.directions), len(progress.directions)) if unaltered else 0
            new = frame.lift(progress.directions[n_given:])
            given_and_new = progress.in_units(frame.exponent, np.concatenate([given.directions[:n_given], new]))
            return replace(
                given_and_new,
                coordinates=None if frame.basis is None else progress.directions,
                staged=staged,
                pass_ends=given.pass_ends,
                found_under=given.found_under,
                best=given.best,
                score=given.score,
            )

        def report(record: Iteration, so_far: Callable[[], Progress]) -> StopReason | None:
            seen = replace(
                record.in_units(frame.exponent),
                so_far=lambda: replace(in_user_units(so_far()), problem=fingerprint(), watched=watched_fingerprint()),
            )
            answers = [answer for callback in on_iteration if (answer := callback(seen))]  # call all of them
            reasons = [answer for answer in answers if isinstance(answer, StopReason)]
            return reasons[0] if reasons else StopReason.CALLBACK if answers else None

        find_step = STEP_FINDERS[settings.line_search]
        v = scaled(settings.regularization, -2 * frame.exponent)
        lowered = given.in_units(-frame.exponent, frame.lower(given.directions, given.coordinates))
        begin = replace(lowered, staged=staged)
        if reweigh:
            begin = _reweighed(begin, oracle, v, find_step)
        boosted = boost(
            oracle,
            v,
            start=begin,
            max_iter=max_iter,
            tol=settings.tol,
            solver=SOLVERS[solver](find_step, settings),
            on_iteration=report,
            rng=settings.rng,
            certify=certify,
        )
        # Keep the iteration that satisfies most held-out comparisons, or the start.
        judged = [record for record in boosted.history if record.held_out is not None]
        if held_out is not None and judged:
            best = max(judged, key=lambda record: record.held_out or 0.0)  # the first one if several are best
            boosted = roll_back(oracle, v, boosted, best.number)
            at_start = rebuilt(oracle, begin).held_out if len(begin.directions) else None
            if not begin.history and at_start is not None and at_start >= (best.held_out or 0.0):
                boosted = replace(roll_back(oracle, v, boosted, 0), stop_reason=StopReason.KEPT_START)
        eigenvalue = scaled(boosted.eigenvalue, 2 * frame.exponent)
        result = replace(in_user_units(boosted), eigenvalue=eigenvalue, after_iteration=None)
        return replace(result, watched=watched_fingerprint())


def _opened(
    problem: Learnable, held_out: Learnable | None, settings: Settings
) -> AbstractContextManager[tuple[Axes, Oracle]]:
    """Open a problem with the points that occur; nothing keeps copies of these once they are in other coordinates."""
    if held_out is None:
        return problem.restricted().opened(settings.backend, None, settings.loss)
    restricted, watched = problem.restricted_with(held_out)
    return restricted.opened(settings.backend, watched, settings.loss)


def resumed(start: Progress, held_out: Learnable | None, solver: SolverName) -> Progress:
    """Progress to resume from, without scores for other held-out comparisons or for iterations we cannot return to.

    With the corrective solver we cannot return to earlier iterations.
    """
    if not any(record.held_out is not None for record in start.history):
        return start
    same = start.watched == ("" if held_out is None else held_out.fingerprint())
    return start if same and start.staged and solver == "stagewise" else start.without_scores()


def _reweighed(start: Progress, oracle: Oracle, v: float, find_step: FindStep) -> Progress:
    """Rescale the metric by the weight that lowers the loss most, or by almost 0 if none does."""
    if not start.step_sizes.any():
        return start
    shares = start.step_sizes / start.step_sizes.max()  # at most 1, to avoid overflow
    oracle.rebuild(start.directions[:0], shares[:0])
    oracle.project(start.directions, shares)
    size = math.sqrt(float(oracle.moments(np.zeros(1)).mean_square[0]))
    weight = find_step(oracle, v * float(shares.sum())).size
    return replace(start, step_sizes=max(weight, _LEAST_CHANGE / max(size, _LEAST_CHANGE)) * shares)
