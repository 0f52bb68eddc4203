"""The searches behind MMC: the largest sum of distances among metrics whose parts add up to 1.

Both work in coordinates in which the similar pairs vary by the same amount along every axis, so that the constraint of
Xing et al. is about the eigenvalues of the metric B alone: they are at least 0 and add up to 1. With d_p(B) the squared
distance of the dissimilar pair p, both maximise

    g(B) = sum_p sqrt(d_p(B)).

A *search* is a generator of `Reached`: where it begins, and where each iteration has come to, for as long as double
precision can tell the last from the next. Whoever runs it decides when that is good enough, by the bound.

**The bound.** For any positive numbers t_p, the inequality of Cauchy and Schwarz gives

    g(B*)^2 = (sum_p t_p^(1/4) * sqrt(d_p(B*)) / t_p^(1/4))^2 <= sum_p sqrt(t_p) * sum_p d_p(B*) / sqrt(t_p),

and the last sum is linear in B*: at most twice the largest eigenvalue (or entry, if B* is diagonal) of the matrix G =
sum_p (a - b)(a - b)' / (2 sqrt(t_p)). With t = d(B), G is the gradient of g, and the two sides meet at the maximum.
The tangent of g bounds it too, by the arithmetic mean of the two factors; this is their geometric mean, never larger.

**Two kinds of steps** take turns. Those along the gradient, or of Newton, come close to the maximum soon. But a small
part of the metric may be all that holds a few pairs apart: in the sum over all pairs it drowns in rounding, though the
gradient, infinite where a distance is 0, depends on it. The *power step* multiplies instead. With B = L'L, g is a sum
of lengths and convex in L: it lies above its tangent, whose largest value among all L of that size is at L G. So L G,
divided by its size, is never worse than L. It needs no comparison of objectives, and sets such a part right at once.

**Distances of zero** have no gradient. Below a small `least` the root is continued along its tangent, in the objective
that is searched, and t_p is `least` at the least. All of the above holds as it is, and g is reported without that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.types import FloatArray
from boostmetric.baselines.pair_set import PairSet

_EPS = float(np.finfo(np.float64).eps)
# The square of a distance, compared with the mean at the beginning, from which on the root is continued.
_LEAST = 1e-12
# A step may lead below the last objective, but not below the worst of so many: gradient steps of good lengths do.
_MEMORY = 10
# A step must gain this part of what the gradient promises.
_ARMIJO = 1e-4
# Every so many steps of the gradient are followed by a power step; alternating with one disturbs the step lengths.
_GRADIENT_STEPS = 2
# A step of Newton leaves this part of a weight at least: of nothing, the power step makes nothing.
_KEPT = 0.1
# Numbers of a table of pairs and features that are worked on at once, and those that are held rather than made again.
_PART, _MOST_HELD = 2**17, 2**23


@dataclass(frozen=True)
class Reached:
    """What a search has come to.

    Attributes
    ----------
    metric : ndarray of shape (n_features, n_features) or (n_features,)
        B, or its diagonal; the trace is 1.
    objective : float
        g(B).
    bound : float
        No metric has a larger objective.
    """

    metric: FloatArray
    objective: float
    bound: float


class _Roots:
    """Square roots of distances, each continued along its tangent below `least`.

    Attributes
    ----------
    total : float
        Their sum: the objective that is searched.
    slopes : ndarray of shape (n_pairs,)
        Its derivatives.
    objective : float
        The sum of the roots themselves.
    """

    def __init__(self, distances: FloatArray, least: float) -> None:
        root = np.sqrt(np.maximum(distances, least))
        self.slopes = 0.5 / root
        self.total = float(np.sum(0.5 * root + self.slopes * distances))
        self.objective = float(np.sqrt(distances).sum())
        self._sum = float(root.sum())

    def bound(self, largest: float) -> float:
        """The bound on g, from the largest eigenvalue or entry of the gradient."""
        return max(math.sqrt(2 * largest * self._sum), self.objective)  # only rounding could put it below


def full_search(pairs: PairSet) -> Iterator[Reached]:
    """Projected gradient ascent over all metrics, with the step lengths of Barzilai and Borwein, and power steps.

    Parameters
    ----------
    pairs : PairSet
        Dissimilar pairs of different points.

    Notes
    -----
    Spectral projected gradients (Birgin, Martínez, Raydan, 2000). Distances are linear in B, so that trying another
    step along a direction takes a sum over the pairs and no products. Cost of an iteration: one
    `PairSet.squared_distances`, one `PairSet.gram`, and two eigenvalue decompositions.
    """
    B = pairs.gram(np.ones(len(pairs)))  # what the pairs do not reach is 0, and stays so
    B /= np.trace(B)
    d = pairs.squared_distances(root(B))
    least = _LEAST * float(d.mean())
    roots = _Roots(d, least)
    gradient, largest = _gradient(pairs, roots)
    step, totals = 1 / largest, [roots.total]
    while True:
        yield Reached(B, roots.objective, roots.bound(largest))
        moved = None
        if len(totals) % (_GRADIENT_STEPS + 1):
            moved = _gradient_step(pairs, B, d, gradient, step, least, min(totals[-_MEMORY:]))
        B_next, d = moved or _power_step(pairs, B, gradient)
        if np.abs(B_next - B).max() <= _EPS:
            return
        roots = _Roots(d, least)
        before, (gradient, largest) = gradient, _gradient(pairs, roots)
        totals.append(roots.total)
        step = _next_step(B_next - B, before - gradient, long=len(totals) % 2 == 0) or 10 * step
        step = min(max(step, 1e-8 / largest), 1e8 / largest)
        B = B_next


def _gradient_step(
    pairs: PairSet, B: FloatArray, d: FloatArray, gradient: FloatArray, step: float, least: float, low: float
) -> tuple[FloatArray, FloatArray] | None:
    """A step towards the projection of B + step * gradient, as far as the objective is better than `low`.

    The metric and its squared distances; None where rounding hides what the gradient promises.
    """
    target, rows = _nearest(B + step * gradient)
    d_target = pairs.squared_distances(rows)
    gain, w = float(np.vdot(gradient, target - B)), 1.0
    while w * gain > _EPS * low:
        moved = (1 - w) * d + w * d_target
        if _Roots(moved, least).total >= low + _ARMIJO * w * gain:
            return (1 - w) * B + w * target, moved
        w /= 2
    return None


def _power_step(pairs: PairSet, B: FloatArray, gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The metric of L G, divided by its size, and its squared distances."""
    rows = root(B) @ gradient
    rows /= np.linalg.norm(rows)
    return rows.T @ rows, pairs.squared_distances(rows)


