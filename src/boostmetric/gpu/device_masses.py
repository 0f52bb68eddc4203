"""From sums over the sides of groups to the mass of all groups, on a device; the losses as in `kernels.groups`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from boostmetric.arrays.types import FloatArray


class Sums(NamedTuple):
    """Of one side of every group, in double precision.

    Attributes
    ----------
    log : Tensor of shape (n_groups,)
        Logarithm of the sum of the exponentials.
    mean : Tensor of shape (n_groups,)
        Of distances, or growths, by these weights.
    variance : Tensor of shape (n_groups,)
    """

    log: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor


def mass_moments(logistic: bool, omega: torch.Tensor, near: Sums, far: Sums) -> FloatArray:
    """Shift, mass, and its first and second derivative along a direction; the sums are about growths."""
    log_product = near.log + far.log
    m = near.mean - far.mean
    second = m * m + (near.variance + far.variance).clamp(min=0.0)
    if logistic:
        rate = omega * torch.sigmoid(log_product)
        mass = omega * torch.logaddexp(torch.zeros_like(log_product), log_product)
        second = second - torch.sigmoid(log_product) * m * m
        return _fetch(torch.zeros_like(mass[0]), mass.sum(), (rate * m).sum(), (rate * second).sum())
    log_mass = torch.log(omega) + log_product
    shift = log_mass.amax()
    mass = torch.exp(log_mass - shift)
    return _fetch(shift, mass.sum(), (mass * m).sum(), (mass * second).sum())


def mass_weights(
    logistic: bool, omega: torch.Tensor, near: Sums, far: Sums, count: torch.Tensor
) -> tuple[FloatArray, torch.Tensor]:
    """Shift, mass, weighted margin and violated weight; and the logarithms of the weights u of the groups.

    The sums are about distances; `count` are the comparisons of each group that are violated.
    """
    log_product = near.log + far.log
    if logistic:
        log_u = torch.log(omega) + torch.nn.functional.logsigmoid(log_product)
        shift = torch.zeros_like(log_u[0])
        mass = (omega * torch.logaddexp(torch.zeros_like(log_product), log_product)).sum()
    else:
        log_u = torch.log(omega) + log_product
        shift = log_u.amax()
        log_u = log_u - shift
        mass = torch.exp(log_u).sum()
    margin = (torch.exp(log_u) * (far.mean - near.mean)).sum()
    return _fetch(shift, mass, margin, (omega * count).sum()), log_u


def _fetch(*numbers: torch.Tensor) -> FloatArray:
    """All at once: each fetch waits for the device."""
    return np.asarray(torch.stack(numbers).cpu().numpy())
