"""The estimator that learns from comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import ClassifierTags, Tags
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from boostmetric.arrays.frame import Given
from boostmetric.arrays.numbering import as_array, check_in_range
from boostmetric.arrays.tensors import as_numpy
from boostmetric.arrays.validation import check_choice, checked, n_dimensions
from boostmetric.callbacks import Callback
from boostmetric.comparisons import Comparisons, Points
from boostmetric.comparisons.forms import (
    as_comparisons,
    as_rows,
    best_threshold,
    hold_points,
    squared_distance,
)
from boostmetric.engines.backend import Backend
from boostmetric.estimators.from_files import FromFiles
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.estimators.sklearn_callbacks import with_callbacks
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.starts import PLAIN_STARTS, Init, check_init
from boostmetric.solver.learn import SOLVERS, SolverName
from boostmetric.solver.passes import Found
from boostmetric.solver.problem import Problem, satisfied
from boostmetric.solver.result import Iteration, Progress
from boostmetric.tables.comparison_files import ComparisonFiles


class ComparisonBoostMetric(FromFiles):
    """Mahalanobis metric learned from comparisons of pairs of points by boosting.

    The samples are comparisons, which name their points by number: cross-validation and grid search hold out
    comparisons, and the points stay whole. In them, pass ``points=Points(X)``.

    Parameters
    ----------
    n_components : int, default=None
        Largest rank of the metric, and so the number of features that `transform` returns; the best approximation of
        that rank is kept. None keeps the metric as learned.
    loss : {"exponential", "logistic"}, default="exponential"
        The paper's loss, or one that grows only linearly with the distances of an unsatisfied comparison: mislabelled
        points do less harm. In the logistic loss a group of comparisons, such as those of one anchor, counts once.
    solver : {"stagewise", "corrective"}, default="stagewise"
        What an iteration does with its new direction. "stagewise" is the paper's algorithm: the direction gets its best
        weight, and all others stay as they are. "corrective" then optimises all of the metric, weights and directions,
        and so comes to the minimum of the objective; its iterations are fewer and longer, and the time grows faster
        with the number of features.
    regularization : float, default=1e-7
        The factor v of the trace of X in the objective.
    max_iter : int, default=500
        Most iterations; each adds one direction.
    tol : float, default=0.0
        With the stagewise solver: stop when the slope of the loss along the best direction has come down to this
        fraction of what it was at the start. With the corrective solver: stop when the duality gap has come down to
        this fraction of the loss, or of its fall since X = 0 where that is larger. 0 runs to `max_iter` unless there is
        nothing left to gain.
    line_search : {"exact", "bisection"}, default="exact"
        How the step along a direction is found: from one pass or by Newton's method, whichever suits the comparisons,
        or by the paper's bisection. The steps are the same; bisection takes about ten times as many evaluations.
    init : {"zero", "identity", "standardized"}, metric or array-like, default="zero"
        The metric to begin with. It is the first weak learner: its weight comes from the same line search as that of
        any direction. "identity" is the Euclidean distance, "standardized" that of features in units of their standard
        deviation. Or a `MahalanobisMetric`, such as an earlier model's ``get_metric()``, or its components.
    early_stopping : bool, default=False
        Hold out comparisons, stop when no more of them are satisfied for `n_iter_no_change` iterations, and keep the
        metric of the best iteration.
    validation_fraction : float, default=0.1
        Share of the anchors to hold out, see `Comparisons.split`; used with `early_stopping` only.
    n_iter_no_change : int, default=20
        Iterations to wait for an improvement; used with `early_stopping` or an `eval_set`.
    warm_start : bool, default=False
        Go on from the metric of the last fit, whose iterations count for `max_iter`, as in scikit-learn's boosting.
    device : {"cpu", "cuda", "cuda:N", "auto"}, default="cpu"
        Where to boost, as in `BoostMetric`.
    engine : "ray", RayEngine, another `Backend` or None, default=None
        A cluster to boost on (`boostmetric.engines.ray.RayEngine`); "ray" is one on this machine, or the one that this
        process is connected to. Needs the extra ``ray``.
    n_jobs : int, default=None
        Threads. None is 1 unless a joblib context says otherwise, -1 all processors. The result is the same, bit for
        bit, for every number of threads.
    callbacks : list, default=None
        Objects with a method ``on_iteration(record)`` that sees each `Iteration` and may return True to stop: see
        `boostmetric.callbacks`. Callbacks of scikit-learn's own protocol are set with ``set_callbacks``.
    random_state : int, RandomState or None, default=None
        Which comparisons are held out, and the start of the search for the first direction in more than 512
        dimensions. Else nothing is random.
    verbose : int, default=0
        1 shows a progress bar on standard error.

    Attributes
    ----------
    components_ : ndarray of shape (rank, n_features)
        The linear map L with X = L'L; rows are orthogonal, longest first.
    directions_ : ndarray of shape (n_directions, n_features)
        Unit vectors xi_j, in the order they were found. After `partial_fit` the axes of the metric; with the
        corrective solver as many as its rank.
    step_sizes_ : ndarray of shape (n_directions,)
        Their weights w_j; X = sum_j w_j xi_j xi_j' before `n_components` is applied.
    n_iter_ : int
        Iterations run, and kept.
    history_ : list of Iteration
        Loss, eigenvalue, step size, trace and violated fraction of each iteration, and the held-out score.
    stop_reason_ : StopReason
        Why the fit ended; ``str(stop_reason_)`` is a sentence.
    duality_gap_ : float
        max(v, lambda_max) Tr X - sum_r u_r rho_r, where lambda_max is the largest eigenvalue of A_hat at the end. Where
        lambda_max <= v, the objective is within this gap of its minimum; otherwise it is within this gap of that of any
        metric of no larger trace, and the same X within this gap of the minimum for a regularization of lambda_max. NaN
        after `partial_fit`.
    n_batches_ : int
        Batches seen by `partial_fit`; only there after it.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where the data had them.
    threshold_ : float
        After a fit to pairs: squared distance below which `predict` calls a pair similar, the one that is right most
        often on those pairs.

    See Also
    --------
    Comparisons : Builders for rankings, clicks, groups and more.
    BoostMetric : The same from class labels.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric import ComparisonBoostMetric
    >>> points = np.random.RandomState(0).standard_normal((100, 3))
    >>> points[:, 2] *= 0.1  # what matters is small
    >>> i, j, k = np.random.RandomState(1).randint(100, size=(3, 500))
    >>> closer = abs(points[i, 2] - points[j, 2]) < abs(points[i, 2] - points[k, 2])
    >>> triplets = np.stack([i, j, k], axis=1)[closer & (i != j) & (i != k) & (j != k)]
    >>> metric = ComparisonBoostMetric(max_iter=20).fit(triplets[:150], points=points)
    >>> bool(metric.score(triplets[150:]) > 0.95)
    True
    """

    _pairs: tuple[Given, NDArray[np.int64], NDArray[np.bool_]] | None = None

    def __init__(
        self,
        n_components: int | None = None,
        *,
        loss: Literal["exponential", "logistic"] = "exponential",
        solver: SolverName = "stagewise",
        regularization: float = 1e-7,
        max_iter: int = 500,
        tol: float = 0.0,
        line_search: Literal["exact", "bisection"] = "exact",
        init: Init = "zero",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        warm_start: bool = False,
        device: str = "cpu",
        engine: Backend | Literal["ray"] | None = None,
        n_jobs: int | None = None,
        callbacks: Sequence[Callback] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_components,
            loss=loss,
            solver=solver,
            regularization=regularization,
            max_iter=max_iter,
            tol=tol,
            line_search=line_search,
            init=init,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            warm_start=warm_start,
            device=device,
            engine=engine,
            n_jobs=n_jobs,
            callbacks=callbacks,
            random_state=random_state,
            verbose=verbose,
        )

    @all_or_nothing
    @with_callbacks
    def fit(
        self,
        comparisons: ArrayLike | Comparisons | ComparisonFiles,
        y: ArrayLike | None = None,
        *,
        points: Any = None,
        sample_weight: ArrayLike | None = None,
        eval_set: Any = None,
        resume_from: str | FilePath | None = None,
    ) -> Self:
        """Learn the metric.

        Parameters
        ----------
        comparisons : array-like of int, Comparisons, array-like of shape (n, 2 to 4, n_features) or ComparisonFiles
            Rows (i, j, k): i is closer to j than to k; rows (i, j, k, l): i is closer to j than k to l; or rows (i, j)
            with `y`: similar or dissimilar. In a three-dimensional array the points themselves stand in place of their
            numbers, as in metric-learn. Torch tensors, here and below, may lie on any device; they are copied to the
            host once. `boostmetric.tables.ComparisonFiles` bring their points too; with ``engine="ray"`` the workers
            read them.
        y : array-like of shape (n,), optional
            For pairs only: 1 for similar points, -1 for dissimilar ones.
        points : {array-like, sparse matrix, tensor} of shape (n_points, n_features) or Points
            The points that the comparisons name, counted from 0; not with a three-dimensional array. A clone of an
            estimator, which cross-validation may be using, takes as many points as comparisons as `Points` only.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, or of the groups of `Comparisons`; not for pairs.
        eval_set : as `comparisons`, or a tuple (pairs, y), optional
            Held-out comparisons of the same points (in files: of any points of the same features): stops early and
            keeps the metric that satisfies most of them.
        resume_from : str or Path, optional
            Go on from a file that `boostmetric.callbacks.Checkpoint` wrote in a fit to the same data.

        Returns
        -------
        self
        """
        self.check_parameters()
        if isinstance(comparisons, ComparisonFiles):
            return self._fit_files(comparisons, y, points, sample_weight, eval_set, resume_from)
        comparisons, y = as_numpy(comparisons), as_numpy(y)
        given = self._given_points(comparisons, points)
        problem = self._problem(comparisons, y, given, sample_weight, reset=not self._goes_on(resume_from))
        found = Found(problem, None if eval_set is None else self._held_out(eval_set, given))
        self._keep_pairs(comparisons, y, problem)
        try:
            self._points = problem.points if given is None else given
            self._learn_from(found, problem.points, (comparisons, y), resume_from)
        finally:
            self._pairs = None
        return self

    def _held_out(self, eval_set: Any, given: Any) -> Problem:
        """Held-out comparisons of the points of the fit."""
        held, y = eval_set, None
        if isinstance(eval_set, tuple) and len(eval_set) == 2 and not isinstance(eval_set[0], Comparisons):
            held, y = eval_set if n_dimensions(eval_set[0]) > 1 else (eval_set, None)
        if given is None and not hold_points(held):
            raise ValueError(
                "eval_set names points by number, but the fit is to tuples of points: give tuples in both."
            )
        return self._problem(held, y, None if hold_points(held) else given, None, reset=False)

    def _keep_pairs(self, comparisons: Any, y: Any, problem: Problem) -> None:
        """What the threshold between similar and dissimilar pairs is found from, while learning."""
        self.__dict__.pop("threshold_", None)
        if y is not None:
            rows, _ = as_rows(comparisons, None)
            assert isinstance(rows, np.ndarray)
            self._pairs = (problem.points, rows, np.asarray(y) == 1)

    def fit_transform(
        self, comparisons: Any, y: ArrayLike | None = None, *, points: Any = None, **arguments: Any
    ) -> Any:
        """Fit to the comparisons, and map the points.

        Parameters
        ----------
        comparisons, y, points, **arguments
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_points, rank)
        """
        if hold_points(comparisons) or isinstance(comparisons, ComparisonFiles):
            raise ValueError(
                "fit_transform maps `points`, and tuples and files have none: call fit, then transform what you need."
            )
        self.fit(comparisons, y, points=points, **arguments)
        return self.transform(points.X if isinstance(points, Points) else points)

    @all_or_nothing
    def partial_fit(
        self,
        comparisons: ArrayLike | Comparisons,
        y: ArrayLike | None = None,
        *,
        points: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from one batch of a stream, starting from the metric so far, and forget the batch.

        Parameters
        ----------
        comparisons, y, points, sample_weight
            As in `fit`. The points may be other ones in every batch.

        Returns
        -------
        self

        Notes
        -----
        A few rounds of projected gradient steps on the batch; the metric is an average over the batches
        (`boostmetric.solver.online`). A metric from `fit` counts as the first batch. Callbacks, early stopping,
        `max_iter` and `tol` belong to `fit`. Memory does not grow with the number of batches.
        """
        self.check_parameters()
        comparisons, y = as_numpy(comparisons), as_numpy(y)
        given = self._given_points(comparisons, points)
        batch = self._problem(comparisons, y, given, sample_weight, reset=not hasattr(self, "components_"))
        self._keep_pairs(comparisons, y, batch)
        try:
            self._follow(batch)
        finally:
            self._pairs = None
        self._points = None  # the next batch may have others
        return self

    def decision_function(self, comparisons: ArrayLike | Comparisons, *, points: Any = None) -> NDArray[np.float64]:
        """Squared distance of the far pair minus that of the near pair, for each comparison.

        Parameters
        ----------
        comparisons : as in `fit`
            For `Comparisons`, the answers come in the order of `Comparisons.quadruplets`. For pairs, the answer is
            `threshold_` minus their squared distance.
        points : as in `fit`, optional
            By default the points of the fit.

        Returns
        -------
        ndarray of shape (n,)
        """
        check_is_fitted(self, "components_")
        rows, given = as_rows(comparisons, self._given_points(comparisons, points, fitted=True))
        mapped = self._map(given)
        if isinstance(rows, Comparisons):
            rows = rows.listed()
            distance = squared_distance(mapped, rows.pairs)
            near_pair, far_pair = rows.pair_numbers()
            return np.asarray(distance[far_pair] - distance[near_pair])
        check_in_range(int(rows.max()), len(mapped))
        if rows.shape[1] == 2:
            if not hasattr(self, "threshold_"):
                raise ValueError(
                    "The metric was not fitted to pairs, so there is no threshold between similar and dissimilar. Fit "
                    "to pairs, or ask pair_distance."
                )
            return np.asarray(self.threshold_ - squared_distance(mapped, rows))
        near, far = (rows[:, [0, 1]], rows[:, [0, 2]]) if rows.shape[1] == 3 else (rows[:, :2], rows[:, 2:])
        return squared_distance(mapped, far) - squared_distance(mapped, near)

    def predict(self, comparisons: ArrayLike | Comparisons, *, points: Any = None) -> NDArray[np.int64]:
        """1 where the near pair of a comparison is closer than the far one (or a pair is similar), else -1.

        Parameters
        ----------
        comparisons, points
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.where(self.decision_function(comparisons, points=points) > 0, 1, -1)

    def score(
        self, comparisons: ArrayLike | Comparisons | ComparisonFiles, y: ArrayLike | None = None, *, points: Any = None
    ) -> float:
        """Fraction of the comparisons that the metric satisfies, by weight.

        Parameters
        ----------
        comparisons, y
            As in `fit`. For pairs, every similar pair is compared with every dissimilar one.
        points : as in `fit`, optional
            By default the points of the fit.

        Returns
        -------
        float
        """
        check_is_fitted(self, "components_")
        if isinstance(comparisons, ComparisonFiles):
            return self._score_files(comparisons)
        given = self._given_points(comparisons, points, fitted=True)
        rows, _ = as_rows(comparisons, given)
        if y is None and isinstance(rows, np.ndarray) and rows.shape[1] > 2:
            return float(np.mean(self.decision_function(comparisons, points=points) > 0))
        return satisfied(self._problem(comparisons, y, given, None, reset=False), self.components_)

    def _given_points(self, comparisons: object, points: Any, *, fitted: bool = False) -> Any:
        """The points that were meant, or an error; None for tuples, which bring their own."""
        if isinstance(comparisons, ComparisonFiles):
            raise TypeError(
                "ComparisonFiles are for fit and score. Read them for anything else: boostmetric.tables.read_points, "
                "read_comparisons."
            )
        if hold_points(comparisons):
            if points is not None:
                raise ValueError("points are given beside tuples of points: leave them out, or name points by number.")
            return None
        if points is None:
            if fitted and getattr(self, "_points", None) is not None:
                return self._points
            raise ValueError(
                "points are missing: pass points=X, the array whose rows the comparisons name by number."
                + (" A copy, a loaded model, or one learned from batches does not hold them." if fitted else "")
            )
        if isinstance(points, Points):
            return self._given_points(comparisons, points.X, fitted=True)
        if not fitted and getattr(self, "_is_clone", False) and _num_samples(points) == _num_samples(comparisons):
            raise ValueError(
                f"There are {_num_samples(points)} points and as many comparisons, in a clone of the estimator: "
                "cross-validation may have cut the points. Pass points=Points(X), which it leaves whole (from "
                "boostmetric import Points)."
            )
        return as_numpy(points)

    def _problem(
        self, comparisons: Any, y: Any, given: Any, sample_weight: ArrayLike | None, *, reset: bool
    ) -> Problem:
        """Points with comparisons, from any of the forms that `fit` takes."""
        rows, points = as_rows(comparisons, given)
        points = self._check_points(points, reset=reset)
        return Problem(points, as_comparisons(rows, as_numpy(y), sample_weight, by_number=not hold_points(comparisons)))

    def _check_points(self, points: Any, *, reset: bool) -> Given:
        shape = getattr(points, "shape", None)
        if not isinstance(shape, tuple):
            shape = as_array("points", points).shape
        if not reset and len(shape) == 2 and shape[1] != self.n_features_in_:
            raise ValueError(
                f"The points have {shape[1]} features, but the metric was learned with {self.n_features_in_}. Give the "
                "points in the same features."
            )
        dtype = [np.float64, np.float32]
        samples: Given = checked(validate_data, self, points, accept_sparse="csr", dtype=dtype, reset=reset)
        self._check_n_components(samples.shape[1])
        return samples

    def check_parameters(self) -> None:
        """Raise what `fit` would raise about the parameters, without data."""
        super().check_parameters()
        check_choice("solver", self.solver, SOLVERS)
        check_init(self.init, PLAIN_STARTS)

    def _map(self, given: Any) -> NDArray[np.float64]:
        return MahalanobisMetric(self.components_).transform(self._check_points(given, reset=False))

    def _attributes(self, progress: Progress, orthogonal: NDArray[np.float64] | None = None) -> dict[str, Any]:
        attributes = super()._attributes(progress, orthogonal)
        if self._pairs is not None:
            points, rows, similar = self._pairs
            mapped = MahalanobisMetric(attributes["components_"]).transform(points)
            attributes["threshold_"] = best_threshold(squared_distance(mapped, rows), similar)
        return attributes

    def _attributes_at(self, record: Iteration) -> dict[str, Any]:
        return {**super()._attributes_at(record), "_points": self._points}

    def __sklearn_clone__(self) -> Self:
        copy: Self = super().__sklearn_clone__()
        copy._is_clone = True
        return copy

    def __getstate__(self) -> dict[str, Any]:
        # The points of the fit are for scoring in this process; a stored model is small.
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_points", "_pairs")}

    @property
    def classes_(self) -> NDArray[np.int64]:
        """What `predict` answers."""
        return np.array([-1, 1])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"  # cross-validation then deals out similar and dissimilar pairs evenly
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags
