"""Mahalanobis metric learning for clustering, from pairs of similar and dissimilar points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_count, check_flag, check_number
from boostmetric.baselines.baseline import Baseline, Journal, trace_of
from boostmetric.baselines.descriptions import documented
from boostmetric.baselines.mmc.separation import Reached, diagonal_search, full_search, root
from boostmetric.baselines.pair_set import PairSet
from boostmetric.baselines.side_information import Pairs, Standardized, check_pairs, pairs_of_classes
from boostmetric.callbacks import Callback
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.estimators.sklearn_callbacks import with_callbacks
from boostmetric.solver.result import StopReason


@documented
class MMC(Baseline):
    """Metric of Xing et al.: dissimilar points as far apart as possible while similar points stay together.

    The sum of the distances of the dissimilar pairs is maximised, over all metrics under which the squared distances of
    the similar pairs add up to at most 1 [1]_: a concave problem.

    Parameters
    ----------
    n_components : int, default=None
        Rank of the metric: the best approximation of the learned metric. None keeps its own rank, which is often small.
    diagonal : bool, default=False
        Whether to learn only a weight for each feature.
    max_pairs : int, default=100_000
        Maximum number of dissimilar pairs from labels; if there are more, this many are drawn at random. The objective
        is a sum over pairs, and 100,000 are a large sample for the unknowns of a symmetric matrix, 5,050 for 100
        features. None uses all.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-5
        Stop when no metric can be better by more than this fraction of the objective.
    %(callbacks)s
    random_state : int, RandomState or None, default=None
        Random seed for drawing dissimilar pairs, if there are more than `max_pairs`.
    %(verbose)s

    Attributes
    ----------
    %(components)s
        The squared distances of the similar pairs add up to 1, with or without `diagonal` (before truncation to
        `n_components`).
    %(threshold)s
    objective_ : float
        Sum of the distances of the dissimilar pairs (before truncation to `n_components`).
    duality_gap_ : float
        Bound on how much larger the objective of any other metric may be.
    %(n_iter)s
    history_ : list of Iteration
        Loss (the negative sum of the distances of the dissimilar pairs) and trace of each iteration.
    %(about_the_fit)s

    See Also
    --------
    boostmetric.Comparisons.from_pairs : Compares similar with dissimilar pairs, for `ComparisonBoostMetric`.

    Notes
    -----
    Xing et al. follow the gradient and, after every step, project onto the two constraints in turn until both hold.
    Here this is done in coordinates in which similar pairs vary equally in all directions. Both constraints are then on
    eigenvalues, and the limit of such projections (Dykstra's) has a closed form; the units of the features no longer
    matter; and a bound on the objective says when to stop. The diagonal form is Newton's method, as theirs, with the
    same bound. See the module `boostmetric.baselines.mmc.separation` for details.

    Directions in which similar points do not differ at all could be stretched without limit, and the objective with
    them. They count as if similar points differed there as little as in the narrowest direction in which they do differ
    (after standardizing the features), also in the sum that is 1. Directions in which no dissimilar points differ have
    length 0.

    The maximum often has a low rank, because a sum of distances gains most along the few directions that separate the
    classes best. With many classes, this may be worse for nearest neighbours than the Euclidean distance.

    Cost: memory for the dissimilar pairs, about 100 bytes each; the time of an iteration is proportional to pairs times
    features, and with `diagonal` to pairs times features squared. A fit usually takes a few dozen iterations, and with
    `diagonal` fewer than ten.

    References
    ----------
    .. [1] E. Xing, A. Ng, M. Jordan, S. Russell, "Distance metric learning, with application to clustering with
       side-information", Advances in Neural Information Processing Systems 15, 2002.

    Examples
    --------
    >>> from boostmetric.baselines import MMC
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = MMC().fit(X, y)
    >>> bool(metric.duality_gap_ <= 1e-5 * -metric.history_[-1].loss)
    True

    With pairs in place of labels:

    >>> metric = MMC(diagonal=True).fit(X, similar=[[0, 1], [60, 61]], dissimilar=[[0, 60], [1, 61], [0, 120]])
    >>> d = metric.pair_distance(X[[[0, 1], [60, 61]]])
    >>> round(float(d @ d), 6)
    1.0
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        diagonal: bool = False,
        max_pairs: int | None = 100_000,
        max_iter: int = 1000,
        tol: float = 1e-5,
        callbacks: Sequence[Callback] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.diagonal = diagonal
        self.max_pairs = max_pairs
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
            Class labels: all pairs of one class are similar, all others dissimilar.
        similar, dissimilar : array-like of int of shape (n, 2), optional
            Used instead of labels: pairs of samples, as row numbers of X counted from 0. Repeated pairs count
            repeatedly.

        Returns
        -------
        self
        """
        self._check_parameters()
        samples, labels = self._check_data(X, y, similar=similar, dissimilar=dissimilar)
        standard = Standardized.of(samples, rotated=not self.diagonal)
        if labels is None:
            near, far = check_pairs(similar, dissimilar, len(samples))
            scatter = standard.scatter_of_pairs(near)
        else:
            far = pairs_of_classes(labels, self.max_pairs, check_random_state(self.random_state))
            scatter = standard.scatter_of_classes(labels)
        apart = standard.different(far)
        if not len(apart):
            raise ValueError("The samples of every dissimilar pair are equal: no metric can tell them apart.")
        form = (_Diagonal if self.diagonal else _Full)(standard.points, scatter)
        with self._watched(self.max_iter, (X, y), self._attributes_so_far) as callbacks:
            journal = Journal(callbacks)
            reached, stop_reason = self._run(
                form.search(apart), lambda metric: standard.as_map(form.rows(metric)), journal
            )
        self._finish(standard.as_map(form.rows(reached.metric)), journal, stop_reason)
        self.objective_, self.duality_gap_ = reached.objective, max(reached.bound - reached.objective, 0.0)
        if labels is None:
            self._set_threshold(samples, near, far)
        return self

    def _run(
        self, search: Iterator[Reached], components: Callable[[FloatArray], FloatArray], journal: Journal
    ) -> tuple[Reached, StopReason]:
        """Run a search until the gap is small; return its last point with the lowest bound, and why it ended."""
        reached = next(search)
        while reached.bound - reached.objective > self.tol * reached.objective:
            if len(journal.history) == self.max_iter:
                return reached, StopReason.ITERATION_LIMIT
            bound, following = reached.bound, next(search, None)
            if following is None:
                return reached, StopReason.NOTHING_TO_IMPROVE
            reached = replace(following, bound=min(bound, following.bound))
            rows = components(reached.metric)
            if journal.add(-reached.objective, rows.copy, trace=trace_of(rows)):
                assert journal.stopped is not None
                return reached, journal.stopped
        return reached, StopReason.OPTIMAL

    def _check_parameters(self) -> None:
        check_flag("diagonal", self.diagonal)
        if self.max_pairs is not None:
            check_count("max_pairs", self.max_pairs, alternative=", or None for all")
        check_count("max_iter", self.max_iter)
        check_number("tol", self.tol)
        self._check_callbacks()


class _Full:
    """Problem in coordinates in which similar pairs vary by 1 along every axis."""

    def __init__(self, points: FloatArray, scatter: FloatArray) -> None:
        values, vectors = np.linalg.eigh(scatter)
        self._axes = vectors / np.sqrt(_completed(values))
        self._points = points @ self._axes

    def search(self, pairs: Pairs) -> Iterator[Reached]:
        return full_search(PairSet.of(self._points, pairs))

    def rows(self, metric: FloatArray) -> FloatArray:
        return np.asarray(root(metric) @ self._axes.T)


class _Diagonal:
    """Problem in features scaled so that similar pairs vary by 1 along each."""

    def __init__(self, points: FloatArray, scatter: FloatArray) -> None:
        self._axes = 1 / np.sqrt(_completed(np.diagonal(scatter)))
        self._points = points * self._axes

    def search(self, pairs: Pairs) -> Iterator[Reached]:
        return diagonal_search(self._points, pairs)

    def rows(self, metric: FloatArray) -> FloatArray:
        kept = np.flatnonzero(metric > np.finfo(np.float64).eps)
        rows = np.zeros((len(kept), len(metric)))
        rows[np.arange(len(kept)), kept] = (np.sqrt(metric) * self._axes)[kept]
        return rows


def _completed(variation: FloatArray) -> FloatArray:
    """Replace sums of squares along axes that are zero by the smallest positive one.

    Otherwise the objective would be unbounded. A fixed small number would be a parameter, and such an axis would
    outweigh all others; as narrow as the narrowest, it is merely the best of them.
    """
    positive = variation > variation.max() * len(variation) * np.finfo(np.float64).eps
    if not positive.any():
        raise ValueError(
            "The samples of every similar pair are equal, so the distances of the others could grow without limit. MMC "
            "needs some variation among similar samples: use the Euclidean distance, or pass other pairs."
        )
    return np.asarray(np.maximum(variation, variation[positive].min()))
