"""Algorithm 2 of the paper.

There are three nouns. An *oracle* holds the data and answers with sums (`boostmetric.oracles.protocol`); a *direction*
is a unit vector xi whose outer product is the next weak learner (`direction`); a *step* is its weight w (`step`).
Boosting repeatedly adds step * xi xi' to the metric X, or several directions at once (`block`). The *solver* decides
what an iteration does with new directions and when to stop: `Stagewise` is the paper's solver, which never removes
anything, and `boostmetric.solver.corrective.Corrective` optimises all of X in each iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from boostmetric.arrays.types import FloatArray
from boostmetric.oracles.protocol import Oracle, State
from boostmetric.solver.block import block_weights
from boostmetric.solver.direction import leading_direction, leading_directions
from boostmetric.solver.result import Boosted, Iteration, Progress, StopReason
from boostmetric.solver.step import Step

# Maximum number of consecutive rises of the loss within the oracle's rounding: the true loss may well have fallen.
_MOST_RISES = 5
# Number of recent steps that are used to guess the next one.
_GUIDES = 32


class FindStep(Protocol):
    """Function that finds a step."""

    def __call__(self, oracle: Oracle, v: float, guess: float | None = None) -> Step:
        """Find the best step along the projected direction of an oracle; `guess` is a step of the expected size."""
        ...


class Metric(NamedTuple):
    """X as a sum of directions: the first `n` entries of two lists, to which solvers only append.

    So the metric of every iteration can be kept, and those of a stagewise fit share their lists.
    """

    directions: list[FloatArray]
    step_sizes: list[float]
    n: int
    trace: float

    def extended(self, directions: FloatArray, step_sizes: list[float]) -> Metric:
        """Append directions."""
        self.directions.extend(directions)
        self.step_sizes.extend(step_sizes)
        return Metric(self.directions, self.step_sizes, self.n + len(step_sizes), sum(step_sizes, start=self.trace))


class Move(NamedTuple):
    """Result of an iteration; `step` is the one along the new direction, or the sum of those along several."""

    metric: Metric
    state: State
    step: Step


class Standing(NamedTuple):
    """State of boosting before an iteration."""

    state: State
    loss: float
    trace: float
    eigenvalue: float
    first_eigenvalue: float


class Solver(Protocol):
    """What boosting does with new directions, and when it stops."""

    @property
    def block_size(self) -> int:
        """Number of directions to find for an iteration."""
        ...

    def begin(self, oracle: Oracle) -> None:
        """Prepare for the comparisons of an oracle; its distances may be arbitrary afterwards."""
        ...

    def done(self, v: float, tol: float, at: Standing) -> StopReason | None:
        """Reason to stop if X is good enough, else None."""
        ...

    def advance(self, oracle: Oracle, v: float, metric: Metric, found: FloatArray) -> Move:
        """Run one iteration; the oracle's distances are those of `metric` before it, and of the new metric after it."""
        ...


@dataclass(frozen=True)
class Stagewise:
    """The paper's iteration: add the new direction with its best weight, and leave all others as they are.

    Parameters
    ----------
    find_step : callable
        `exact_step` or `bisection_step`.
    learning_rate : float, default=1.0
        Fraction of the best weight that is added.
    block_size : int, default=1
        Number of directions to add at once, with the weights that are best together.
    """

    find_step: FindStep
    learning_rate: float = 1.0
    block_size: int = 1

    def begin(self, oracle: Oracle) -> None:
        """Do nothing."""

    def done(self, v: float, tol: float, at: Standing) -> StopReason | None:
        """Whether lambda_max - v has fallen to `tol` times its value at the first iteration.

        After an exact step it cannot fall below 0, so the paper's rule is only met in the limit.
        """
        enough = v + tol * max(at.first_eigenvalue - v, 0.0)
        return StopReason.DUAL_FEASIBLE if at.eigenvalue <= enough else None

    def advance(self, oracle: Oracle, v: float, metric: Metric, found: FloatArray) -> Move:
        """Make a step along the new direction, Eq. (8) and (9), or along all of them."""
        xi = found[0]
        oracle.project(xi)
        size, capped = self.find_step(oracle, v, _guess(metric, xi))
        if len(found) == 1 or capped or not size:
            step = Step(self.learning_rate * size, capped)
            return Move(metric.extended(xi[None], [step.size]), oracle.commit(step.size), step)
        weights = self.learning_rate * block_weights(oracle, v, found, size)
        added = weights > 0
        state = oracle.extend(found[added], weights[added])
        step = Step(float(weights.sum()), capped=False)
        return Move(metric.extended(found[added], weights[added].tolist()), state, step)


def _guess(metric: Metric, xi: FloatArray) -> float | None:
    """The step along the recent direction that is most similar to the new one.

    This is a better guess than the last step if features have different scales, because directions then alternate.
    """
    directions, step_sizes, n, _ = metric
    if not n:
        return None
    guides = slice(max(n - _GUIDES, 0), n)
    return step_sizes[guides][int(np.argmax(np.abs(np.array(directions[guides]) @ xi)))]


