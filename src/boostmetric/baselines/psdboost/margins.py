"""Margins of comparisons, and linear programs that maximise the smallest of them (see `PSDBoost`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy.optimize import linprog

from boostmetric.arrays.frame import Frame
from boostmetric.arrays.types import FloatArray
from boostmetric.baselines.pair_set import PairSet
from boostmetric.comparisons import Comparisons

# Eigenvectors of a matrix that become columns. With one alone, twice as many linear programs are needed.
_MOST_COLUMNS = 5
# Tolerance of HiGHS, its smallest: the solution is then made exactly feasible, and should still be nearly optimal.
_FEASIBILITY = 1e-10
# A margin this close to rho, relative to the others, may count on either side of it.
_SLACK = 1e-9
# All margins may be zero up to rounding. With a smaller unit than this, relative to the largest distance, the numbers
# in the programs would be too large for HiGHS.
_LEAST_UNIT = 1e-9
# Rounding error of an eigenvalue, relative to the largest distance.
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


class TraceOne(NamedTuple):
    """Metric of trace 1 in the coordinates of the computation, and its scores.

    Attributes
    ----------
    directions : ndarray of shape (n_directions, n_dimensions)
    weights : ndarray of shape (n_directions,)
        Positive weights that add up to 1.
    objective : float
        Mean of the smallest margins.
    size : float
        Mean absolute margin.
    violated : float
        Share of the comparisons that are not satisfied.
    """

    directions: FloatArray
    weights: FloatArray
    objective: float
    size: float
    violated: float

    def rows(self, frame: Frame) -> FloatArray:
        """Linear map in the features of the data, whose trace is also 1."""
        return np.sqrt(self.weights)[:, None] * frame.lift(self.directions)


class Margins:
    """Comparisons in the form of a linear program.

    A_r is the outer product of the difference of the far pair of comparison r, minus that of the near pair. Dual points
    are given as ``x = u / (C omega)``, with entries between 0 and 1: u itself would be small compared with the
    tolerances of a solver.

    Parameters
    ----------
    frame : Frame
        Points in the coordinates of the computation.
    comparisons : Comparisons
    nu : float
        Share of the comparisons whose margins count.
    """

    def __init__(self, frame: Frame, comparisons: Comparisons, nu: float) -> None:
        listed = comparisons.listed()
        near, far = listed.side_sizes
        omega = np.repeat(listed.weights, near * far)
        self.share, self.nu = omega / omega.sum(), float(nu)
        self._near, self._far = listed.pair_numbers()
        self._numbers, self._coordinates = listed.pairs, np.asarray(frame.points)
        self._pairs = PairSet.of(self._coordinates, listed.pairs)
        distances = self._pairs.squared_distances(np.eye(self._coordinates.shape[1]))
        self.rounding = _ROUNDING * float(distances.max())
        self.least_unit = _LEAST_UNIT * float(distances.max())

    def along(self, directions: FloatArray) -> FloatArray:
        """Compute v' A_r v for every direction v and comparison r."""
        z = directions @ self._coordinates.T
        growth = np.square(z[:, self._numbers[:, 0]] - z[:, self._numbers[:, 1]])
        return np.asarray(growth[:, self._far] - growth[:, self._near])

    def leading(self, x: FloatArray, above: float = -np.inf) -> tuple[FloatArray, float]:
        """Leading eigenvectors of sum_r u_r A_r with eigenvalues larger than `above`, and the largest eigenvalue."""
        u, n_pairs = self.share * x / self.nu, len(self._pairs)
        far, near = (np.bincount(side, u, n_pairs).astype(np.float64, copy=False) for side in (self._far, self._near))
        gram = self._pairs.gram(far - near)
        last = len(gram) - 1
        subset = [max(0, last + 1 - _MOST_COLUMNS), last]
        values, vectors = scipy.linalg.eigh(gram, subset_by_index=subset, check_finite=False)
        return np.ascontiguousarray(vectors[:, values > above].T[::-1]), float(values[-1])

    def metric(self, directions: FloatArray, growths: FloatArray, w: FloatArray) -> TraceOne:
        """Metric X = sum_j w_j v_j v_j' with its objective, the mean of the smallest margins."""
        used = w > 0
        margins = w[used] @ growths[used]
        order = np.argsort(margins, kind="stable")
        share = self.share[order]
        counted = np.clip(self.nu - (np.cumsum(share) - share), 0.0, share)
        objective, size = float(counted @ margins[order]) / self.nu, float(self.share @ np.abs(margins))
        return TraceOne(directions[used], w[used], objective, size, float(self.share[margins <= 0].sum()))


