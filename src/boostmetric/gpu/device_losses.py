"""The mass of all groups from sums over their sides, on a device, with the losses of `kernels.group_losses`.

To add a loss, write its function and name it in `_GROUP_LOSSES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from boostmetric.arrays.types import FloatArray
from boostmetric.oracles.losses import EXPONENTIAL, Loss


class Sums(NamedTuple):
    """Sums over one side of every group, in double precision.

    Attributes
    ----------
    log : Tensor of shape (n_groups,)
        Logarithm of the sum of the exponentials.
    mean : Tensor of shape (n_groups,)
        Mean of distances or growths, weighted by the exponentials.
    variance : Tensor of shape (n_groups,)
    """

    log: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor


class GroupLoss(NamedTuple):
    """For every group phi(l), phi'(l), log phi'(l), and 1 - phi''(l) / phi'(l)."""

    value: torch.Tensor
    slope: torch.Tensor
    log_slope: torch.Tensor
    bend: torch.Tensor


def _softplus(x: torch.Tensor) -> GroupLoss:
    slope = torch.sigmoid(x)
    value = torch.logaddexp(torch.zeros_like(x), x)
    return GroupLoss(value, slope, torch.nn.functional.logsigmoid(x), slope)


def _smooth_hinge(x: torch.Tensor) -> GroupLoss:
    slope = (1.0 + x).clamp(0.0, 1.0)
    value = slope * (x + 1.0 - 0.5 * slope)
    bend = (x >= 0).to(x.dtype) + (slope - 1.0) / slope.clamp(min=1e-100)
    return GroupLoss(value, slope, torch.log(slope), bend)


_GROUP_LOSSES: dict[str, Callable[[torch.Tensor], GroupLoss]] = {
    "logistic": _softplus,
    "smooth-hinge": _smooth_hinge,
}


def mass_moments(loss: Loss, omega: torch.Tensor, near: Sums, far: Sums) -> FloatArray:
    """Shift, mass, and its first and second derivative along a direction, from sums of growths."""
    l_ = near.log + far.log
    m = near.mean - far.mean
    second = m * m + (near.variance + far.variance).clamp(min=0.0)
    if loss == EXPONENTIAL:
        log_mass = torch.log(omega) + l_
        shift = log_mass.amax()
        mass = torch.exp(log_mass - shift)
        return _fetch(shift, mass.sum(), (mass * m).sum(), (mass * second).sum())
    of_group = _GROUP_LOSSES[loss.name](l_)
    mass, rate = omega * of_group.value, omega * of_group.slope
    second = second - of_group.bend * m * m
    return _fetch(torch.zeros_like(mass[0]), mass.sum(), (rate * m).sum(), (rate * second).sum())


def mass_weights(
    loss: Loss, omega: torch.Tensor, near: Sums, far: Sums, count: torch.Tensor
) -> tuple[FloatArray, torch.Tensor]:
    """Shift, mass, weighted margin and violated weight; and the logarithms of the weights u of the groups.

    `near` and `far` are sums of distances; `count` is the number of violated comparisons of each group.
    """
    l_ = near.log + far.log
    if loss == EXPONENTIAL:
        log_u = torch.log(omega) + l_
        shift = log_u.amax()
        log_u = log_u - shift
        mass = torch.exp(log_u).sum()
    else:
        of_group = _GROUP_LOSSES[loss.name](l_)
        log_u = torch.log(omega) + of_group.log_slope
        shift = torch.zeros_like(log_u[0])
        mass = (omega * of_group.value).sum()
    margin = (torch.exp(log_u) * (far.mean - near.mean)).sum()
    return _fetch(shift, mass, margin, (omega * count).sum()), log_u


def _fetch(*numbers: torch.Tensor) -> FloatArray:
    """Copy all numbers to the host at once, because each copy waits for the device."""
    return np.asarray(torch.stack(numbers).cpu().numpy())
