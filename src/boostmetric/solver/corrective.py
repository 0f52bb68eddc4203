"""Totally corrective boosting: after each new direction, all of X is optimised again.

Choosing new weights for all directions is not enough: the directions found early, with little information, would stay
as they are, and it takes many of them to make up for one that is slightly off. So the directions change as well. With
X = R'R the loss is a smooth function of the rows of R, without constraints, and L-BFGS lowers it (Burer and Monteiro,
2003). This may end where no small change of R helps; the next leading eigenvector of A_hat then gives a way out, or
shows that X is the minimum over all metrics (Laue, "A hybrid algorithm for convex semidefinite optimization", ICML
2012).
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from boostmetric.arrays.types import FloatArray
from boostmetric.metric.mahalanobis import with_fixed_signs
from boostmetric.oracles.protocol import Oracle, State
from boostmetric.solver import direction
from boostmetric.solver.direction import leading_direction
from boostmetric.solver.loop import FindStep, Metric, Move, Standing
from boostmetric.solver.result import StopReason
from boostmetric.solver.step import Step

# L-BFGS iterations after a new direction; more would only refine a metric that still lacks a direction.
_MOST_ROUNDS = 50
# Number of correction pairs that L-BFGS keeps.
_MEMORY = 20
# A relative decrease of the loss by less than this is rounding.
_ROUNDING = 4 * np.finfo(np.float64).eps
# If a loss without a minimum has fallen by this much, it is not worth following further.
_ENOUGH_FALL = 50.0
# A weight below this fraction of the largest is rounding.
_NO_WEIGHT = 1e-14


class Corrective:
    """Add the new direction with its best weight, then optimise all of X, keeping only as many directions as its rank.

    Parameters
    ----------
    find_step : callable
        `exact_step` or `bisection_step`.
    """

    block_size = 1

    def __init__(self, find_step: FindStep) -> None:
        self._find_step = find_step
        self._loss_of_nothing = math.inf
        self._first_eigenvalue = math.inf
        self._growths = np.empty(0)

    def begin(self, oracle: Oracle) -> None:
        """Compute the loss and its slopes at X = 0."""
        self._loss_of_nothing = oracle.rebuild(np.empty((0, oracle.n_features)), np.empty(0)).loss
        anywhere = np.random.RandomState(0).standard_normal(oracle.n_features)
        self._first_eigenvalue, _ = leading_direction(oracle, anywhere)
        self._growths = _growths(oracle)

    def done(self, v: float, tol: float, at: Standing) -> StopReason | None:
        """Whether the duality gap is at most `tol` times the loss, or times its decrease since X = 0 if that is larger.

        The decrease is needed for losses near 0, because the logarithm of a sum can be any number. A metric that is
        merely too small has no gap either, since it is the best one of its trace; hence the check of the slope along
        the best direction.
        """
        gap = max(at.eigenvalue, v) * at.trace - at.state.margin
        small = gap <= tol * max(abs(at.loss), self._loss_of_nothing - at.loss)
        flat = at.eigenvalue - v <= math.sqrt(tol) * max(self._first_eigenvalue - v, 0.0)
        return StopReason.OPTIMAL if small and flat else None

    def advance(self, oracle: Oracle, v: float, metric: Metric, found: FloatArray) -> Move:
        """Make the stagewise step, then the correction."""
        (xi,) = found
        oracle.project(xi)
        step = self._find_step(oracle, v)
        if step.capped and oracle.commit(step.size).violated:
            step = Step(0.0, capped=False)  # the given start is too large and must shrink first
        rows = np.sqrt([*metric.step_sizes[: metric.n], step.size])[:, None] * [*metric.directions[: metric.n], xi]
        units = np.sqrt(np.maximum(self._growths + v, np.finfo(np.float64).tiny))
        rows = _fewest(rows, units)
        if len(rows) and not step.capped:
            rows = _fewest(corrected(oracle, v, rows, units, self._loss_of_nothing), units)
        step_sizes = np.square(rows).sum(axis=1)
        directions = rows / np.sqrt(step_sizes)[:, None]
        # Rebuilt from zero, as in a fit resumed from a checkpoint.
        state = oracle.rebuild(directions, step_sizes)
        moved = Metric(list(directions), step_sizes.tolist(), len(rows), sum(step_sizes.tolist(), start=0.0))
        if self._falls_for_ever(oracle, v, moved, state):
            step = step._replace(capped=True)
        return Move(moved, state, step)

    def _falls_for_ever(self, oracle: Oracle, v: float, metric: Metric, state: State) -> bool:
        """Whether the loss falls forever as X grows, and has already fallen far."""
        if state.violated or self._loss_of_nothing - (state.loss + v * metric.trace) < _ENOUGH_FALL:
            return False
        oracle.project(np.array(metric.directions), np.array(metric.step_sizes))
        return self._find_step(oracle, v * metric.trace).capped


def corrected(oracle: Oracle, v: float, rows: FloatArray, units: FloatArray, loss_of_nothing: float) -> FloatArray:
    """Find rows R with a lower loss at X = R'R, by some iterations of L-BFGS.

    Parameters
    ----------
    oracle : Oracle
        Its distances are arbitrary afterwards.
    v : float
        Regularization.
    rows : ndarray of shape (n_rows, n_features)
        Rows to start from.
    units : ndarray of shape (n_features,)
        Natural lengths along the features; L-BFGS works in these units, since it treats all variables alike.
    loss_of_nothing : float
        Loss at X = 0; stop when the loss is far below it.
    """
    low = -math.inf

    def loss_and_slope(flat: FloatArray) -> tuple[float, FloatArray]:
        at = flat.reshape(rows.shape) / units
        loss = oracle.rebuild(at, np.ones(len(at)), at_once=True).loss + v * float(np.square(at).sum())
        if loss < low:
            raise _LowEnoughError(at)
        return loss, (2 * (v * at - _times_a_hat(oracle, at)) / units).ravel()

    start = (rows * units).ravel()
    low = min(loss_and_slope(start)[0], loss_of_nothing) - _ENOUGH_FALL
    options = {"maxiter": _MOST_ROUNDS, "maxcor": _MEMORY, "ftol": _ROUNDING, "gtol": 0.0}
    try:
        result = minimize(loss_and_slope, start, jac=True, method="L-BFGS-B", options=options)
    except _LowEnoughError as reached:
        return reached.rows
    return np.asarray(result.x.reshape(rows.shape) / units)


class _LowEnoughError(Exception):
    """Raised when a loss that may have no minimum has fallen far; stops L-BFGS before its steps grow without bound."""

    def __init__(self, rows: FloatArray) -> None:
        super().__init__()
        self.rows = rows


def _growths(oracle: Oracle) -> FloatArray:
    """Root mean square growth of the comparisons along each feature; 1 in high dimensions."""
    if oracle.n_features > direction.LARGEST_DENSE:
        return np.ones(oracle.n_features)
    squares = np.empty(oracle.n_features)
    for j, axis in enumerate(np.eye(oracle.n_features)):
        oracle.project(axis)
        squares[j] = oracle.moments(np.zeros(1)).mean_square[0]
    return np.sqrt(squares)


def _times_a_hat(oracle: Oracle, rows: FloatArray) -> FloatArray:
    """Multiply rows by A_hat."""
    if oracle.n_features <= direction.LARGEST_DENSE:
        return np.asarray(rows @ oracle.gram())
    return np.array([oracle.matvec(row) for row in rows])


def _fewest(rows: FloatArray, units: FloatArray) -> FloatArray:
    """Represent the same metric by as many rows as its rank, orthogonal in the given units, longest first."""
    _, lengths, axes = scipy.linalg.svd(rows * units, full_matrices=False, check_finite=False)
    kept = np.square(lengths) > _NO_WEIGHT * np.square(lengths[0])
    return with_fixed_signs(lengths[kept, None] * axes[kept] / units)
