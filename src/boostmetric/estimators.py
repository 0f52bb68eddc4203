"""scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Literal, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from boostmetric.callbacks import Callback, ProgressBar
from boostmetric.comparisons import Comparisons
from boostmetric.metric import MahalanobisMetric
from boostmetric.solver.learn import STEP_FINDERS, learn
from boostmetric.solver.result import Boosted, Iteration, StopReason
from boostmetric.validation import check_choice, check_count, check_number, check_threads, warn


class BoostMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Mahalanobis metric learned from class labels by boosting.

    Each sample's nearest samples of its own class (targets) should be closer than its nearest samples of other
    classes (impostors). The metric is a sum of rank-one matrices, added one at a time: the method, and the default
    values, of Shen, Kim, Wang and van den Hengel [1]_.

    Parameters
    ----------
    n_components : int, default=None
        Largest rank of the metric, and so the number of features that `transform` returns; the best approximation of
        that rank is kept. None keeps the metric as learned.
    n_neighbors : int, default=3
        Targets of each sample.
    n_impostors : int or "all", default=3
        Impostors of each sample.
    regularization : float, default=1e-7
        The factor v of the trace of X in the objective.
    max_iter : int, default=500
        Most iterations; each adds one direction.
    tol : float, default=0.0
        Stop when the slope of the loss along the best direction has come down to this fraction of what it was at the
        start. 0 runs to `max_iter` unless there is nothing left to gain.
    line_search : {"exact", "bisection"}, default="exact"
        How the step along a direction is found: from one pass or by Newton's method, whichever suits the comparisons,
        or by the paper's bisection. The steps are the same; bisection takes about ten times as many evaluations.
    n_jobs : int, default=None
        Threads. None is 1 unless a joblib context says otherwise, -1 all processors. The result is the same, bit for
        bit, for every number of threads.
    callbacks : list, default=None
        Objects with a method ``on_iteration(record)`` that sees each `Iteration` and may return True to stop.
    random_state : int, RandomState or None, default=None
        Start of the search for the first direction in more than 512 dimensions. In fewer, nothing is random.
    verbose : int, default=0
        1 shows a progress bar on standard error.

    Attributes
    ----------
    components_ : ndarray of shape (rank, n_features)
        The linear map L with X = L'L; rows are orthogonal, longest first.
    directions_ : ndarray of shape (n_iter_, n_features)
        Unit vectors xi_j, in the order they were found.
    step_sizes_ : ndarray of shape (n_iter_,)
        Their weights w_j; X = sum_j w_j xi_j xi_j' before `n_components` is applied.
    n_iter_ : int
        Iterations run.
    history_ : list of Iteration
        Loss, eigenvalue, step size, trace and violated fraction of each iteration.
    stop_reason_ : StopReason
        Why the fit ended; ``str(stop_reason_)`` is a sentence.
    duality_gap_ : float
        max(v, lambda_max) Tr X - sum_r u_r rho_r, where lambda_max is the largest eigenvalue of A_hat at the end. Where
        lambda_max <= v, the objective is within this gap of its minimum; otherwise the same X is within this gap of the
        minimum for a regularization of lambda_max.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where `X` had them.

    References
    ----------
    .. [1] C. Shen, J. Kim, L. Wang, A. van den Hengel, "Positive Semidefinite Metric Learning with Boosting",
       Advances in Neural Information Processing Systems 22, 2009.

    Examples
    --------
    >>> from boostmetric import BoostMetric
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_wine(return_X_y=True)
    >>> knn = KNeighborsClassifier(3)
    >>> plain = cross_val_score(knn, X, y).mean()
    >>> learned = cross_val_score(make_pipeline(BoostMetric(), knn), X, y).mean()
    >>> print(f"{plain:.2f} {learned:.2f}")
    0.70 0.97
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_neighbors: int = 3,
        n_impostors: int | Literal["all"] = 3,
        regularization: float = 1e-7,
        max_iter: int = 500,
        tol: float = 0.0,
        line_search: Literal["exact", "bisection"] = "exact",
        n_jobs: int | None = None,
        callbacks: Sequence[Callback] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.n_impostors = n_impostors
        self.regularization = regularization
        self.max_iter = max_iter
        self.tol = tol
        self.line_search = line_search
        self.n_jobs = n_jobs
        self.callbacks = callbacks
        self.random_state = random_state
        self.verbose = verbose

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
        callbacks = self._check_parameters()
        samples, labels = validate_data(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        self._check_n_components(samples.shape[1])
        comparisons = Comparisons.from_labels(samples, labels, self.n_neighbors, self.n_impostors)
        with ExitStack() as stack:
            if self.verbose:
                callbacks.append(stack.enter_context(ProgressBar(self.max_iter)))
            boosted = learn(
                samples,
                comparisons,
                regularization=self.regularization,
                max_iter=self.max_iter,
                tol=self.tol,
                line_search=self.line_search,
                n_threads=effective_n_jobs(self.n_jobs),
                on_iteration=[callback.on_iteration for callback in callbacks],
                rng=check_random_state(self.random_state),
            )
        self._keep(boosted)
        return self

    def _keep(self, boosted: Boosted) -> None:
        """Set the fitted attributes, and warn where the result is not what the user will expect."""
        if not len(boosted.step_sizes):
            warn(
                "Nothing was learned: the metric is zero, and with it every distance. The largest eigenvalue of A_hat, "
                f"{boosted.eigenvalue:.3g}, does not exceed regularization={self.regularization:g}. Either targets are "
                "not closer than impostors along any direction, or the features are small: scale them "
                "(StandardScaler) or lower the regularization."
            )
        if self.tol > 0 and boosted.stop_reason is StopReason.ITERATION_LIMIT:
            warn(
                f"max_iter={self.max_iter} was reached before tol={self.tol:g}. Raise max_iter or tol.",
                ConvergenceWarning,
            )
        self.directions_ = boosted.directions
        self.step_sizes_ = boosted.step_sizes
        self.history_: list[Iteration] = boosted.history
        self.n_iter_ = len(boosted.history)
        self.stop_reason_ = boosted.stop_reason
        self.duality_gap_ = boosted.duality_gap
        self.components_ = self._metric_after(self.n_iter_).components

    def _metric_after(self, n_iter: int) -> MahalanobisMetric:
        return MahalanobisMetric.from_directions(
            self.directions_[:n_iter], self.step_sizes_[:n_iter], rank=self.n_components
        )

    def transform(self, X: ArrayLike) -> NDArray[np.floating[Any]]:
        """Map samples so that their Euclidean distances are the learned distances.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, rank)
        """
        samples = self._check_samples(X)
        return np.asarray(samples @ self.components_.T.astype(samples.dtype, copy=False))

    def staged_transform(self, X: ArrayLike) -> Iterator[NDArray[np.floating[Any]]]:
        """`transform` as it was after 1, 2, ..., `n_iter_` iterations.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Yields
        ------
        ndarray of shape (n_samples, rank after that iteration)

        Notes
        -----
        Cost: a singular value decomposition of the directions so far, for each iteration.
        """
        samples = self._check_samples(X)
        for n_iter in range(1, self.n_iter_ + 1):
            yield np.asarray(samples @ self._metric_after(n_iter).components.T.astype(samples.dtype, copy=False))

    def get_metric(self) -> MahalanobisMetric:
        """The learned metric; also a function of two points, as scikit-learn's neighbour searches take it."""
        check_is_fitted(self, "components_")
        return MahalanobisMetric(self.components_)

    def get_mahalanobis_matrix(self) -> NDArray[np.floating[Any]]:
        """The matrix X of the learned distance, of shape (n_features, n_features)."""
        return self.get_metric().matrix

    def pair_distance(self, pairs: ArrayLike) -> NDArray[np.floating[Any]]:
        """Learned distances of pairs of points.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)

        Returns
        -------
        ndarray of shape (n_pairs,)
        """
        points = np.asarray(pairs)
        if points.ndim != 3 or points.shape[1] != 2:
            raise ValueError(f"pairs must have shape (n_pairs, 2, n_features). Got shape {points.shape}.")
        return self.get_metric().distance(points[:, 0], points[:, 1])

    def _check_samples(self, X: ArrayLike) -> NDArray[np.floating[Any]]:
        check_is_fitted(self, "components_")
        return np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))

    def _check_parameters(self) -> list[Callback]:
        """Refuse wrong parameters; returns the callbacks as a list."""
        check_number("regularization", self.regularization)
        check_count("max_iter", self.max_iter)
        check_number("tol", self.tol, below=1.0)
        check_choice("line_search", self.line_search, STEP_FINDERS)
        check_threads("n_jobs", self.n_jobs)
        callbacks = self.callbacks if self.callbacks is not None else []
        if not isinstance(callbacks, (list, tuple)):
            raise TypeError(f"callbacks must be a list. Got {callbacks!r}.")
        for callback in callbacks:
            if not isinstance(callback, Callback) or isinstance(callback, type):
                raise TypeError(f"Every callback needs a method on_iteration(record). Got {callback!r}.")
        return list(callbacks)

    def _check_n_components(self, n_features: int) -> None:
        if self.n_components is not None:
            check_count("n_components", self.n_components, alternative=", or None")
            if self.n_components > n_features:
                raise ValueError(f"n_components={self.n_components} is more than the {n_features} features of X.")

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
