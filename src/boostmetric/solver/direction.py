"""The weak learner: the leading eigenvector of A_hat."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from boostmetric.oracles.protocol import Oracle

FloatArray = NDArray[np.float64]

# Up to this dimension A_hat is formed and factorised, in 15 ms at most. Beyond, that cost grows with the cube of the
# dimension, and that of Lanczos (some tens of products with A_hat) linearly.
LARGEST_DENSE = 512


def leading_direction(oracle: Oracle, start: FloatArray) -> tuple[float, FloatArray]:
    """Largest eigenvalue of A_hat and its unit eigenvector. Implements Eq. (7) of the paper.

    Parameters
    ----------
    oracle : Oracle
    start : ndarray of shape (n_features,)
        Where Lanczos begins; not used in low dimension.

    Returns
    -------
    eigenvalue : float
    xi : ndarray of shape (n_features,)
        Its entry of largest size is positive.
    """
    if oracle.n_features <= LARGEST_DENSE:
        eigenvalue, xi = _dense(oracle.gram())
    else:
        eigenvalue, xi = _lanczos(oracle, start)
    xi = xi / np.linalg.norm(xi)
    return eigenvalue, xi if xi[np.argmax(np.abs(xi))] > 0 else -xi


def _dense(gram: FloatArray) -> tuple[float, FloatArray]:
    last = len(gram) - 1
    values, vectors = scipy.linalg.eigh(gram, subset_by_index=[last, last], check_finite=False)
    return float(values[0]), vectors[:, 0]


def _lanczos(oracle: Oracle, start: FloatArray) -> tuple[float, FloatArray]:
    values, vectors = lanczos(oracle, start, 1, "LA")
    return float(values[0]), vectors[0]


def lanczos(oracle: Oracle, start: FloatArray, k: int, which: str) -> tuple[FloatArray, FloatArray]:
    """k eigenvalues of A_hat, and their eigenvectors as rows; `which` as in `scipy.sparse.linalg.eigsh`."""
    n = oracle.n_features
    if not oracle.matvec(start).any():
        return np.zeros(1), start[None]  # A_hat is zero, for which ARPACK has an error
    a_hat = LinearOperator((n, n), matvec=lambda x: oracle.matvec(np.ascontiguousarray(x.ravel())), dtype=np.float64)
    # Where eigenvalues are almost equal, any vectors of their space will do: later tries accept some.
    for tolerance in (0.0, 1e-6, 1e-2):
        try:
            values, vectors = eigsh(a_hat, k=k, which=which, v0=start, ncv=min(n, k + 39), maxiter=200, tol=tolerance)
        except ArpackNoConvergence:
            continue
        return values, np.ascontiguousarray(vectors.T)
    values, vectors = scipy.linalg.eigh(oracle.gram(), check_finite=False)
    return values[-k:], np.ascontiguousarray(vectors.T[-k:])