def solve(
    growths: FloatArray, share: FloatArray, nu: float, w: FloatArray, unit: float
) -> tuple[FloatArray, FloatArray] | None:
    """Solve the program of these columns for a dual point x and weights w; None if HiGHS fails.

    It is solved in the form min pi over x and pi with a row ``sum_r u_r v_j' A_r v_j <= pi`` for each column, whose
    dual values are w: a basis is then no larger than the number of columns. Comparisons with large margins have x = 0,
    those with small margins x = 1; the program only solves for those near rho, and any that turn out to be on the wrong
    side.

    Parameters
    ----------
    growths : ndarray of shape (n_columns, n_comparisons)
    share : ndarray of shape (n_comparisons,)
        Weights of the comparisons, which add up to 1.
    nu : float
    w : ndarray of shape (n_columns,)
        Weights whose margins give an estimate of rho.
    unit : float
        Unit of the margins.
    """
    n, unit = len(share), unit or 1.0
    order = np.argsort(w @ growths, kind="stable")
    middle = min(int(np.searchsorted(np.cumsum(share[order]), nu)), n - 1)
    below, free = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    below[order[:middle]] = True
    reach = len(growths) + 1
    free[order[max(0, middle - reach) : middle + reach + 1]] = True
    while True:
        x = np.where(below & ~free, 1.0, 0.0)
        program = _program(growths[:, free] * (share[free] / (nu * unit)), growths @ (share * x) / (nu * unit))
        mass = np.append(share[free] / nu, 0.0)[None]
        # Without presolve, which takes half of the time and does not help; interior point if simplex fails.
        for method, presolve in (("highs-ds", False), ("highs-ipm", True)):
            tolerances = {"primal_feasibility_tolerance": _FEASIBILITY, "dual_feasibility_tolerance": _FEASIBILITY}
            options = {"presolve": presolve, **tolerances}
            result = linprog(**program, A_eq=mass, b_eq=[1.0 - share @ x / nu], method=method, options=options)
            if result.status == 0:
                break
        else:
            return None
        w = np.maximum(-result.ineqlin.marginals, 0.0)
        w /= w.sum()
        x[free] = result.x[:-1]
        rho, margins = result.eqlin.marginals[0] * unit, w @ growths
        slack = _SLACK * unit
        wrong = ~free & np.where(below, margins > rho + slack, margins < rho - slack)
        if not wrong.any():
            return _feasible(x, share, nu), w
        free |= wrong


def _program(rows: FloatArray, constant: FloatArray) -> dict[str, Any]:
    """Program min pi over x in [0, 1] and pi, subject to ``rows @ x + constant <= pi``."""
    n_columns, n_free = rows.shape
    bounds = np.tile([0.0, 1.0], (n_free + 1, 1))
    bounds[-1] = (-np.inf, np.inf)
    A_ub = np.column_stack([rows, -np.ones(n_columns)])
    return {"c": np.append(np.zeros(n_free), 1.0), "A_ub": A_ub, "b_ub": -constant, "bounds": bounds}


def _feasible(x: FloatArray, share: FloatArray, nu: float) -> FloatArray:
    """Make a point that is feasible up to a solver's tolerance exactly feasible, so that its eigenvalue is a bound."""
    x = np.clip(x, 0.0, 1.0)
    mass, room = float(share @ x), float(share @ (1.0 - x))
    if mass > nu or room == 0.0:
        return x * (nu / mass)
    return x + (1.0 - x) * ((nu - mass) / room)
