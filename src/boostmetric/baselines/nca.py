"""Neighbourhood components analysis, by scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from boostmetric.arrays.frame import scale_in_range
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_choice, check_count, check_number
from boostmetric.baselines.baseline import Baseline, Journal, check_not_zero, trace_of
from boostmetric.baselines.descriptions import documented
from boostmetric.baselines.scale import distance_of_neighbors
from boostmetric.callbacks import Callback
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.estimators.sklearn_callbacks import with_callbacks
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.starts import Init, starting_components
from boostmetric.solver.result import StopReason

# Limits on the size of initial components, in units of the distance of neighbours.
_SHORTEST, _LONGEST = 1e-50, 1e50
_STARTS = ("auto", "identity", "pca", "lda", "random")


@documented
class NCA(Baseline):
    """Neighbourhood components analysis: maximise the accuracy of a soft nearest-neighbour classifier.

    A sample takes the label of another with a probability that decreases exponentially with their squared distance; the
    expected number of right labels is maximised over the linear map [1]_. This is
    `sklearn.neighbors.NeighborhoodComponentsAnalysis` with two differences: callbacks, and data scaled so that nearest
    neighbours are at distance 1, or so that the largest component of a map that is given is 1. If neighbours were far
    away, all probabilities would be 0 or 1, the gradient would vanish, and the search would end where it began.

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
    Cost: each iteration takes time and memory for several tables of n_samples x n_samples.

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
        unit = distance_of_neighbors(points)
        if not points.any():
            raise ValueError("All samples are equal: no metric can tell them apart. Check that X holds the samples.")
        start = self._start(samples, labels, unit, exponent)
        if not isinstance(start, str):  # the search then goes as one that is not scaled, from the size that was chosen
            size = float(np.abs(start).max())
            start, unit = start / size, unit / size
        with self._watched(self.max_iter, (X, y), self._attributes_so_far) as callbacks:
            journal = Journal(callbacks)

            def on_iteration(flat: FloatArray, _: int) -> None:
                rows = np.ldexp(flat.reshape(-1, samples.shape[1]) / unit, -exponent)
                if journal.add(nca.last_loss, rows.copy, trace=trace_of(rows)):
                    raise StopIteration  # SciPy then stops

            nca = _Remembering(
                self.n_components,
                init=start,
                max_iter=self.max_iter,
                tol=self.tol,
                callback=on_iteration,
                random_state=self.random_state,
            )
            nca.fit(points / unit, labels)
        limit = len(journal.history) >= self.max_iter
        stop_reason = StopReason.ITERATION_LIMIT if limit else StopReason.CONVERGED
        self._finish(np.ldexp(nca.components_ / unit, -exponent), journal, journal.stopped or stop_reason)
        return self

    def _start(self, samples: FloatArray, labels: Any, unit: float, exponent: int) -> str | FloatArray:
        """Initial map for scikit-learn, in its units."""
        if isinstance(self.init, str):
            if self.init not in ("auto", "lda") or _means_differ(samples, labels, exponent):
                return self.init
            if self.init == "lda":
                raise ValueError(
                    'init="lda" starts with the directions along which the class means differ, but the means are '
                    'equal. Use init="pca".'
                )
            return "pca"
        given = starting_components(self.init, samples)
        assert given is not None
        rows = MahalanobisMetric(check_not_zero(given)).truncate(self.n_components).components
        length = float(np.abs(rows).max())
        if not _SHORTEST < math.ldexp(length * unit, exponent) < _LONGEST:
            raise ValueError(
                f"init has components of {length:.3g}, under which distances between samples cannot be computed. "
                "Multiply it by a number that makes distances between neighbours about 1."
            )
        return np.ldexp(rows * unit, exponent)

    def _check_parameters(self) -> None:
        if isinstance(self.init, str):
            check_choice("init", self.init, _STARTS)
        check_count("max_iter", self.max_iter)
        check_number("tol", self.tol)
        self._check_callbacks()


class _Remembering(NeighborhoodComponentsAnalysis):
    """NCA that remembers the last objective, which scikit-learn does not pass to callbacks."""

    last_loss = math.nan

    def _loss_grad_lbfgs(self, *arguments: Any) -> tuple[float, FloatArray]:
        loss, gradient = super()._loss_grad_lbfgs(*arguments)
        self.last_loss = float(loss)
        return loss, gradient


def _means_differ(samples: FloatArray, labels: Any, exponent: int) -> bool:
    """Whether the class means differ by more than rounding."""
    scaled = np.ldexp(samples, -exponent)
    means = np.array([scaled[labels == label].mean(axis=0) for label in np.unique(labels)])
    return bool(np.ptp(means, axis=0).max() > len(samples) * np.finfo(np.float64).eps * np.abs(scaled).max())
