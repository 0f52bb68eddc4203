"""Totally corrective boosting: after each new direction, all of X is optimised again.

To choose the weights of all directions anew is not enough: the directions that boosting found when it knew little stay
as they were, and many of them are needed to make up for one that is a little off. So the directions turn as well. With
X = R'R the loss is a smooth function of the rows of R, without constraints, and L-BFGS lowers it (Burer and Monteiro,
2003). That may end where no small change of R helps; the next leading eigenvector of A_hat shows the way out, or that X
is the minimum over all metrics (Laue, "A hybrid algorithm for convex semidefinite optimization", ICML 2012).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.optimize import OptimizeResult, minimize

from boostmetric.metric import with_fixed_signs
from boostmetric.oracles.protocol import FloatArray, Oracle, State
from boostmetric.solver import direction
from boostmetric.solver.loop import FindStep, Metric, Move, Standing
from boostmetric.solver.result import Progress, StopReason
from boostmetric.solver.step import Step

# Iterations of L-BFGS after a new direction: more of them lower a loss that lacks a direction.
_MOST_ROUNDS = 50
# Pairs of changes that it remembers.
_MEMORY = 20
# A fall of the loss by less than so many units in its last place is rounding.
_ROUNDING = 4 * np.finfo(np.float64).eps
# Where a loss without a minimum has fallen by this, it has shown what it will.
_ENOUGH_FALL = 50.0
# A weight that is so small beside the largest is 0.
_NO_WEIGHT = 1e-15


class Corrective:
    """Add the new direction with its best weight, then optimise all of X.

    Directions that the fit was given are kept, with weights that may change; those that it found may turn.

    Parameters
    ----------
    find_step : callable
        `exact_step` or `bisection_step`.
    """

    def __init__(self, find_step: FindStep) -> None:
        self._find_step = find_step
        self._n_given = 0
        self._loss_of_nothing = math.inf

    def begin(self, oracle: Oracle, start: Progress) -> None:
        """Learn how many directions are given, and the loss at X = 0."""
        self._n_given = len(start.step_sizes)
        self._loss_of_nothing = _at(oracle, np.empty((0, oracle.n_features))).log_mass

    def done(self, v: float, tol: float, at: Standing) -> StopReason | None:
        """Whether the duality gap is no more than `tol` of the loss, or of its fall since X = 0 if that is more.

        The fall is there for losses near 0, since the logarithm of a sum may be anywhere. A metric that is only too
        short has a gap of 0 as well, being the best of its trace: hence the absolute value, and no end at X = 0.
        """
        if at.trace == 0.0 and at.eigenvalue > v:
            return None
        gap = max(at.eigenvalue - v, 0.0) * at.trace + abs(v * at.trace - at.state.margin)
        return StopReason.OPTIMAL if gap <= tol * max(abs(at.loss), self._loss_of_nothing - at.loss) else None

    def advance(self, oracle: Oracle, v: float, metric: Metric, xi: FloatArray) -> Move:
        """The stagewise step, and the correction."""
        oracle.project(xi)
        step = self._find_step(oracle, v)
        n = self._n_given
        lengths = np.sqrt(metric.step_sizes[: metric.n])
        rows = lengths[:, None] * np.array(metric.directions[: metric.n]).reshape(-1, oracle.n_features)
        longer = np.concatenate([rows[n:], math.sqrt(step.size) * xi[None]])
        factors = _Factors(np.array(metric.directions[:n]).reshape(-1, oracle.n_features), lengths[:n], longer)
        if not step.capped:
            factors = _corrected(oracle, v, factors._replace(rows=_axes(longer)))
        new = _axes(factors.rows)
        squares = np.square(new).sum(axis=1)
        directions = metric.directions[:n] + list(new / np.sqrt(squares)[:, None])
        step_sizes = np.concatenate([np.square(factors.lengths), squares])
        state = oracle.rebuild(np.array(directions).reshape(-1, oracle.n_features), step_sizes)
        moved = Metric(directions, step_sizes.tolist(), len(directions), sum(step_sizes.tolist(), start=0.0))
        if self._falls_for_ever(oracle, v, moved, state):
            step = Step(step.size, capped=True)
        return Move(moved, state, step)

    def _falls_for_ever(self, oracle: Oracle, v: float, metric: Metric, state: State) -> bool:
        """Whether the loss falls without end as X grows, and has fallen far."""
        if state.violated or self._loss_of_nothing - (state.log_mass + v * metric.trace) < _ENOUGH_FALL:
            return False
        oracle.project(np.array(metric.directions[: metric.n]), np.array(metric.step_sizes[: metric.n]))
        return self._find_step(oracle, v * metric.trace).capped


class _Factors(NamedTuple):
    """X = sum_j lengths[j]**2 given[j] given[j]' + rows' rows: `lengths` and `rows` are free."""

    given: FloatArray
    lengths: FloatArray
    rows: FloatArray

    def moved(self, z: FloatArray) -> _Factors:
        """The same with other free numbers, all in one array."""
        n = len(self.lengths)
        return self._replace(lengths=z[:n], rows=z[n:].reshape(-1, self.given.shape[1]))

    @property
    def all_rows(self) -> FloatArray:
        """R with X = R'R."""
        return np.concatenate([self.lengths[:, None] * self.given, self.rows])

    @property
    def trace(self) -> float:
        return float(np.square(self.lengths).sum() + np.square(self.rows).sum())


