"""Distance metric learning through maximization of the Jeffrey divergence."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boostmetric.arrays.ragged import Ragged
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_count
from boostmetric.baselines.baseline import Baseline, Journal
from boostmetric.baselines.descriptions import documented
from boostmetric.baselines.side_information import Standardized
from boostmetric.comparisons.labels import mine
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.solver.result import StopReason

# Share of its mean eigenvalue that is added to either scatter: with few samples both are nearly singular.
_RIDGE = 1e-6


@documented
class DMLMJ(Baseline):
    """Metric under which differences to neighbours of the own class and of other classes are told apart best.

    The differences between a sample and its nearest of the same class, and those to its nearest of other classes, are
    taken for samples of two normal distributions with mean zero. Directions are chosen along which the Jeffrey
    divergence of the two is largest, by eigenvectors [1]_.

    Parameters
    ----------
    n_components : int, default=None
        Number of directions. None keeps all; the metric is then that of the differences within classes.
    n_neighbors : int, default=3
        Number of nearest samples of the same class, and of other classes, of each sample.

    Attributes
    ----------
    %(components)s
        After `transform`, the mean of the squares of differences within a class is 1 along every direction chosen.
    divergence_ : float
        Jeffrey divergence of the two distributions after `transform`.
    %(about_the_fit)s

    Notes
    -----
    With r the ratio of the mean squares of differences to other classes and to the own class along a direction, the
    direction adds (r + 1 / r) / 2 - 1 to the divergence.

    Cost: one search for neighbours, and n_samples * n_neighbors * n_features^2.

    References
    ----------
    .. [1] B. Nguyen, C. Morell, B. De Baets, "Supervised distance metric learning through maximization of the Jeffrey
       divergence", Pattern Recognition 64, 2017.

    Examples
    --------
    >>> from boostmetric.baselines import DMLMJ
    >>> from sklearn.datasets import load_wine
    >>> DMLMJ(n_components=2).fit_transform(*load_wine(return_X_y=True)).shape
    (178, 2)
    """

    def __init__(self, n_components: int | None = None, *, n_neighbors: int = 3) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self
        """
        check_count("n_neighbors", self.n_neighbors)
        samples, labels = self._check_data(X, y)
        assert labels is not None
        anchors, near, far = mine(samples, labels, n_neighbors=self.n_neighbors, n_impostors=self.n_neighbors)
        assert isinstance(far, Ragged)
        standard = Standardized.of(samples, rotated=True)
        within, between = (_mean_square(standard, anchors, others) for others in (near, far))
        if not within.any():
            raise ValueError(
                "Every sample equals its neighbours of the same class: DMLMJ needs some variation within classes. "
                "Raise n_neighbors, or use Euclidean()."
            )
        rows, ratios = _most_divergent(within, between)
        gains = (ratios + 1 / ratios) / 2 - 1
        chosen = np.argsort(-gains, kind="stable")[: self.n_components]
        self.divergence_ = float(gains[chosen].sum())
        self._finish(standard.as_map(rows[chosen]), Journal(), StopReason.CLOSED_FORM)
        return self


def _mean_square(standard: Standardized, anchors: NDArray[np.int64], others: Ragged) -> FloatArray:
    """Mean of (a - b)(a - b)' over the pairs of an anchor and one of its others."""
    pairs = np.stack([np.repeat(anchors, others.sizes), others.values], axis=1)
    return standard.scatter_of_pairs(pairs) / len(pairs)


def _most_divergent(within: FloatArray, between: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows v with v' within v = 1 and v' between v = ratio, and the ratios."""
    n = len(within)
    ridge = _RIDGE * np.eye(n) * np.trace(within) / n
    values, axes = np.linalg.eigh(within + ridge)
    whitening = (axes / np.sqrt(values)).T
    ratios, vectors = np.linalg.eigh(whitening @ (between + ridge) @ whitening.T)
    return np.asarray(vectors.T @ whitening), np.maximum(ratios, np.finfo(np.float64).tiny ** 0.25)
