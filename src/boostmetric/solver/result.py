"""Results of a fit: one record per iteration, the reason it stopped, and the metric as a sum of directions."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from typing import Self

import numpy as np

from boostmetric.arrays.types import FloatArray
from boostmetric.metric import MahalanobisMetric

# Largest length of a row whose square does not overflow.
_LONGEST = 1e154
# With this many features, decomposing a metric takes longer than searching neighbours in some extra dimensions.
_MANY_FEATURES = 1000


def scaled(value: float, exponent: int) -> float:
    """Compute value * 2**exponent, or return the largest float if that overflows."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(sys.float_info.max, value)


class StopReason(Enum):
    """Why boosting stopped; the value is the sentence for the user."""

    DUAL_FEASIBLE = (
        "Converged: no direction is left along which the loss falls "
        "(the largest eigenvalue has fallen to the regularization)."
    )
    OPTIMAL = "Converged: the duality gap has fallen to the fraction tol of the objective."
    CONVERGED = "Converged: an iteration no longer improved the objective by the fraction tol."
    NEGLIGIBLE = "Converged: the objective has fallen to the fraction tol of its value at the start."
    CLOSED_FORM = "Nothing is iterated: the metric has a closed form."
    ITERATION_LIMIT = "The iteration limit max_iter was reached."
    SEPARABLE = (
        "Every comparison can be satisfied at once, so the loss has no minimum: the step was capped and boosting "
        "stopped. Use more or harder comparisons (a larger n_impostors, for instance) for a richer metric."
    )
    CALLBACK = "A callback asked to stop."
    HELD_OUT = (
        "Held-out comparisons did not improve for n_iter_no_change iterations: the metric is from the iteration that "
        "satisfied most of them."
    )
    PASSES = (
        "Another pass, with comparisons mined again under the learned metric, did not improve the held-out "
        "comparisons: the metric is from the pass before."
    )
    VALIDATED = "Validation chose when to stop: learning for longer did not lower the validation error."
    KEPT_START = "Kept the start: boosting did not lower the validation error further."
    BATCH = "partial_fit ran its rounds on the last batch."
    NOTHING_TO_IMPROVE = "Nothing left to improve: the loss cannot fall further in this floating-point precision."

    SOLVER_FAILED = (
        "A linear program could not be solved in double precision: the metric is the best one found before. Rescale "
        "the features, for example with sklearn.preprocessing.StandardScaler, or raise tol."
    )

    def __str__(self) -> str:
        return str(self.value)

    def sentence(self, start: str = "") -> str:
        """The sentence, with the name of the start if the start was kept."""
        named = f"Kept the start ({start}):" if start else "Kept the start:"
        return str(self).replace("Kept the start:", named)


@dataclass(frozen=True)
class Iteration:
    """One iteration of Algorithm 2 or of a baseline, as passed to callbacks and kept in ``history_``.

    Baselines set values they do not compute to NaN.

    Attributes
    ----------
    number : int
        Number of the iteration, from 1. Iterations of a pass after its best one are not counted by the next pass.
    loss : float
        Objective of the paper's problem (P0), or of the baseline, after the step.
    eigenvalue : float
        Largest eigenvalue of A_hat before the step, which Algorithm 2 compares with the regularization v.
    step_size : float
        The weight w of this iteration's direction, or the sum of the weights of all its directions.
    trace : float
        Trace of X after the step.
    violated : float
        Fraction, by weight, of the comparisons that X does not satisfy.
    held_out : float, optional
        Fraction of held-out comparisons that X satisfies, if some are held out.
    capped : bool
        Whether the step was capped because the loss has no minimum along it, see `StopReason.SEPARABLE`.
    n_directions : int
        Number of directions that the iteration added; more than one with a `block_size`.
    so_far : callable, optional
        For callbacks, while the fit runs: returns the `Progress` up to this iteration.
    """

    number: int
    loss: float
    eigenvalue: float
    step_size: float
    trace: float
    violated: float
    held_out: float | None = None
    capped: bool = False
    n_directions: int = 1
    so_far: Callable[[], Progress] | None = field(default=None, repr=False, compare=False)

    def in_units(self, exponent: int) -> Iteration:
        """Convert the record to data that are ``2**exponent`` times as large."""
        return replace(
            self,
            eigenvalue=scaled(self.eigenvalue, 2 * exponent),
            step_size=scaled(self.step_size, -2 * exponent),
            trace=scaled(self.trace, -2 * exponent),
        )


