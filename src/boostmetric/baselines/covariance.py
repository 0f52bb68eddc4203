"""Mahalanobis distance of the covariance of all samples."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags

from boostmetric.arrays.frame import Frame
from boostmetric.arrays.types import FloatArray
from boostmetric.baselines.baseline import Baseline, Journal
from boostmetric.baselines.descriptions import documented
from boostmetric.baselines.singular import inverse_root, singular
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.metric.starts import spread
from boostmetric.solver.result import StopReason


@documented
class Covariance(Baseline):
    """Mahalanobis' own distance: that of the inverse of the covariance of all samples [1]_.

    It learns from samples without labels: a baseline that takes the units of features and their correlations out.

    Parameters
    ----------
    n_components : int, default=None
        Rank of the metric: the best approximation. None keeps the rank of the covariance.

    Attributes
    ----------
    %(components)s
        After `transform` the covariance of the samples is the identity. If it is singular, X is zero in the directions
        in which the samples do not vary.
    %(about_the_fit)s

    See Also
    --------
    RCA : The same with the covariance within classes.

    References
    ----------
    .. [1] P. C. Mahalanobis, "On the Generalised Distance in Statistics", Proceedings of the National Institute of
       Sciences of India 2, 1936.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric.baselines import Covariance
    >>> from sklearn.datasets import load_wine
    >>> X, _ = load_wine(return_X_y=True)
    >>> bool(np.allclose(np.cov(Covariance().fit_transform(X), rowvar=False), np.eye(13), atol=1e-6))
    True
    """

    def __init__(self, n_components: int | None = None) -> None:
        self.n_components = n_components

    @all_or_nothing
    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : object, optional
            Ignored.

        Returns
        -------
        self
        """
        samples, _ = self._check_samples_and(X, None, has_target=False)
        self._check_n_components(samples.shape[1])
        self._finish(whitening(samples), Journal(), StopReason.CLOSED_FORM)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


def whitening(samples: FloatArray) -> FloatArray:
    """Rows that make the covariance of the samples the identity, on their span.

    Parameters
    ----------
    samples : ndarray of shape (n_samples, n_features)
    """
    frame = Frame.of(samples)
    return frame.as_map(_whitening(np.asarray(frame.points)))


def _whitening(points: FloatArray) -> FloatArray:
    """Rows that make the covariance of centred points the identity, on the span of the points."""
    n, n_features = points.shape
    if n > n_features:
        scatter = points.T @ points
        sizes = np.sqrt(scatter.diagonal())
        unit = np.where(sizes > 0, sizes, 1.0)  # what counts as rounding does not depend on the units of the features
        root = inverse_root(scatter / np.multiply.outer(unit, unit))
        if root is not None:
            return math.sqrt(n - 1) * root / unit
    unit = spread(points)
    lengths, axes = singular((points - points.mean(axis=0)) / unit)
    kept = lengths > lengths[0] * max(points.shape) * np.finfo(np.float64).eps
    if not kept.any():
        raise ValueError("All samples are equal: their covariance is zero. Check that X holds the samples.")
    # In units of the features, directions without variance are those of the samples, not of the standardized ones.
    rows = (math.sqrt(n - 1) / lengths[kept])[:, None] * axes[kept] / unit
    if len(rows) == n_features:
        return np.asarray(rows)
    _, sizes, span = np.linalg.svd(axes[kept] * unit, full_matrices=False)
    assert sizes.all()
    return np.asarray(rows @ span.T @ span)
