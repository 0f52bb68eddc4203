"""Covariance."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import TransformerMixin

from boostmetric import baselines
from boostmetric.metric_learn.base_metric import MahalanobisMixin


class Covariance(TransformerMixin, MahalanobisMixin):
    """See `boostmetric.baselines.Covariance`.

    Parameters
    ----------
    preprocessor : array-like or callable, default=None
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the metric from points, or indicators of points."""
        points = self._prepare_inputs(X, ensure_min_samples=2)
        return self._take_matrix(baselines.Covariance().fit(points))
