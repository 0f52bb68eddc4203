"""The step along a direction: Eq. (8) of the paper, from one pass, by safeguarded Newton steps, or by bisection.

Along a direction xi the objective is phi(w), the loss that the oracle's `moments` describe, + v w. It is
convex, and Eq. (8) says phi'(w) = 0. The cases, which Algorithm 1 leaves to its interval [w_l, w_u]:

- phi'(0) >= 0: nothing to gain, the step is 0. Boosting stops before it asks (lambda_max <= v).
- phi'(0) < 0 <= phi'(w) for some w: the root lies between, and is found.
- phi'(w) < 0 as far as we look: every comparison gains more than v from this direction, there is no root, and the loss
  falls without end. The step is capped.

A slope that is lost in the rounding of the first one, or of the growths of the comparisons, counts as 0: with v = 0 and
a comparison that the direction does not touch, phi falls towards a limit that it never reaches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from boostmetric.oracles.protocol import Moments, Oracle

# A root is looked for up to this many natural units: exponents of a million still have ten digits.
_REACH = 2.0**20
# A capped step ends where the loss has fallen by this, the comparisons then weighing e^-50 of what they did; or at the
# end of the reach.
_CAPPED_FALL = 50.0
# A slope of this size, relative to that at 0, is rounding.
_FLAT = 1e-15
# Of the rounding of growths, what is left in a slope, which is a sum of many.
_OF_ROUNDING = 0.05
# The error of an interpolated step is of the third order in its distance to the last point: after an update of this
# relative size the step is exact to rounding.
_TOLERANCE = 1e-5
_BISECTION_TOLERANCE = 1e-13
_MOST_EVALUATIONS = 200
# Relative error of the histogram up to which its step is taken; a longer one is only a start.
_HISTOGRAM_ERROR = 1e-11

Evaluate = Callable[[NDArray[np.float64]], Moments]


class Step(NamedTuple):
    """A step along a direction.

    Attributes
    ----------
    size : float
    capped : bool
        Whether there is no root within reach.
    """

    size: float
    capped: bool


_NO_STEP = Step(0.0, capped=False)


class _Point(NamedTuple):
    """phi at one step w: by how much it is below phi(0), and its first two derivatives."""

    w: float
    fall: float
    slope: float
    curvature: float


class _Line:
    """phi with its derivatives, relative to phi(0).

    Attributes
    ----------
    start : _Point
        The point w = 0.
    unit : float
        Natural length of a step, 1 / (root mean square growth of the comparisons).
    reach : float
        How far to look for a root.
    flat : float
        Size of a slope that counts as 0.
    exact : float
        Relative width of a bracket that cannot be told from a point.
    """

    def __init__(self, evaluate: Evaluate, v: float, rounding: float, reach: float = math.inf) -> None:
        self._evaluate = evaluate
        self._v = v
        moments = evaluate(np.zeros(1))
        self._loss = float(moments.loss[0])
        self.start = self._point(0.0, moments)
        first, second = float(moments.first[0]), float(moments.second[0])
        self.unit = 1.0 / math.sqrt(max(second + first * first, np.finfo(np.float64).tiny))
        self.reach = min(reach, _REACH * self.unit)
        self.flat = max(_FLAT * abs(self.start.slope), _OF_ROUNDING * rounding / self.unit)
        self.exact = max(_BISECTION_TOLERANCE, rounding)

    def at(self, w: float) -> _Point:
        return self._point(w, self._evaluate(np.array([w])))

    def _point(self, w: float, moments: Moments) -> _Point:
        fall = self._loss - float(moments.loss[0]) - self._v * w
        return _Point(w, fall, float(moments.first[0]) + self._v, float(moments.second[0]))


def exact_step(oracle: Oracle, v: float) -> Step:
    """Solve Eq. (8): from one pass over single comparisons where that is exact enough, else by interpolation."""
    histogram = oracle.histogram()
    if histogram is None:
        return _root(_Line(oracle.moments, v, oracle.rounding))
    step = _root(_Line(histogram.moments, v, oracle.rounding, histogram.reach(_HISTOGRAM_ERROR)))
    # No root as far as the histogram can see: go on with the comparisons themselves.
    return _root(_Line(oracle.moments, v, oracle.rounding), guess=step.size) if step.capped else step


def bisection_step(oracle: Oracle, v: float) -> Step:
    """Solve Eq. (8) by bisection. Implements Algorithm 1 of the paper, with the search for its interval."""
    line = _Line(oracle.moments, v, oracle.rounding)
    if line.start.slope >= 0:
        return _NO_STEP
    low, high = line.start, line.at(line.unit)
    while high.slope < -line.flat:
        if high.w >= line.reach:
            return _capped(line)
        low, high = high, line.at(min(2 * high.w, line.reach))
    while high.w - low.w > line.exact * high.w:
        middle = line.at(0.5 * (low.w + high.w))
        low, high = (middle, high) if middle.slope < -line.flat else (low, middle)
    return Step(high.w, capped=False)


def _root(line: _Line, guess: float | None = None) -> Step:
    """The root of phi' by inverse cubic interpolation, kept inside a bracket.

    Two points with their slopes and curvatures give w as a cubic of the slope, and its value at slope 0: about three
    evaluations where Newton's method, which uses one point, takes five. While no point right of the root is known, a
    step may grow eightfold at most; inside the bracket, a proposal that leaves it, or follows a slope that did not
    halve, is replaced by the middle.
    """
    if line.start.slope >= 0:
        return _NO_STEP
    point = low = line.start
    high = None
    slow = False
    proposal = _newton(point) if guess is None else guess
    for _ in range(_MOST_EVALUATIONS):
        if high is None:
            proposal = min(proposal, 8 * max(point.w, line.unit), line.reach)
        elif slow or not low.w < proposal < high.w:
            proposal = 0.5 * (low.w + high.w)
        previous, point = point, line.at(proposal)
        if abs(point.slope) <= line.flat:
            break
        proposal = _inverse_cubic(previous, point)
        if abs(proposal - point.w) <= _TOLERANCE * point.w:
            return Step(proposal, capped=False)
        if high is not None and high.w - low.w <= line.exact * high.w:
            break
        slow = abs(point.slope) > 0.5 * abs(previous.slope)
        if point.slope >= 0:
            high = point
        elif high is None and point.w >= line.reach:
            return _capped(line)
        else:
            low = point
    return Step(point.w, capped=False)


def _capped(line: _Line) -> Step:
    """The step at which a loss that falls all the way has fallen by _CAPPED_FALL, or the end of the reach."""
    low, high = 0.0, line.reach
    if line.at(high).fall > _CAPPED_FALL:
        while high - low > _BISECTION_TOLERANCE * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if line.at(middle).fall < _CAPPED_FALL else (low, middle)
    return Step(high, capped=True)


def _newton(point: _Point) -> float:
    return point.w - point.slope / point.curvature if point.curvature > 0 else math.inf


def _inverse_cubic(a: _Point, b: _Point) -> float:
    """Where the slope is 0, if w is a cubic of the slope through two points; from b alone if they are no guide."""
    rise = b.slope - a.slope
    t = -a.slope / rise if rise else math.inf  # 0 at a, 1 at b
    if not (abs(t - 1) < 0.5 and a.curvature > 0 and b.curvature > 0):
        return _newton(b)
    # Hermite's basis at t, about b: the differences from b.w stay exact when the points are close.
    at_a, slope_a, slope_b = (1 - t) ** 2 * (1 + 2 * t), t * (1 - t) ** 2, t**2 * (t - 1)
    return b.w + at_a * (a.w - b.w) + rise * (slope_a / a.curvature + slope_b / b.curvature)
