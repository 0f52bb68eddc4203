"""Matrices and linear maps to start from, by metric-learn's names, and the way from a matrix to a map."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray
from sklearn.datasets import make_spd_matrix
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils import check_array, check_random_state

from boostmetric.arrays.types import FloatArray
from boostmetric.metric_learn.exceptions import NonPSDError


def components_from_metric(metric: FloatArray, tol: float | None = None) -> FloatArray:
    """Square linear map L of a matrix X = L'L: upper triangular if X is definite."""
    if not (np.array_equal(metric, metric.T) or np.allclose(metric, metric.T)):
        raise ValueError("The input metric should be symmetric.")
    diagonal = np.diagonal(metric)
    if np.count_nonzero(metric) == np.count_nonzero(diagonal):
        _check_sdp_from_eigen(diagonal, tol)
        return np.diag(np.sqrt(np.maximum(diagonal, 0.0)))
    try:
        return np.asarray(np.linalg.cholesky(metric).T)
    except LinAlgError:
        values, vectors = np.linalg.eigh(metric)
        _check_sdp_from_eigen(values, tol)
        return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def _check_sdp_from_eigen(w: NDArray[Any], tol: float | None = None) -> bool:
    """Whether all eigenvalues are positive; raise an error if one is negative."""
    if tol is None:
        tol = float(np.abs(w).max()) * len(w) * float(np.finfo(w.dtype).eps)
    if tol < 0:
        raise ValueError("tol should be positive.")
    if (w < -tol).any():
        raise NonPSDError
    return not bool((np.abs(w) < tol).any())


def _pseudo_inverse_from_eig(w: NDArray[Any], V: NDArray[Any], tol: float | None = None) -> FloatArray:
    """Pseudo-inverse of a symmetric matrix, given its eigenvalues and eigenvectors."""
    if tol is None:
        tol = float(w.max()) * len(w) * float(np.finfo(w.dtype).eps)
    large = np.abs(w) > tol
    inverse = np.where(large, 1 / np.where(large, w, 1.0), 0.0)
    return np.asarray((V * inverse) @ V.T)


def _check_n_components(n_features: int, n_components: int | None) -> int:
    """Number of rows of the map."""
    if n_components is None:
        return n_features
    if not 0 < n_components <= n_features:
        raise ValueError(f"Invalid n_components, must be in [1, {n_features}]")
    return n_components


def _initialize_metric_mahalanobis(
    input: Any,
    init: Any = "identity",
    random_state: Any = None,
    return_inverse: bool = False,
    strict_pd: bool = False,
    matrix_name: str = "matrix",
) -> Any:
    """Matrix by its name, or checked; with `return_inverse` also its (pseudo-)inverse."""
    n_features = input.shape[-1]
    rng = check_random_state(random_state)
    if isinstance(init, np.ndarray):
        given = check_array(init, copy=True)
        _check_matrix(given, n_features, matrix_name)
        values, vectors = np.linalg.eigh(given)
        definite = _check_sdp_from_eigen(values)
        if strict_pd and not definite:
            raise LinAlgError(
                f"You should provide a strictly positive definite matrix as `{matrix_name}`. This one is not definite. "
                f"Try another {matrix_name}, or an algorithm that does not require the {matrix_name} to be strictly "
                "positive definite."
            )
        if return_inverse and not definite:
            warnings.warn(
                "The initialization matrix is not invertible: using the pseudo-inverse instead.", stacklevel=2
            )
        matrix, inverse = given, _pseudo_inverse_from_eig(values, vectors)
    elif not isinstance(init, str) or init not in ("identity", "covariance", "random"):
        raise ValueError(
            f"`{matrix_name}` must be 'identity', 'covariance', 'random' or a numpy array of shape (n_features, "
            "n_features)."
        )
    elif init == "identity":
        matrix, inverse = np.eye(n_features), np.eye(n_features)
    elif init == "random":
        matrix = make_spd_matrix(n_features, random_state=rng)
        inverse = np.linalg.inv(matrix)
    else:
        matrix, inverse = _inverse_covariance(input, strict_pd, matrix_name)
    return (matrix, inverse) if return_inverse else matrix