def _corrected(oracle: Oracle, v: float, start: _Factors) -> _Factors:
    """X after some rounds of L-BFGS."""
    lowest = _at(oracle, start.all_rows).log_mass + v * start.trace - _ENOUGH_FALL

    def objective(z: FloatArray) -> tuple[float, FloatArray]:
        at = start.moved(z)
        loss = _at(oracle, at.all_rows).log_mass + v * at.trace
        products = _times_a_hat(oracle, np.concatenate([at.given, at.rows]))
        n = len(at.given)
        of_lengths = at.lengths * (v - np.sum(at.given * products[:n], axis=1))
        of_rows = v * at.rows - products[n:]
        return loss, 2 * np.concatenate([of_lengths, of_rows.ravel()])

    def stop_if_low(intermediate_result: OptimizeResult) -> None:
        if intermediate_result.fun < lowest:
            raise StopIteration

    result = minimize(
        objective,
        np.concatenate([start.lengths, start.rows.ravel()]),
        jac=True,
        method="L-BFGS-B",
        callback=stop_if_low,
        options={"maxiter": _MOST_ROUNDS, "maxcor": _MEMORY, "ftol": _ROUNDING, "gtol": 0.0},
    )
    return start.moved(result.x)


def _at(oracle: Oracle, rows: FloatArray) -> State:
    """Put the distances at X = rows' rows."""
    nothing = oracle.rebuild(np.empty((0, oracle.n_features)), np.empty(0))
    rows = _axes(rows) if len(rows) > oracle.n_features else rows
    if not len(rows):
        return nothing
    oracle.project(rows, np.ones(len(rows)))
    return oracle.commit(1.0)


def _times_a_hat(oracle: Oracle, rows: FloatArray) -> FloatArray:
    """Rows times A_hat."""
    if oracle.n_features <= direction.LARGEST_DENSE:
        return np.asarray(rows @ oracle.gram())
    return np.array([oracle.matvec(row) for row in rows])


def _axes(rows: FloatArray) -> FloatArray:
    """Orthogonal rows of the same metric, the longest first, less those that are 0."""
    _, lengths, axes = scipy.linalg.svd(rows, full_matrices=False, check_finite=False)
    kept = np.square(lengths) > _NO_WEIGHT * np.square(lengths[0])
    return with_fixed_signs(lengths[kept, None] * axes[kept])
