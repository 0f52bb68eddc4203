"""The step along a direction: Eq. (8) of the paper, from one pass, by interpolation in a bracket, or by bisection.

Along a direction xi the objective is phi(w), the loss that the oracle's `moments` describe, + v w. It is
convex, and Eq. (8) says phi'(w) = 0. The cases, which Algorithm 1 leaves to its interval [w_l, w_u]:

- phi'(0) >= 0: nothing to gain, the step is 0. Boosting stops before it asks (lambda_max <= v).
- phi'(0) < 0 <= phi'(w) for some w: the root lies between, and is found.
- phi'(w) < 0 as far as we look: every comparison gains more than v from this direction, there is no root, and the loss
  falls without end. The step is capped.

A slope that is lost in the rounding of the first one, or of the growths of the comparisons, counts as 0: with v = 0 and
a comparison that the direction does not touch, phi falls towards a limit that it never reaches.

An evaluation of `moments` may be a round over a network, which costs the same for one step or for several. Then several
are asked for at once (`Oracle.steps_at_once`): those around a guess along with 0, and then those around the root that
is expected from them. Where these say little of the root, as when there is no guess or a wrong one, many are asked for,
all over the place where it may be, so close to each other that it is known wherever it is. That takes two evaluations,
where one step at a time takes three or four.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from boostmetric.oracles.protocol import Moments, Oracle

# A root is looked for up to this many natural units: exponents of a million still have ten digits.
_REACH = 2.0**20
# A capped step is the end of the reach, halved as long as the loss falls by this, the comparisons then weighing e^-50
# of what they did. That takes 50 natural units at least.
_CAPPED_FALL = 50.0
_HALVES: NDArray[np.float64] = np.exp2(-np.arange(16.0))
# A slope of this size, relative to that at 0, is rounding.
_FLAT = 1e-15
# Of the rounding of growths, what is left in a slope, which is a sum of many.
_OF_ROUNDING = 0.05
# The error of an interpolated step is of the third order in its distance to the last point: after an update of this
# relative size the step is exact to rounding.
_TOLERANCE = 1e-5
# Where the second derivative jumps it is of the first order, though small: then after one of this size.
_TOLERANCE_WITH_CORNERS = 1e-12
# Relative size of the last corrections to a step that several points were interpolated for, after which it is exact
# enough: corrections become small fast, and the next would be far smaller.
_LAST_CORRECTION = 1e-9
# Steps around a guess are so many times each other; more, and those on both sides of the root are no guide to it.
_RATIO = 2.0
# Steps around a proposal reach so many times its error to both sides, and at least this far, relative to it: points
# much closer than that are no better, and miss the root where the error was underrated.
_SPREAD, _LEAST_SPREAD = 4.0, 5e-3
# With an error larger than this, relative to the proposal, steps are spread all over the bracket.
_MOST_ERROR = 5e-3
# Each is so many times the one before, close enough for an interpolation that is exact to rounding almost always; so
# many at least, and at most, in a bracket; and so many beyond each of its ends, for roots next to them.
_DENSE_RATIO, _LEAST_DENSE, _MOST_DENSE, _BEYOND = 1.05, 20, 400, 2
# Where the bracket begins at 0, they begin at this part of Newton's step, which may be far too long.
_FIRST = 1 / 64
# So many points are interpolated, those nearest to the root; more add rounding only.
_MOST_NODES = 16
_BISECTION_TOLERANCE = 1e-13
_MOST_EVALUATIONS = 200
# Relative error of the histogram's mass up to which its step is taken; a longer one is only a start. Slopes are then
# wrong by less than _FLAT.
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
    known : list of _Point
        It, and those around the guess.
    at_once : int
        Steps to ask for in an evaluation.
    unit : float
        Natural length of a step, 1 / (root mean square growth of the comparisons).
    reach : float
        How far to look for a root.
    flat : float
        Size of a slope that counts as 0.
    exact : float
        Relative width of a bracket that cannot be told from a point.
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
        """The same line, as far as it goes, by an evaluation that sees further."""
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
        """Some points inside a bracket: w itself, and others on both sides, as far as its error and nearer.

        Where the error is large, or anyone's guess, points all over the bracket.
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
        """A geometric sequence of steps all over a bracket; if it has no end, up to the reach, and those of `ends`."""
        end = self.reach if high is None else high
        begin = low or _FIRST * min(_newton(self.start), self.unit, end)
        n = min(max(math.ceil(math.log(end / begin) / math.log(_DENSE_RATIO)), _LEAST_DENSE), _MOST_DENSE)
        exponents = np.arange(-_BEYOND, n + _BEYOND + 1) / n
        steps = begin * (end / begin) ** exponents[(exponents != 0) & (exponents != 1)]  # the ends are known
        return np.append(steps[steps < self.reach], self.reach * _HALVES if high is None else [])

    def ends(self) -> list[_Point]:
        """Where a capped step may end; known already, if steps all over the reach were asked for."""
        return self._ends or self.along(self.reach * _HALVES)

    def _points(self, steps: NDArray[np.float64], moments: Moments) -> list[_Point]:
        fall = self._loss - moments.loss - self._v * steps
        columns = (steps, fall, moments.first + self._v, moments.second)
        return [_Point(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def exact_step(oracle: Oracle, v: float, guess: float | None = None) -> Step:
    """Solve Eq. (8): from one pass over single comparisons where that is exact enough, else by interpolation.

    Parameters
    ----------
    oracle : Oracle
        Projected on the direction.
    v : float
        Regularization.
    guess : float, optional
        A step of the size to expect, for oracles that are asked for several at once.
    """
    histogram = oracle.histogram()
    if histogram is None:
        line = _Line(oracle.moments, v, oracle.rounding, oracle.steps_at_once, guess, has_corners=oracle.has_corners)
        return _root(line)
    line = _Line(histogram.moments, v, oracle.rounding, reach=histogram.reach(_HISTOGRAM_ERROR))
    step = _root(line)
    # Where there is no root as far as the histogram can see, go on with the comparisons themselves.
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
    """The root of phi' by inverse interpolation, kept inside a bracket.

    Two points with their slopes and curvatures give w as a cubic of the slope, and its value at slope 0: about three
    evaluations where Newton's method, which uses one point, takes five. Further points, where several are asked for at
    once, give the slope as a polynomial of higher degree. While no point right of the root is known, a step may grow
    eightfold at most; inside the bracket, a proposal that leaves it, or follows a slope that did not halve, is replaced
    by the middle.
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
        # The shortest step at which the slope is none, or that of the least slope.
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
    """The points next to the root on both sides, after some points in between were seen."""
    low = max((point for point in points if point.slope < 0), key=_size, default=low)
    high = min((point for point in points if point.slope >= 0), key=_size, default=high)
    return low, high


def _capped(line: _Line) -> Step:
    """A step at which a loss that falls all the way has fallen by _CAPPED_FALL, or the end of the reach."""
    far = [point.w for point in line.ends() if point.fall >= _CAPPED_FALL]
    return Step(min(far, default=line.reach), capped=True)


def _newton(point: _Point) -> float:
    return point.w - point.slope / point.curvature if point.curvature > 0 else math.inf


def _interpolated(points: list[_Point]) -> tuple[float, float]:
    """Where the slope is 0, by interpolation between points, the least steep first; and its likely error.

    With two points, w is a cubic of the slope. With more, the slope is a polynomial of w, by as many of the nearest
    points as are likely to have the least error.
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
    """Where the slope is 0, if w is a cubic of the slope through two points; from b alone if they are no guide."""
    rise = b.slope - a.slope
    t = -a.slope / rise if rise else math.inf  # 0 at a, 1 at b
    if not (abs(t - 1) < 0.5 and a.curvature > 0 and b.curvature > 0):
        return _newton(b)
    # Hermite's basis at t, about b: the differences from b.w stay exact when the points are close.
    at_a, slope_a, slope_b = (1 - t) ** 2 * (1 + 2 * t), t * (1 - t) ** 2, t**2 * (t - 1)
    return b.w + at_a * (a.w - b.w) + rise * (slope_a / a.curvature + slope_b / b.curvature)


def _polynomial_roots(points: list[_Point], w: float) -> Iterator[float]:
    """Roots near w of Hermite's interpolation of the slope by the nearest three points, four, and so on.

    Of each polynomial, in Newton's form, one step of Newton's method from the root before: as points are added, the
    corrections become small as fast as those of his method.
    """
    nodes = sorted({point.w: point for point in points}.values(), key=lambda point: abs(point.w - w))[:_MOST_NODES]
    x, _, slope, curvature = np.repeat(np.array(nodes), 2, axis=0).T  # every point counts twice
    # From w, in units in which high powers stay in range.
    unit = abs(nodes[-1].w - w)
    x, t = (x - w) / unit, 0.0
    divided, c = slope, [float(slope[0])]
    with np.errstate(all="ignore"):  # a point by itself, and points that are too close for high powers after all
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
        if 0 < derivative < math.inf and math.isfinite(value):  # else the polynomial is no guide to the slope
            t -= value / derivative
            yield w + unit * t
