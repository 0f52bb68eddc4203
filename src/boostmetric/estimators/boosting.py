"""What the two estimators that boost share: the fit from points and comparisons, and streams."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from boostmetric.arrays.frame import Given
from boostmetric.arrays.tensors import finite, mapped
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_choice, check_count, check_flag, check_number, check_threads, warn
from boostmetric.callbacks import Callback, Checkpoint, EarlyStopping
from boostmetric.engines.backend import Backend
from boostmetric.engines.device import DeviceBackend
from boostmetric.engines.ray import RayEngine
from boostmetric.engines.threads import ThreadBackend
from boostmetric.estimators.learner import MetricLearner
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.starts import Init
from boostmetric.oracles.losses import LOSSES, LossName
from boostmetric.parallel.devices import check_device, torch_device
from boostmetric.solver.learn import STEP_FINDERS, SolverName
from boostmetric.solver.online import Stream
from boostmetric.solver.passes import Finder, Found, best_pass, passes
from boostmetric.solver.problem import Problem
from boostmetric.solver.result import Boosted, Iteration, Progress, StopReason


class Boosting(MetricLearner):
    """A metric learned by boosting, from points and comparisons."""

    @abstractmethod
    def __init__(
        self,
        n_components: int | None,
        *,
        loss: LossName,
        solver: str,
        regularization: float,
        max_iter: int,
        tol: float,
        line_search: Literal["exact", "bisection"],
        init: Init,
        early_stopping: bool,
        validation_fraction: float,
        n_iter_no_change: int,
        warm_start: bool,
        device: str,
        engine: Backend | Literal["ray"] | None,
        n_jobs: int | None,
        callbacks: Sequence[Callback] | None,
        random_state: int | np.random.RandomState | None,
        verbose: int,
    ) -> None:
        self.n_components = n_components
        self.loss = loss
        self.solver = solver
        self.regularization = regularization
        self.max_iter = max_iter
        self.tol = tol
        self.line_search = line_search
        self.init = init
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.device = device
        self.engine = engine
        self.n_jobs = n_jobs
        self.callbacks = callbacks
        self.random_state = random_state
        self.verbose = verbose

    def _learn(
        self,
        find: Callable[[FloatArray | None], Found],
        init: FloatArray | None,
        max_iter: Sequence[int],
        resume_from: str | Path | None,
        fit_data: tuple[object, object],
        *,
        backend: Backend,
        solver: str,
        hold_out: bool,
        converges: bool,
    ) -> None:
        """Learn from comparisons, and set the fitted attributes.

        Parameters
        ----------
        find : callable
            Comparisons under a metric, given by its linear map or None.
        init : ndarray of shape (n_rows, n_features) or None
            Linear map of the metric to begin with.
        max_iter : sequence of int
            Most iterations of each pass.
        resume_from : str, Path or None
            As in `fit`.
        fit_data : tuple
            What was given to `fit`.
        backend : Backend
            Where to work.
        solver : str
            "stagewise" or "corrective".
        hold_out : bool
            Whether to watch some of the comparisons, unless `find` brings others, instead of learning from them.
        converges : bool
            Whether to warn if `tol` was not reached.
        """
        rng = check_random_state(self.random_state)
        if hold_out and (not self._goes_on(resume_from) or not hasattr(self, "_split_seed")):
            self._split_seed = rng.randint(2**31 - 1)  # what is held out stays so in a warm start

        def find_and_split(components: FloatArray | None) -> Found:
            problem, held_out = find(components)
            if hold_out and held_out is None:
                problem, held_out = problem.split(self.validation_fraction, self._split_seed)
            return Found(problem, held_out)

        options = self._options(rng, backend)
        finder = Finder(find_and_split, backend)
        start = self._start(init, max_iter, resume_from)
        with self._watched(sum(max_iter), fit_data) as callbacks:

            def watch(progress: Progress) -> list[Callable[[Iteration], object]]:
                # Comparisons are held out for each pass anew.
                watching = [*callbacks, *self._early_stopping(finder(progress.found_under), progress)]
                return [callback.on_iteration for callback in watching]

            learned = passes(
                finder, start, max_iter=max_iter, solver=cast(SolverName, solver), on_iteration=watch, **options
            )
            if len(max_iter) > 1 and hold_out:
                boosted = best_pass(finder, start, learned, solver=solver, **options)
            else:
                *_, boosted = learned
        self._conclude(boosted, converges=converges)

    def _conclude(self, boosted: Boosted, *, converges: bool) -> None:
        """Set the fitted attributes."""
        self._warn_of(boosted, converges=converges)
        self._set(self._attributes(boosted))
        self.stop_reason_ = boosted.stop_reason
        self.duality_gap_ = boosted.duality_gap
        self._boosted: Progress = boosted
        for name in ("_stream", "n_batches_"):
            self.__dict__.pop(name, None)

    def _options(self, rng: np.random.RandomState, backend: Backend) -> dict[str, Any]:
        """What `boostmetric.solver.learn.solve` is told, of the parameters."""
        return {
            "loss": self.loss,
            "regularization": self.regularization,
            "tol": self.tol,
            "line_search": self.line_search,
            "backend": backend,
            "rng": rng,
        }

    def _backend(self, points: Given) -> Backend:
        """Where to work on points; on a device in their precision."""
        if self.engine is not None:
            return RayEngine() if isinstance(self.engine, str) else self.engine
        device = torch_device(self.device, points)
        if device is not None:
            return DeviceBackend(device, single=points.dtype == np.float32)
        return ThreadBackend(effective_n_jobs(self.n_jobs))

    def _follow(self, batch: Problem) -> None:
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
        self._set(self._attributes(self._boosted, self._stream.average))
        self.n_batches_ = self._stream.n_batches
        self.stop_reason_ = StopReason.BATCH
        self.duality_gap_ = np.nan

    def _goes_on(self, resume_from: object = None) -> bool:
        """Whether a fit continues an earlier one of this estimator."""
        return self.warm_start and resume_from is None and hasattr(self, "components_")

    def _start(self, init: FloatArray | None, max_iter: Sequence[int], resume_from: str | Path | None) -> Progress:
        """Where a fit begins, or goes on."""
        n_features = self.n_features_in_
        start: Progress
        if resume_from is not None:
            start = Checkpoint.load(resume_from)
            if start.directions.shape[1] != n_features:
                raise ValueError(
                    f"The checkpoint {str(resume_from)!r} has {start.directions.shape[1]} features, the data have "
                    f"{n_features}: it belongs to another fit. Leave resume_from out to begin anew."
                )
        elif self._goes_on():
            start = self._boosted
        else:
            return Progress.beginning(init, n_features)
        n_earlier = start.pass_ends[-1] if start.pass_ends else 0
        n_iterations = len(start.history) - n_earlier
        most = max_iter[min(len(start.pass_ends), len(max_iter) - 1)]
        if most < n_iterations:
            raise ValueError(
                f"max_iter={most} is less than the {n_iterations} iterations of the fit to go on with; "
                "they count. Raise max_iter, or begin anew, without warm_start and resume_from."
            )
        return start

    def _early_stopping(self, found: Found, progress: Progress) -> list[EarlyStopping]:
        """What stops a pass when held-out comparisons no longer improve, if there are some."""
        if found.held_out is None:
            return []
        stopping = EarlyStopping(self.n_iter_no_change)
        for record in progress.history:
            if record.held_out is not None:
                stopping.on_iteration(record)
        return [stopping]

    def _attributes_at(self, record: Iteration) -> dict[str, Any]:
        """Fitted attributes as if the fit had ended with this iteration."""
        assert record.so_far is not None
        return self._attributes(record.so_far())

    def _attributes(self, progress: Progress, orthogonal: NDArray[np.float64] | None = None) -> dict[str, Any]:
        """Fitted attributes; `orthogonal` rows of the same metric, longest first, save their computation."""
        components = progress.metric(self.n_components).components if orthogonal is None else orthogonal
        return {
            "directions_": progress.directions,
            "step_sizes_": progress.step_sizes,
            "history_": progress.history,
            "n_iter_": len(progress.history),
            "components_": components[: self.n_components],
        }

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
            f"Nothing was learned: the metric is zero, and with it every distance. {detail} Either near pairs are not "
            "closer than far pairs along any direction, or the features are small: scale them (StandardScaler) or "
            f"lower the regularization, which is {self.regularization:g}."
        )

    def staged_transform(self, X: ArrayLike | sparse.spmatrix | sparse.sparray) -> Iterator[NDArray[np.floating[Any]]]:
        """`transform` with the first 1, 2, ... of the `directions_`.

        With the stagewise solver, this is `transform` as it was after so many iterations.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor} of shape (n_samples, n_features)

        Yields
        ------
        ndarray of shape (n_samples, rank of these directions)
            A tensor where `transform` gives one.

        Notes
        -----
        Cost: a singular value decomposition of the directions so far, for each iteration.
        """
        samples = self._check_samples(X)
        for n in range(1, len(self.step_sizes_) + 1):
            metric = MahalanobisMetric.from_directions(self.directions_[:n], self.step_sizes_[:n], self.n_components)
            yield finite(mapped(samples, metric.components))

    def _check_engine(self) -> None:
        if self.engine is None:
            return
        if isinstance(self.engine, str):
            check_choice("engine", self.engine, ["ray"])
        elif not callable(getattr(self.engine, "pool", None)):
            raise TypeError(f'engine must be "ray", a RayEngine, or None. Got {self.engine!r}.')
        if self.device != "cpu":
            raise ValueError(
                f"engine={self.engine!r} and device={self.device!r} exclude each other: workers compute on processors. "
                "Leave one of them out."
            )

    def check_parameters(self) -> None:
        """Raise what `fit` would raise about the parameters, without data."""
        check_choice("loss", self.loss, LOSSES)
        check_number("regularization", self.regularization)
        check_count("max_iter", self.max_iter)
        check_flag("early_stopping", self.early_stopping)
        check_flag("warm_start", self.warm_start)
        check_number("tol", self.tol, below=1.0)
        check_choice("line_search", self.line_search, STEP_FINDERS)
        check_number("validation_fraction", self.validation_fraction, above=0.0, below=1.0)
        check_count("n_iter_no_change", self.n_iter_no_change)
        self._check_engine()
        check_device(self.device)
        check_threads("n_jobs", self.n_jobs)
        check_random_state(self.random_state)
        if self.n_components is not None:
            check_count("n_components", self.n_components, alternative=", or None")
        self._check_callbacks()
