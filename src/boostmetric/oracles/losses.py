"""Losses: from the mass of all groups to the number that boosting minimises.

With N_g the sum of exp(d) over the near pairs of group g, F_g the sum of exp(-d) over its far pairs, and
l_g = log(N_g F_g), which is the loss of a group that is not satisfied and below 0 where it is:

- exponential: log sum_g omega_g exp(l_g), the log of the paper's sum over all comparisons;
- logistic: sum_g omega_g log(1 + exp(l_g)) / sum_g omega_g. A group that is far from satisfied costs in proportion to
  its distances only, not exponentially, so that a few mislabelled points do not decide everything. For single
  comparisons this is the ordinary logistic loss;
- smooth-hinge: sum_g omega_g phi(l_g) / sum_g omega_g with phi = 0 up to l = -1, a parabola up to 0, and a line beyond
  (Rennie and Srebro, 2005). Groups that are satisfied by a margin of 1 no longer count.

All are convex in the metric, since l_g is convex and they grow with it. The sums over g are computed by the kernels
(`kernels.group_losses`, `gpu.device_losses`); here is what follows from them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np

from boostmetric.oracles.masses import Mass, MassMoments
from boostmetric.oracles.protocol import Moments, State

LossName = Literal["exponential", "logistic", "smooth-hinge"]


@dataclass(frozen=True)
class Loss(ABC):
    """A function of the mass S of all groups, and of their weight.

    Attributes
    ----------
    name : str
        As users call it, and as the kernels look it up.
    has_histogram : bool
        Whether the loss of single comparisons follows, for all steps, from a histogram of their growths.
    has_corners : bool
        Whether its second derivative jumps.
    """

    name: LossName
    has_histogram: bool = False
    has_corners: bool = False

    @abstractmethod
    def state(self, mass: Mass, weight: float) -> State:
        """Where the loss stands."""

    @abstractmethod
    def rate(self, log_mass: float, weight: float) -> float:
        """S times the derivative of the loss by S: what sums relative to S are multiplied with."""

    @abstractmethod
    def moments(self, moments: MassMoments, weight: float) -> Moments:
        """The loss with its derivatives by the step."""


class LogOfSum(Loss):
    """log S, whatever the weight."""

    def state(self, mass: Mass, weight: float) -> State:
        return State(mass.log_mass, mass.margin, mass.violated, mass.weight)

    def rate(self, log_mass: float, weight: float) -> float:
        return 1.0

    def moments(self, moments: MassMoments, weight: float) -> Moments:
        return Moments(moments.log_mass, moments.first, moments.second - moments.first**2)


class MeanOfGroups(Loss):
    """S divided by the weight of all groups (not of all comparisons: here a group counts once)."""

    def state(self, mass: Mass, weight: float) -> State:
        loss = self.rate(mass.log_mass, weight)
        return State(loss, loss * mass.margin, mass.violated, mass.weight)

    def rate(self, log_mass: float, weight: float) -> float:
        return math.exp(log_mass) / weight

    def moments(self, moments: MassMoments, weight: float) -> Moments:
        loss = np.exp(moments.log_mass) / weight
        return Moments(loss, loss * moments.first, loss * moments.second)


EXPONENTIAL = LogOfSum("exponential", has_histogram=True)
LOSSES: dict[str, Loss] = {
    loss.name: loss for loss in (EXPONENTIAL, MeanOfGroups("logistic"), MeanOfGroups("smooth-hinge", has_corners=True))
}
