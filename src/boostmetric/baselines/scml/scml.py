"""Sparse compositional metric learning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from boostmetric.arrays.frame import scale_in_range
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import as_numbers, check_count, check_number
from boostmetric.baselines.baseline import Baseline, Journal, trace_of
from boostmetric.baselines.descriptions import documented
from boostmetric.baselines.scml.basis import differences, discriminants
from boostmetric.baselines.scml.margins import DirectionMargins
from boostmetric.baselines.scml.sparse_hinge import SparseHinge, SparseWeights
from boostmetric.callbacks import Callback
from boostmetric.comparisons import Comparisons
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.estimators.sklearn_callbacks import with_callbacks
from boostmetric.metric.starts import spread
from boostmetric.solver.problem import Problem
from boostmetric.solver.result import StopReason


@documented
class SCML(Baseline):
    """Sparse compositional metric learning: a metric of a few directions out of many that are given.

    The metric is a sum of w b b' over directions b with weights w >= 0. The mean hinge loss of the comparisons, with
    margin 1, plus `beta` times the sum of the weights is minimised [1]_. The problem is convex, and the fit proves how
    close it is to the minimum, by `duality_gap_`.

    Parameters
    ----------
    n_components : int, default=None
        Rank of the metric: the best approximation. None keeps its own.
    beta : float, default=1e-5
        Weight of the sum of the weights: larger ones give fewer directions.
    basis : array of shape (n_basis, n_features), default=None
        Directions to choose from. None makes them: from labels, Fisher's discriminants of regions; from comparisons,
        directions in which the far pairs of a few differ more than the near pairs.
    n_basis : int, default=400
        Number of directions to make.
    n_neighbors, n_impostors : int, default=3, 10
        From labels, targets and impostors of each sample: its nearest of the same class, and of others.
    max_iter : int, default=500
        Maximum number of Newton steps.
    %(tol)s
    %(callbacks)s
    random_state : int, RandomState or None, default=None
        Random seed for making directions.
    %(verbose)s

    Attributes
    ----------
    %(components)s
    basis_ : ndarray of shape (n_basis, n_features)
        The directions.
    weights_ : ndarray of shape (n_basis,)
        Their weights, most of which are 0.
    objective_ : float
        The objective (before truncation to `n_components`).
    duality_gap_ : float
        Bound on how much lower the objective of any other weights may be.
    %(n_iter)s
    history_ : list of Iteration
        Objective, trace and violated fraction of each iteration.
    %(about_the_fit)s

    Notes
    -----
    The authors use stochastic subgradients. Here the method of multipliers with Newton's method inside finds the
    minimum: see the module `boostmetric.baselines.scml.sparse_hinge`. Directions are made for standardized features,
    and are of length 1 there, so units matter only to targets and impostors; directions that you pass are used as they
    are.

    Cost: per step, that of distances and of a weighted sum over all pairs, and of a least-squares problem of the
    directions in use; no table of comparisons by directions is formed.

    References
    ----------
    .. [1] Y. Shi, A. Bellet, F. Sha, "Sparse Compositional Metric Learning", AAAI Conference on Artificial
       Intelligence, 2014.

    Examples
    --------
    >>> from boostmetric.baselines import SCML
    >>> from sklearn.datasets import load_wine
    >>> metric = SCML(n_basis=100, random_state=0).fit(*load_wine(return_X_y=True))
    >>> bool(metric.duality_gap_ <= 1e-3 * metric.objective_)
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        beta: float = 1e-5,
        basis: ArrayLike | None = None,
        n_basis: int = 400,
        n_neighbors: int = 3,
        n_impostors: int = 10,
        max_iter: int = 500,
        tol: float = 1e-3,
        callbacks: Sequence[Callback] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.beta = beta
        self.basis = basis
        self.n_basis = n_basis
        self.n_neighbors = n_neighbors
        self.n_impostors = n_impostors
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
        comparisons: ArrayLike | Comparisons | None = None,
        weights: ArrayLike | None = None,
    ) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), optional
            Class labels.
        comparisons : array-like of int of shape (n, 3) or (n, 4), or Comparisons, optional
            Used instead of labels: rows (i, j, k), sample i is closer to j than to k; or (i, j, k, l), i is closer to j
            than k to l.
        weights : array-like, optional
            Weight of each row, or group, of `comparisons`.

        Returns
        -------
        self
        """
        self._check_parameters()
        samples, labels = self._check_data(X, y, comparisons=comparisons)
        if labels is None:
            problem = self._given(samples, comparisons, weights)
        elif weights is not None:
            raise ValueError("weights are those of comparisons, but y is given. Leave them out.")
        else:
            nearest = Comparisons.from_labels(
                samples, labels, n_neighbors=self.n_neighbors, n_impostors=self.n_impostors
            )
            problem = Problem(samples, nearest)
        listed = problem.comparisons.listed()
        points, exponent = scale_in_range(problem.points)
        basis = self._basis(np.asarray(points), labels, listed, exponent)
        margins = DirectionMargins(np.asarray(points), listed, basis)
        search = SparseHinge(margins, listed.shares(), self.beta).search()
        with self._watched(self.max_iter, (X, y), self._attributes_so_far) as callbacks:
            journal = Journal(callbacks)
            reached, stop_reason = self._run(search, lambda w: np.ldexp(_rows(basis, w), -exponent), journal)
        self.basis_, self.weights_ = np.ldexp(basis, -exponent), reached.weights
        self.objective_, self.duality_gap_ = reached.objective, reached.objective - reached.bound
        self._finish(np.ldexp(_rows(basis, reached.weights), -exponent), journal, stop_reason)
        return self

    def _run(
        self, search: Iterator[SparseWeights], components: Callable[[FloatArray], FloatArray], journal: Journal
    ) -> tuple[SparseWeights, StopReason]:
        """Run the search until the gap is small; return its best point with the highest bound, and why it ended."""
        best = None
        for found in search:
            bound = found.bound if best is None else max(found.bound, best.bound)
            best = found if best is None or found.objective < best.objective else best
            best = best._replace(bound=min(bound, best.objective))
            rows = components(best.weights)
            asked = journal.add(best.objective, rows.copy, trace=trace_of(rows), violated=best.violated)
            if asked:
                assert journal.stopped is not None
                return best, journal.stopped
            if best.objective - best.bound <= self.tol * best.objective:
                return best, StopReason.OPTIMAL
            if len(journal.history) == self.max_iter:
                return best, StopReason.ITERATION_LIMIT
        assert best is not None
        return best, StopReason.NOTHING_TO_IMPROVE

    def _basis(
        self, points: FloatArray, labels: NDArray[Any] | None, comparisons: Comparisons, exponent: int
    ) -> FloatArray:
        """Directions for the points: given ones as they are, or unit vectors for standardized features."""
        if self.basis is not None:
            given = as_numbers("basis", self.basis)
            if given.ndim != 2 or given.shape[1] != points.shape[1] or not np.isfinite(given).all():
                raise ValueError(
                    f"basis must be finite numbers of shape (n_basis, {points.shape[1]}), one column for each feature. "
                    f"Got shape {given.shape}."
                )
            return np.ldexp(given, exponent)
        rng, unit = check_random_state(self.random_state), spread(points)
        if labels is None:
            return differences(points / unit, comparisons, self.n_basis, rng) / unit
        return discriminants(points / unit, labels, self.n_basis, rng) / unit

    def _check_parameters(self) -> None:
        check_number("beta", self.beta, above=0.0)
        for name in ("n_basis", "n_neighbors", "n_impostors", "max_iter"):
            check_count(name, getattr(self, name))
        check_number("tol", self.tol)
        self._check_callbacks()


def _rows(basis: FloatArray, weights: FloatArray) -> FloatArray:
    used = weights > 0
    if not used.any():
        return np.zeros((1, basis.shape[1]))
    return np.asarray(np.sqrt(weights[used])[:, None] * basis[used])
