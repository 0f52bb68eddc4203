"""Neighbourhood components analysis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils import check_random_state

from boostmetric.arrays.frame import scale_in_range
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_choice, check_count, check_number
from boostmetric.baselines.baseline import Baseline, Journal, check_not_zero, trace_of
from boostmetric.baselines.descriptions import documented
from boostmetric.baselines.scale import distance_of_neighbors
from boostmetric.baselines.soft_neighbors import Misses, minimise
from boostmetric.callbacks import Callback
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.estimators.sklearn_callbacks import with_callbacks
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.starts import Init, starting_components
from boostmetric.solver.result import StopReason

# Limits on the size of initial components, in units of the size of the points.
_SHORTEST, _LONGEST = 1e-50, 1e50
_STARTS = ("auto", "identity", "pca", "lda", "random")


@documented
class NCA(Baseline):
    """Neighbourhood components analysis: maximise the accuracy of a soft nearest-neighbour classifier.

    A sample takes the label of another with a probability that decreases exponentially with their squared distance; the
    expected number of right labels is maximised over the linear map [1]_. Starts, steps and defaults are those of
    `sklearn.neighbors.NeighborhoodComponentsAnalysis`, but the data are scaled so that nearest neighbours are at
    distance 1, or so that the largest component of a map that is given is 1. If neighbours were far away, all
    probabilities would be 0 or 1, the gradient would vanish, and the search would end where it began.

    Parameters
    ----------
    %(rows)s
    init : {"auto", "identity", "pca", "lda", "random"}, metric or array, default="auto"
        Initial linear map, as in scikit-learn; or a `MahalanobisMetric`, or its components.
    %(max_iter)s
    tol : float, default=1e-5
        Tolerance of L-BFGS.
    %(callbacks)s
    random_state : int, RandomState or None, default=None
        Random seed for ``init="random"``, and for "pca" in high dimension.
    %(verbose)s

    Attributes
    ----------
    %(components)s
    %(n_iter)s
    history_ : list of Iteration
        Loss (the negative expected number of right labels) and trace of each iteration.
    %(about_the_fit)s

    Notes
    -----
    Cost: the time of an iteration is that of a table of n_samples x n_samples, of which only some rows are in memory at
    once. scikit-learn's own forms several such tables, and takes five times as long.

    References
    ----------
    .. [1] J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov, "Neighbourhood Components Analysis", Advances in
       Neural Information Processing Systems 17, 2004.

    Examples
    --------
    >>> from boostmetric.baselines import NCA
    >>> from sklearn.datasets import load_iris
    >>> NCA(n_components=2).fit_transform(*load_iris(return_X_y=True)).shape
    (150, 2)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        init: Init = "auto",
        max_iter: int = 50,
        tol: float = 1e-5,
        callbacks: Sequence[Callback] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.callbacks = callbacks
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    @with_callbacks
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
        self._check_parameters()
        samples, labels = self._check_data(X, y)
        points, exponent = scale_in_range(samples)
        if not points.any():
            raise ValueError("All samples are equal: no metric can tell them apart. Check that X holds the samples.")
        numbers = np.unique(np.asarray(labels), return_inverse=True)[1]
        if isinstance(self.init, str):
            unit = distance_of_neighbors(points)
            start = self._named_start(points / unit, numbers)
        else:  # the search then goes as one that is not scaled, from the size that was chosen
            start = self._given_start(samples, exponent)
            unit = 1 / float(np.abs(start).max())
            start = start * unit
        misses = Misses(points / unit, numbers)
        with self._watched(self.max_iter, (X, y), self._attributes_so_far) as callbacks:
            journal = Journal(callbacks)

            def on_iteration(rows: FloatArray, loss: float) -> bool:
                components = np.ldexp(rows / unit, -exponent)
                return journal.add(loss, components.copy, trace=trace_of(components))

            rows = minimise(
                misses, start, max_iter=self.max_iter, tol=self.tol, flat=self.tol, on_iteration=on_iteration
            )
        limit = len(journal.history) >= self.max_iter
        stop_reason = StopReason.ITERATION_LIMIT if limit else StopReason.CONVERGED
        self._finish(np.ldexp(rows / unit, -exponent), journal, journal.stopped or stop_reason)
        return self

    def _named_start(self, points: FloatArray, labels: NDArray[np.int64]) -> FloatArray:
        """Initial map by its name, as scikit-learn's NCA has it."""
        n, n_features = points.shape
        name, count = self.init, self.n_components or n_features
        if name == "auto":
            few = count < min(n, n_features)
            name = "lda" if count <= min(n_features, labels.max()) else "pca" if few else "identity"
        if name == "lda" and not _means_differ(points, labels):
            if self.init == "lda":
                raise ValueError(
                    'init="lda" starts with the directions along which the class means differ, but the means are '
                    'equal. Use init="pca".'
                )
            name = "pca" if count < min(n, n_features) else "identity"
        if name == "identity":
            return np.eye(count, n_features)
        rng = check_random_state(self.random_state)
        if name == "random":
            return np.asarray(rng.standard_normal((count, n_features)))
        if name == "pca":
            return np.asarray(PCA(count, random_state=rng).fit(points).components_)
        return np.asarray(LinearDiscriminantAnalysis(n_components=count).fit(points, labels).scalings_.T[:count])

    def _given_start(self, samples: FloatArray, exponent: int) -> FloatArray:
        """Initial map from a metric, for points of about length 1."""
        given = starting_components(self.init, samples)
        assert given is not None
        rows = MahalanobisMetric(check_not_zero(given)).truncate(self.n_components).components
        length = float(np.abs(rows).max())
        if not _SHORTEST < math.ldexp(length, exponent) < _LONGEST:
            raise ValueError(
                f"init has components of {length:.3g}, under which distances between samples cannot be computed. "
                "Multiply it by a number that makes distances between neighbours about 1."
            )
        return np.ldexp(rows, exponent)

    def _check_parameters(self) -> None:
        if isinstance(self.init, str):
            check_choice("init", self.init, _STARTS)
        check_count("max_iter", self.max_iter)
        check_number("tol", self.tol)
        self._check_callbacks()


def _means_differ(points: FloatArray, labels: NDArray[np.int64]) -> bool:
    """Whether the class means differ by more than rounding."""
    sums = np.zeros((labels.max() + 1, points.shape[1]))
    np.add.at(sums, labels, points)
    means = sums / np.bincount(labels)[:, None]
    return bool(np.ptp(means, axis=0).max() > len(points) * np.finfo(np.float64).eps * np.abs(points).max())
