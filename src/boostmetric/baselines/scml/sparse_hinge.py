"""Hinge loss over weights that are not negative and sparse: a linear program with few rows that matter.

The problem is to minimise, over w >= 0, the mean of max(0, 1 + H w) over the rows of H, plus beta times the sum of w.
Its dual is to maximise the sum of a over 0 <= a <= c with H'a + beta >= 0, where c are the weights of the rows. If some
column violates that, a smaller multiple of a does not: every a gives a bound.

First the hinge is smoothed, and some iterations of L-BFGS-B come close. Then most rows are clearly on one side of the
hinge, where the loss is linear. Only the others, with the columns that may be used, make a linear program; rows and
columns that its solution shows to be missing are added, until the bound is close.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog, minimize

from boostmetric.arrays.types import FloatArray

# Widths of the smoothed part of the hinge, whose margin is 1, and most iterations with each. More of them take longer
# than they save: after these the linear programs have few rows already.
_WIDTHS = (0.1, 0.03)
_SMOOTH_ITERATIONS = 50
# Rows within this many widths of the hinge are in the first linear program, and columns of at most this reduced cost,
# relative to beta.
_NEAR, _CHEAP = 5.0, 0.05


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


class SparseHinge:
    """The problem.

    Parameters
    ----------
    H : ndarray of shape (n_rows, n_columns)
    share : ndarray of shape (n_rows,)
        Weights of the rows, which add up to 1.
    beta : float
    """

    def __init__(self, H: FloatArray, share: FloatArray, beta: float) -> None:
        self._H = H
        self._share = share
        self._beta = beta
        self._size = max(float(np.abs(H).mean()), np.finfo(np.float64).tiny)

    def search(self) -> Iterator[SparseWeights]:
        """Yield better and better weights; ends when the linear program repeats itself."""
        H, scaled = (self._H / self._size).astype(np.float32), np.zeros(self._H.shape[1])
        for width in _WIDTHS:
            scaled = self._smoothed(H, scaled, width)
        w = scaled / self._size
        slack = 1 + self._H @ w
        alpha = self._share * np.clip(slack / _WIDTHS[-1], 0, 1)
        yield self._reached(w, alpha)
        rows = np.abs(slack) < _NEAR * _WIDTHS[-1]
        above = slack > 0
        columns = (w > 0) | (self._H.T @ alpha + self._beta < _CHEAP * self._beta)
        # Without a limit, the rows that are missing could let weights grow for ever.
        most = 10 * max(float(w.sum()), 1.0 / self._size)
        while True:
            solved = self._linear_program(rows, above & ~rows, columns, most)
            if solved is None:
                return
            w, alpha = solved
            yield self._reached(w, alpha)
            slack = 1 + self._H @ w
            missing_rows = ~rows & ((slack > 0) != above)
            missing_columns = ~columns & (self._H.T @ alpha + self._beta < 0)
            at_limit = bool(w.max() >= (1 - 1e-9) * most)
            if not (missing_rows.any() or missing_columns.any() or at_limit):
                return
            most *= 10 if at_limit else 1
            rows, columns = rows | missing_rows, columns | missing_columns

    def _reached(self, w: FloatArray, alpha: FloatArray) -> SparseWeights:
        slack = 1 + self._H @ w
        objective = float(self._share @ np.maximum(slack, 0) + self._beta * w.sum())
        worst = float(np.max(-(self._H.T @ alpha), initial=0.0))
        bound = float(alpha.sum()) * min(1.0, self._beta / worst if worst > 0 else 1.0)
        return SparseWeights(w, objective, min(bound, objective), float(self._share @ (slack > 1)))

    def _smoothed(self, H: NDArray[np.float32], start: FloatArray, width: float) -> FloatArray:
        """Minimise, in single precision and scaled, with a hinge that is a parabola where it is below `width`."""
        beta = self._beta / self._size

        def fun(scaled: FloatArray) -> tuple[float, FloatArray]:
            slack = 1.0 + (H @ scaled.astype(np.float32)).astype(np.float64)
            inside = np.clip(slack / width, 0, 1)
            value = self._share @ (inside * slack - width / 2 * inside**2) + beta * scaled.sum()
            gradient = H.T @ (self._share * inside).astype(np.float32) + beta
            return float(value), gradient.astype(np.float64)

        bounds = [(0, None)] * len(start)
        options = {"maxiter": _SMOOTH_ITERATIONS, "maxcor": 30, "ftol": 1e-9, "gtol": 0.0}
        return np.asarray(minimize(fun, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x)

    def _linear_program(
        self, rows: NDArray[np.bool_], above: NDArray[np.bool_], columns: NDArray[np.bool_], most: float
    ) -> tuple[FloatArray, FloatArray] | None:
        """Solve for some columns, with the hinge of some rows, those `above` counted as linear, and the rest as 0."""
        if not rows.any() or not columns.any():
            return None
        H, some = self._H[rows][:, columns], self._share[rows]
        costs = self._beta + self._share[above] @ self._H[above][:, columns]
        n_rows, n_columns = H.shape
        solved = linprog(
            np.concatenate([costs, some]),
            A_ub=sparse.hstack([sparse.csc_array(H), -sparse.eye_array(n_rows)], format="csc"),
            b_ub=-np.ones(n_rows),
            bounds=[(0, most)] * n_columns + [(0, None)] * n_rows,
            method="highs",
        )
        if solved.status != 0:
            return None
        weights, alpha = np.zeros(len(columns)), np.zeros(len(rows))
        weights[columns] = np.maximum(solved.x[:n_columns], 0)
        alpha[above] = self._share[above]
        alpha[rows] = np.clip(-solved.ineqlin.marginals, 0, some)
        return weights, alpha
