"""The estimator that learns from class labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import validate_data

from boostmetric.arrays.numbering import check_weights
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_choice, check_count, checked, warn
from boostmetric.callbacks import Callback, Checkpoint, Steps, tell
from boostmetric.comparisons.labels import check_labels, check_numbers
from boostmetric.engines.backend import Backend
from boostmetric.estimators.boosting import Boosting
from boostmetric.estimators.labelled import Labelled
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.estimators.selection import AUTO, Candidate, Path, choose, find_candidates, iterations
from boostmetric.estimators.sklearn_callbacks import with_callbacks
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.starts import STARTS, Init, check_init, starting_components
from boostmetric.solver.learn import SOLVERS, SolverName
from boostmetric.solver.passes import Finder, Found, passes
from boostmetric.solver.result import Boosted, Progress, StopReason

_RECOMMENDED: dict[str, Any] = {
    "loss": "logistic",
    "solver": AUTO,
    "init": AUTO,
    "n_passes": 10,
    "max_iter": 20,
    "tol": 1e-3,
}


class BoostMetric(Boosting):
    """Mahalanobis metric learned from class labels by boosting.

    Each sample's nearest samples of its own class (targets) should be closer than its nearest samples of other
    classes (impostors). The metric is a sum of rank-one matrices, added one at a time: the method, and the default
    values, of Shen, Kim, Wang and van den Hengel [1]_. `ComparisonBoostMetric` learns from other comparisons
    than those of labels.

    Parameters
    ----------
    n_components : int, default=None
        Largest rank of the metric, and so the number of features that `transform` returns; the best approximation of
        that rank is kept. None keeps the metric as learned.
    n_neighbors : int, default=3
        Targets of each sample.
    n_impostors : int or "all", default=3
        Impostors of each sample.
    loss : {"exponential", "logistic"}, default="exponential"
        The paper's loss, or one that grows only linearly with the distances of an unsatisfied comparison: mislabelled
        points do less harm. In the logistic loss a group of comparisons, such as those of one anchor, counts once.
    solver : {"stagewise", "corrective", "auto"}, default="stagewise"
        What an iteration does with its new direction. "stagewise" is the paper's algorithm: the direction gets its best
        weight, and all others stay as they are. "corrective" then optimises all of the metric, weights and directions,
        and so comes to the minimum of the objective; its iterations are fewer and longer, and the time grows faster
        with the number of features. "auto" chooses by validation, see `init`.
    regularization : float, default=1e-7
        The factor v of the trace of X in the objective.
    max_iter : int, default=500
        Most iterations, of each pass; each adds one direction. With "auto", passes of the corrective solver have a
        fifth of them.
    tol : float, default=0.0
        With the stagewise solver: stop when the slope of the loss along the best direction has come down to this
        fraction of what it was at the start. With the corrective solver: stop when the duality gap has come down to
        this fraction of the loss, or of its fall since X = 0 where that is larger. 0 runs to `max_iter` unless there is
        nothing left to gain.
    line_search : {"exact", "bisection"}, default="exact"
        How the step along a direction is found: from one pass or by Newton's method, whichever suits the comparisons,
        or by the paper's bisection. The steps are the same; bisection takes about ten times as many evaluations.
    init : {"zero", "identity", "standardized", "rca", "standardized-rca", "auto"}, metric or array, default="zero"
        The metric to begin with. It is the first weak learner: its weight comes from the same line search as that of
        any direction. "identity" is the Euclidean distance, "standardized" that of features in units of their standard
        deviation, "rca" (relevant component analysis) that of samples whose covariance within the classes is made the
        identity, and "standardized-rca" the same for features of different units. Or a `MahalanobisMetric`, such as an
        earlier model's ``get_metric()``, or the array of its components. Targets and impostors are the nearest in this
        metric; with "zero" in the Euclidean distance. "auto" chooses among all named here but "zero", and how many
        passes are best, from none to `n_passes`, by the errors of nearest neighbours on samples that are left out in
        turn (or on the `eval_set`); then it learns from all samples.
    n_passes : int, default=1
        Most passes. In each after the first, targets and impostors are found again under the metric learned so far, and
        boosting goes on with them for up to `max_iter` iterations. With more than one pass comparisons are held out as
        with `early_stopping`, and passes end when they no longer improve; unless "auto" chooses how many to make.
    early_stopping : bool, default=False
        Hold out comparisons, stop when no more of them are satisfied for `n_iter_no_change` iterations, and keep the
        metric of the best iteration.
    validation_fraction : float, default=0.1
        Share of the anchors to hold out, see `Comparisons.split`; used with `early_stopping` and `n_passes`.
    n_iter_no_change : int, default=20
        Iterations to wait for an improvement; used with `early_stopping`, `n_passes` or an `eval_set`.
    warm_start : bool, default=False
        Go on from the metric of the last fit, whose iterations count for `max_iter`, as in scikit-learn's boosting.
    device : {"cpu", "cuda", "cuda:N", "auto"}, default="cpu"
        Where to search for neighbours and to boost. A GPU needs the extra ``gpu`` (torch) and dense samples, and works
        in their precision: give float32, unless the last digits matter. "auto" is a GPU if there is one that can be
        used, else "cpu".
    engine : "ray", RayEngine, another `Backend` or None, default=None
        A cluster to boost on (`boostmetric.engines.ray.RayEngine`); "ray" is one on this machine, or the one that this
        process is connected to. Needs the extra ``ray``. The search for neighbours stays in this process.
    n_jobs : int, default=None
        Threads of the boosting. None is 1 unless a joblib context says otherwise, -1 all processors. The result is the
        same, bit for bit, for every number of threads. The search for neighbours always uses all processors.
    callbacks : list, default=None
        Objects with a method ``on_iteration(record)`` that sees each `Iteration` and may return True to stop: see
        `boostmetric.callbacks`. Callbacks of scikit-learn's own protocol are set with ``set_callbacks``.
    random_state : int, RandomState or None, default=None
        Which comparisons are held out, which samples "auto" validates on, and the start of the search for the first
        direction in more than 512 dimensions. Else nothing is random.
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
    n_passes_ : int
        Passes run, and kept.
    init_, solver_ : str
        The start (or the metric or array given as such) and the solver used.
    candidates_ : list of Candidate
        What "auto" chose from: start, solver, number of passes, and validation error of each.
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
        loss: Literal["exponential", "logistic"] = "exponential",
        solver: Literal["stagewise", "corrective", "auto"] = "stagewise",
        regularization: float = 1e-7,
        max_iter: int = 500,
        tol: float = 0.0,
        line_search: Literal["exact", "bisection"] = "exact",
        init: Init = "zero",
        n_passes: int = 1,
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
        self.n_neighbors = n_neighbors
        self.n_impostors = n_impostors
        self.n_passes = n_passes

    @classmethod
    def recommended(cls, **overrides: Any) -> Self:
        """The setting that does best without being tuned.

        Parameters
        ----------
        **overrides
            Parameters that are to be other ones.

        Returns
        -------
        BoostMetric
            With the logistic loss, in up to ten passes of 20 iterations (or a fifth of that, with the corrective
            solver). Where to begin, with which solver to go on, and after how many passes to stop is chosen by
            validation inside the training data (``"auto"``); the Euclidean distance is one of the candidates. Then all
            of the data is learned from.

        Examples
        --------
        >>> from boostmetric import BoostMetric
        >>> from sklearn.datasets import load_wine
        >>> metric = BoostMetric.recommended(random_state=0).fit(*load_wine(return_X_y=True))
        >>> metric.init_
        'standardized-rca'
        """
        return cls(**{**_RECOMMENDED, **overrides})

    @all_or_nothing
    @with_callbacks
    def fit(
        self,
        X: ArrayLike | sparse.spmatrix | sparse.sparray,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        eval_set: tuple[Any, ArrayLike] | None = None,
        resume_from: str | FilePath | None = None,
    ) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor} of shape (n_samples, n_features)
            Samples. Torch tensors, here and below, may lie on any device; they are copied to the host once.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the comparisons whose anchor a sample is. A sample of weight 0 still serves as target and
            impostor of others; leave it out of `X` if it should not. They do not weigh the errors that "auto" counts.
        eval_set : tuple (X, y), optional
            Held-out samples: stops early and keeps the metric that satisfies most of their comparisons, as
            `early_stopping` does with a part of the training comparisons. Or, with "auto", the samples to validate on:
            then what is validated is the fit itself, which callbacks watch, and is not learned again.
        resume_from : str or Path, optional
            Go on from a file that `boostmetric.callbacks.Checkpoint` wrote in a fit to the same data. "auto" chooses
            where to begin again: set `random_state`, so that it chooses the same.

        Returns
        -------
        self
        """
        self.check_parameters()
        data = self._labelled(X, y, sample_weight, reset=not self._goes_on(resume_from))
        held_out = None if eval_set is None else self._held_out(eval_set)
        init: Init = self.init
        solver: str = self.solver
        max_iter = [self.max_iter] * self.n_passes
        hold_out = not self._is_auto and (self.early_stopping or self.n_passes > 1)
        learned: Boosted | None = None
        self.__dict__.pop("candidates_", None)
        if self._is_auto:
            if self._goes_on(resume_from) and hasattr(self, "init_"):
                init, solver, n_passes = self.init_, self.solver_, self.n_passes_
            else:
                chosen, learned = self._select(data, held_out, resume_from, (X, y))
                (init, solver), n_passes = chosen.path, chosen.n_passes
                resume_from = None if held_out is not None else resume_from
            max_iter = [iterations(solver, self.max_iter)] * n_passes or [0]
        check_labels(data.y)
        components = starting_components(init, data.X, data.y)

        def find(under: FloatArray | None) -> Found:
            watched = None if held_out is None or self._is_auto else held_out.problem(under, quiet=True)
            return Found(data.problem(under, quiet=under is not components), watched)

        if learned is not None:
            self._conclude(learned, converges=False)
        else:
            one_pass = self.n_passes == 1 and not self._is_auto
            validated = self._is_auto and held_out is not None  # and watched, before the checkpoint gone on from
            with self._unwatched() if validated else nullcontext():
                self._learn(
                    find,
                    components,
                    max_iter,
                    resume_from,
                    (X, y),
                    backend=self._backend(data.X),
                    solver=solver,
                    hold_out=hold_out,
                    converges=one_pass,
                )
        self.init_: Init = init
        self.solver_: str = solver
        self.n_passes_: int = len({0, *self._boosted.pass_ends, len(self._boosted.history)}) - 1
        if max_iter == [0]:
            self.stop_reason_ = StopReason.NO_HEADROOM
        return self

    @property
    def _is_auto(self) -> bool:
        """Whether something is to be chosen by validation."""
        return self.solver == AUTO or (isinstance(self.init, str) and self.init == AUTO)

    def _select(
        self,
        data: Labelled,
        held_out: Labelled | None,
        resume_from: str | FilePath | None,
        fit_data: tuple[object, object],
    ) -> tuple[Candidate, Boosted | None]:
        """Choose by validation what is to be chosen; and the fit, where that was validated itself."""
        check_labels(data.y)
        if held_out is not None and not np.isin(held_out.y, data.y).any():
            raise ValueError(
                f"None of the labels of eval_set, such as {held_out.y.tolist()[0]!r}, is among those of y, such "
                f"as {data.y.tolist()[0]!r}. Give labels of the same kind."
            )
        rng = check_random_state(self.random_state)
        learned: dict[tuple[str, int], Boosted] = {}  # by solver and number of passes
        resumed: dict[tuple[str, int], Boosted] = {}  # passes made before a checkpoint, up to a factor
        watching: list[Callback] = []

        def follow(part: Labelled, path: Path) -> Iterator[FloatArray]:
            init = starting_components(path.init, part.X, part.y)
            base = np.eye(part.X.shape[1]) if init is None else init
            yield base if self.n_components is None else MahalanobisMetric(base).truncate(self.n_components).components
            if any(boosted.stop_reason is StopReason.CALLBACK for boosted in learned.values()):
                return
            max_iter = [iterations(path.solver, self.max_iter)] * self.n_passes
            start = Progress.beginning(init, part.X.shape[1])
            if held_out is not None and resume_from is not None and Checkpoint.load(resume_from).is_of(path.solver):
                start = self._start(init, max_iter, resume_from)
            for earlier in start.earlier_passes():
                resumed[path.solver, len(earlier.pass_ends) + 1] = earlier
                yield earlier.linear_map(self.n_components)
            finder = Finder(lambda under: Found(part.problem(under, quiet=True), None))
            watch = [callback.on_iteration for callback in watching]
            for boosted in passes(
                finder,
                start,
                max_iter=max_iter,
                solver=path.solver,
                on_iteration=lambda _: watch,
                **self._options(rng, self._backend(part.X)),
            ):
                learned[path.solver, len(boosted.pass_ends) + 1] = boosted
                yield boosted.linear_map(self.n_components)

        with ExitStack() as stack:
            # Validated on other samples than those learned from, a path is the fit itself; else only a trial of it.
            if held_out is not None:
                watching += stack.enter_context(self._watched(self.n_passes * self.max_iter, fit_data))
            steps = stack.enter_context(Steps("Choosing", visible=bool(self.verbose) and held_out is None))
            self.candidates_ = find_candidates(
                data,
                held_out,
                init=self.init,
                solver=self.solver,
                n_passes=self.n_passes,
                follow=follow,
                rng=rng,
                on_pass=steps.update,
                on_candidate=lambda candidate: tell(watching or self.callbacks or [], candidate),
            )
        if not self.candidates_:
            warn(
                f"{len(data.y)} samples are not enough to validate on: one pass is made, from the Euclidean distance "
                'where init is "auto". Give an eval_set, or set init, solver and n_passes=1.'
            )
            init: Init = "identity" if isinstance(self.init, str) and self.init == AUTO else self.init
            solver = "stagewise" if self.solver == AUTO else self.solver
            return Candidate(Path(init, cast(SolverName, solver)), 1, np.empty(0)), None
        chosen = choose(self.candidates_, len(data.y))
        fit = learned.get((chosen.path.solver, chosen.n_passes)) if held_out is not None else None
        if held_out is not None and any(boosted.stop_reason is StopReason.CALLBACK for boosted in learned.values()):
            # Whoever stops a fit does not wait for the pass to be learned again, to the very factor.
            fit = fit or resumed.get((chosen.path.solver, chosen.n_passes))
            fit = None if fit is None else replace(fit, stop_reason=StopReason.CALLBACK)
        elif fit is not None and (chosen.path.solver, chosen.n_passes + 1) in learned:
            fit = replace(fit, stop_reason=StopReason.VALIDATED)
        return chosen, fit

    def _held_out(self, eval_set: Any) -> Labelled:
        if not isinstance(eval_set, (tuple, list)) or len(eval_set) != 2:
            length = f" of length {len(eval_set)}" if isinstance(eval_set, (tuple, list)) else ""
            raise ValueError(f"eval_set must be a tuple (X, y). Got {type(eval_set).__name__}{length}.")
        X, y = eval_set
        return self._labelled(X, y, None, reset=False)

    @all_or_nothing
    def partial_fit(
        self, X: ArrayLike | sparse.spmatrix | sparse.sparray, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from one batch of a stream, starting from the metric so far, and forget the batch.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor} of shape (n_samples, n_features)
            Samples of the batch, from at least two classes.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), optional
            As in `fit`.

        Returns
        -------
        self

        Notes
        -----
        A few rounds of projected gradient steps on the comparisons within the batch; the metric is an average over the
        batches (`boostmetric.solver.online`). A metric from `fit` counts as the first batch. Callbacks, early stopping,
        `max_iter` and `tol` belong to `fit`. Memory does not grow with the number of batches.
        """
        self.check_parameters()
        self._follow(self._labelled(X, y, sample_weight, reset=not hasattr(self, "components_")).problem())
        for name in ("init_", "solver_", "n_passes_", "candidates_"):  # of a fit before the stream
            self.__dict__.pop(name, None)
        return self

    def _labelled(self, X: Any, y: Any, sample_weight: ArrayLike | None, *, reset: bool) -> Labelled:
        """Samples with labels, checked."""
        samples, labels = checked(
            validate_data,
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_min_samples=2,
            reset=reset,
        )
        self._check_n_components(samples.shape[1])
        weights = (
            None if sample_weight is None else check_weights("sample_weight", sample_weight, len(labels), "sample")
        )
        return Labelled(samples, labels, weights, self.n_neighbors, self.n_impostors, self.device)

    def check_parameters(self) -> None:
        """Raise what `fit` would raise about the parameters, without data."""
        super().check_parameters()
        check_count("n_passes", self.n_passes)
        check_choice("solver", self.solver, [*SOLVERS, AUTO])
        check_init(self.init, [*STARTS, AUTO])
        check_numbers(self.n_neighbors, self.n_impostors)
        if self.early_stopping and self._is_auto:
            raise ValueError(
                'early_stopping=True and "auto" exclude each other: to choose init or solver is to validate, and stops '
                "as early as that says. Leave early_stopping out, or set both init and solver."
            )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