def boost(
    oracle: Oracle,
    v: float,
    *,
    start: Progress,
    max_iter: int,
    tol: float,
    solver: Solver,
    on_iteration: Callable[[Iteration, Callable[[], Progress]], StopReason | None],
    rng: np.random.RandomState,
    certify: bool = True,
) -> Boosted:
    """Minimise the oracle's loss plus v Tr X. Implements Algorithm 2 of the paper.

    Parameters
    ----------
    oracle : Oracle
        Oracle of the comparisons.
    v : float
        Regularization.
    start : Progress
        Progress to continue from: X = 0, an interrupted fit, or an initial metric.
    max_iter : int
        The paper's J, including the iterations in the history of `start`.
    tol : float
        Tolerance for stopping; its meaning depends on the solver.
    solver : Solver
        What an iteration does.
    on_iteration : callable
        Called with every `Iteration` and a function that returns the `Progress` so far; may return a reason to stop.
    rng : RandomState
        Random generator for the start vector of the first direction in high dimensions.
    certify : bool, default=True
        Whether to compute the duality gap after the last of `max_iter` iterations, for which A_hat is formed once more.
    """
    step_sizes, history = start.step_sizes.tolist(), list(start.history)
    metric = Metric(list(start.directions), step_sizes, len(step_sizes), sum(step_sizes, start=0.0))
    metrics = [metric]  # at the start, and after every iteration of this run

    def progress_after(n_iterations: int) -> Progress:
        since = n_iterations - len(start.history)
        if since < 0:
            return start.after(n_iterations)
        kept = metrics[since]
        array = np.array(kept.directions[: kept.n]).reshape(-1, oracle.n_features)
        step_sizes = np.array(kept.step_sizes[: kept.n])
        return Progress(array, step_sizes, history[:n_iterations], staged=start.staged, pass_ends=start.pass_ends)

    solver.begin(oracle)
    state = rebuilt(oracle, start)
    loss = state.loss + v * metric.trace
    block_size = min(solver.block_size, oracle.n_features)
    last = metric.directions[-1] if metric.n else rng.standard_normal(oracle.n_features)
    eigenvalues, found = leading_directions(oracle, last, block_size)
    eigenvalue = float(eigenvalues[0])

    n_rises = 0
    while True:
        # If `start` is a fit that ended like this, stop at once, unless some comparisons are violated now.
        if history and history[-1].capped and state.violated == 0:
            stop_reason = StopReason.SEPARABLE
            break
        first_eigenvalue = history[0].eigenvalue if history else eigenvalue
        done = solver.done(v, tol, Standing(state, loss, metric.trace, eigenvalue, first_eigenvalue))
        if done:
            stop_reason = done
            break
        if len(history) >= max_iter:
            stop_reason = StopReason.ITERATION_LIMIT
            break
        # Along the others the loss does not fall.
        moved, moved_state, step = solver.advance(oracle, v, metric, found[: max(np.count_nonzero(eigenvalues > v), 1)])
        rise = moved_state.loss + v * moved.trace - loss
        falls, is_rounding = rise < 0, rise < oracle.rounding * (1 + abs(loss))  # both False if the loss is NaN
        n_rises = 0 if falls else n_rises + 1
        if not falls and not (is_rounding and n_rises <= _MOST_RISES):
            stop_reason = StopReason.NOTHING_TO_IMPROVE  # this step is not part of the metric
            break
        n_directions = moved.n - metric.n
        metric, state = moved, moved_state
        metrics.append(metric)
        loss = state.loss + v * metric.trace
        number, violated = len(history) + 1, state.violated / state.weight
        record = Iteration(number, loss, eigenvalue, step.size, metric.trace, violated, state.held_out, step.capped)
        history.append(replace(record, n_directions=n_directions))
        asked_to_stop = on_iteration(history[-1], partial(progress_after, number))
        if not (certify or asked_to_stop or step.capped) and number >= max_iter:
            eigenvalue, stop_reason = math.nan, StopReason.ITERATION_LIMIT
            break
        # Before stopping, too, because the duality gap needs the eigenvalue at the final weights.
        eigenvalues, found = leading_directions(oracle, found[0], block_size)
        eigenvalue = float(eigenvalues[0])
        if asked_to_stop:
            stop_reason = asked_to_stop
            break
        if step.capped:
            stop_reason = StopReason.SEPARABLE
            break

    return _certified(progress_after(len(history)), v, state, eigenvalue, stop_reason, progress_after)


def rebuilt(oracle: Oracle, progress: Progress) -> State:
    """Rebuild the metric that the pass began with, which may have hundreds of directions, and extend it by the rest."""
    n = progress.n_at_pass_start
    begun = oracle.rebuild(progress.directions[:n], progress.step_sizes[:n], at_once=True)
    return oracle.extend(progress.directions[n:], progress.step_sizes[n:]) if n < len(progress.directions) else begun


def roll_back(oracle: Oracle, v: float, boosted: Boosted, n_iterations: int) -> Boosted:
    """Result of boosting after fewer iterations."""
    if n_iterations == len(boosted.history):
        return boosted
    assert boosted.after_iteration is not None
    progress = boosted.after_iteration(n_iterations)
    state = rebuilt(oracle, progress)
    eigenvalue, _ = leading_direction(oracle, progress.directions[-1])
    return _certified(progress, v, state, eigenvalue, boosted.stop_reason, boosted.after_iteration)


def _certified(
    progress: Progress,
    v: float,
    state: State,
    eigenvalue: float,
    stop_reason: StopReason,
    after_iteration: Callable[[int], Progress],
) -> Boosted:
    """Result of boosting, with its duality gap.

    If lambda_max <= v, the weights u are feasible for the dual problem, and the gap is v Tr X - <A_hat, X>. Otherwise
    they are feasible for the dual problem with regularization lambda_max instead of v.
    """
    trace = sum(progress.step_sizes.tolist(), start=0.0)
    return Boosted(
        progress.directions,
        progress.step_sizes,
        progress.history,
        stop_reason=stop_reason,
        eigenvalue=eigenvalue,
        duality_gap=max(eigenvalue, v) * trace - state.margin,  # NaN if the eigenvalue is not known
        after_iteration=after_iteration,
    )