def _gradient(pairs: PairSet, roots: _Roots) -> tuple[FloatArray, float]:
    gradient = pairs.gram(roots.slopes)
    return gradient, float(np.linalg.eigvalsh(gradient)[-1])


def _next_step(moved: FloatArray, bent: FloatArray, *, long: bool) -> float:
    """The long or the short step of Barzilai and Borwein; 0 where the gradient tells of no curvature.

    Taken in turns: long steps alone go back and forth where some distances are almost 0, short ones alone creep.
    """
    curvature = float(np.vdot(moved, bent))
    if curvature <= 0:
        return 0.0
    return float(np.vdot(moved, moved)) / curvature if long else curvature / float(np.vdot(bent, bent))


def _nearest(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The nearest positive semidefinite matrix of trace 1, of a symmetric one of larger trace; and its rows."""
    values, vectors = np.linalg.eigh(matrix)
    # The excess is taken from the largest ones in equal parts, which leaves none of them below 0 and the others at 0.
    excess = (np.cumsum(values[::-1]) - 1) / np.arange(1, len(values) + 1)
    values = np.maximum(values - excess.max(), 0)
    rows = (vectors * np.sqrt(values)).T[values > 0]
    return rows.T @ rows, rows


def root(matrix: FloatArray) -> FloatArray:
    """Rows whose products with themselves add up to a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    kept = values > _EPS * len(values) * values[-1]
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0))).T[kept])


def diagonal_search(points: FloatArray, pairs: NDArray[np.integer[Any]]) -> Iterator[Reached]:
    """Newton's method over the metrics that weigh each feature, as Xing et al. have it.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    pairs : ndarray of int of shape (n_pairs, 2)
        Dissimilar pairs of different points.

    Notes
    -----
    In place of the constraint, sum_k b_k - log g(b) is minimised over b >= 0, which has the same minimum but for a
    factor. A step of Newton goes towards the minimum of the quadratic model within the bounds; a power step follows.
    Cost of an iteration: n_pairs * n_features**2, and solving for the weights a few times.
    """
    table = _Table(points, pairs)
    b = table.transposed_times(np.ones(len(pairs)))
    b *= 0.5 / b.sum()
    d = table.times(b)
    least = _LEAST * float(d.mean())
    while True:
        roots = _Roots(d, least)
        gradient = table.transposed_times(roots.slopes)
        yield Reached(b / b.sum(), roots.objective / math.sqrt(b.sum()), roots.bound(float(gradient.max())))
        b_next, gradient = _newton_step(table, b, d, roots, gradient, least)
        b_next = b_next * gradient**2  # the power step
        b_next *= 0.5 / b_next.sum()
        if np.abs(b_next - b).max() <= _EPS:
            return
        b, d = b_next, table.times(b_next)


