"""Illustrative example of the paper (section 3.1): the learned metric finds concentric circles hidden in noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from boostmetric.comparisons import Comparisons
from boostmetric.estimators import BoostMetric
from boostmetric.paper.datasets import concentric_circles
from boostmetric.paper.plots import plot_projections
from boostmetric.paper.protocol import TrainTestSplit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PRINTED_EIGENVALUES = (0.542, 0.414, 0.007)


@dataclass(frozen=True)
class Circles:
    """Results of the example.

    Attributes
    ----------
    n_triplets : int
    euclidean, boostmetric : float
        3-NN errors in per cent on the same number of new points.
    eigenvalues : ndarray
        Eigenvalues of the learned X, largest first.
    figure : matplotlib.figure.Figure
        The training points projected to two dimensions by PCA, LDA and BoostMetric.
    """

    n_triplets: int
    euclidean: float
    boostmetric: float
    eigenvalues: NDArray[np.floating[Any]]
    figure: Figure


def circles(verbose: int = 0) -> Circles:
    """Learn a metric on the circles with the paper's settings.

    Parameters
    ----------
    verbose : int
        As in `boostmetric.BoostMetric`.
    """
    X, y = concentric_circles(seed=0)
    metric = BoostMetric.paper(verbose=verbose).fit(X, y)
    split = TrainTestSplit(X, y, *concentric_circles(seed=1))
    projections = {
        "PCA": PCA(2).fit_transform(X),
        "LDA": LinearDiscriminantAnalysis(n_components=2).fit_transform(X, y),
        "BoostMetric": metric.get_metric().truncate(2).transform(X),
    }
    return Circles(
        n_triplets=Comparisons.from_labels(X, y).n_comparisons,
        euclidean=split.error(),
        boostmetric=split.error(metric.transform),
        eigenvalues=metric.get_metric().eigenvalues,
        figure=plot_projections(projections, y + 1),
    )
