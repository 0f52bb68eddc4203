"""Protocol of the paper: random splits, PCA on the training part, error of a 3-nearest-neighbour classifier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.preprocessing import minmax_scale

from boostmetric.estimators import BoostMetric
from boostmetric.evaluation.knn import knn_error
from boostmetric.paper.datasets import Benchmark, Labelled


@dataclass(frozen=True)
class TrainTestSplit:
    """Training part and test part of a data set."""

    X_train: NDArray[np.float64]
    y_train: NDArray[np.int64]
    X_test: NDArray[np.float64]
    y_test: NDArray[np.int64]

    def error(self, transform: Callable[[NDArray[np.float64]], NDArray[Any]] | None = None) -> float:
        """3-NN error in per cent, optionally after a transformation of the points."""
        train, test = self.X_train, self.X_test
        if transform is not None:
            train, test = transform(train), transform(test)
        return 100 * knn_error(train, self.y_train, test, self.y_test, n_neighbors=3)


def split(benchmark: Benchmark, data: Labelled, seed: int) -> TrainTestSplit:
    """Random split of a benchmark."""
    X, y = data
    if benchmark.scaled:
        X = minmax_scale(X, (-1, 1))
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[: benchmark.n_train], order[benchmark.n_train : benchmark.n_train + benchmark.n_test]
    X_train, X_test = X[train], X[test]
    if benchmark.n_pca is not None:
        pca = PCA(benchmark.n_pca, svd_solver="full").fit(X_train)
        X_train, X_test = pca.transform(X_train), pca.transform(X_test)
    return TrainTestSplit(X_train, y[train], X_test, y[test])


def splits(benchmark: Benchmark, data: Labelled) -> Iterator[TrainTestSplit]:
    """All random splits of a benchmark."""
    return (split(benchmark, data, seed) for seed in range(benchmark.n_runs))


@dataclass(frozen=True)
class Outcome:
    """Result of a learner on one split: test error in per cent, and seconds of the fit."""

    error: float
    seconds: float


def paper_setting(benchmark: Benchmark) -> BoostMetric:
    """BoostMetric as the paper ran it."""
    return BoostMetric.paper(n_neighbors=benchmark.n_neighbors, n_impostors=benchmark.n_neighbors)


def run(metric: Any, split: TrainTestSplit) -> Outcome:
    """Learn from the training part and classify the test part.

    Parameters
    ----------
    metric : transformer that learns from labels, or None
        None means the Euclidean distance.
    split : TrainTestSplit
    """
    if metric is None:
        return Outcome(split.error(), 0.0)
    start = perf_counter()
    metric.fit(split.X_train, split.y_train)
    seconds = perf_counter() - start
    return Outcome(split.error(metric.transform), seconds)
