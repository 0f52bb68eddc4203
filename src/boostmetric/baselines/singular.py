"""Singular values and axes of a matrix of many rows, and the inverse root of its scatter."""

from __future__ import annotations

import numpy as np

from boostmetric.arrays.types import FloatArray

# The Gram matrix squares the ratio of the singular values, and with it the loss of digits. Where that is at most a
# million, ten digits remain, and a decomposition of all rows would take ten to a hundred times as long.
_LEAST_SHARE = 1e-6


def singular(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Singular values, largest first, and their axes, as in `numpy.linalg.svd`.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)

    Returns
    -------
    lengths : ndarray of shape (min(n_rows, n_columns),)
    axes : ndarray of shape (min(n_rows, n_columns), n_columns)

    Notes
    -----
    Cost: a product of n_rows x n_columns²; a decomposition of as many rows if some singular value is small.
    """
    if len(rows) > rows.shape[1]:
        values, vectors = np.linalg.eigh(rows.T @ rows)
        if values[0] > _LEAST_SHARE * values[-1]:
            return np.sqrt(values[::-1]), np.asarray(vectors.T[::-1])
    _, lengths, axes = np.linalg.svd(rows, full_matrices=False)
    return lengths, axes


def inverse_root(scatter: FloatArray) -> FloatArray | None:
    """Triangular L with L'L the inverse of a scatter; None unless this keeps as many digits as `singular`.

    Cost: a fraction of an eigendecomposition.
    """
    try:
        root: FloatArray = np.linalg.inv(np.linalg.cholesky(scatter))
    except np.linalg.LinAlgError:
        return None
    # Traces of the scatter and of its inverse, whose product is at least the ratio of its eigenvalues.
    ratio = float(scatter.trace()) * float(np.vdot(root, root))
    return root if ratio * _LEAST_SHARE < 1 else None
