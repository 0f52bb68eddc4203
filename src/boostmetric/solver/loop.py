"""Algorithm 2 of the paper.

Three nouns. An *oracle* holds the data and answers with sums (`boostmetric.oracles.protocol`); a *direction* is a unit
vector xi whose outer product is the next weak learner (`direction`); a *step* is its weight w (`step`). Boosting adds
step * xi xi' to the metric X, again and again, and never takes anything away.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from boostmetric.oracles.protocol import Oracle
from boostmetric.solver.direction import leading_direction
from boostmetric.solver.result import Boosted, Iteration, StopReason
from boostmetric.solver.step import Step


def boost(
    oracle: Oracle,
    v: float,
    *,
    max_iter: int,
    tol: float,
    find_step: Callable[[Oracle, float], Step],
    on_iteration: Callable[[Iteration], bool],
    rng: np.random.RandomState,
) -> Boosted:
    """Minimise (P0), the log of the summed exponential losses + v Tr X. Implements Algorithm 2 of the paper.

    Parameters
    ----------
    oracle : Oracle
        The comparisons.
    v : float
        Regularization.
    max_iter : int
        The paper's J.
    tol : float
        Stop once lambda_max - v, the slope of the loss along the best direction, has come down to this fraction of
        what it was at X = 0. After an exact step it cannot fall below 0, so the paper's rule is met in the limit only.
    find_step : callable
        `exact_step` or `bisection_step`.
    on_iteration : callable
        Sees every `Iteration`; returns True to stop.
    rng : RandomState
        Where the search for the first direction starts in high dimension.
    """
    directions: list[NDArray[np.float64]] = []
    step_sizes: list[float] = []
    history: list[Iteration] = []
    trace = 0.0
    state = oracle.rebuild(np.zeros((0, oracle.n_features)))
    loss = state.log_mass
    eigenvalue, xi = leading_direction(oracle, rng.standard_normal(oracle.n_features))
    enough = v + tol * max(eigenvalue - v, 0.0)

    while True:
        if eigenvalue <= enough:
            stop_reason = StopReason.DUAL_FEASIBLE
            break
        if len(history) == max_iter:
            stop_reason = StopReason.ITERATION_LIMIT
            break
        oracle.project(xi)
        step = find_step(oracle, v)
        moved = oracle.commit(step.size)
        if not moved.log_mass + v * (trace + step.size) < loss:
            stop_reason = StopReason.NOTHING_TO_IMPROVE  # and this step is not part of the metric
            break
        state = moved
        directions.append(xi)
        step_sizes.append(step.size)
        trace += step.size
        loss = state.log_mass + v * trace
        violated = state.n_violated / state.n_comparisons
        history.append(Iteration(len(history) + 1, loss, eigenvalue, step.size, trace, violated))
        asked_to_stop = on_iteration(history[-1])
        # Also before a stop: the duality gap needs the eigenvalue at the final weights.
        eigenvalue, xi = leading_direction(oracle, xi)
        if asked_to_stop:
            stop_reason = StopReason.CALLBACK
            break
        if step.capped:
            stop_reason = StopReason.SEPARABLE
            break

    return Boosted(
        directions=np.array(directions).reshape(-1, oracle.n_features),
        step_sizes=np.array(step_sizes),
        history=history,
        stop_reason=stop_reason,
        eigenvalue=eigenvalue,
        duality_gap=max(eigenvalue, v) * trace - state.margin,
    )
