"""RCA."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import TransformerMixin

from boostmetric.baselines.rca import check_chunklets, relevant_components
from boostmetric.metric_learn.base_metric import MahalanobisMixin
from boostmetric.metric_learn.constraints import Constraints
from boostmetric.metric_learn.matrices import _check_n_components
from boostmetric.parallel.blas import single_threaded_blas


class RCA(TransformerMixin, MahalanobisMixin):
    """See `boostmetric.baselines.RCA`.

    Parameters
    ----------
    n_components : int, default=None
    preprocessor : array-like or callable, default=None
    """

    def __init__(self, n_components: int | None = None, preprocessor: Any = None) -> None:
        super().__init__(preprocessor)
        self.n_components = n_components

    def fit(self, X: Any, chunks: Any) -> Self:
        """Learn the metric from points and the number of the chunk of each; -1 for none."""
        points, numbers = self._prepare_inputs(X, chunks, ensure_min_samples=2)
        return self._learn(points, np.asanyarray(numbers, dtype=int))

    def _learn(self, points: Any, numbers: Any) -> Self:
        n_features = points.shape[1]
        n_components = _check_n_components(n_features, self.n_components)
        chunklets = check_chunklets(numbers, len(points))
        samples = np.asarray(points, dtype=np.float64)
        with single_threaded_blas():
            rows, rank = relevant_components(samples, chunklets, chunklets >= 0, n_components)
        if rank < n_features:
            warnings.warn(
                "The inner covariance matrix is not invertible, so the transformation is that of fewer dimensions. You "
                "should remove any linearly dependent features and/or reduce the dimensionality of your input, for "
                "instance using `sklearn.decomposition.PCA` as a preprocessing step.",
                stacklevel=3,
            )
        return self._take_map(rows, n_components)


class RCA_Supervised(RCA):  # noqa: N801
    """RCA of chunks that are drawn from labels.

    Parameters
    ----------
    n_components : int, default=None
    n_chunks : int, default=100
    chunk_size : int, default=2
    preprocessor : array-like or callable, default=None
    random_state : int, RandomState or None, default=None
    """

    def __init__(
        self,
        n_components: int | None = None,
        n_chunks: int = 100,
        chunk_size: int = 2,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(n_components=n_components, preprocessor=preprocessor)
        self.n_chunks = n_chunks
        self.chunk_size = chunk_size
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the metric from points and labels; -1 is unknown."""
        points, labels = self._prepare_inputs(X, y, ensure_min_samples=2)
        chunks = Constraints(labels).chunks(self.n_chunks, self.chunk_size, random_state=self.random_state)
        if self.n_chunks * (self.chunk_size - 1) < points.shape[1]:
            warnings.warn(
                "Due to the parameters of RCA_Supervised, the inner covariance matrix is not invertible. Increase the "
                "number or size of the chunks to correct this problem.",
                stacklevel=2,
            )
        return self._learn(points, chunks)
