"""Searches behind MMC: maximise the sum of distances over metrics of trace 1.

Both work in coordinates in which the similar pairs vary by the same amount along every axis, so that the constraint of
Xing et al. is on the eigenvalues of the metric B alone: they are at least 0 and add up to 1. With d_p(B) the squared
distance of the dissimilar pair p, both maximise

    g(B) = sum_p sqrt(d_p(B)).

A *search* is a generator of `Reached`: the start, then the result of each iteration, until double precision can no
longer tell two successive results apart. The caller decides by the bound when to stop.

**The bound.** For any positive numbers t_p, the Cauchy-Schwarz inequality gives

    g(B*)^2 = (sum_p t_p^(1/4) * sqrt(d_p(B*)) / t_p^(1/4))^2 <= sum_p sqrt(t_p) * sum_p d_p(B*) / sqrt(t_p),

and the last sum is linear in B*: at most twice the largest eigenvalue (or entry, if B* is diagonal) of the matrix G =
sum_p (a - b)(a - b)' / (2 sqrt(t_p)). With t = d(B), G is the gradient of g, and the two sides meet at the maximum.
The tangent of g also bounds it, by the arithmetic mean of the two factors; this is their geometric mean, which is never
larger.

**Two kinds of steps** alternate. Gradient and Newton steps soon come close to the maximum. But a few pairs may be kept
apart by a small part of the metric alone: in the sum over all pairs it is lost in rounding, although the gradient,
infinite where a distance is 0, depends on it. The *power step* is multiplicative instead. With B = L'L, g is a sum of
lengths and convex in L: it lies above its tangent, which among all L of the same norm is largest at a multiple of L G.
So L G, rescaled to that norm, is never worse than L. The step needs no comparison of objectives, and corrects such a
part at once.

**Distances of zero** have no gradient. In the objective that is searched, the root is continued along its tangent below
a small `least`, and t_p is at least `least`. All of the above still holds, and g is reported without this change.
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
# Squared distance, relative to the mean at the start, below which the root is continued along its tangent.
_LEAST = 1e-12
# A step may lower the objective, but not below the worst of this many last ones: gradient steps of good length do.
_MEMORY = 10
# A step must gain this share of what the gradient promises.
_ARMIJO = 1e-4
# Gradient steps between two power steps; alternating one by one disturbs the step lengths.
_GRADIENT_STEPS = 2
# A Newton step keeps at least this share of a weight: the power step cannot change a weight of 0.
_KEPT = 0.1
# Entries of a table of pairs and features processed at once, and the most kept in memory rather than recomputed.
_PART, _MOST_HELD = 2**17, 2**23


@dataclass(frozen=True)
class Reached:
    """State of a search after an iteration.

    Attributes
    ----------
    metric : ndarray of shape (n_features, n_features) or (n_features,)
        B, or its diagonal; the trace is 1.
    objective : float
        g(B).
    bound : float
        Upper bound on the objective of all metrics.
    """

    metric: FloatArray
    objective: float
    bound: float


class _Roots:
    """Square roots of distances, each continued along its tangent below `least`.

    Attributes
    ----------
    total : float
        Sum of the continued roots: the objective that is searched.
    slopes : ndarray of shape (n_pairs,)
        Derivatives of `total` by the distances.
    objective : float
        Sum of the roots themselves.
    """

    def __init__(self, distances: FloatArray, least: float) -> None:
        root = np.sqrt(np.maximum(distances, least))
        self.slopes = 0.5 / root
        self.total = float(np.sum(0.5 * root + self.slopes * distances))
        self.objective = float(np.sqrt(distances).sum())
        self._sum = float(root.sum())

    def bound(self, largest: float) -> float:
        """Bound on g, from the largest eigenvalue or entry of the gradient."""
        return max(math.sqrt(2 * largest * self._sum), self.objective)  # could only be lower by rounding


def full_search(pairs: PairSet) -> Iterator[Reached]:
    """Search all metrics by projected gradient ascent with Barzilai-Borwein step lengths, and power steps.

    Parameters
    ----------
    pairs : PairSet
        Dissimilar pairs of different points.

    Notes
    -----
    Spectral projected gradients (Birgin, Martínez, Raydan, 2000). Distances are linear in B, so trying another step
    along a direction takes only a sum over the pairs. Cost of an iteration: one `PairSet.squared_distances`, one
    `PairSet.gram`, and two eigenvalue decompositions.
    """
    B = pairs.gram(np.ones(len(pairs)))  # directions outside the span of the pairs are 0, and stay 0
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
    """Step towards the projection of B + step * gradient, as far as the objective is better than `low`.

    Returns the metric and its squared distances; None if the promised gain is lost in rounding.
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
    """Metric of L G, rescaled to trace 1, and its squared distances."""
    rows = root(B) @ gradient
    rows /= np.linalg.norm(rows)
    return rows.T @ rows, pairs.squared_distances(rows)