def _check_matrix(matrix: FloatArray, n_features: int, name: str) -> None:
    if matrix.shape != (n_features, n_features):
        raise ValueError(
            f"The input dimensionality {matrix.shape} of the given mahalanobis matrix `{name}` must match the "
            f"dimensionality of the given inputs ({n_features})."
        )
    if not np.allclose(matrix, matrix.T):
        raise ValueError(f"`{name}` is not symmetric.")


def _inverse_covariance(given: NDArray[Any], strict_pd: bool, name: str) -> tuple[FloatArray, FloatArray]:
    """(Pseudo-)inverse of the covariance of points, or of the distinct points of tuples; and the covariance."""
    points = np.unique(given.reshape(-1, given.shape[-1]), axis=0) if given.ndim == 3 else given
    covariance = np.atleast_2d(np.cov(points, rowvar=False))
    values, vectors = np.linalg.eigh(covariance)
    definite = _check_sdp_from_eigen(values)
    if strict_pd and not definite:
        raise LinAlgError(
            "Unable to get a true inverse of the covariance matrix since it is not definite. Try another "
            f"`{name}`, or an algorithm that does not require the `{name}` to be strictly positive definite."
        )
    if not definite:
        warnings.warn(
            "The covariance matrix is not invertible: using the pseudo-inverse instead.To make the covariance matrix "
            "invertible you can remove any linearly dependent features and/or reduce the dimensionality of your input, "
            "for instance using `sklearn.decomposition.PCA` as a preprocessing step.",
            stacklevel=2,
        )
    return _pseudo_inverse_from_eig(values, vectors), covariance


def _auto_select_init(has_classes: bool, n_features: int, n_samples: int, n_components: int, n_classes: int) -> str:
    """Name of the linear map that "auto" stands for."""
    if has_classes and n_components <= min(n_features, n_classes - 1):
        return "lda"
    return "pca" if n_components < min(n_features, n_samples) else "identity"


def _initialize_components(
    n_components: int,
    input: NDArray[Any],
    y: Any = None,
    init: Any = "auto",
    verbose: bool = False,
    random_state: Any = None,
    has_classes: bool = True,
) -> FloatArray:
    """Linear map by its name, or checked."""
    n_samples, n_features = input.shape
    names = ["auto", "pca", "identity", "random", *(["lda"] if has_classes else [])]
    if isinstance(init, np.ndarray):
        return _checked_map(check_array(init, copy=True), n_components, n_features)
    if not isinstance(init, str) or init not in names:
        listed = ", ".join(map(repr, names))
        raise ValueError(f"`init` must be {listed} or a numpy array of shape (n_components, n_features).")
    rng = check_random_state(random_state)
    if init == "auto":
        n_classes = len(np.unique(y)) if has_classes else -1
        init = _auto_select_init(has_classes, n_features, n_samples, n_components, n_classes)
    if init == "identity":
        return np.eye(n_components, n_features)
    if init == "random":
        return np.asarray(rng.standard_normal((n_components, n_features)))
    if init == "pca":
        return np.asarray(PCA(n_components, random_state=rng).fit(input).components_)
    return np.asarray(LinearDiscriminantAnalysis(n_components=n_components).fit(input, y).scalings_.T[:n_components])


def _checked_map(init: FloatArray, n_components: int, n_features: int) -> FloatArray:
    rows, columns = init.shape
    if columns != n_features:
        raise ValueError(
            f"The input dimensionality ({columns}) of the given linear transformation `init` must match the "
            f"dimensionality of the given inputs `X` ({n_features})."
        )
    if rows > columns:
        raise ValueError(
            f"The output dimensionality ({rows}) of the given linear transformation `init` cannot be greater than its "
            f"input dimensionality ({columns})."
        )
    if rows != n_components:
        raise ValueError(
            f"The preferred dimensionality of the projected space `n_components` ({n_components}) does not match the "
            f"output dimensionality of the given linear transformation `init` ({rows})!"
        )
    return init