@dataclass(frozen=True)
class Progress:
    """The metric that boosting has built so far: X = sum_j step_sizes[j] * outer(directions[j], directions[j]).

    Attributes
    ----------
    directions : ndarray of shape (n_directions, n_features)
        Unit vectors.
    step_sizes : ndarray of shape (n_directions,)
        Positive weights.
    history : list of Iteration
        Records of the last directions. There are more directions than records if boosting started from a metric. (With
        the corrective solver, directions do not correspond to iterations, see `staged`.)
    problem : str
        Fingerprint of the points, comparisons and regularization; empty if it was not needed.
    watched : str
        Fingerprint of the held-out comparisons that the scores in the history refer to; empty if there are none.
    coordinates : ndarray of shape (n_directions, n_dimensions), optional
        The directions as they were computed, if the points were rotated (`arrays.frame`); a fit that continues from
        them gives the same bits.
    staged : bool
        Whether every iteration added directions and left the others as they were, so that the first directions are
        the earlier metric (except for one factor, if a later pass reweighed them).
    pass_ends : tuple of int
        Number of iterations at the end of each earlier pass.
    found_under : ndarray of shape (n_components, n_features), optional
        Linear map of the metric under which the comparisons of the current pass were found; None for the Euclidean
        distance.
    best : Progress, optional
        The best pass so far, if passes are scored.
    score : float, optional
        Score of the best pass.
    """

    directions: FloatArray
    step_sizes: FloatArray
    history: list[Iteration]
    problem: str = ""
    watched: str = ""
    coordinates: FloatArray | None = None
    staged: bool = True
    pass_ends: tuple[int, ...] = ()
    found_under: FloatArray | None = None
    best: Progress | None = None
    score: float | None = None

    @classmethod
    def nothing(cls, n_features: int) -> Progress:
        """Progress without directions: X = 0."""
        return cls(np.empty((0, n_features)), np.empty(0), [])

    @classmethod
    def beginning(cls, init: FloatArray | None, n_features: int) -> Progress:
        """Start of a fit: the metric of a linear map, under which its comparisons are found, or no metric."""
        return cls.nothing(n_features) if init is None else replace(cls.of_metric(init), found_under=init)

    @classmethod
    def of_metric(cls, components: FloatArray) -> Progress:
        """Progress whose metric is that of a linear map."""
        lengths = np.linalg.norm(components, axis=1)
        kept = lengths > 0
        squares = np.square(np.minimum(lengths[kept], _LONGEST))
        return cls(components[kept] / lengths[kept, None], squares, [])

    def next_pass(self) -> Progress:
        """The same metric, at the start of a pass whose comparisons are found under it."""
        return Progress(
            self.directions,
            self.step_sizes,
            self.history,
            staged=self.staged,
            pass_ends=(*self.pass_ends, len(self.history)),
            found_under=self.linear_map(),
        ).without_scores()

    def after(self, n_iterations: int) -> Progress:
        """The metric after `n_iterations`; only if it is `staged`."""
        end = self._n_directions_after(n_iterations)
        ends = tuple(pass_end for pass_end in self.pass_ends if pass_end <= n_iterations)
        return Progress(self.directions[:end], self.step_sizes[:end], self.history[:n_iterations], pass_ends=ends)

    @property
    def n_at_pass_start(self) -> int:
        """Number of directions, the first ones, that the current pass began with; 0 if they are not `staged`."""
        n_before = self.pass_ends[-1] if self.pass_ends else 0
        if len(self.history) == n_before:
            return len(self.step_sizes)
        return self._n_directions_after(n_before) if self.staged else 0

    def _n_directions_after(self, n_iterations: int) -> int:
        return len(self.step_sizes) - sum(record.n_directions for record in self.history[n_iterations:])

    @property
    def iterations_of_passes(self) -> tuple[int, ...]:
        """Number of iterations of each pass that made some."""
        ends = sorted({0, *self.pass_ends, len(self.history)})
        return tuple(end - begin for begin, end in pairwise(ends))

    def without_scores(self) -> Progress:
        """Copy without scores, as if nothing had been held out."""
        return replace(self, history=[replace(record, held_out=None) for record in self.history], watched="")

    def in_units(self, exponent: int, directions: FloatArray) -> Self:
        """Convert to data that are ``2**exponent`` times as large, with directions given in their coordinates."""
        step_sizes = np.array([scaled(w, -2 * exponent) for w in self.step_sizes])
        return replace(
            self,
            directions=directions,
            step_sizes=step_sizes,
            history=[record.in_units(exponent) for record in self.history],
        )

    def linear_map(self, rank: int | None = None) -> FloatArray:
        """Linear map of the metric: the components of `metric` if a rank is given, else any rows.

        There is one row per direction if there are no more directions than features or, with many features, at most
        twice as many; otherwise one per feature.
        """
        n_directions, n_features = self.directions.shape
        if rank is not None or not n_directions:
            return self.metric(rank).components
        rows = np.sqrt(self.step_sizes)[:, None] * self.directions
        most = 2 * n_features if n_features >= _MANY_FEATURES else n_features
        return np.asarray(rows if n_directions <= most else np.linalg.qr(rows, mode="r"))

    def metric(self, rank: int | None = None) -> MahalanobisMetric:
        """The metric so far, or its best approximation of the given rank."""
        # An initial metric may have directions outside the span of the coordinates.
        narrow = self.coordinates
        if narrow is not None and not np.allclose(np.linalg.norm(narrow, axis=1), 1.0, rtol=0.0, atol=1e-12):
            narrow = None
        return MahalanobisMetric.from_directions(self.directions, self.step_sizes, rank, narrow)


