"""Minimise the objective of LMNN, with a certificate.

The objective is convex in X = R'R, and a sum of many hinges. We minimise over R (Burer and Monteiro, 2003) by L-BFGS,
in rounds. What makes this work:

- Coordinates in which targets pull equally along all axes (`pull`). Whatever the units of the features, L-BFGS then
  sees a problem with about the same curvature in all directions.
- In a round, the corners of the hinges are smoothed over a width, which shrinks from round to round (Nesterov, "Smooth
  minimization of non-smooth functions", 2005): L-BFGS gets stuck at corners.
- A round only knows the impostors that were near when it began, and some beyond. The others can only add to the
  objective, so all active impostors are searched again after the round. If the true objective did not fall, the round
  is repeated, shorter and with more impostors.
- The slopes u of the hinges, between 0 and 1, are a point of the dual problem

      max push * sum u   subject to   (1 - push) C + push * sum u (near - far outer products)  positive semidefinite

  once they are multiplied by the largest number of at most 1 that makes them feasible. (Along axes on which no target
  pulls, X may be arbitrarily long, and comparisons whose far pair differs there get u = 0.) So after every round a
  bound on the minimum over all metrics is known, and the fit ends when the objective is close to it.
- If that gap does not close because R has lost a rank that it needs, the direction that violates the dual most is added
  (Laue, "A hybrid algorithm for convex semidefinite optimization", ICML 2012).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import scipy.linalg
from scipy.optimize import minimize, minimize_scalar

from boostmetric.arrays.types import FloatArray
from boostmetric.baselines.pair_set import PairSet
from boostmetric.comparisons import Comparisons
from boostmetric.solver.result import StopReason

# Impostors are searched up to this many times the squared distance within which they count.
_REACH = 1.3
# Iterations of L-BFGS in the first round, and in the longest.
_FIRST_ROUND, _LONGEST_ROUND = 5, 100
# Corrections that L-BFGS remembers, and how often it may shorten a step: where classes are far apart, hinges are so
# much steeper than the pull that its first steps are a million times too long.
_MEMORY, _SHORTER = 20, 60
# A round ends when an iteration improves the objective by less than this fraction times the width; then the width is
# multiplied by the second number, down to the third, at which it makes no difference.
_ENOUGH, _SHARPER, _SHARPEST = 1e-7, 1 / 3, 1e-6
# A round that leads to this many times as many impostors, or samples, went too far.
_MORE = 10
# A rise of the objective by this fraction is rounding.
_ROUNDING = 1e-10
# A difference along an axis, relative to the largest coordinate, that is more than rounding.
_DIFFERENT = 1e-12
_FAR_AWAY = 1e300  # a squared distance beyond all others
# Length of a new direction, relative to the others.
_NEW = 0.03


class FindImpostors(Protocol):
    """Protocol of a function that finds the impostors that are active at a map, or nearly so."""

    def __call__(self, rows: FloatArray, reach: float, most: int | None = None) -> Comparisons | None:
        """Comparisons with all impostors up to `reach` times as far as active ones; None for more than `most` pairs."""
        ...


class Value(NamedTuple):
    """Objective, smoothed and exact, and the weight of violated comparisons."""

    smooth: float
    exact: float
    violated: float


class Minimum(NamedTuple):
    """Result of the rounds."""

    rows: FloatArray
    value: Value
    bound: float
    stop_reason: StopReason


class LargeMargin:
    """Objective (1 - push) <C, R'R> + push * sum omega hinge(1 + d_near - d_far), over some comparisons.

    In the smooth objective C is the identity, which in these coordinates it is except along axes on which targets
    hardly pull. There X would grow more than needed; the extra force, small in units of the data, stops it once
    impostors are out of the margin.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    comparisons : Comparisons
    pull : ndarray of shape (n_features,)
        Diagonal of C, the sum of the outer products of the target pairs, which is diagonal in these coordinates, with
        entries of at most 1.
    push : float
    """

    def __init__(self, points: FloatArray, comparisons: Comparisons, pull: FloatArray, push: float) -> None:
        self.n_members = len(comparisons.members)
        self._pairs = PairSet.of(points, comparisons.pairs)
        self._free = np.zeros(len(comparisons.pairs), dtype=bool)
        if not pull.all():
            first, second = comparisons.pairs.T
            free = points[:, pull == 0]
            self._free = (np.abs(free[first] - free[second]) > _DIFFERENT * np.abs(free).max()).any(axis=1)
        self._groups = (comparisons.members, comparisons.bounds, comparisons.weights)
        self._far = np.empty(int(comparisons.side_sizes[1].max(initial=0)))
        self._c, self._slopes, self._d, self._width = np.zeros(len(self._pairs)), 0.0, np.zeros(len(self._pairs)), 1.0
        self._pull, self._push = (1 - push) * pull, push

    def at(self, rows: FloatArray, width: float) -> Value:
        """Evaluate the objective at R, and keep what its derivatives need."""
        self._d, self._width = self._pairs.squared_distances(rows), width
        return self._value(self._d, np.square(rows).sum(axis=0), width)

    def slope(self, rows: FloatArray) -> FloatArray:
        """Derivative of the smooth objective by R, at the R of the last evaluation."""
        return 2 * ((1 - self._push) * rows + self._push * rows @ self._pairs.gram(self._c))

    def bound(self) -> tuple[float, FloatArray | None]:
        """Bound on the minimum from the last slopes; and the direction that violates the dual most, if any does."""
        pulled = self._pull > 0
        if not pulled.any():
            return 0.0, None
        if self._free.any():
            self._value(np.where(self._free, _FAR_AWAY, self._d), np.zeros(len(self._pull)), self._width)
        units = 1 / np.sqrt(self._pull[pulled])
        gain = -self._push * self._pairs.gram(self._c)[np.ix_(pulled, pulled)] * units * units[:, None]
        last = len(gain) - 1
        (largest,), vectors = scipy.linalg.eigh(gain, subset_by_index=[last, last])
        direction = np.zeros(len(pulled))
        direction[pulled] = units * vectors[:, 0]
        return self._push * self._slopes / max(1.0, largest), direction if largest > 1.0 else None

    def best_scale(self, rows: FloatArray, share: float) -> float:
        """Factor of R that minimises the objective, if these comparisons are this share of all."""
        d, squares = self._pairs.squared_distances(rows), share * np.square(rows).sum(axis=0)
        typical = float(np.median(d[d > 0])) if d.any() else 1.0

        def loss(log_scale: float) -> float:
            square = math.exp(log_scale) / typical
            return self._value(square * d, square * squares, 1.0).smooth

        # From all impostors active to all impostors far away.
        best = minimize_scalar(loss, bounds=(-7.0, 14.0), method="bounded", options={"xatol": 0.02})
        return math.sqrt(math.exp(best.x) / typical)

    def _value(self, d: FloatArray, squares: FloatArray, width: float) -> Value:
        """Objective for given distances of the pairs, and squared lengths of R along the axes."""
        from boostmetric.kernels.hinge import hinge

        sums = np.empty(4)
        hinge(d, *self._groups, width, self._far, self._c, sums)
        smooth, exact, self._slopes, violated = sums.tolist()
        pull = (1 - self._push) * float(squares.sum()), float(self._pull @ squares)
        return Value(pull[0] + self._push * smooth, pull[1] + self._push * exact, violated)


def minimise(
    points: FloatArray,
    find: FindImpostors,
    rows: FloatArray,
    *,
    pull: FloatArray,
    push: float,
    tol: float,
    max_iter: int,
    on_iteration: Callable[[FloatArray, Value], bool],
) -> Minimum:
    """Minimise the objective of LMNN over linear maps with the number of rows given.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    find : callable
        See `FindImpostors`.
    rows : ndarray of shape (n_rows, n_features)
        Initial map.
    pull, push
        As for `LargeMargin`.
    tol : float
        Stop when the gap between objective and bound is at most this fraction of the objective, or when the objective
        is at most this fraction of its initial value. With fewer rows than axes the bound may be out of reach: then
        stop when a round at small width improves the objective by less than this fraction.
    max_iter : int
        Maximum number of L-BFGS iterations.
    on_iteration : callable
        Called with the map and the objective, as far as the round knows it; returns whether to stop.
    """

    def around(rows: FloatArray, reach: float = _REACH, most: int | None = None) -> LargeMargin | None:
        comparisons = find(rows, reach, most)
        return None if comparisons is None else LargeMargin(points, comparisons, pull, push)

    margin = around(rows)
    assert margin is not None
    value = margin.at(rows, 1.0)
    best, best_value = rows, value
    start, bound, n_iter, length, reach, width = value.exact, 0.0, 0, _FIRST_ROUND, _REACH, 1.0
    while True:
        moved = _round(margin, rows, width, min(length, max_iter - n_iter), on_iteration)
        n_iter += max(1, moved.n_iter)  # a round without iterations counts as one, or this might never end
        margin.at(moved.rows, width)
        new_bound, way_out = margin.bound()
        bound = max(bound, new_bound)
        there = around(moved.rows, most=_MORE * (margin.n_members + len(points)))
        before, after = margin.at(rows, width), None if there is None else there.at(moved.rows, width)
        improved = after is not None and after.smooth <= before.smooth * (1 + _ROUNDING)
        fall = 0.0
        if improved:
            assert there is not None
            assert after is not None
            fall = value.exact - after.exact
            rows, margin, value, length, reach = moved.rows, there, after, min(2 * length, _LONGEST_ROUND), _REACH
            if value.exact <= best_value.exact:  # not always so, since the corners are smoothed
                best, best_value = rows, value
        reason = None
        if moved.stopped:
            reason = StopReason.CALLBACK
        elif best_value.exact - bound <= tol * best_value.exact:
            reason = StopReason.OPTIMAL
        elif best_value.exact <= tol * start:
            reason = StopReason.NEGLIGIBLE
        elif improved and moved.ended and width <= max(tol, _SHARPEST) and fall <= tol * value.exact:
            reason = StopReason.CONVERGED
        elif n_iter >= max_iter:
            reason = StopReason.ITERATION_LIMIT
        if reason is not None:
            return Minimum(best, best_value, bound, reason)
        if not improved and length > 1:
            length = max(1, length // 4)
        elif not improved:  # even a single iteration led to unknown impostors
            reach *= 2
            margin = around(rows, reach)
            assert margin is not None
        elif moved.ended:
            width = max(_SHARPER * width, _SHARPEST)
            if way_out is not None and len(rows) == rows.shape[1]:
                rows = _with_direction(rows, way_out, pull)


class _Moved(NamedTuple):
    """Result of a round: the map, its iterations, whether it ended by itself, and whether it was asked to stop."""

    rows: FloatArray
    n_iter: int
    ended: bool
    stopped: bool


def _round(
    margin: LargeMargin,
    rows: FloatArray,
    width: float,
    max_iter: int,
    on_iteration: Callable[[FloatArray, Value], bool],
) -> _Moved:
    """Run some iterations of L-BFGS."""
    value, stopped = margin.at(rows, width), False
    size = value.smooth or 1.0  # L-BFGS treats values far below 1 as 0

    def loss_and_slope(flat: FloatArray) -> tuple[float, FloatArray]:
        nonlocal value
        at = flat.reshape(rows.shape)
        value = margin.at(at, width)
        return value.smooth / size, margin.slope(at).ravel() / size

    def after_iteration(flat: FloatArray) -> None:
        nonlocal stopped
        if on_iteration(flat.reshape(rows.shape).copy(), value):
            stopped = True
            raise StopIteration  # SciPy then stops

    options = {"maxiter": max_iter, "maxcor": _MEMORY, "ftol": _ENOUGH * width, "gtol": 0.0, "maxls": _SHORTER}
    start = rows.ravel()
    result = minimize(loss_and_slope, start, jac=True, method="L-BFGS-B", options=options, callback=after_iteration)
    return _Moved(result.x.reshape(rows.shape), int(result.nit), result.status != 1 and not stopped, stopped)


def _with_direction(rows: FloatArray, direction: FloatArray, pull: FloatArray) -> FloatArray:
    """The same number of rows, for a metric that is a little longer along a direction."""
    length = math.sqrt(float(np.sum(pull * np.square(rows))) / len(rows))
    new = _NEW * length * direction
    return np.asarray(scipy.linalg.qr(np.vstack([rows, new]), mode="r")[0][: len(rows)])
