"""The weak learner: the leading eigenvector of A_hat.

There are three methods, depending on the number of features: form A_hat and factorise it; form it and multiply it with
vectors (our own Lanczos iteration, `_krylov`); or never form it, and let the oracle multiply (ARPACK, `lanczos`).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Literal

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from boostmetric.arrays.types import FloatArray
from boostmetric.metric.mahalanobis import with_fixed_signs
from boostmetric.oracles.protocol import Oracle
from boostmetric.parallel.scratch import Scratch

# Up to this dimension A_hat is formed. Beyond it, that costs more than the products with a vector that Lanczos needs.
LARGEST_DENSE = 512
# Up to this dimension a formed A_hat is factorised. Beyond it, a few dozen products with a vector are faster.
_LARGEST_FACTORISED = 128
# Maximum number of such products; after that, A_hat is factorised after all.
_MOST_STEPS = 160
# Products with a vector before the first convergence check, and between two checks.
_FIRST_LOOK, _NEXT_LOOK = 48, 12

_scratch = Scratch()


def leading_direction(oracle: Oracle, start: FloatArray) -> tuple[float, FloatArray]:
    """Largest eigenvalue of A_hat and its unit eigenvector. Implements Eq. (7) of the paper.

    Parameters
    ----------
    oracle : Oracle
    start : ndarray of shape (n_features,)
        Start vector for ARPACK: the last direction, or any vector. Not used if A_hat is formed.

    Returns
    -------
    eigenvalue : float
    xi : ndarray of shape (n_features,)
        Its entry of largest absolute value is positive.
    """
    if oracle.n_features <= LARGEST_DENSE:
        eigenvalue, xi = _of_formed(oracle.gram())
    else:
        eigenvalue, xi = _of_products(oracle, start)
    xi = xi / np.linalg.norm(xi)
    return eigenvalue, xi if xi[np.argmax(np.abs(xi))] > 0 else -xi


def leading_directions(oracle: Oracle, start: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
    """The k largest eigenvalues of A_hat, in descending order, and their unit eigenvectors as rows.

    Parameters
    ----------
    oracle : Oracle
    start : ndarray of shape (n_features,)
        As in `leading_direction`.
    k : int
        At most as many as there are features.
    """
    n = oracle.n_features
    if k == 1:
        eigenvalue, xi = leading_direction(oracle, start)
        return np.array([eigenvalue]), xi[None]
    if n <= LARGEST_DENSE or k > n // 4:
        values, vectors = scipy.linalg.eigh(oracle.gram(), subset_by_index=[max(n - k, 0), n - 1], check_finite=False)
        vectors = vectors.T
    else:
        values, vectors = lanczos(oracle, _never_stuck(start), k, "LA")
    order = np.argsort(-values, kind="stable")
    return values[order], with_fixed_signs(vectors[order] / np.linalg.norm(vectors[order], axis=1, keepdims=True))


def _of_formed(gram: FloatArray) -> tuple[float, FloatArray]:
    if len(gram) > _LARGEST_FACTORISED and (found := _krylov(gram)) is not None:
        return found
    last = len(gram) - 1
    values, vectors = scipy.linalg.eigh(gram, subset_by_index=[last, last], check_finite=False)
    return float(values[0]), vectors[:, 0]


def _krylov(matrix: FloatArray) -> tuple[float, FloatArray] | None:
    """Largest eigenvalue and its eigenvector by the Lanczos iteration; None if it takes too long.

    It starts from a fixed random vector: the last direction could lie in an invariant subspace of A_hat, which the
    iteration would never leave.
    """
    from boostmetric.kernels.lanczos import lanczos_steps, take_half
    from boostmetric.kernels.lanes import WIDTH

    n = len(matrix)
    width, most = n + -n % WIDTH, min(n, _MOST_STEPS)
    half, basis = _scratch.room("half", n, width), _scratch.room("basis", most + 1, width)
    basis[:, n:] = 0.0
    # Divided by a power of two, so that sums of squares stay in range.
    exponent = int(np.clip(np.frexp(max(matrix.max(), -matrix.min()))[1], -1000, 1000))
    take_half(matrix, math.ldexp(1.0, -exponent), half)
    basis[0, :n] = _random_unit_vector(n)
    diagonal, beside = np.zeros(most), np.zeros(most)
    made = 0
    while made < most:
        asked = min(made + (_NEXT_LOOK if made else _FIRST_LOOK), most)
        made = lanczos_steps(half, basis, diagonal, beside, made, asked)
        last = made - 1
        (value,), vector = scipy.linalg.eigh_tridiagonal(
            diagonal[:made], beside[:last], select="i", select_range=(last, last), check_finite=False
        )
        norm = np.abs(diagonal).max() + 2 * beside.max()
        # The left side is the norm of A_hat xi - value xi, known without forming xi.
        if beside[last] * abs(vector[last, 0]) <= np.finfo(np.float64).eps * norm:
            return math.ldexp(value, exponent), vector[:, 0] @ basis[:made, :n]
    return None


@cache
def _random_unit_vector(n: int) -> FloatArray:
    vector = np.random.RandomState(0).standard_normal(n)
    return np.asarray(vector / np.linalg.norm(vector))


def _of_products(oracle: Oracle, start: FloatArray) -> tuple[float, FloatArray]:
    values, vectors = lanczos(oracle, _never_stuck(start), 1, "LA")
    return float(values[0]), vectors[0]


def _never_stuck(start: FloatArray) -> FloatArray:
    """Add a random vector: the last direction may lie in an invariant subspace or the null space of A_hat."""
    length = np.linalg.norm(start)
    return 0.1 * _random_unit_vector(len(start)) + (start / length if length > 0 else 0.0)


def lanczos(oracle: Oracle, start: FloatArray, k: int, which: Literal["LA", "BE"]) -> tuple[FloatArray, FloatArray]:
    """Find k eigenvalues of A_hat, with eigenvectors as rows: the largest ("LA"), or half from each end ("BE").

    If A_hat is zero, there is only one, of value 0.
    """
    n = oracle.n_features
    if not oracle.matvec(start).any():
        return np.zeros(1), start[None]  # A_hat is zero, for which ARPACK raises an error
    a_hat = LinearOperator((n, n), matvec=lambda x: oracle.matvec(np.ascontiguousarray(x.ravel())), dtype=np.float64)
    # If eigenvalues are almost equal, any vectors in their eigenspace will do, and later attempts accept some.
    for tolerance in (0.0, 1e-6, 1e-2):
        try:
            values, vectors = eigsh(a_hat, k=k, which=which, v0=start, ncv=min(n, k + 39), maxiter=200, tol=tolerance)
        except ArpackNoConvergence:
            continue
        return values, np.ascontiguousarray(vectors.T)
    values, vectors = scipy.linalg.eigh(oracle.gram(), check_finite=False)
    n_low = k // 2 if which == "BE" else 0
    chosen = np.r_[:n_low, n - k + n_low : n]
    return values[chosen], np.ascontiguousarray(vectors.T[chosen])
