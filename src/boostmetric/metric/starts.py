"""Metrics to start from: initial metrics of boosting, and baselines it must beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from boostmetric.arrays.frame import Given, centre_and_scale, stays_single
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_choice
from boostmetric.metric.class_scatter import ClassScatter, covariance, standard_deviations
from boostmetric.metric.mahalanobis import MahalanobisMetric

StartName = Literal[
    "zero",
    "identity",
    "standardized",
    "rca",
    "standardized-rca",
    "lda",
    "standardized-lda",
    "geometric-mean",
]
Init: TypeAlias = str | MahalanobisMetric | ArrayLike

# Starts that need no labels, and all starts.
PLAIN_STARTS: tuple[StartName, ...] = ("zero", "identity", "standardized")
STARTS: tuple[StartName, ...] = (
    *PLAIN_STARTS,
    "rca",
    "standardized-rca",
    "lda",
    "standardized-lda",
    "geometric-mean",
)
_IN_WORDS = {
    "zero": "zero metric",
    "identity": "Euclidean distance",
    "standardized": "standardized features",
    "rca": "RCA",
    "standardized-rca": "standardized RCA",
    "lda": "LDA",
    "standardized-lda": "standardized LDA",
    "geometric-mean": "geometric mean of scatters",
}
# Fraction of its mean eigenvalue that is added to the scatter between classes, which has not full rank.
_RIDGE = 1e-3
# A metric of full rank has n_features x n_features entries.
_MOST_FEATURES = 10_000


def starting_components(init: Init, X: Given, y: NDArray[Any] | None = None) -> FloatArray | None:
    """Linear map of the metric to start from; None for the zero metric.

    Parameters
    ----------
    init : str, MahalanobisMetric or array-like of shape (n_rows, n_features)
        ``"identity"``: the Euclidean distance. ``"standardized"``: the Euclidean distance after dividing features by
        their standard deviation. ``"rca"``: relevant component analysis (Bar-Hillel et al., 2003), the Mahalanobis
        distance of the within-class covariance with the shrinkage of Ledoit and Wolf (2004). ``"lda"``: linear
        discriminant analysis, the metric of RCA in the directions in which the means of the classes differ.
        ``"standardized-rca"`` and ``"standardized-lda"``: the same on standardized features, for features in different
        units. ``"geometric-mean"``: halfway between the inverse of the scatter within the classes and the scatter
        between them (Zadeh, Hosseini and Sra, 2016). Or a metric, or its linear map.
    X : ndarray or csr_array of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,), optional
        Class labels, needed for the last five.
    """
    n_features = X.shape[1]
    if isinstance(init, str):
        return _named(init, X, y)
    components = _as_metric(init).components
    if components.shape[1] != n_features:
        raise ValueError(f"init has {components.shape[1]} features, but the data have {n_features}.")
    return components


def start_in_words(init: Init, rank: int | None = None) -> str:
    """Name of a start, for use in sentences; of so many of its principal directions, if that is not all."""
    name = _IN_WORDS.get(init, init) if isinstance(init, str) else "given metric"
    return name if rank is None else f"{name} of rank {rank}"


def check_init(init: Init, names: Sequence[str]) -> None:
    """Raise an error if `init` is neither one of the names nor a metric."""
    if isinstance(init, str):
        check_choice("init", init, names)
    else:
        _as_metric(init)


def _as_metric(init: MahalanobisMetric | ArrayLike) -> MahalanobisMetric:
    try:
        return init if isinstance(init, MahalanobisMetric) else MahalanobisMetric(init)
    except (TypeError, ValueError) as error:
        raise ValueError(f"init must be a name, a MahalanobisMetric or its components. {error}") from error


def _named(name: str, X: Given, y: NDArray[Any] | None) -> FloatArray | None:
    if name == "zero":
        return None
    n_features = X.shape[1]
    if n_features > _MOST_FEATURES:
        raise ValueError(
            f"init={name!r} needs a matrix of {n_features:,} x {n_features:,} numbers, because the data have that many "
            'features. Reduce the features (TruncatedSVD, PCA), or choose another start: init="zero" (with '
            'solver="stagewise") for boosting, init="identity" for a baseline.'
        )
    if name == "identity":
        return np.eye(n_features)
    if stays_single(X):
        if name == "standardized":
            return np.diag(1 / standard_deviations(np.asarray(X)))
        assert y is not None
        classes = ClassScatter.of(np.asarray(X), y, standardized=name.startswith("standardized"))
        if classes is not None:
            return _of_scatter(name, classes)
    points: Any
    points, exponent = centre_and_scale(X)
    dense = points.toarray() if sparse.issparse(points) else points
    unit = spread(dense) if name.startswith("standardized") else np.ones(n_features)
    if name == "standardized":
        return np.diag(np.ldexp(1 / unit, -exponent))
    assert y is not None
    scaled = dense / unit
    found = _of_whitening(name, _whitening(within_classes(scaled, y)), _between_classes(scaled, y))
    return np.ldexp(found / unit, -exponent)


def _of_scatter(name: str, found: ClassScatter) -> FloatArray:
    """A start that needs labels, from the scatter within and between the classes."""
    values, vectors = np.linalg.eigh(found.within)
    whitening = _inverse_root(values, vectors, found.shrinkage, float(np.trace(found.within)) / len(values))
    return _of_whitening(name, whitening, found.between) / found.unit


def _of_whitening(name: str, whitening: FloatArray, between: FloatArray) -> FloatArray:
    """A start that needs labels, from the map of RCA."""
    if name.endswith("lda"):
        return _discriminant(between, whitening)
    return _between_inverse_and_means(between, whitening) if name == "geometric-mean" else whitening


def spread(points: FloatArray) -> FloatArray:
    """Standard deviation of each feature, or 1 if the feature is constant."""
    deviations = points.std(axis=0)
    return np.where(deviations > 0, deviations, 1.0)


def scatter(X: Given) -> FloatArray:
    """Covariance of the features, up to a factor."""
    if stays_single(X):
        return covariance(np.asarray(X))
    points: Any
    points, _ = centre_and_scale(X)
    dense = points.toarray() if sparse.issparse(points) else points
    return np.atleast_2d(np.cov(dense, rowvar=False))


def within_classes(points: FloatArray, y: NDArray[Any]) -> FloatArray:
    """Subtract from each point the mean of its class, and drop classes with a single point."""
    _, label, sizes = np.unique(y, return_inverse=True, return_counts=True)
    means = np.zeros((len(sizes), points.shape[1]))
    np.add.at(means, label, points)
    means /= sizes[:, None]
    return np.asarray((points - means[label])[sizes[label] > 1])


def _between_classes(points: FloatArray, y: NDArray[Any]) -> FloatArray:
    """Scatter of the means of the classes about the mean of all points, weighted by the sizes of the classes."""
    differences = points - points.mean(axis=0)
    _, label, sizes = np.unique(y, return_inverse=True, return_counts=True)
    sums = np.zeros((len(sizes), points.shape[1]))
    np.add.at(sums, label, differences)
    rows = sums / np.sqrt(sizes)[:, None]
    return np.asarray(rows.T @ rows / len(points))


def _discriminant(between: FloatArray, whitening: FloatArray) -> FloatArray:
    """The whitening map, restricted to the directions in which the means of the classes differ."""
    values, vectors = np.linalg.eigh(whitening @ between @ whitening)
    differ = values > values[-1] * len(values) * np.finfo(np.float64).eps
    return np.asarray(vectors[:, differ].T @ whitening) if differ.any() else whitening


def _between_inverse_and_means(between: FloatArray, whitening: FloatArray) -> FloatArray:
    """Map whose metric is the geometric mean of the inverse scatter within classes and the scatter between them."""
    n = len(between)
    between = between + max(_RIDGE * np.trace(between) / n, np.finfo(np.float64).tiny) * np.eye(n)
    return geometric_mean(whitening, between)


def geometric_mean(whitening: FloatArray, far: FloatArray, share: float = 0.5) -> FloatArray:
    """Map whose metric X is the point `share` of the way from inv(W) to `far` on their geodesic.

    Halfway, it is the geometric mean: the solution of X W X = far.

    Parameters
    ----------
    whitening : ndarray of shape (n_features, n_features)
        Inverse of the symmetric square root of W.
    far : ndarray of shape (n_features, n_features)
        Positive definite.
    share : float, default=0.5
    """
    # X = whitening (inv(whitening) far inv(whitening))^share whitening.
    back = np.linalg.inv(whitening)
    values, vectors = np.linalg.eigh(back @ far @ back)
    return np.asarray((vectors * np.maximum(values, 0.0) ** (share / 2)).T @ whitening)


def _whitening(residuals: FloatArray) -> FloatArray:
    """Symmetric map after which the shrunk covariance of the residuals is the identity."""
    from sklearn.covariance import ledoit_wolf_shrinkage  # it imports all linear models

    shrinkage = ledoit_wolf_shrinkage(residuals, assume_centered=True)
    return _inverse_root(*_principal(residuals), shrinkage, float(np.vdot(residuals, residuals)) / residuals.size)


def _inverse_root(values: FloatArray, vectors: FloatArray, shrinkage: float, mean: float) -> FloatArray:
    """Symmetric inverse square root of a covariance, of which a part is replaced by the mean variance."""
    n_features = len(vectors)
    # The appended 0 is the variance orthogonal to these directions, if they are fewer than the features.
    values = (1 - shrinkage) * np.append(values, 0.0) + shrinkage * mean
    # A direction in which classes have no variance gets the smallest positive variance.
    positive = values > values.max() * n_features * np.finfo(np.float64).eps
    if not positive.any():
        return np.eye(n_features)
    scales = 1 / np.sqrt(np.maximum(values, values[positive].min()))
    across = scales[-1] if len(scales) <= n_features else 0.0
    return np.asarray((vectors * (scales[:-1] - across)) @ vectors.T + across * np.eye(n_features))


def _principal(residuals: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues of the covariance about zero, and orthonormal eigenvectors as columns.

    With more features than points, only those in the span of the points, computed from their inner products.
    """
    n, n_features = residuals.shape
    if n >= n_features:
        values, vectors = np.linalg.eigh(residuals.T @ residuals / n)
        return values, vectors
    values, left = np.linalg.eigh(residuals @ residuals.T / n)
    kept = values > values[-1] * n_features * np.finfo(np.float64).eps
    return values[kept], residuals.T @ (left[:, kept] / np.sqrt(n * values[kept]))
