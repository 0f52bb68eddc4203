"""What a fit reports: one record an iteration, the reason it stopped, and the metric as a sum of directions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def scaled(value: float, exponent: int) -> float:
    """value * 2**exponent, or the largest number where that overflows."""
    with np.errstate(over="ignore"):
        return float(np.nan_to_num(np.ldexp(value, exponent)))


class StopReason(Enum):
    """Why boosting ended; the value is the sentence for the user."""

    DUAL_FEASIBLE = (
        "Converged: no direction is left along which the loss falls "
        "(the largest eigenvalue has come down to the regularization)."
    )
    ITERATION_LIMIT = "The iteration limit max_iter was reached."
    SEPARABLE = (
        "One direction satisfies every comparison, so the loss has no minimum along it: the step was capped and "
        "boosting stopped. Use more or harder comparisons (a larger n_impostors, for instance) for a richer metric."
    )
    CALLBACK = "A callback asked to stop."
    NOTHING_TO_IMPROVE = (
        "No comparisons are left to improve: the loss cannot be lowered any further in double precision."
    )

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Iteration:
    """One iteration of Algorithm 2, as handed to callbacks and kept in ``history_``.

    Attributes
    ----------
    number : int
        Counted from 1.
    loss : float
        Objective of the paper's problem (P0) after the step.
    eigenvalue : float
        Largest eigenvalue of A_hat before the step, which Algorithm 2 compares with the regularization v.
    step_size : float
        The weight w of this iteration's direction.
    trace : float
        Trace of X after the step.
    violated : float
        Fraction of the comparisons that X does not satisfy.
    """

    number: int
    loss: float
    eigenvalue: float
    step_size: float
    trace: float
    violated: float

    def in_units(self, exponent: int) -> Iteration:
        """The record for data that are ``2**exponent`` times as large."""
        return replace(
            self,
            eigenvalue=scaled(self.eigenvalue, 2 * exponent),
            step_size=scaled(self.step_size, -2 * exponent),
            trace=scaled(self.trace, -2 * exponent),
        )


@dataclass(frozen=True)
class Boosted:
    """A metric as boosting built it: X = sum_j step_sizes[j] * outer(directions[j], directions[j]).

    Attributes
    ----------
    directions : ndarray of shape (n_iterations, n_features)
        Unit vectors.
    step_sizes : ndarray of shape (n_iterations,)
        Positive weights.
    history : list of Iteration
    stop_reason : StopReason
    eigenvalue : float
        Largest eigenvalue of A_hat at the end.
    duality_gap : float
        See `boostmetric.BoostMetric`.
    """

    directions: FloatArray
    step_sizes: FloatArray
    history: list[Iteration]
    stop_reason: StopReason
    eigenvalue: float
    duality_gap: float
