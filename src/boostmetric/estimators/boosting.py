"""Base class of the two boosting estimators: one way through a fit, and streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, cast

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from boostmetric.arrays.errors import ParameterError, ParameterWarning
from boostmetric.arrays.frame import Given
from boostmetric.arrays.validation import check_choice, check_count, check_flag, check_number, check_threads, warn
from boostmetric.callbacks import Callback, Checkpoint
from boostmetric.engines.backend import Backend
from boostmetric.engines.device import DeviceBackend
from boostmetric.engines.ray import RayEngine
from boostmetric.engines.threads import ThreadBackend
from boostmetric.estimators.decision import Decision, block_of, is_auto
from boostmetric.estimators.learner import MetricLearner
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.starts import Init, scatter
from boostmetric.oracles.losses import LOSSES, LossName
from boostmetric.parallel.devices import check_device, torch_device
from boostmetric.parallel.heap import mapped_by_themselves
from boostmetric.solver.learn import STEP_FINDERS
from boostmetric.solver.online import Stream
from boostmetric.solver.passes import is_large, learn_in_passes
from boostmetric.solver.plan import Plan, Settings, SolverName, Split
from boostmetric.solver.problem import Problem
from boostmetric.solver.result import Boosted, Progress, StopReason
from boostmetric.solver.sources import Source

# Further fitted attributes, from the metric.
Also = Callable[[MahalanobisMetric], dict[str, Any]]


class Earlier(NamedTuple):
    """What a fit continues: a checkpoint, or the last fit of the estimator (a warm start)."""

    checkpoint: Progress | None = None
    fit: Progress | None = None


class Boosting(MetricLearner):
    """A metric learned by boosting."""

    def __init__(
        self,
        n_components: int | None = None,
        *,
        loss: LossName = "exponential",
        solver: Literal["stagewise", "corrective", "auto"] = "stagewise",
        regularization: float = 1e-7,
        max_iter: int = 500,
        n_passes: int | Literal["auto"] = 1,
        tol: float = 0.0,
        line_search: Literal["exact", "bisection"] = "exact",
        learning_rate: float | Literal["auto"] = 1.0,
        block_size: int | Literal["auto"] = 1,
        init: Init = "zero",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        normalize: bool | Literal["auto"] = False,
        warm_start: bool = False,
        device: str = "cpu",
        engine: Backend | Literal["ray"] | None = None,
        n_jobs: int | None = None,
        callbacks: Sequence[Callback] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.loss = loss
        self.solver = solver
        self.regularization = regularization
        self.max_iter = max_iter
        self.n_passes = n_passes
        self.tol = tol
        self.line_search = line_search
        self.learning_rate = learning_rate
        self.block_size = block_size
        self.init = init
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.normalize = normalize
        self.warm_start = warm_start
        self.device = device
        self.engine = engine
        self.n_jobs = n_jobs
        self.callbacks = callbacks
        self.random_state = random_state
        self.verbose = verbose

    _chosen: tuple[str, ...] = ()  # parameters that validation chooses where they are "auto"

    @property
    def chooses(self) -> bool:
        """Whether validation chooses something."""
        return any(is_auto(getattr(self, name)) for name in self._chosen)

    def _fit(
        self,
        source: Source,
        held_out: Source | None,
        resume_from: str | Path | None,
        fit_data: tuple[object, object],
        also: Also = lambda metric: {},
        decision: Decision | None = None,
    ) -> Self:
        """Decide, plan, learn, conclude: the same for labels, comparisons and files.

        Parameters
        ----------
        source, held_out : Source
            What to learn from, and what to validate on.
        resume_from : str, Path or None
            As in `fit`.
        fit_data : tuple
            What was given to `fit`.
        also : callable
            Further fitted attributes.
        decision : Decision, optional
            What was decided before; then nothing is continued.
        """
        with mapped_by_themselves() if is_large(source.points_at_hand) else nullcontext():
            earlier = self._earlier(source.n_features, resume_from) if decision is None else Earlier()
            decision = decision or self._decide(source, held_out, earlier)
            beside = [learn_in_passes(self._plan(other, None, Earlier())) for other in decision.beside]
            plan = self._plan(decision, held_out, earlier)
            attributes = partial(self._attributes, also=also, normalize=decision.normalize)
            with self._watched(sum(plan.max_iter), fit_data, attributes) as callbacks:
                watchers = tuple(callback.on_iteration for callback in callbacks)
                boosted = learn_in_passes(replace(plan, watchers=watchers))
            if beside:
                shares = [1.0 / each.n_bags for each in (decision, *decision.beside)]
                boosted = boosted.averaged_with(beside, shares, scatter(source.points_at_hand))
        self._conclude(decision, boosted, also)
        return self

    def _decide(self, source: Source, held_out: Source | None, earlier: Earlier) -> Decision:
        """Decide what to learn from, where to start, and for how long, as the parameters say."""
        solver = cast(SolverName, self.solver)
        block_size, does = block_of(source.n_features, solver, self.block_size)
        max_iter = (-(-self.max_iter // does),) * cast(int, self.n_passes)
        rate = cast(float, self.learning_rate)
        return Decision(source, self.init, solver, block_size, rate, max_iter, bool(self.normalize))

    def _plan(self, decision: Decision, held_out: Source | None, earlier: Earlier) -> Plan:
        rng = check_random_state(self.random_state)
        holds_out = not decision.is_validated and (self.early_stopping or len(decision.max_iter) > 1)
        if holds_out and (earlier.fit is None or not hasattr(self, "_split_seed")):
            self._split_seed = rng.randint(2**31 - 1)  # what is held out stays so in a warm start
        source = decision.source
        start = earlier.checkpoint or earlier.fit
        return Plan(
            source,
            start or Progress.beginning(source.start(decision.init), source.n_features),
            decision.max_iter,
            replace(
                self._settings(source, rng),
                solver=decision.solver,
                block_size=decision.block_size,
                learning_rate=decision.learning_rate,
            ),
            held_out=None if decision.is_validated else held_out,
            split=Split(self.validation_fraction, self._split_seed) if holds_out else None,
            patience=self.n_iter_no_change,
        )

    def _settings(self, source: Source, rng: np.random.RandomState) -> Settings:
        """Settings, without those that are decided."""
        return Settings(
            loss=LOSSES[self.loss],
            regularization=self.regularization,
            tol=self.tol,
            line_search=self.line_search,
            learning_rate=1.0 if isinstance(self.learning_rate, str) else self.learning_rate,
            backend=self._backend(source.points_at_hand),
            rng=rng,
        )

    def _backend(self, points: Given) -> Backend:
        """What runs a fit to points; a device in their precision."""
        if self.engine is not None:
            return RayEngine() if isinstance(self.engine, str) else self.engine
        device = torch_device(self.device, points)
        if device is not None:
            return DeviceBackend(device, single=points.dtype == np.float32)
        return ThreadBackend(effective_n_jobs(self.n_jobs))

    def _continues(self, resume_from: object) -> bool:
        """Whether a fit continues the last one of this estimator."""
        return self.warm_start and resume_from is None and hasattr(self, "components_")

    def _earlier(self, n_features: int, resume_from: str | Path | None) -> Earlier:
        """The fit to continue, if there is one."""
        if resume_from is None:
            return Earlier(fit=self._boosted if self._continues(None) else None)
        checkpoint = Checkpoint.load(resume_from)
        if checkpoint.directions.shape[1] != n_features:
            raise ParameterError(
                "The checkpoint {path!r} has {found} features, the data have {expected}: it belongs to another fit. "
                "Leave {resume_from} out to start over.",
                path=str(resume_from),
                found=checkpoint.directions.shape[1],
                expected=n_features,
            )
        return Earlier(checkpoint=checkpoint)

    def _conclude(self, decision: Decision, boosted: Boosted, also: Also) -> None:
        """Set the fitted attributes."""
        reason = boosted.stop_reason
        if decision.max_iter == (0,) and not decision.beside:
            reason = StopReason.KEPT_START
        elif decision.is_validated and reason is StopReason.ITERATION_LIMIT:
            reason = StopReason.VALIDATED
        self._warn_of(boosted, converges=len(decision.max_iter) == 1 and not decision.is_validated)
        self._set(self._attributes(boosted, also, normalize=decision.normalize))
        self.stop_reason_ = reason
        self.duality_gap_ = boosted.duality_gap
        self.init_: Init = decision.init
        self.solver_: str = decision.solver
        self.block_size_: int = decision.block_size
        self.learning_rate_: float = decision.learning_rate
        self.n_passes_: int = len(boosted.iterations_of_passes)
        self._boosted: Progress = boosted
        self._forget("_stream", "n_batches_")

    def _follow(self, batch: Problem, also: Also = lambda metric: {}) -> None:
        """Learn from one batch of a stream, and set the fitted attributes."""
        stream: Stream | None = getattr(self, "_stream", None)
        if stream is None:
            fitted = hasattr(self, "components_")
            start = (
                Progress(self.directions_, self.step_sizes_, []) if fitted else Progress.nothing(batch.points.shape[1])
            )
            stream = Stream.begin(start.metric().components, n_batches=int(fitted))
        self._stream = stream.after(
            batch,
            regularization=self.regularization,
            backend=self._backend(batch.points),
            rng=check_random_state(self.random_state),
        )
        if not self._stream.average.any():
            self._warn_of_zero()
        self._boosted = Progress.of_metric(self._stream.average)
        normalize = getattr(self, "normalize_", False) if is_auto(self.normalize) else bool(self.normalize)
        self._set(self._attributes(self._boosted, also, normalize=normalize, orthogonal=self._stream.average))
        self.n_batches_ = self._stream.n_batches
        self.stop_reason_ = StopReason.BATCH
        self.duality_gap_ = np.nan
        # Of a fit before the stream.
        self._forget("init_", "solver_", "block_size_", "n_neighbors_", "n_impostors_", "n_passes_")
        self._forget("candidates_", "chosen_", "learning_rate_")

    def _attributes(
        self, progress: Progress, also: Also, *, normalize: bool, orthogonal: NDArray[np.float64] | None = None
    ) -> dict[str, Any]:
        """Fitted attributes; `orthogonal` rows of the same metric, longest first, save their computation."""
        components = progress.metric(self.n_components).components if orthogonal is None else orthogonal
        components = components[: self.n_components]
        return {
            "directions_": progress.directions,
            "step_sizes_": progress.step_sizes,
            "history_": progress.history,
            "n_iter_": len(progress.history),
            "components_": components,
            "normalize_": normalize,
            **also(MahalanobisMetric(components, normalize=normalize)),
        }

    def _forget(self, *names: str) -> None:
        """Drop attributes of an earlier fit."""
        for name in names:
            self.__dict__.pop(name, None)

    def _warn_of(self, boosted: Boosted, *, converges: bool) -> None:
        """Warn where the result is not what the user will expect."""
        if not len(boosted.step_sizes):
            self._warn_of_zero(f"The largest eigenvalue of A_hat is {boosted.eigenvalue:.3g}.")
        if converges and self.tol > 0 and boosted.stop_reason is StopReason.ITERATION_LIMIT:
            warn(
                f"max_iter={self.max_iter} was reached before tol={self.tol:g}. Raise max_iter or tol.",
                ConvergenceWarning,
            )

    def _warn_of_zero(self, detail: str = "") -> None:
        warn(
            ParameterWarning(
                f"Nothing was learned: the metric is zero, and so is every distance. {detail} Either near pairs are "
                "not closer than far pairs along any direction, or the features are small: scale them "
                "(StandardScaler) or lower {regularization}, which is {value:g}.",
                value=self.regularization,
            )
        )

    def staged_transform(self, X: ArrayLike | sparse.spmatrix | sparse.sparray) -> Iterator[NDArray[np.floating[Any]]]:
        """`transform` with the first 1, 2, ... of the `directions_`.

        With the stagewise solver, this is `transform` as it was after each iteration.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor} of shape (n_samples, n_features)

        Yields
        ------
        ndarray of shape (n_samples, rank of these directions)
            A tensor where `transform` returns one.

        Notes
        -----
        Cost: a singular value decomposition of the directions so far, for each iteration.
        """
        samples = self._check_samples(X)
        for n in range(1, len(self.step_sizes_) + 1):
            metric = MahalanobisMetric.from_directions(self.directions_[:n], self.step_sizes_[:n], self.n_components)
            yield self._mapped(samples, metric.components)

    def check_parameters(self) -> None:
        """Raise what `fit` would raise about the parameters, without data."""
        check_choice("loss", self.loss, LOSSES)
        check_number("regularization", self.regularization)
        check_count("max_iter", self.max_iter)
        if not self._may_be_auto("n_passes"):
            check_count("n_passes", self.n_passes, alternative=self._or_auto("n_passes"))
        check_flag("early_stopping", self.early_stopping)
        if not self._may_be_auto("normalize"):
            check_flag("normalize", self.normalize, alternative=self._or_auto("normalize"))
        check_flag("warm_start", self.warm_start)
        check_number("tol", self.tol, below=1.0)
        check_choice("line_search", self.line_search, STEP_FINDERS)
        if not self._may_be_auto("learning_rate"):
            check_number(
                "learning_rate",
                self.learning_rate,
                above=0.0,
                at_most=1.0,
                alternative=self._or_auto("learning_rate"),
            )
        if not is_auto(self.block_size):
            check_count("block_size", self.block_size, alternative=' or "auto"')
        check_number("validation_fraction", self.validation_fraction, above=0.0, below=1.0)
        check_count("n_iter_no_change", self.n_iter_no_change)
        self._check_engine()
        check_device(self.device)
        check_threads("n_jobs", self.n_jobs)
        check_random_state(self.random_state)
        if self.n_components is not None:
            check_count("n_components", self.n_components, alternative=", or None")
        self._check_callbacks()
        if self.early_stopping and self.chooses:
            named = [f"{{{name}}}" for name in self._chosen if is_auto(getattr(self, name))]
            raise ParameterError(
                '{early_stopping}=True and "auto" exclude each other: to choose is to validate, and stops as early as '
                f"that says. Leave {{early_stopping}} out, or set {', '.join(named)}."
            )

    def _may_be_auto(self, name: str) -> bool:
        """Whether a parameter is "auto", and may be."""
        return name in self._chosen and is_auto(getattr(self, name))

    def _or_auto(self, name: str) -> str:
        return ' or "auto"' if name in self._chosen else ""

    def _check_engine(self) -> None:
        if self.engine is None:
            return
        if isinstance(self.engine, str):
            check_choice("engine", self.engine, ["ray"])
        elif not callable(getattr(self.engine, "pool", None)):
            raise TypeError(f'engine must be "ray", a RayEngine, or None. Got {self.engine!r}.')
        if self.device != "cpu":
            raise ParameterError(
                "{engine}={value!r} and {device}={other!r} exclude each other: workers compute on processors. Leave "
                "one of them out.",
                value=self.engine,
                other=self.device,
            )
