"""The step along a direction: Eq. (8) of the paper, from one pass, by interpolation in a bracket, or by bisection.

Along a direction xi the objective is phi(w), the loss given by the oracle's `moments` plus v w. It is convex, and
Eq. (8) says phi'(w) = 0. Algorithm 1 leaves these cases to its interval [w_l, w_u]:

- phi'(0) >= 0: nothing to gain, the step is 0. Boosting stops before it gets here (lambda_max <= v).
- phi'(0) < 0 <= phi'(w) for some w: the root lies in between, and is found.
- phi'(w) < 0 as far as we look: every comparison gains more than v from this direction, there is no root, and the loss
  falls forever. The step is capped.

A slope that is lost in the rounding of the slope at 0, or of the growths of the comparisons, counts as 0: with v = 0
and a comparison that the direction does not affect, phi falls towards a limit that it never reaches.

An evaluation of `moments` may be a round over a network, which costs the same for one step as for several. Then several
are evaluated at once (`Oracle.steps_at_once`): first 0 and steps around a guess, and then steps around the root
expected from those. If they say little about the root, because there is no guess or a wrong one, many steps are
evaluated over the whole range where it may be, so close to each other that it is found wherever it is. This takes two
evaluations, while one step at a time takes three or four.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from boostmetric.oracles.protocol import Moments, Oracle

# Search for a root up to this many natural units; exponents of a million are still accurate to ten digits.
_REACH = 2.0**20
# A capped step is the end of the reach, halved as long as the loss still falls by this; the weights of the comparisons
# have then fallen to e^-50 of their value. That takes at least 50 natural units.
_CAPPED_FALL = 50.0
_HALVES: NDArray[np.float64] = np.exp2(-np.arange(16.0))
# A slope of this size, relative to the slope at 0, is rounding.
_FLAT = 1e-15
# Fraction of the rounding of growths that is left in a slope, which is a sum of many.
_OF_ROUNDING = 0.05
# The error of an interpolated step is of third order in its distance to the last point: after an update of this
# relative size, the step is exact to rounding.
_TOLERANCE = 1e-5
# If the second derivative jumps, the error is of first order, though small; the update must then be of this size.
_TOLERANCE_WITH_CORNERS = 1e-12
# Relative size of the last corrections to a step interpolated from several points, below which it is accurate enough:
# corrections shrink fast, and the next one would be far smaller.
_LAST_CORRECTION = 1e-9
# Ratio of consecutive steps around a guess; with a larger one, the steps on both sides of the root say little about it.
_RATIO = 2.0
# Steps around a proposal extend this many times its error to both sides, and at least this far relative to it: points
# much closer are no better, and miss the root if the error was underestimated.
_SPREAD, _LEAST_SPREAD = 4.0, 5e-3
# If the error relative to the proposal is larger than this, steps are spread over the whole bracket.
_MOST_ERROR = 5e-3
# Ratio of consecutive steps over a bracket, small enough for an interpolation that is almost always exact to rounding;
# minimum and maximum number of them in a bracket; and number beyond each of its ends, for roots close to an end.
_DENSE_RATIO, _LEAST_DENSE, _MOST_DENSE, _BEYOND = 1.05, 20, 400, 2
# If the bracket begins at 0, they begin at this fraction of Newton's step, which may be far too long.
_FIRST = 1 / 64
# Maximum number of points to interpolate, those nearest to the root; more only add rounding.
_MOST_NODES = 16
_BISECTION_TOLERANCE = 1e-13
_MOST_EVALUATIONS = 200
# Relative error of the histogram's mass up to which its step is used; a longer step is only a starting point. The error
# of slopes is then less than _FLAT.
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
    """phi at one step w: its fall below phi(0), and its first two derivatives."""

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
    known : list of _Point
        The start, and the points around the guess.
    at_once : int
        Number of steps per evaluation.
    unit : float
        Natural length of a step, 1 / (root mean square growth of the comparisons).
    reach : float
        How far to search for a root.
    flat : float
        Size of a slope that counts as 0.
    exact : float
        Relative width of a bracket that is as good as a point.
    tolerance, last_correction : float
        Relative sizes of the last update of a step, and of the last correction to an interpolated one.
    """

    def __init__(
        self,
        evaluate: Evaluate,
        v: float,
        rounding: float,
        at_once: int = 1,
        guess: float | None = None,
        reach: float = math.inf,
        has_corners: bool = False,
    ) -> None:
        self._evaluate = evaluate
        self.tolerance = _TOLERANCE_WITH_CORNERS if has_corners else _TOLERANCE
        self.last_correction = _TOLERANCE_WITH_CORNERS if has_corners else _LAST_CORRECTION
        self._v = v
        self._ends: list[_Point] = []
        self.at_once = at_once
        n_ahead = at_once - 1 if guess else 0
        ahead = (guess or 0.0) * _RATIO ** (np.arange(n_ahead) - 0.5 * (n_ahead - 1))
        steps = np.concatenate([np.zeros(1), ahead])
        moments = evaluate(steps)
        self._loss = float(moments.loss[0])
        self.unit = 1.0 / math.sqrt(max(float(moments.mean_square[0]), np.finfo(np.float64).tiny))
        self.reach = min(reach, _REACH * self.unit)
        self.known = [point for point in self._points(steps, moments) if point.w <= self.reach]
        self.start = self.known[0]
        self.flat = max(_FLAT * abs(self.start.slope), _OF_ROUNDING * rounding / self.unit)
        self.exact = max(_BISECTION_TOLERANCE, rounding)

    def further(self, evaluate: Evaluate, at_once: int) -> _Line:
        """Continue the line beyond its reach, with an evaluation that reaches further."""
        line = copy(self)
        line.known = [self.start, self.at(self.reach)]
        line._evaluate, line._ends = evaluate, []
        line.at_once, line.reach = at_once, _REACH * self.unit
        return line

    def at(self, w: float) -> _Point:
        return self.along(np.array([w]))[0]

    def along(self, steps: NDArray[np.float64]) -> list[_Point]:
        return self._points(steps, self._evaluate(steps))

    def around(self, w: float, error: float, low: float, high: float | None) -> list[_Point]:
        """Evaluate points inside a bracket: w itself, and others on both sides, within its error.

        If the error is large or unknown, evaluate points over the whole bracket.
        """
        is_wide = high is None or high > 1.01 * _RATIO * low  # not between two steps around the guess
        if self.at_once > 1 and (is_wide or error > _MOST_ERROR * w):
            points = self.along(self._dense(low, high))
            self._ends = points[-len(_HALVES) :] if high is None else []
            return points
        extent = min(max(_SPREAD * error, _LEAST_SPREAD * w), w)
        end = self.reach if high is None else high
        left, right = min(extent, 0.9 * (w - low)), min(extent, 0.9 * (end - w))
        others = [side * 3.0**-i for i in range(self.at_once // 2) for side in (-left, right)]
        return self.along(w + np.array([0.0, *others])[: self.at_once])

    def _dense(self, low: float, high: float | None) -> NDArray[np.float64]:
        """Geometric sequence of steps over a bracket; if it has no end, up to the reach, and including `ends`."""
        end = self.reach if high is None else high
        begin = low or _FIRST * min(_newton(self.start), self.unit, end)
        n = min(max(math.ceil(math.log(end / begin) / math.log(_DENSE_RATIO)), _LEAST_DENSE), _MOST_DENSE)
        exponents = np.arange(-_BEYOND, n + _BEYOND + 1) / n
        steps = begin * (end / begin) ** exponents[(exponents != 0) & (exponents != 1)]  # the ends are known
        return np.append(steps[steps < self.reach], self.reach * _HALVES if high is None else [])

    def ends(self) -> list[_Point]:
        """Points where a capped step may end; already known if steps over the whole reach were evaluated."""
        return self._ends or self.along(self.reach * _HALVES)

    def _points(self, steps: NDArray[np.float64], moments: Moments) -> list[_Point]:
        fall = self._loss - moments.loss - self._v * steps
        columns = (steps, fall, moments.first + self._v, moments.second)
        return [_Point(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def exact_step(oracle: Oracle, v: float, guess: float | None = None) -> Step:
    """Solve Eq. (8), from one pass over single comparisons if that is accurate enough, else by interpolation.

    Parameters
    ----------
    oracle : Oracle
        Oracle that is projected on the direction.
    v : float
        Regularization.
    guess : float, optional
        A step of the expected size, for oracles that evaluate several steps at once.
    """
    histogram = oracle.histogram()
    if histogram is None:
        line = _Line(oracle.moments, v, oracle.rounding, oracle.steps_at_once, guess, has_corners=oracle.has_corners)
        return _root(line)
    line = _Line(histogram.moments, v, oracle.rounding, reach=histogram.reach(_HISTOGRAM_ERROR))
    step = _root(line)
    # If there is no root within reach of the histogram, continue with the comparisons themselves.
    return _root(line.further(oracle.moments, oracle.steps_at_once)) if step.capped else step


def bisection_step(oracle: Oracle, v: float, guess: float | None = None) -> Step:
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


def _root(line: _Line) -> Step:
    """Find the root of phi' by inverse interpolation inside a bracket.

    Two points with their slopes and curvatures give w as a cubic of the slope, and so its value at slope 0. This takes
    about three evaluations, while Newton's method, which uses one point, takes five. Further points, if several are
    evaluated at once, give the slope as a polynomial of higher degree. While no point to the right of the root is
    known, a step may grow at most eightfold. Once there is a bracket, a proposal outside it, or one that follows a
    slope that did not halve, is replaced by the middle.
    """
    if line.start.slope >= 0:
        return _NO_STEP
    near = sorted(line.known, key=_steepness)
    low, high = _bracket(near, line.start, None)
    proposal, error = _interpolated(near)
    slow = False
    for _ in range(_MOST_EVALUATIONS):
        if high is None:
            proposal, error = min(proposal, 8 * max(near[0].w, line.unit), line.reach), math.inf
        elif slow or not low.w < proposal < high.w:
            proposal, error = 0.5 * (low.w + high.w), math.inf
        asked = line.around(proposal, error, low.w, None if high is None else high.w)
        previous, near = near[0], [*sorted(asked, key=_steepness), *near][: 2 * len(asked)]
        # The shortest step at which the slope counts as 0, or else the one with the smallest slope.
        point = min((point for point in asked if _steepness(point) <= line.flat), key=_size, default=near[0])
        if _steepness(point) <= line.flat:
            break
        proposal, error = _interpolated(near)
        if abs(proposal - point.w) <= line.tolerance * point.w or error < line.last_correction * proposal:
            return Step(proposal, capped=False)
        if high is not None and high.w - low.w <= line.exact * high.w:
            break
        slow = abs(point.slope) > 0.5 * abs(previous.slope)
        low, high = _bracket(asked, low, high)
        if high is None and low.w >= line.reach:
            return _capped(line)
    return Step(point.w, capped=False)


def _steepness(point: _Point) -> float:
    return abs(point.slope)


def _size(point: _Point) -> float:
    return point.w


def _bracket(points: list[_Point], low: _Point, high: _Point | None) -> tuple[_Point, _Point | None]:
    """Tighten a bracket: the points next to the root on both sides, given some points in between."""
    low = max((point for point in points if point.slope < 0), key=_size, default=low)
    high = min((point for point in points if point.slope >= 0), key=_size, default=high)
    return low, high


def _capped(line: _Line) -> Step:
    """Step at which a loss that falls all the way has fallen by `_CAPPED_FALL`, or the end of the reach."""
    far = [point.w for point in line.ends() if point.fall >= _CAPPED_FALL]
    return Step(min(far, default=line.reach), capped=True)


def _newton(point: _Point) -> float:
    return point.w - point.slope / point.curvature if point.curvature > 0 else math.inf


def _interpolated(points: list[_Point]) -> tuple[float, float]:
    """Step at which the slope is 0, by interpolation between points (least steep first), and its likely error.

    With two points, w is a cubic of the slope. With more, the slope is a polynomial of w through the nearest points; as
    many are used as are likely to give the smallest error.
    """
    b = points[0]
    w = _inverse_cubic(points[1], b) if len(points) > 1 else _newton(b)
    error = abs(w - b.w)
    if len(points) < 3 or not math.isfinite(w):
        return w, error
    likely, size = [(error, w)], error
    for root in _polynomial_roots(points, w):
        before, size, w = size, abs(root - w), root
        # One correction may be small by chance.
        likely.append((max(before, size), w))
    error, w = min(likely)
    return w, error


def _inverse_cubic(a: _Point, b: _Point) -> float:
    """Step at which the slope is 0, from w as a cubic of the slope through two points; from b alone if that fails."""
    rise = b.slope - a.slope
    t = -a.slope / rise if rise else math.inf  # 0 at a, 1 at b
    if not (abs(t - 1) < 0.5 and a.curvature > 0 and b.curvature > 0):
        return _newton(b)
    # Hermite basis at t, relative to b, so that differences from b.w stay exact when the points are close.
    at_a, slope_a, slope_b = (1 - t) ** 2 * (1 + 2 * t), t * (1 - t) ** 2, t**2 * (t - 1)
    return b.w + at_a * (a.w - b.w) + rise * (slope_a / a.curvature + slope_b / b.curvature)


def _polynomial_roots(points: list[_Point], w: float) -> Iterator[float]:
    """Yield roots near w of the Hermite interpolation of the slope through the nearest three points, four, and so on.

    For each polynomial, in Newton form, this makes one step of Newton's method from the previous root: as points are
    added, the corrections shrink as fast as those of Newton's method.
    """
    nodes = sorted({point.w: point for point in points}.values(), key=lambda point: abs(point.w - w))[:_MOST_NODES]
    x, _, slope, curvature = np.repeat(np.array(nodes), 2, axis=0).T  # every point counts twice
    # Relative to w, scaled so that high powers stay in range.
    unit = abs(nodes[-1].w - w)
    x, t = (x - w) / unit, 0.0
    divided, c = slope, [float(slope[0])]
    with np.errstate(all="ignore"):  # differences of a point with itself, and points too close for high powers
        for k in range(1, len(x)):
            divided = np.diff(divided) / (x[k:] - x[:-k])
            if k == 1:
                divided[::2] = unit * curvature[::2]
            c.append(float(divided[0]))
    terms = list(zip(c, x.tolist(), strict=True))
    for n in range(6, len(terms) + 1, 2):
        value = derivative = 0.0
        for c_k, x_k in reversed(terms[:n]):
            derivative = derivative * (t - x_k) + value
            value = value * (t - x_k) + c_k
        if 0 < derivative < math.inf and math.isfinite(value):  # otherwise the polynomial does not describe the slope
            t -= value / derivative
            yield w + unit * t
