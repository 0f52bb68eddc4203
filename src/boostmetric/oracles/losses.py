"""Losses: from the mass of all groups to the number that boosting minimises.

Let N_g be the sum of exp(d) over the near pairs of group g, F_g the sum of exp(-d) over its far pairs, and
l_g = log(N_g F_g), which measures how far a group is from being satisfied, and is negative if it is satisfied:

- exponential: log sum_g omega_g exp(l_g), the log of the paper's sum over all comparisons;
- logistic: sum_g omega_g log(1 + exp(l_g)) / sum_g omega_g. The cost of a group that is far from satisfied grows
  linearly with its distances, not exponentially, so a few mislabelled points do not dominate. For single comparisons
  this is the ordinary logistic loss;
- smooth-hinge: sum_g omega_g phi(l_g) / sum_g omega_g with phi = 0 up to l = -1, a parabola up to 0, and a line beyond
  (Rennie and Srebro, 2005). Groups satisfied with a margin of 1 no longer count.

All are convex in the metric, since l_g is convex and they increase with it. The sums over g are computed by the kernels
(`kernels.group_losses`, `gpu.device_losses`); this module computes the loss from them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np

from boostmetric.oracles.masses import Mass, MassMoments, MassSlopes
from boostmetric.oracles.protocol import Moments, Slopes, State

LossName = Literal["exponential", "logistic", "smooth-hinge"]


@dataclass(frozen=True)
class Loss(ABC):
    """A function of the mass S of all groups, and of their weight.

    Attributes
    ----------
    name : str
        Name for users, and for the lookup in the kernels.
    has_histogram : bool
        Whether the loss of single comparisons can be computed for all steps from a histogram of their growths.
    has_corners : bool
        Whether its second derivative is discontinuous.
    """

    name: LossName
    has_histogram: bool = False
    has_corners: bool = False

    @abstractmethod
    def state(self, mass: Mass, weight: float) -> State:
        """Current value of the loss, and related sums."""

    @abstractmethod
    def rate(self, log_mass: float, weight: float) -> float:
        """S times the derivative of the loss by S: the factor for sums relative to S."""

    @abstractmethod
    def moments(self, moments: MassMoments, weight: float) -> Moments:
        """The loss and its derivatives by the step."""

    @abstractmethod
    def slopes(self, slopes: MassSlopes, weight: float) -> Slopes:
        """The loss and its derivatives by the factors of several directions."""


class LogOfSum(Loss):
    """The loss log S, which ignores the weight."""

    def state(self, mass: Mass, weight: float) -> State:
        return State(mass.log_mass, mass.margin, mass.violated, mass.weight)

    def rate(self, log_mass: float, weight: float) -> float:
        return 1.0

    def moments(self, moments: MassMoments, weight: float) -> Moments:
        return Moments(moments.log_mass, moments.first, moments.second - moments.first**2)

    def slopes(self, slopes: MassSlopes, weight: float) -> Slopes:
        return Slopes(slopes.log_mass, slopes.first)


class MeanOfGroups(Loss):
    """S divided by the weight of all groups (not of all comparisons: a group counts once)."""

    def state(self, mass: Mass, weight: float) -> State:
        loss = self.rate(mass.log_mass, weight)
        return State(loss, loss * mass.margin, mass.violated, mass.weight)

    def rate(self, log_mass: float, weight: float) -> float:
        return math.exp(log_mass) / weight

    def moments(self, moments: MassMoments, weight: float) -> Moments:
        loss = np.exp(moments.log_mass) / weight
        return Moments(loss, loss * moments.first, loss * moments.second)

    def slopes(self, slopes: MassSlopes, weight: float) -> Slopes:
        loss = self.rate(slopes.log_mass, weight)
        return Slopes(loss, loss * slopes.first)


EXPONENTIAL = LogOfSum("exponential", has_histogram=True)
LOSSES: dict[str, Loss] = {
    loss.name: loss for loss in (EXPONENTIAL, MeanOfGroups("logistic"), MeanOfGroups("smooth-hinge", has_corners=True))
}
