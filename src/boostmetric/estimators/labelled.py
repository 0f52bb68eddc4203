"""Samples with class labels, and the comparisons that they give under a metric."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.frame import Given
from boostmetric.arrays.types import FloatArray
from boostmetric.comparisons import Comparisons
from boostmetric.metric import MahalanobisMetric
from boostmetric.solver.problem import Problem


@dataclass(frozen=True)
class Labelled:
    """Samples with labels.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
    weights : ndarray of shape (n_samples,), optional
        Weights of the comparisons whose anchor a sample is.
    n_neighbors : int
        Targets of each sample.
    n_impostors : int or "all"
        Impostors of each sample.
    device : str, default="cpu"
        Where targets and impostors are searched, see `boostmetric.parallel.devices`.
    """

    X: Given
    y: NDArray[Any]
    weights: NDArray[Any] | None
    n_neighbors: int
    n_impostors: int | Literal["all"]
    device: str = "cpu"

    def take(self, rows: NDArray[np.int64]) -> Labelled:
        """Some of the samples."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, X=self.X[rows], y=self.y[rows], weights=weights)

    def problem(self, components: FloatArray | None = None, *, quiet: bool = False) -> Problem:
        """Comparisons with targets and impostors that are nearest under the metric of a linear map."""
        mapped = self.X if components is None else MahalanobisMetric(components).transform(self.X)
        mining = (self.n_neighbors, self.n_impostors, self.weights)
        return Problem(self.X, Comparisons._mined(mapped, self.y, *mining, quiet=quiet, device=self.device))
