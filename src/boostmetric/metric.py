"""A Mahalanobis metric: one matrix, held as the linear map whose squared lengths it measures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from boostmetric.validation import check_count

FloatArray = NDArray[np.float64]


def with_fixed_signs(rows: FloatArray) -> FloatArray:
    """Rows whose signs are arbitrary, each with its entry of largest size positive."""
    largest = rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)]
    return np.where(largest[:, None] < 0, -rows, rows)


class MahalanobisMetric:
    """The distance ``sqrt((a - b)' X (a - b))`` with X = L'L.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        The linear map L: the distance is the Euclidean distance after ``points @ components.T``.

    Examples
    --------
    >>> from boostmetric import MahalanobisMetric
    >>> metric = MahalanobisMetric([[2.0, 0.0]])
    >>> float(metric.distance([0.0, 0.0], [1.0, 5.0]))
    2.0
    >>> metric.matrix
    array([[4., 0.],
           [0., 0.]])
    """

    def __init__(self, components: ArrayLike) -> None:
        L = np.asarray(components)
        if np.iscomplexobj(L):
            raise ValueError("components must be real numbers; they are complex.")
        L = L.astype(np.float64, copy=False)
        if L.ndim != 2 or 0 in L.shape:
            raise ValueError(f"components must have shape (n_components, n_features), both positive. Got {L.shape}.")
        if not np.isfinite(L).all():
            raise ValueError("components must be finite numbers; some are NaN or infinite.")
        self.components: FloatArray = L

    @classmethod
    def from_directions(
        cls,
        directions: FloatArray,
        step_sizes: FloatArray,
        rank: int | None = None,
        coordinates: FloatArray | None = None,
    ) -> MahalanobisMetric:
        """The metric X = sum_j step_sizes[j] * outer(directions[j], directions[j]), with no more rows than its rank.

        Parameters
        ----------
        directions : ndarray of shape (n_directions, n_features)
        step_sizes : ndarray of shape (n_directions,)
        rank : int, optional
            Keep the best approximation of this rank only.
        coordinates : ndarray of shape (n_directions, n_dimensions), optional
            The directions in an orthonormal basis of a space that holds them, if it has fewer dimensions.

        Notes
        -----
        No directions at all give the zero metric, as a single row of zeros.
        """
        if not len(step_sizes):
            return cls(np.zeros((1, directions.shape[1])))
        weights = np.sqrt(step_sizes)[:, None]
        return cls(weights * directions)._of_rank(rank, None if coordinates is None else weights * coordinates)

    @property
    def matrix(self) -> FloatArray:
        """X = L'L, of shape (n_features, n_features)."""
        return self.components.T @ self.components

    @property
    def eigenvalues(self) -> FloatArray:
        """The eigenvalues of X that may differ from zero, largest first."""
        singular = np.linalg.svd(self.components, compute_uv=False)
        return np.asarray(singular**2)

    def transform(self, X: ArrayLike | sparse.sparray) -> FloatArray:
        """Map points so that their Euclidean distance is this distance.

        Parameters
        ----------
        X : array-like of shape (..., n_features), or sparse matrix of shape (n_points, n_features)

        Returns
        -------
        ndarray of shape (..., n_components)
        """
        return np.asarray(self._check(X) @ self.components.T)

    def distance(self, a: ArrayLike, b: ArrayLike) -> FloatArray:
        """Distances between points of `a` and points of `b`, row by row.

        Parameters
        ----------
        a, b : array-like of shape (..., n_features)
            Of one shape, or of shapes that broadcast.

        Returns
        -------
        ndarray of shape (...)
        """
        return np.asarray(np.linalg.norm(np.asarray((self._check(a) - self._check(b)) @ self.components.T), axis=-1))

    def __call__(self, a: ArrayLike, b: ArrayLike) -> float:
        """Distance of two points: a metric that scikit-learn's neighbour searches accept."""
        return float(self.distance(a, b))

    def truncate(self, rank: int | None = None) -> MahalanobisMetric:
        """The nearest metric of at most the given rank, in the Frobenius norm of X.

        Parameters
        ----------
        rank : int, optional
            None keeps the metric and drops only the rows that rounding makes.

        Returns
        -------
        MahalanobisMetric
            Its components are orthogonal, longest first.
        """
        if rank is not None:
            check_count("rank", rank, alternative=", or None")
        return self._of_rank(rank)

    def _of_rank(self, rank: int | None, narrow: FloatArray | None = None) -> MahalanobisMetric:
        """As `truncate`; `narrow` are the components in an orthonormal basis of a smaller space."""
        left, singular, right = np.linalg.svd(self.components if narrow is None else narrow, full_matrices=False)
        noise = singular[0] * max(self.components.shape) * np.finfo(singular.dtype).eps
        kept = max(1, int((singular > noise).sum()))
        kept = kept if rank is None else min(kept, rank)
        rows = singular[:kept, None] * right[:kept] if narrow is None else left[:, :kept].T @ self.components
        return MahalanobisMetric(with_fixed_signs(rows))

    def _check(self, X: Any) -> Any:
        points = sparse.csr_array(X, dtype=np.float64) if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        n_features = self.components.shape[1]
        if points.ndim == 0 or points.shape[-1] != n_features:
            raise ValueError(f"The metric has {n_features} features, but the points have shape {points.shape}.")
        return points

    def __repr__(self) -> str:
        rank, n_features = self.components.shape
        return f"MahalanobisMetric(n_components={rank}, n_features={n_features})"
