"""Hinge loss over weights that are not negative and sparse: a linear program with few rows and columns that matter.

The problem is to minimise, over w >= 0, the mean of max(0, 1 + H w) over the rows of H, plus beta times the sum of w.
Its dual is to maximise the sum of a over 0 <= a <= c with H'a + beta >= 0, where c are the weights of the rows. If some
column violates that, a smaller multiple of a does not: every a gives a bound.

The method of multipliers solves it, with Newton's method inside, as Li, Sun and Toh do for the lasso (SIAM Journal on
Optimization 28, 2018). Near its kink the hinge is replaced by a parabola, shifted by the multiplier a of the row:

    max over 0 <= a' <= c of  a' s - (a' - a)^2 width / (2 c),    with s = 1 + H w,

whose maximiser is the next a. A Newton step needs only the rows on their parabolas, and the columns in use with a few
that violate their constraint; it is the solution of a small least-squares problem over weights that are not negative.
The parabolas are wide at first, where steps go far, and multipliers move at the last width only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dtrtrs
from scipy.optimize import nnls

from boostmetric.arrays.types import FloatArray

# Widths of the parabolas, where the margin is 1, and the violation of a column's constraint, relative to the largest by
# w = 0, at which Newton's method ends with each but the last. With that it ends, and multipliers move, where what the
# violation costs the bound is this share of the gap.
_WIDTHS = ((2.0, 1e-4), (0.3, 0.0))
_SHARE_OF_GAP = 0.1
# A width but the last is left, too, where a step lowers the value that is minimised to more than this share.
_WORTH_A_STEP = 0.95
# The last width becomes narrower where a move of the multipliers has not made the gap smaller by this factor.
_FAST, _NARROWER = 0.1, 0.3
# At most so many columns enter at a step, and the curvature is that of so many rows.
_ENTERING = 15
_ROWS_PER_COLUMN = 60
# Part of the unit diagonal that is added to the curvature, which may be singular; least curvature of a column.
_DAMPING, _LEAST_CURVATURE = 1e-7, 1e-6
_SHORT, _MORE = 1e-2, 10.0
# A step is long enough where the slope has fallen to this share.
_FLAT = 0.1
_EXACT = 1e-6
_MOST_TRIALS = 40
# A width is left after so many steps without a gap, or a value that is minimised, below this share of the least before.
_PATIENCE, _SMALLER, _LOWER = 30, 0.9, 1 - 1e-5
# The search ends at a gap of this share of the objective.
_ROUNDING = 1e-14


class SparseWeights(NamedTuple):
    """Weights that a search has reached.

    Attributes
    ----------
    weights : ndarray of shape (n_columns,)
    objective : float
    bound : float
        No weights have a lower objective.
    violated : float
        Share of the rows, by weight, with 1 + H w above 1.
    """

    weights: FloatArray
    objective: float
    bound: float
    violated: float


class MarginProducts(Protocol):
    """The matrix H, as products with it."""

    shape: tuple[int, int]

    def times(self, w: FloatArray) -> FloatArray:
        """H w."""
        ...

    def transposed_times(self, alpha: FloatArray) -> FloatArray:
        """H'alpha."""
        ...

    def block(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> FloatArray:
        """Some rows and columns of H."""
        ...


class SparseHinge:
    """The problem.

    Parameters
    ----------
    H : MarginProducts
    share : ndarray of shape (n_rows,)
        Weights of the rows, which are positive and add up to 1.
    beta : float
    """

    def __init__(self, H: MarginProducts, share: FloatArray, beta: float) -> None:
        self._H = H
        self._share = share
        self._beta = beta

    def search(self) -> Iterator[SparseWeights]:
        """Yield weights before each Newton step; ends when steps do not make them better."""
        share, beta = self._share, self._beta
        w, slack, multipliers = np.zeros(self._H.shape[1]), np.ones(self._H.shape[0]), np.zeros_like(share)
        worst_at_first = max(-float((beta + self._H.transposed_times(share)).min()), 0.0)
        for width, allowed in _WIDTHS:
            last = width == _WIDTHS[-1][0]
            slack, damping = 1 + self._H.times(w), _DAMPING
            waited, least_gap, least_value, gap_at_move = 0, np.inf, np.inf, np.inf
            while waited < _PATIENCE:
                place = slack / width + multipliers
                inside = np.minimum(np.maximum(place, 0.0), 1.0)
                gradient = beta + self._H.transposed_times(share * inside)
                reached = self._reached(w, slack, share * inside, gradient)
                yield reached
                gap = reached.objective - reached.bound
                if gap <= _ROUNDING * reached.objective:
                    return
                value = width * float((share * inside) @ (place - inside / 2)) + beta * float(w.sum())
                slow = value > _WORTH_A_STEP * least_value
                waited = 0 if gap < _SMALLER * least_gap or value < _LOWER * least_value else waited + 1
                least_gap, least_value = min(gap, least_gap), min(value, least_value)
                violation = max(-float(gradient.min()), float(np.abs(gradient[w > 0]).max(initial=0.0)))
                if not last and (slow or violation <= allowed * worst_at_first):
                    break
                enough = _SHARE_OF_GAP * beta * gap / reached.objective
                if last and violation <= max(enough, _ROUNDING * worst_at_first):
                    width *= 1.0 if gap < _FAST * gap_at_move else _NARROWER
                    multipliers, gap_at_move, damping = inside, gap, _DAMPING
                    place = slack / width + multipliers
                    gradient = beta + self._H.transposed_times(share * np.clip(place, 0, 1))
                    least_value = 0.0  # values are of another function now: only a smaller gap counts
                target = self._newton_point(w, place, width, gradient, damping)
                growth = 1 + self._H.times(target) - slack
                step = self._step(place, growth, width, beta * float((target - w).sum()), _largest_step(w, target))
                w = np.maximum(w + step * (target - w), 0.0)
                slack = slack + step * growth
                damping = min(damping * _MORE, 1.0) if step < _SHORT else max(damping / _MORE, _DAMPING)

    def _reached(self, w: FloatArray, slack: FloatArray, alpha: FloatArray, gradient: FloatArray) -> SparseWeights:
        objective = float(self._share @ np.maximum(slack, 0) + self._beta * w.sum())
        worst = self._beta - float(gradient.min())
        bound = float(alpha.sum()) * (min(1.0, self._beta / worst) if worst > 0 else 1.0)
        return SparseWeights(w, objective, min(bound, objective), float(self._share @ (slack > 1)))

    def _newton_point(
        self, w: FloatArray, place: FloatArray, width: float, gradient: FloatArray, damping: float
    ) -> FloatArray:
        """Minimum of the quadratic model over the columns in use and those that enter; the others keep 0."""
        (entering,) = ((w == 0) & (gradient < 0)).nonzero()
        entering = entering[np.argsort(gradient[entering])[:_ENTERING]]
        columns = np.concatenate([w.nonzero()[0], entering])
        target = np.zeros_like(w)
        if len(columns) == 0:
            return target
        (rows,) = ((place > 0) & (place < 1)).nonzero()
        n_rows = len(rows)
        if n_rows > (most := _ROWS_PER_COLUMN * len(columns)):
            rows = rows[np.linspace(0, n_rows - 1, most).astype(np.int64)]
        elif n_rows == 0:  # all are on straight parts: take the curvature of the nearest
            rows = np.argsort(np.abs(place - 0.5))[:most]
        H = self._H.block(rows, columns)
        H *= np.sqrt(self._share[rows] * (max(n_rows, len(rows)) / len(rows) / width))[:, None]
        target[columns] = _nonnegative(H.T @ H, w[columns], gradient[columns], damping)
        return target

    def _step(self, place: FloatArray, growth: FloatArray, width: float, change: float, most: float) -> float:
        """Step, at most `most`, at which the slope is nearly 0; `change` is that of the penalty per unit of step."""
        rate, weighed, inside = growth / width, self._share * growth, np.empty_like(place)

        def slope(step: float) -> float:
            np.multiply(rate, step, out=inside)
            np.add(inside, place, out=inside)
            np.maximum(inside, 0.0, out=inside)
            np.minimum(inside, 1.0, out=inside)
            return float(weighed @ inside) + change

        at_low = at_start = slope(0.0)
        if at_start >= -_ROUNDING:  # relative to an objective of at most 1: Newton's method has nearly converged
            return 1.0
        low, high = 0.0, 1.0
        while (at_high := slope(high)) < _FLAT * at_start and high < most:
            low, at_low, high = high, at_high, min(2 * high, most)
        if at_high <= -_EXACT * at_start:
            return high
        for i in range(_MOST_TRIALS):
            share = 0.5 if i % 2 else min(max(at_low / (at_low - at_high), 0.05), 0.95)
            middle = low + share * (high - low)
            at_middle = slope(middle)
            # A negative slope all the way: the value is lower.
            if _FLAT * at_start <= at_middle <= 0:
                return middle
            if at_middle < 0:
                low, at_low = middle, at_middle
            else:
                high, at_high = middle, at_middle
        return low


def _largest_step(w: FloatArray, target: FloatArray) -> float:
    """Length of a step from `w` by way of `target` at which the first weight becomes 0."""
    falling = target < w
    return max(1.0, float((w[falling] / (w[falling] - target[falling])).min())) if falling.any() else np.inf


def _nonnegative(curvature: FloatArray, w: FloatArray, gradient: FloatArray, damping: float) -> FloatArray:
    """Minimum over x >= 0 of gradient'(x - w) + (x - w)'curvature (x - w) / 2."""
    diagonal = np.diagonal(curvature)
    most = float(diagonal.max())
    unit = 1 / np.sqrt(np.maximum(diagonal, _LEAST_CURVATURE * most)) if most > 0 else np.ones(len(w))
    scaled = curvature * unit[:, None] * unit
    scaled.flat[:: len(w) + 1] += damping
    wanted = scaled @ (w / unit) - gradient * unit
    root, failed = dpotrf(scaled, lower=0, clean=1)  # SciPy's wrappers of these take longer than they do
    try:
        if failed:
            raise RuntimeError
        x, _ = nnls(root, dtrtrs(root, wanted, lower=0, trans=1)[0], maxiter=10 * len(w))
    except RuntimeError:
        return np.asarray(np.maximum(w - unit**2 * gradient, 0))
    (used,) = x.nonzero()
    if np.array_equal(used, w.nonzero()[0]):  # close to the end: keep the digits that `wanted` loses
        moved = w[used] - unit[used] * np.linalg.solve(scaled[np.ix_(used, used)], unit[used] * gradient[used])
        if (moved > 0).all():
            x[used] = moved / unit[used]
    return np.asarray(x * unit)
