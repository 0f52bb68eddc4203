"""LFDA."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import TransformerMixin

from boostmetric.baselines.lfda import local_discriminants
from boostmetric.metric_learn.base_metric import MahalanobisMixin
from boostmetric.metric_learn.matrices import _check_n_components
from boostmetric.parallel.blas import single_threaded_blas

_LENGTHS = {"weighted": "weighted", "plain": "plain", "orthonormalized": "orthonormal"}


class LFDA(TransformerMixin, MahalanobisMixin):
    """See `boostmetric.baselines.LFDA`.

    Parameters
    ----------
    n_components : int, default=None
    k : int, default=None
        Its `n_neighbors`; by default 7, and always fewer than there are features.
    embedding_type : {"weighted", "orthonormalized", "plain"}, default="weighted"
        Its `lengths`.
    preprocessor : array-like or callable, default=None
    """

    def __init__(
        self,
        n_components: int | None = None,
        k: int | None = None,
        embedding_type: str = "weighted",
        preprocessor: Any = None,
    ) -> None:
        super().__init__(preprocessor)
        self.n_components = n_components
        self.k = k
        self.embedding_type = embedding_type

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the metric from points and labels."""
        if self.embedding_type not in _LENGTHS:
            raise ValueError(f"Invalid embedding_type: {self.embedding_type!r}")
        points, labels = self._prepare_inputs(X, y, ensure_min_samples=2)
        n_features = points.shape[1]
        n_components = _check_n_components(n_features, self.n_components)
        most = max(n_features - 1, 1)
        if self.k is not None and self.k >= n_features:
            warnings.warn(f"Chosen k ({self.k}) too large, using {n_features - 1} instead.", stacklevel=2)
        n_neighbors = min(7 if self.k is None else int(self.k), most)
        with single_threaded_blas():
            rows, _ = local_discriminants(
                np.asarray(points, dtype=np.float64),
                labels,
                n_components=n_components,
                n_neighbors=n_neighbors,
                lengths=_LENGTHS[self.embedding_type],
            )
        return self._take_map(rows, n_components)
