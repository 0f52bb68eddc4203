"""Sparse distance metric learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_count, check_number
from boostmetric.baselines.baseline import Baseline, Journal, trace_of
from boostmetric.baselines.descriptions import documented
from boostmetric.baselines.graphical_lasso import sparse_inverse
from boostmetric.baselines.logdet import check_prior, prior_map
from boostmetric.baselines.side_information import Pairs, check_pairs, drawn_pairs
from boostmetric.callbacks import Callback
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.estimators.sklearn_callbacks import with_callbacks
from boostmetric.metric.starts import Init, spread
from boostmetric.solver.result import StopReason


@documented
class SDML(Baseline):
    """Sparse distance metric learning: close to a prior, with a sparse matrix, and similar pairs near.

    Minimises tr(M inv(M0)) - log det M + `balance` tr(MP) + `sparsity` times the sum of the absolute values off the
    diagonal of M, with P the mean over all pairs of (a - b)(a - b)', for dissimilar ones negative [1]_. This is
    the graphical lasso, a convex problem; the fit proves how close it is to the minimum, by `duality_gap_`.

    Parameters
    ----------
    n_components : int, default=None
        Rank of the metric: the best approximation, which is not sparse. None keeps all.
    prior : {"standardized", "identity"}, metric or array, default="standardized"
        Metric to stay close to. ``"standardized"``: the Euclidean distance of standardized features, in whose units
        sparsity is measured, too; otherwise it is measured in the units of the features. ``"identity"``: that of
        features as they are. A `MahalanobisMetric`, or the array of its linear map. It must have full rank.
    balance : float, default=None
        Weight of the pairs. If it is too large, the distances of dissimilar pairs can grow without limit. None takes
        half of what is possible without sparsity.
    sparsity : float, default=0.01
        Weight of the absolute values off the diagonal.
    %(n_pairs)s
    max_iter : int, default=100
        Maximum number of sweeps over all features.
    tol : float, default=1e-4
        Stop when the objective is within this number of its minimum.
    %(callbacks)s
    random_state : int, RandomState or None, default=None
        Random seed for drawing pairs.
    %(verbose)s

    Attributes
    ----------
    %(components)s
    %(threshold)s
    balance_ : float
        The weight of the pairs used.
    precision_ : ndarray of shape (n_features, n_features)
        The matrix M, with its zeros (before truncation to `n_components`).
    objective_ : float
        The objective.
    %(duality_gap)s
    %(n_iter)s
    %(history)s
    %(about_the_fit)s

    Notes
    -----
    The paper adds up P over the pairs; here it is their mean, so that `balance` does not depend on their number. The
    solver is that of the module `boostmetric.baselines.graphical_lasso`, which says why it is not scikit-learn's.

    Cost: features squared for a sweep, and for each coefficient that changes as many steps as there are features.

    References
    ----------
    .. [1] G.-J. Qi, J. Tang, Z.-J. Zha, T.-S. Chua, H.-J. Zhang, "An Efficient Sparse Metric Learning in
       High-Dimensional Space via l1-Penalized Log-Determinant Regularization", International Conference on Machine
       Learning, 2009.

    Examples
    --------
    >>> from boostmetric.baselines import SDML
    >>> from sklearn.datasets import load_wine
    >>> metric = SDML(sparsity=0.1, random_state=0).fit(*load_wine(return_X_y=True))
    >>> bool((metric.precision_ == 0).mean() > 0.3)
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        prior: Init = "standardized",
        balance: float | None = None,
        sparsity: float = 0.01,
        n_pairs: int | None = None,
        max_iter: int = 100,
        tol: float = 1e-4,
        callbacks: Sequence[Callback] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.prior = prior
        self.balance = balance
        self.sparsity = sparsity
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
        if labels is None:
            near, far = check_pairs(similar, dissimilar, len(samples))
        else:
            near, far = drawn_pairs(labels, self.n_pairs, check_random_state(self.random_state))
        standardized = isinstance(self.prior, str) and self.prior == "standardized"
        unit = spread(samples) if standardized else np.ones(samples.shape[1])
        inverse = np.linalg.inv(prior_map(self.prior, samples)) / unit[:, None]
        difference = _signed_mean(samples / unit, near, far)
        self.balance_ = _half_of_possible(inverse, difference) if self.balance is None else float(self.balance)
        S = inverse @ inverse.T + self.balance_ * difference
        shift = 2 * float(np.log(unit).sum())
        with self._watched(self.max_iter, (X, y), self._attributes_so_far) as callbacks:
            journal = Journal(callbacks)

            def on_iteration(precision: FloatArray, objective: float) -> bool:
                rows = np.linalg.cholesky(precision).T / unit
                return journal.add(objective + shift, rows.copy, trace=trace_of(rows))

            found = sparse_inverse(S, self.sparsity, tol=self.tol, max_iter=self.max_iter, on_iteration=on_iteration)
        if found is None:
            raise ValueError(
                f"balance={self.balance_:g} lets the distances of dissimilar pairs grow without limit. Lower balance, "
                "or raise sparsity."
            )
        self.objective_ = found.objective + shift
        self.duality_gap_ = found.objective - found.bound
        self.precision_ = found.precision / np.outer(unit, unit)
        stop_reason = StopReason.OPTIMAL if found.converged else StopReason.ITERATION_LIMIT
        rows = np.linalg.cholesky(found.precision).T / unit
        self._finish(rows, journal, journal.stopped or stop_reason)
        if labels is None:
            self._set_threshold(samples, near, far)
        return self

    def _check_parameters(self) -> None:
        check_prior(self.prior)
        if self.balance is not None:
            check_number("balance", self.balance)
        check_number("sparsity", self.sparsity)
        if self.n_pairs is not None:
            check_count("n_pairs", self.n_pairs, alternative=", or None")
        check_count("max_iter", self.max_iter)
        check_number("tol", self.tol, above=0.0)
        self._check_callbacks()


def _half_of_possible(inverse: FloatArray, difference: FloatArray) -> float:
    """Half of the largest weight for which S is positive semidefinite."""
    root = np.linalg.inv(inverse)
    least = float(np.linalg.eigvalsh(root @ difference @ root.T)[0])
    return 0.5 / -least if least < 0 else 0.5


def _signed_mean(points: FloatArray, near: Pairs, far: Pairs) -> FloatArray:
    """Mean of (a - b)(a - b)' over pairs of points, those of dissimilar ones with a minus."""
    similar, dissimilar = (points[pairs[:, 0]] - points[pairs[:, 1]] for pairs in (near, far))
    return np.asarray((similar.T @ similar - dissimilar.T @ dissimilar) / (len(near) + len(far)))
