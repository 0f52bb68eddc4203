"""From the mass of all comparisons to the loss: the paper's, and the logistic one.

With N_g the sum of exp(d) over the near pairs of group g, and F_g the sum of exp(-d) over its far pairs:

- exponential: log sum_g omega_g N_g F_g, which is the log of the paper's sum over all comparisons;
- logistic: sum_g omega_g log(1 + N_g F_g) / sum_g omega_g. A group that is far from satisfied costs in proportion to
  its distances only, not exponentially, so that a few mislabelled points do not decide everything. For single
  comparisons this is the ordinary logistic loss.

Both are convex in the metric. The kernels compute the sums over g (`kernels.groups`), here is what follows from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from boostmetric.oracles.masses import Mass, MassMoments
from boostmetric.oracles.protocol import Moments, State

LossName = Literal["exponential", "logistic"]
LOSSES: tuple[LossName, ...] = ("exponential", "logistic")


class Loss(Protocol):
    """A function of the mass S."""

    def state(self, mass: Mass) -> State:
        """Where the loss stands."""
        ...

    def rate(self, log_mass: float) -> float:
        """S times the derivative of the loss by S: what sums relative to S are multiplied with."""
        ...

    def moments(self, moments: MassMoments) -> Moments:
        """The loss with its derivatives by the step."""
        ...


class ExponentialLoss:
    """log S."""

    def state(self, mass: Mass) -> State:
        return State(mass.log_mass, mass.margin, mass.violated, mass.weight)

    def rate(self, log_mass: float) -> float:
        return 1.0

    def moments(self, moments: MassMoments) -> Moments:
        return Moments(moments.log_mass, moments.first, moments.second - moments.first**2)


@dataclass(frozen=True)
class LogisticLoss:
    """S divided by the weight of all groups (not of all comparisons: here a group counts once)."""

    weight: float

    def state(self, mass: Mass) -> State:
        loss = self.rate(mass.log_mass)
        return State(loss, loss * mass.margin, mass.violated, mass.weight)

    def rate(self, log_mass: float) -> float:
        return math.exp(log_mass) / self.weight

    def moments(self, moments: MassMoments) -> Moments:
        loss = np.exp(moments.log_mass) / self.weight
        return Moments(loss, loss * moments.first, loss * moments.second)


def make_loss(name: LossName, weight: float) -> Loss:
    """The loss of a name, for groups of so much weight in all."""
    return ExponentialLoss() if name == "exponential" else LogisticLoss(weight)