def _gradient(pairs: PairSet, roots: _Roots) -> tuple[FloatArray, float]:
    gradient = pairs.gram(roots.slopes)
    return gradient, float(np.linalg.eigvalsh(gradient)[-1])


def _next_step(moved: FloatArray, bent: FloatArray, *, long: bool) -> float:
    """Long or short step of Barzilai and Borwein; 0 if the gradient shows no curvature.

    They alternate: long steps alone oscillate where some distances are almost 0, short ones alone make slow progress.
    """
    curvature = float(np.vdot(moved, bent))
    if curvature <= 0:
        return 0.0
    return float(np.vdot(moved, moved)) / curvature if long else curvature / float(np.vdot(bent, bent))


def _nearest(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Nearest positive semidefinite matrix of trace 1 to a symmetric one of larger trace; and its rows."""
    values, vectors = np.linalg.eigh(matrix)
    # Subtract the excess equally from the largest eigenvalues, so that these stay above 0; the others become 0.
    excess = (np.cumsum(values[::-1]) - 1) / np.arange(1, len(values) + 1)
    values = np.maximum(values - excess.max(), 0)
    rows = (vectors * np.sqrt(values)).T[values > 0]
    return rows.T @ rows, rows


def root(matrix: FloatArray) -> FloatArray:
    """Rows whose outer products with themselves add up to the given positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    kept = values > _EPS * len(values) * values[-1]
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0))).T[kept])


def diagonal_search(points: FloatArray, pairs: NDArray[np.integer[Any]]) -> Iterator[Reached]:
    """Search diagonal metrics, one weight per feature, by Newton's method, as Xing et al. do.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    pairs : ndarray of int of shape (n_pairs, 2)
        Dissimilar pairs of different points.

    Notes
    -----
    Instead of the constrained problem, sum_k b_k - log g(b) is minimised over b >= 0, which has the same solution up to
    a factor. A Newton step goes towards the minimum of the quadratic model within the bounds; a power step follows.
    Cost of an iteration: n_pairs * n_features**2, and a few linear systems for the weights.
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
    """Weights after a Newton step, and the gradient there; unchanged if the gain is lost in rounding."""
    loss, slope = b.sum() - math.log(roots.total), 1 - gradient / roots.total
    # The second derivative of a root is twice the cube of its first, up to the sign.
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
    """Decrease of the weights towards the minimum of the quadratic model, each by at most `most`.

    Uses principal pivoting: weights that decrease too far are fixed at their bound, and fixed ones that would increase
    are released, all at once; one by one if that cycles (Júdice, Pires, 1994). Rounding may still make it cycle, hence
    the limit.
    """
    # Regularized, because fewer pairs than features do not determine the weights.
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
    """Table of squared differences of pairs, by feature, in parts; recomputed on each use if it is large."""

    def __init__(self, points: FloatArray, pairs: NDArray[np.integer[Any]]) -> None:
        self._points, self._pairs = points, pairs
        self._n_rows = max(1, _PART // points.shape[1])
        self._held = list(self._made()) if len(pairs) * points.shape[1] <= _MOST_HELD else None

    def _made(self) -> Iterator[FloatArray]:
        for begin in range(0, len(self._pairs), self._n_rows):
            first, second = self._pairs[begin : begin + self._n_rows].T
            yield np.square(self._points[first] - self._points[second])

    def _parts(self, c: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Parts of the table, with the matching parts of `c`, which has one number per pair."""
        for i, part in enumerate(self._held or self._made()):
            yield part, c[i * self._n_rows : (i + 1) * self._n_rows]

    def times(self, b: FloatArray) -> FloatArray:
        """Squared distances of the pairs under weights b."""
        return np.concatenate([part @ b for part in self._held or self._made()])

    def transposed_times(self, c: FloatArray) -> FloatArray:
        """Sum of the table over pairs, weighted with c."""
        return np.asarray(sum(weights @ part for part, weights in self._parts(c)))

    def gram(self, c: FloatArray) -> FloatArray:
        """Sum of c_p times the outer product of row p with itself, for c of at least 0."""
        # As a matrix times its own transpose: a product of two different matrices takes BLAS ten times as long on a
        # busy machine, where its threads wait for each other.
        halves = (part * np.sqrt(weights)[:, None] for part, weights in self._parts(c))
        return np.asarray(sum(half.T @ half for half in halves))
