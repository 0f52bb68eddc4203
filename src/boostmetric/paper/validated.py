"""The paper's method with its number of iterations chosen by cross-validation.

The authors' release notes say that the number of iterations must be cross-validated, and that papers which took their
default reported poor results.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from boostmetric.estimators import BoostMetric
from boostmetric.evaluation.knn import knn_error
from boostmetric.metric import MahalanobisMetric

# Numbers of iterations to choose from, and the number of folds.
N_ITERATIONS = (10, 20, 50, 100, 200, 500)
_N_FOLDS = 3


class ValidatedIterations:
    """`BoostMetric` with as many iterations as do best in cross-validation inside its training data.

    Parameters
    ----------
    metric : BoostMetric
        Learner in one pass, for at most `max_iter` iterations.

    Attributes
    ----------
    n_iter : int
        Chosen number of iterations: that of the smallest 3-NN error, and of these the smallest.
    """

    def __init__(self, metric: BoostMetric) -> None:
        self.metric = metric
        self.n_iter = 0

    def fit(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> Self:
        """Choose the number of iterations, and learn from all samples."""
        errors = np.zeros(len(N_ITERATIONS))
        for train, test in StratifiedKFold(_N_FOLDS, shuffle=True, random_state=0).split(X, y):
            fitted = self.metric.fit(X[train], y[train])
            for i, n in enumerate(N_ITERATIONS):
                stage = MahalanobisMetric.from_directions(fitted.directions_[:n], fitted.step_sizes_[:n])
                errors[i] += knn_error(stage.transform(X[train]), y[train], stage.transform(X[test]), y[test], 3)
        self.n_iter = N_ITERATIONS[int(errors.argmin())]
        self.metric.set_params(max_iter=self.n_iter).fit(X, y)
        return self

    def transform(self, X: Any) -> Any:
        """Map samples by the learned metric."""
        return self.metric.transform(X)

    @property
    def stop_reason_(self) -> str:
        """What was chosen."""
        return f"{self.n_iter} iterations by cross-validation."
