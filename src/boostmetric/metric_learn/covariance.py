"""Covariance."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import TransformerMixin

from boostmetric.baselines.covariance import whitening
from boostmetric.metric_learn.base_metric import MahalanobisMixin
from boostmetric.parallel.blas import single_threaded_blas


class Covariance(TransformerMixin, MahalanobisMixin):
    """See `boostmetric.baselines.Covariance`.

    Parameters
    ----------
    preprocessor : array-like or callable, default=None
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the metric from points, or indicators of points."""
        points = self._prepare_inputs(X, ensure_min_samples=2)
        with single_threaded_blas():
            return self._take_matrix(whitening(np.asarray(points, dtype=np.float64)))