@dataclass(frozen=True, kw_only=True)
class Boosted(Progress):
    """Result of boosting.

    Attributes
    ----------
    stop_reason : StopReason
    eigenvalue : float
        Largest eigenvalue of A_hat at the end.
    duality_gap : float
        See `boostmetric.BoostMetric`.
    after_iteration : callable, optional
        While the fit runs: returns the `Progress` after a number of iterations.
    """

    stop_reason: StopReason
    eigenvalue: float
    duality_gap: float
    after_iteration: Callable[[int], Progress] | None = field(default=None, repr=False, compare=False)

    def averaged_with(self, others: Sequence[Boosted], shares: Sequence[float], scatter: FloatArray) -> Boosted:
        """Mean of several metrics, each in units of its mean squared distance, in the scale of this one.

        Parameters
        ----------
        others : sequence of Boosted
        shares : sequence of float
            Weights of the metrics in the mean, this one first.
        scatter : ndarray of shape (n_features, n_features)
            Covariance of the points, up to a factor.
        """
        every = [self, *others]
        sizes = [
            float(boosted.step_sizes @ np.einsum("ij,jk,ik->i", boosted.directions, scatter, boosted.directions))
            for boosted in every
        ]
        if not all(sizes):
            return self
        step_sizes = [
            sizes[0] / size * share / sum(shares) * boosted.step_sizes
            for size, share, boosted in zip(sizes, shares, every, strict=True)
        ]
        return replace(
            self,
            directions=np.concatenate([boosted.directions for boosted in every]),
            step_sizes=np.concatenate(step_sizes),
            coordinates=None,
            staged=False,
            eigenvalue=math.nan,
            duality_gap=math.nan,
        )
