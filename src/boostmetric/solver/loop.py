"""Algorithm 2 of the paper.

Three nouns. An *oracle* holds the data and answers with sums (`boostmetric.oracles.protocol`); a *direction* is a unit
vector xi whose outer product is the next weak learner (`direction`); a *step* is its weight w (`step`). Boosting adds
step * xi xi' to the metric X, again and again, and never takes anything away.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from boostmetric.oracles.protocol import Oracle, State
from boostmetric.solver.direction import leading_direction
from boostmetric.solver.result import Boosted, Iteration, Progress, StopReason
from boostmetric.solver.step import Step


def boost(
    oracle: Oracle,
    v: float,
    *,
    start: Progress,
    max_iter: int,
    tol: float,
    find_step: Callable[[Oracle, float], Step],
    on_iteration: Callable[[Iteration, Callable[[], Progress]], StopReason | None],
    rng: np.random.RandomState,
) -> Boosted:
    """Minimise the loss of the oracle + v Tr X. Implements Algorithm 2 of the paper.

    Parameters
    ----------
    oracle : Oracle
        The comparisons.
    v : float
        Regularization.
    start : Progress
        Where to go on: nothing yet, an interrupted fit, or a metric to begin with.
    max_iter : int
        The paper's J, iterations in the history of `start` included.
    tol : float
        Stop once lambda_max - v, the slope of the loss along the best direction, has come down to this fraction of
        what it was at the first iteration. After an exact step it cannot fall below 0, so the paper's rule is met in
        the limit only.
    find_step : callable
        `exact_step` or `bisection_step`.
    on_iteration : callable
        Sees every `Iteration`, with a function that returns the `Progress` so far; may return a reason to stop.
    rng : RandomState
        Where the search for the first direction starts in high dimension.
    """
    directions, step_sizes, history = list(start.directions), start.step_sizes.tolist(), list(start.history)

    def first(n_iterations: int) -> Progress:
        n = len(start.step_sizes) - len(start.history) + n_iterations
        array = np.array(directions[:n]).reshape(-1, oracle.n_features)
        return Progress(array, np.array(step_sizes[:n]), history[:n_iterations])

    state = oracle.rebuild(start.directions, start.step_sizes)
    trace = sum(step_sizes, start=0.0)
    loss = state.loss + v * trace
    eigenvalue, xi = leading_direction(oracle, directions[-1] if directions else rng.standard_normal(oracle.n_features))
    enough = v + tol * max((history[0].eigenvalue if history else eigenvalue) - v, 0.0)

    while True:
        if history and history[-1].capped and state.violated == 0:
            stop_reason = StopReason.SEPARABLE
            break
        if eigenvalue <= enough:
            stop_reason = StopReason.DUAL_FEASIBLE
            break
        if len(history) >= max_iter:
            stop_reason = StopReason.ITERATION_LIMIT
            break
        oracle.project(xi)
        step = find_step(oracle, v)
        moved = oracle.commit(step.size)
        if not moved.loss + v * (trace + step.size) < loss:
            stop_reason = StopReason.NOTHING_TO_IMPROVE  # and this step is not part of the metric
            break
        state = moved
        directions.append(xi)
        step_sizes.append(step.size)
        trace += step.size
        loss = state.loss + v * trace
        number, violated = len(history) + 1, state.violated / state.weight
        history.append(Iteration(number, loss, eigenvalue, step.size, trace, violated, state.held_out, step.capped))
        asked_to_stop = on_iteration(history[-1], partial(first, number))
        # Also before a stop: the duality gap needs the eigenvalue at the final weights.
        eigenvalue, xi = leading_direction(oracle, xi)
        if asked_to_stop:
            stop_reason = asked_to_stop
            break
        if step.capped:
            stop_reason = StopReason.SEPARABLE
            break

    return _certified(first(len(history)), v, state, eigenvalue, stop_reason)


def roll_back(oracle: Oracle, v: float, boosted: Boosted, n_iterations: int) -> Boosted:
    """What boosting had come to after fewer iterations."""
    if n_iterations == len(boosted.history):
        return boosted
    progress = boosted.after(n_iterations)
    state = oracle.rebuild(progress.directions, progress.step_sizes)
    eigenvalue, _ = leading_direction(oracle, progress.directions[-1])
    return _certified(progress, v, state, eigenvalue, boosted.stop_reason)


def _certified(progress: Progress, v: float, state: State, eigenvalue: float, stop_reason: StopReason) -> Boosted:
    trace = sum(progress.step_sizes.tolist(), start=0.0)
    return Boosted(
        progress.directions,
        progress.step_sizes,
        progress.history,
        stop_reason=stop_reason,
        eigenvalue=eigenvalue,
        duality_gap=max(eigenvalue, v) * trace - state.margin,
    )
