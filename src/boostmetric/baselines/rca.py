"""Relevant component analysis."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boostmetric.arrays.frame import Frame
from boostmetric.arrays.types import FloatArray
from boostmetric.baselines.baseline import Baseline, Journal
from boostmetric.baselines.descriptions import documented
from boostmetric.baselines.singular import inverse_root, singular
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.metric.starts import spread, within_classes
from boostmetric.solver.result import StopReason


@documented
class RCA(Baseline):
    """Relevant component analysis: the Mahalanobis distance of the covariance within classes, or within chunklets.

    A *chunklet* is a set of samples known to be of one class, whose label may be unknown. Distances count less along
    directions in which such samples differ: after `transform` the covariance within the chunklets is the identity [1]_.

    Parameters
    ----------
    n_components : int, default=None
        Rank of the metric. The directions kept are those along which all samples vary most compared with the samples
        of a chunklet: Fisher's discriminants. None keeps all.

    Attributes
    ----------
    %(components)s
    rank_ : int
        Rank of the covariance within the chunklets. If it is less than the number of features, the samples are first
        projected to this many of their principal components, as for Fisherfaces [2]_.
    %(about_the_fit)s

    See Also
    --------
    boostmetric.BoostMetric : With ``init="rca"``, starts from this metric with the covariance shrunk.

    References
    ----------
    .. [1] A. Bar-Hillel, T. Hertz, N. Shental, D. Weinshall, "Learning a Mahalanobis Metric from Equivalence
       Constraints", Journal of Machine Learning Research 6, 2005.
    .. [2] P. Belhumeur, J. Hespanha, D. Kriegman, "Eigenfaces vs. Fisherfaces", IEEE Transactions on Pattern Analysis
       and Machine Intelligence 19, 1997.

    Examples
    --------
    >>> from boostmetric.baselines import RCA
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> RCA(n_components=2).fit_transform(X, y).shape
    (178, 2)
    """

    def __init__(self, n_components: int | None = None) -> None:
        self.n_components = n_components

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike | None = None, *, chunklets: ArrayLike | None = None) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), optional
            Class labels.
        chunklets : array-like of int of shape (n_samples,), optional
            Used instead of labels: the number of the chunklet of each sample, -1 for samples in none.

        Returns
        -------
        self
        """
        samples, labels = self._check_data(X, y, chunklets=chunklets)
        if labels is None:
            labels = check_chunklets(chunklets, len(samples))
            known = labels >= 0
        else:
            known = np.ones(len(labels), dtype=bool)
        rows, self.rank_ = relevant_components(samples, labels, known, self.n_components)
        self._finish(rows, Journal(), StopReason.CLOSED_FORM)
        return self


def relevant_components(
    samples: FloatArray, labels: NDArray[Any], known: NDArray[np.bool_], n_components: int | None
) -> tuple[FloatArray, int]:
    """Linear map of RCA, and the rank of the covariance within classes.

    Parameters
    ----------
    samples : ndarray of shape (n_samples, n_features)
    labels : ndarray of shape (n_samples,)
        Class labels, or numbers of chunklets.
    known : ndarray of bool of shape (n_samples,)
        Samples whose label counts.
    n_components : int or None
        As in `RCA`.
    """
    frame = Frame.of(samples)
    points = np.asarray(frame.points)
    rows, rank = _relevant_components(points, within_classes(points[known], labels[known]), n_components)
    return frame.as_map(rows), rank


def check_chunklets(chunklets: Any, n_samples: int) -> NDArray[np.int64]:
    """Check numbers of chunklets, and return them."""
    numbers = np.asarray(chunklets)
    if numbers.shape != (n_samples,) or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"chunklets must hold one whole number for each of the {n_samples} samples, -1 for none. Got shape "
            f"{numbers.shape} of {numbers.dtype}."
        )
    sizes = np.unique(numbers[numbers >= 0], return_counts=True)[1]
    if sizes.max(initial=0) < 2:
        raise ValueError("No chunklet has two samples, so there are no differences within classes to learn from.")
    return numbers.astype(np.int64)


def _relevant_components(points: FloatArray, residuals: FloatArray, n_components: int | None) -> tuple[FloatArray, int]:
    """Rows that make the covariance of the residuals the identity, on their span; and the rank of that covariance."""
    unit = spread(points)  # so that what counts as small does not depend on the units of the features
    root = inverse_root(residuals.T @ residuals / np.multiply.outer(unit, unit)) if len(residuals) > len(unit) else None
    root = _inverse_root_on_span(points, residuals, unit) if root is None else root / unit
    rows, rank = math.sqrt(len(residuals)) * root, len(root)
    if n_components is not None and n_components < rank:
        _, discriminants = singular((points - points.mean(axis=0)) @ rows.T)
        rows = discriminants[:n_components] @ rows
    return rows, rank


def _inverse_root_on_span(points: FloatArray, residuals: FloatArray, unit: FloatArray) -> FloatArray:
    """Rows L with L'L the inverse of the scatter of the residuals, on as many principal components as its rank."""
    lengths, directions = singular(residuals / unit)
    kept = lengths > _negligible(lengths, residuals.shape)
    rank, axes = int(kept.sum()), np.diag(1 / unit)
    if not rank:
        raise ValueError("The samples of each class are equal: RCA needs some variation within classes.")
    if rank < points.shape[1]:
        axes = singular(points - points.mean(axis=0))[1][:rank]
        lengths, directions = singular(residuals @ axes.T)
        kept = lengths > _negligible(lengths, residuals.shape)
    return np.asarray(directions[kept] / lengths[kept, None] @ axes)


def _negligible(lengths: NDArray[np.floating[Any]], shape: tuple[int, ...]) -> float:
    """Largest singular value that may be due to rounding."""
    return float(lengths.max(initial=0.0) * max(shape) * np.finfo(np.float64).eps)
