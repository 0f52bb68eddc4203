"""Base class of the baselines: checks of the data, records of the fit, and fitted attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import checked, warn
from boostmetric.callbacks import Callback
from boostmetric.comparisons import Comparisons
from boostmetric.comparisons.forms import as_comparisons, as_rows, best_threshold, hold_points
from boostmetric.comparisons.labels import check_labels, known_labels
from boostmetric.estimators.learner import MetricLearner
from boostmetric.metric import MahalanobisMetric
from boostmetric.solver.problem import Problem
from boostmetric.solver.result import Iteration, Progress, StopReason


class Journal:
    """Records of a fit, which are also passed to callbacks.

    Parameters
    ----------
    callbacks : sequence of Callback

    Attributes
    ----------
    history : list of Iteration
    stopped : StopReason or None
        Set when a callback has asked to stop.
    """

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        self.history: list[Iteration] = []
        self.stopped: StopReason | None = None
        self._callbacks = callbacks

    def add(
        self,
        loss: float,
        components: Callable[[], FloatArray],
        *,
        trace: float,
        violated: float = math.nan,
        eigenvalue: float = math.nan,
    ) -> bool:
        """Record an iteration; return True if a callback asks to stop.

        Parameters
        ----------
        loss : float
            The value that is minimised.
        components : callable
            Returns the linear map so far, in the features of the data.
        trace : float
            Trace of X.
        violated : float, optional
            Fraction of the comparisons that are not satisfied.
        eigenvalue : float, optional
            Eigenvalue of the direction that was added.
        """
        number = len(self.history) + 1
        record = Iteration(number, loss, eigenvalue, math.nan, trace, violated)
        self.history.append(record)
        history = self.history[:number]

        def so_far() -> Progress:
            return replace(Progress.of_metric(components()), history=history, staged=False)

        for callback in self._callbacks:
            answer = callback.on_iteration(replace(record, so_far=so_far))
            if answer and self.stopped is None:
                self.stopped = answer if isinstance(answer, StopReason) else StopReason.CALLBACK
        return self.stopped is not None


def _needs_no_check(X: Any) -> bool:
    """Whether samples are a plain array that scikit-learn's check would return as it is.

    The check first looks for data frames of many kinds, which takes longer than some learners do.
    """
    if type(X) is not np.ndarray or X.dtype != np.float64 or X.ndim != 2 or X.shape[0] < 2 or X.shape[1] < 1:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(X.sum()))  # a sum that overflows is left to the check


def _is_target_of(target: Any, X: NDArray[Any]) -> bool:
    """Whether a target is a plain array of whole numbers, one for each sample."""
    return type(target) is np.ndarray and target.dtype.kind in "iu" and target.shape == X.shape[:1]


def trace_of(rows: FloatArray) -> float:
    """Trace of X = L'L, given L; infinite if it overflows, in which case the metric will be refused."""
    with np.errstate(over="ignore"):
        return float(np.square(rows).sum())


def check_not_zero(components: FloatArray) -> FloatArray:
    """Return initial components; refuse the zero metric."""
    if not components.any():
        raise ValueError("init is the zero metric, from which nothing can be learned. Pass one that is not zero.")
    return components


class Baseline(MetricLearner):
    """Base class of metric learners by other authors, with the interface of ours."""

    callbacks: Sequence[Callback] | None = None  # for learners without these parameters
    verbose: int = 0
    max_iter: int
    tol: float
    stop_reason_: StopReason

    def _check_data(self, X: Any, y: Any, **instead: Any) -> tuple[FloatArray, NDArray[Any] | None]:
        """Check samples and labels, and return them; labels are None if something is given `instead` of them."""
        given = [name for name, value in instead.items() if value is not None]
        if given and y is not None:
            raise ValueError(f"Both y and {given[0]} are given, but a fit learns from one of them. Leave one out.")
        labels = None if given else known_labels(y)[0]
        samples, y = self._check_samples_and(X, labels, has_target=not given)
        self._check_n_components(samples.shape[1])
        if y is not None:
            check_labels(y)
        return samples, y

    def _check_samples_and(
        self, X: Any, target: Any, *, has_target: bool, numeric: bool = False
    ) -> tuple[FloatArray, NDArray[Any] | None]:
        """Check samples and, if there is one, a target; set the attributes on the features."""
        if _needs_no_check(X) and (not has_target or _is_target_of(target, X)):
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
            return X, target if has_target else None
        how: dict[str, Any] = {"dtype": [np.float64, np.float32], "ensure_min_samples": 2}
        if not has_target:
            return checked(validate_data, self, X, "no_validation", **how).astype(np.float64, copy=False), None
        samples, target = checked(validate_data, self, X, target, y_numeric=numeric, **how)
        return samples.astype(np.float64, copy=False), target

    def _given(self, samples: FloatArray, comparisons: Any, weights: Any) -> Problem:
        """Check comparisons that refer to samples by number; return them with the samples that occur."""
        rows = None if hold_points(comparisons) else as_rows(comparisons, None)[0]
        if rows is None or (not isinstance(rows, Comparisons) and rows.shape[1] == 2):
            raise ValueError(
                "comparisons must refer to rows of X by number: (i, j, k) or (i, j, k, l), or be Comparisons. Got "
                f"shape {np.shape(comparisons)}."
            )
        self._learned_order = True
        return Problem(samples, as_comparisons(rows, None, weights)).restricted()

    def _set_threshold(
        self, samples: FloatArray, similar: NDArray[np.integer[Any]], dissimilar: NDArray[np.integer[Any]]
    ) -> None:
        """Set the threshold that best separates the pairs of the fit."""
        pairs = np.concatenate([similar, dissimilar])
        self.threshold_ = best_threshold(
            np.square(self._plain_metric().distance(samples[pairs[:, 0]], samples[pairs[:, 1]])),
            np.arange(len(pairs)) < len(similar),
        )

    def _finish(
        self, components: FloatArray, journal: Journal, stop_reason: StopReason, *, limited: bool = False
    ) -> None:
        """Set the fitted attributes; warn if the iterations did not suffice, now or (`limited`) in an earlier pass."""
        self._set(self._attributes(components, journal.history))
        self.stop_reason_ = stop_reason
        if limited or stop_reason is StopReason.ITERATION_LIMIT:
            warn(
                f"max_iter={self.max_iter} was reached before tol={self.tol:g}. Raise max_iter or tol.",
                ConvergenceWarning,
            )

    def _attributes(self, components: FloatArray, history: list[Iteration]) -> dict[str, Any]:
        return {
            "components_": MahalanobisMetric(components).truncate(self.n_components).components,
            "history_": history,
            "n_iter_": max(1, len(history)),  # at least 1, even if there was nothing to do, as in scikit-learn
        }

    def _attributes_so_far(self, progress: Progress) -> dict[str, Any]:
        return self._attributes(progress.metric().components, progress.history)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.target_tags.required = True
        return tags
