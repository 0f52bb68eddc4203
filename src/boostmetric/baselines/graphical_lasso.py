"""The graphical lasso: the positive definite M that minimises tr(SM) - log det M + penalty times |M| off the diagonal.

Its dual is to maximise log det W over the W that differ from S by at most the penalty off the diagonal, and not on it;
then W is the inverse of M. Block coordinate descent goes from one such W to the next, which solves a lasso for each
column (Friedman, Hastie and Tibshirani, "Sparse inverse covariance estimation with the graphical lasso", Biostatistics
9, 2008). It begins with S moved towards 0 by the penalty, where that is positive definite. Features that S connects by
no path of entries above the penalty are independent there, and stay so: the rule of Witten, Friedman and Simon (2011)
and of Mazumder and Hastie (2012), which is exact.

scikit-learn's has Python between the columns, which is nine tenths of its time at a dozen features; takes an estimate
of the duality gap for the gap; and fails for some S that are not positive semidefinite, as those of SDML, although
there is a minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from boostmetric.arrays.types import FloatArray

# Called with M and the objective after each sweep; returns True to stop.
OnIteration = Callable[[FloatArray, float], bool]
# Lassos are solved to this change of a coefficient, in the first sweep and in the last ones.
_FIRST, _LAST = 1e-3, 1e-12
_MOST_ROUNDS = 200
# Moves towards S of a start that is not S, and the least eigenvalue, relative to the diagonal, at which they end.
_MOST_MOVES, _LEAST = 100, 1e-10
_SWEEPS_PER_MOVE, _SHARE = 2, 0.9


class SparseInverse(NamedTuple):
    """Result of the graphical lasso.

    Attributes
    ----------
    precision : ndarray of shape (n_features, n_features)
        M, with its zeros.
    objective : float
    bound : float
        No matrix has a lower objective.
    converged : bool
        Whether the two are as close as was asked for, or as rounding allows.
    """

    precision: FloatArray
    objective: float
    bound: float
    converged: bool


def _go_on(precision: FloatArray, objective: float) -> bool:
    return False


def sparse_inverse(
    S: FloatArray, penalty: float, *, tol: float, max_iter: int, on_iteration: OnIteration = _go_on
) -> SparseInverse | None:
    """Solve the graphical lasso to a duality gap of `tol`; None if there is no minimum.

    Parameters
    ----------
    S : ndarray of shape (n_features, n_features)
        Symmetric.
    penalty : float
    tol : float
    max_iter : int
        Most sweeps.
    on_iteration : callable, optional

    Notes
    -----
    Cost: features squared for a sweep, and features for each coefficient that changes; features cubed for the gap.
    """
    if not (S.diagonal() > 0).all() or not np.isfinite(S).all():
        return None
    if penalty == 0:
        return _inverse(S)
    with np.errstate(all="ignore"):  # of matrices that are nearly singular, which are not taken
        W = _start(S, penalty)
        W = _moved_start(S, penalty) if W is None else W
        return None if W is None else _sweeps(S, penalty, W, tol, max_iter, on_iteration)


def _moved_start(S: FloatArray, penalty: float) -> FloatArray | None:
    """A start as below, reached from one for S with a larger diagonal; None if there is none.

    A start for S + t I is one for S + t' I if it stays positive definite when t - t' is taken off its diagonal. Sweeps
    raise its determinant, and so its least eigenvalue.
    """
    identity = np.eye(len(S))
    more = 1.1 * max(-float(np.linalg.eigvalsh(S)[0]), _LEAST * float(S.diagonal().max()))
    W = S + more * identity
    for _ in range(_MOST_MOVES):
        _sweeps(S + more * identity, penalty, W, 0.0, _SWEEPS_PER_MOVE, _go_on)
        least = float(np.linalg.eigvalsh(W)[0])
        if not least > _LEAST * float(W.diagonal().max()):
            return None
        taken = min(_SHARE * least, more)
        W, more = W - taken * identity, more - taken
        if more == 0:
            return W
    return None


def _start(S: FloatArray, penalty: float) -> FloatArray | None:
    """A positive definite matrix that differs from S by at most the penalty, and not on the diagonal; or None."""
    moved = np.copysign(np.maximum(np.abs(S) - penalty, 0.0), S)
    np.fill_diagonal(moved, S.diagonal())
    for W in (moved, np.array(S)):
        if _log_determinant(W) is not None:
            return W
    return None


def _sweeps(
    S: FloatArray, penalty: float, W: FloatArray, tol: float, max_iter: int, on_iteration: OnIteration
) -> SparseInverse | None:
    """Sweep until the gap is at most `tol`, from a positive definite W, which changes in place."""
    from boostmetric.kernels.graphical_lasso import sweep  # imports numba, so only when needed

    S = np.ascontiguousarray(S)
    coefficients, gradient, best = np.zeros_like(S), np.empty(len(S)), None
    low, high = S - penalty, S + penalty
    np.fill_diagonal(low, S.diagonal())
    np.fill_diagonal(high, S.diagonal())
    bound, rounding = -np.inf, 16 * len(S) * np.finfo(np.float64).eps
    for n_iter in range(1, max_iter + 1):
        sweep(S, penalty, max(_FIRST**n_iter, _LAST), _MOST_ROUNDS, W, coefficients, gradient)
        diagonal = 1 / (W.diagonal() - np.einsum("ij,ij->i", W, coefficients))
        M = -diagonal[:, None] * coefficients
        M = (M + M.T) / 2
        np.fill_diagonal(M, diagonal)
        of_dual, of_primal = _log_determinant(np.clip(W, low, high)), _log_determinant(M)
        if of_dual is not None:
            bound = max(bound, of_dual + len(S))
        if of_primal is not None:
            off_diagonal = float(np.abs(M).sum() - np.abs(diagonal).sum())
            objective = float(np.vdot(S, M)) - of_primal + penalty * off_diagonal
            if best is None or objective < best.objective:
                best = SparseInverse(M, objective, bound, converged=False)
            best = best._replace(bound=min(bound, best.objective))
            close = best.objective - best.bound <= tol + rounding * max(abs(objective), 1.0)
            best = best._replace(converged=bool(close))
            if on_iteration(best.precision, best.objective) or close:
                break
    return best


def _inverse(S: FloatArray) -> SparseInverse | None:
    """The minimum without a penalty."""
    logarithm = _log_determinant(S)
    if logarithm is None:
        return None
    objective = len(S) + logarithm
    M = np.linalg.inv(S)
    return SparseInverse((M + M.T) / 2, objective, objective, converged=True)


def _log_determinant(matrix: FloatArray) -> float | None:
    """Logarithm of the determinant of a positive definite matrix; None for others."""
    try:
        logarithm = 2 * float(np.log(np.linalg.cholesky(matrix).diagonal()).sum())
    except np.linalg.LinAlgError:
        return None
    return logarithm if np.isfinite(logarithm) else None