def _newton_step(
    table: _Table, b: FloatArray, d: FloatArray, roots: _Roots, gradient: FloatArray, least: float
) -> tuple[FloatArray, FloatArray]:
    """Weights after a step of Newton, and the gradient of the objective there; as they were if rounding hides it."""
    loss, slope = b.sum() - math.log(roots.total), 1 - gradient / roots.total
    # The second derivative of a root is twice the cube of its first, but for the sign.
    hessian = table.gram(2 * roots.slopes**3) / roots.total + np.outer(gradient, gradient) / roots.total**2
    fall = _newton_fall(slope, hessian, (1 - _KEPT) * b)
    d_target = table.times(b - fall)
    gain, w = float(slope @ fall), 1.0
    while w * gain > _EPS * max(1.0, abs(loss)):
        moved = b - w * fall
        roots = _Roots((1 - w) * d + w * d_target, least)
        if moved.sum() - math.log(roots.total) <= loss - _ARMIJO * w * gain:
            return moved, table.transposed_times(roots.slopes)
        w /= 2
    return b, gradient


def _newton_fall(slope: FloatArray, hessian: FloatArray, most: FloatArray) -> FloatArray:
    """How far the weights fall to the minimum of the quadratic model, none of them by more than `most`.

    By principal pivoting: weights that fall too far are put on their bound, those on it that would rise are let free,
    all at once; one by one where that goes round in a circle (Júdice, Pires, 1994). Rounding may still: hence a limit.
    """
    # Fewer pairs than features do not determine the weights.
    model = hessian + 1e-10 * np.trace(hessian) / len(hessian) * np.eye(len(hessian))
    held = np.zeros(len(slope), dtype=bool)
    rounding, fewest, patience = 1e-12 * np.abs(slope).max(), len(slope) + 1, 3
    for _ in range(10 * len(slope) + 10):
        fall, free = np.where(held, most, 0.0), ~held
        fall[free] = np.linalg.solve(model[np.ix_(free, free)], (slope - model @ fall)[free])
        wrong = np.where(held, slope - model @ fall < -rounding, fall > most + _EPS)
        if not wrong.any():
            break
        patience = 3 if wrong.sum() < fewest else patience - 1
        fewest = min(fewest, int(wrong.sum()))
        if patience <= 0:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        held ^= wrong
    return np.minimum(fall, most)


class _Table:
    """The squared differences of pairs, feature by feature, in parts that are made again each time if they are many."""

    def __init__(self, points: FloatArray, pairs: NDArray[np.integer[Any]]) -> None:
        self._points, self._pairs = points, pairs
        self._n_rows = max(1, _PART // points.shape[1])
        self._held = list(self._made()) if len(pairs) * points.shape[1] <= _MOST_HELD else None

    def _made(self) -> Iterator[FloatArray]:
        for begin in range(0, len(self._pairs), self._n_rows):
            first, second = self._pairs[begin : begin + self._n_rows].T
            yield np.square(self._points[first] - self._points[second])

    def _parts(self, c: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Parts of the table, and of a number for each pair."""
        for i, part in enumerate(self._held or self._made()):
            yield part, c[i * self._n_rows : (i + 1) * self._n_rows]

    def times(self, b: FloatArray) -> FloatArray:
        """The squared distances of the pairs under weights b."""
        return np.concatenate([part @ b for part in self._held or self._made()])

    def transposed_times(self, c: FloatArray) -> FloatArray:
        """The table summed over pairs, weighted with c."""
        return np.asarray(sum(weights @ part for part, weights in self._parts(c)))

    def gram(self, c: FloatArray) -> FloatArray:
        """The sum of c_p times the products of row p with itself, c being at least 0."""
        # A matrix times its own transpose: a product of two different ones takes BLAS ten times as long on a busy
        # machine, where its threads wait for each other.
        halves = (part * np.sqrt(weights)[:, None] for part, weights in self._parts(c))
        return np.asarray(sum(half.T @ half for half in halves))
