"""Information-theoretic metric learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import pdist
from sklearn.utils import check_random_state

from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import as_numbers, check_count, check_number
from boostmetric.baselines.descriptions import documented
from boostmetric.baselines.logdet import PriorCoordinates, prior_map
from boostmetric.baselines.near_prior import NearPrior
from boostmetric.baselines.pair_set import PairSet
from boostmetric.baselines.side_information import check_pairs, drawn_pairs
from boostmetric.callbacks import Callback
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.estimators.sklearn_callbacks import with_callbacks
from boostmetric.metric.starts import Init

# Default bounds: these percentiles of the distances, among at most so many points.
_PERCENTILES = (5, 95)
_MOST_POINTS = 1000


@documented
class ITML(NearPrior):
    """Information-theoretic metric learning: close to a prior, with similar pairs near and dissimilar pairs far.

    The LogDet divergence of the metric from the prior is minimised, the relative entropy of two normal distributions.
    Squared distances of similar pairs should be at most that of a near bound, those of dissimilar pairs at least that
    of a far one; what violates them is penalised by `gamma` times the divergence from its bound [1]_. The problem is
    convex, and the fit proves how close it is to the minimum, by `duality_gap_`.

    Parameters
    ----------
    %(rank)s
    %(prior)s
    gamma : float, default=1.0
        Weight of the violations, each of which costs r - log(r) - 1 with r the ratio of a squared distance and its
        bound.
    bounds : (float, float), default=None
        Near and far bound of distances. None takes the 5th and 95th percentile of the distances under the prior.
    %(n_pairs)s
    %(max_iter)s
    %(tol)s
    %(callbacks)s
    random_state : int, RandomState or None, default=None
        Random seed for drawing pairs.
    %(verbose)s

    Attributes
    ----------
    %(components)s
    %(threshold)s
    bounds_ : ndarray of shape (2,)
        The bounds used.
    objective_ : float
        Divergence from the prior plus penalties (before truncation to `n_components`).
    %(duality_gap)s
    %(n_iter)s
    %(history)s
    %(about_the_fit)s

    Notes
    -----
    Davis et al. project onto one constraint after the other. Here slack variables are eliminated, which leaves a smooth
    convex function of the metric, and L-BFGS minimises it: see the module `boostmetric.baselines.logdet`.

    Dissimilar pairs of equal points are left out: no metric moves them apart.

    Cost: the time of an iteration is proportional to pairs times features, plus features cubed.

    References
    ----------
    .. [1] J. Davis, B. Kulis, P. Jain, S. Sra, I. Dhillon, "Information-Theoretic Metric Learning", International
       Conference on Machine Learning, 2007.

    Examples
    --------
    >>> from boostmetric.baselines import ITML
    >>> from sklearn.datasets import load_wine
    >>> metric = ITML(random_state=0).fit(*load_wine(return_X_y=True))
    >>> bool(metric.duality_gap_ <= 1e-4 * metric.objective_)
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        prior: Init = "standardized",
        gamma: float = 1.0,
        bounds: tuple[float, float] | ArrayLike | None = None,
        n_pairs: int | None = None,
        max_iter: int = 1000,
        tol: float = 1e-4,
        callbacks: Sequence[Callback] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.prior = prior
        self.gamma = gamma
        self.bounds = bounds
        self.n_pairs = n_pairs
        self.max_iter = max_iter
        self.tol = tol
        self.callbacks = callbacks
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    @with_callbacks
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
            Class labels, from which pairs are drawn.
        similar, dissimilar : array-like of int of shape (n, 2), optional
            Used instead of labels: pairs of samples, as row numbers of X counted from 0.

        Returns
        -------
        self
        """
        self._check_parameters()
        samples, labels = self._check_data(X, y, similar=similar, dissimilar=dissimilar)
        rng = check_random_state(self.random_state)
        if labels is None:
            near, far = check_pairs(similar, dissimilar, len(samples))
        else:
            near, far = drawn_pairs(labels, self.n_pairs, rng)
        inside = PriorCoordinates.of(samples, prior_map(self.prior, samples))
        exponent = inside.frame.exponent
        far = far[(samples[far[:, 0]] != samples[far[:, 1]]).any(axis=1)]
        self.bounds_ = self._bounds(inside, np.unique(np.concatenate([near, far])), rng)
        penalty = Penalty(np.ldexp(self.bounds_, -exponent) ** 2, len(near), self.gamma)
        pairs = PairSet.of(inside.points, np.concatenate([near, far]))
        self._minimise(inside, pairs, penalty, (X, y))
        if labels is None:
            self._set_threshold(samples, near, far)
        return self

    def _bounds(self, inside: PriorCoordinates, numbers: NDArray[np.int64], rng: np.random.RandomState) -> FloatArray:
        if self.bounds is not None:
            return as_numbers("bounds", self.bounds)
        if len(numbers) > _MOST_POINTS:
            numbers = rng.choice(numbers, _MOST_POINTS, replace=False)
        points = np.unique(inside.points[numbers], axis=0)
        if len(points) < 2:
            raise ValueError("All samples of the pairs are equal: no metric can tell them apart.")
        return np.asarray(np.ldexp(np.percentile(pdist(points), _PERCENTILES), inside.frame.exponent))

    def _check_parameters(self) -> None:
        self._check_search()
        check_number("gamma", self.gamma, above=0.0)
        if self.bounds is not None:
            bounds = as_numbers("bounds", self.bounds)
            if bounds.shape != (2,) or not (np.isfinite(bounds) & (bounds > 0)).all():
                raise ValueError(f"bounds must be two positive distances, near and far. Got {self.bounds!r}.")
        if self.n_pairs is not None:
            check_count("n_pairs", self.n_pairs, alternative=", or None")


class Penalty:
    """Cost of squared distances beyond their bounds: gamma (r - log r - 1), with r their ratio.

    Parameters
    ----------
    squares : ndarray of shape (2,)
        Squares of the near and the far bound.
    n_near : int
        Number of similar pairs, which come first.
    gamma : float
    """

    def __init__(self, squares: FloatArray, n_near: int, gamma: float) -> None:
        self._squares = squares
        self._n_near = n_near
        self._gamma = gamma

    def __call__(self, distances: FloatArray) -> tuple[float, FloatArray]:
        """Sum of the costs, and the derivative with respect to each squared distance."""
        near, far = distances[: self._n_near], distances[self._n_near :]
        ratio = np.concatenate([np.maximum(near / self._squares[0], 1.0), np.minimum(far / self._squares[1], 1.0)])
        unit = np.repeat(self._squares, [len(near), len(far)])
        value = self._gamma * float(np.sum(ratio - np.log(ratio) - 1.0))
        return value, self._gamma * (1.0 - 1.0 / ratio) / unit
