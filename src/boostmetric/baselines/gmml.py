"""Geometric mean metric learning."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_number
from boostmetric.baselines.baseline import Baseline, Journal
from boostmetric.baselines.descriptions import documented
from boostmetric.baselines.side_information import Standardized, check_pairs
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.metric.starts import geometric_mean
from boostmetric.solver.result import StopReason


@documented
class GMML(Baseline):
    """Geometric mean metric learning: similar points close in X, dissimilar ones close in its inverse.

    With S and D the mean scatters (a - b)(a - b)' of similar and dissimilar pairs, tr(XS) + tr(inv(X) D) is minimised
    over all metrics X. The minimum has a closed form, the geometric mean of inv(S) and D, halfway between them on the
    geodesic of positive definite matrices; other points of it favour one of the two [1]_.

    Parameters
    ----------
    n_components : int, default=None
        Rank of the metric: the best approximation. None keeps all directions in which samples vary.
    share : float, default=0.5
        Where on the geodesic, from 0, the inverse of S, to 1, D.
    regularization : float, default=1e-3
        Fraction of the mean eigenvalue of either scatter that is added to it, in standardized features: pulls towards
        the distance of standardized features.

    Attributes
    ----------
    %(components)s
    %(threshold)s
    %(about_the_fit)s

    See Also
    --------
    boostmetric.BoostMetric : With ``init="geometric-mean"``, starts from such a metric, of the means of classes.

    Notes
    -----
    The objective adds numbers in the units of X and of its inverse. So here, unlike in the paper, features are divided
    by their standard deviations first, and scatters by their mean eigenvalues: units then do not matter.

    From labels, all pairs count, without listing them: the cost is n_samples * n_features^2.

    References
    ----------
    .. [1] P. Zadeh, R. Hosseini, S. Sra, "Geometric Mean Metric Learning", International Conference on Machine
       Learning, 2016.

    Examples
    --------
    >>> from boostmetric.baselines import GMML
    >>> from boostmetric.evaluation import knn_error
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> mapped = GMML().fit(X[::2], y[::2]).transform(X)
    >>> bool(knn_error(mapped[::2], y[::2], mapped[1::2], y[1::2]) < 0.1)
    True

    With pairs in place of labels:

    >>> GMML().fit(X, similar=[[0, 1], [60, 61]], dissimilar=[[0, 60], [1, 61], [0, 120]]).components_.shape
    (13, 13)
    """

    def __init__(self, n_components: int | None = None, *, share: float = 0.5, regularization: float = 1e-3) -> None:
        self.n_components = n_components
        self.share = share
        self.regularization = regularization

    @all_or_nothing
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        similar: ArrayLike | None = None,
        dissimilar: ArrayLike | None = None,
    ) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), optional
            Class labels: all pairs of one class are similar, all others dissimilar.
        similar, dissimilar : array-like of int of shape (n, 2), optional
            Used instead of labels: pairs of samples, as row numbers of X counted from 0.

        Returns
        -------
        self
        """
        check_number("share", self.share, at_most=1.0)
        check_number("regularization", self.regularization)
        samples, labels = self._check_data(X, y, similar=similar, dissimilar=dissimilar)
        standard = Standardized.of(samples, rotated=True)
        if labels is None:
            pairs = check_pairs(similar, dissimilar, len(samples))
            scatters = [standard.scatter_of_pairs(kind) for kind in pairs]
        else:
            within = standard.scatter_of_classes(labels)
            scatters = [within, standard.scatter_of_classes(np.zeros(len(labels))) - within]
        near, far = (
            self._regular(scatter, kind) for scatter, kind in zip(scatters, ("similar", "dissimilar"), strict=True)
        )
        values, vectors = np.linalg.eigh(near)
        rows = geometric_mean((vectors / np.sqrt(values)) @ vectors.T, far, self.share)
        self._finish(standard.as_map(rows), Journal(), StopReason.CLOSED_FORM)
        if labels is None:
            self._set_threshold(samples, *pairs)
        return self

    def _regular(self, scatter: FloatArray, kind: str) -> FloatArray:
        """Scatter in units of its mean eigenvalue, positive definite."""
        n = len(scatter)
        mean = float(np.trace(scatter)) / n
        if not mean > 0:
            raise ValueError(f"The samples of every {kind} pair are equal: GMML needs some variation among them.")
        least = n * np.finfo(np.float64).eps  # so that a singular one has an inverse
        return np.asarray(scatter / mean + max(self.regularization, least) * np.eye(n))
