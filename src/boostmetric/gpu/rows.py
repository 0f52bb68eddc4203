"""Sides of groups as rows of arrays: sums along rows, and the direction from members that share a point.

`fused_rows` has the same functions, each fused into one pass over memory.
"""

from __future__ import annotations

import torch

from boostmetric.gpu.device_losses import Sums


def growths(z: torch.Tensor, first: torch.Tensor, second: torch.Tensor, h: torch.Tensor) -> None:
    """Write h = (z[first] - z[second])**2."""
    h.copy_((z[first] - z[second]).square())


def growths_along(
    z: torch.Tensor, factors: torch.Tensor, first: torch.Tensor, second: torch.Tensor, h: torch.Tensor
) -> None:
    """Write h = sum_k factors[k] (z[first, k] - z[second, k])**2."""
    total = torch.zeros(h.shape, dtype=torch.float64, device=h.device)
    for along, factor in zip(z.T, factors, strict=True):
        total += factor * (along[first] - along[second]).square()
    h.copy_(total)


def gains(z: torch.Tensor, first: torch.Tensor, second: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """Sum c (z[first, k] - z[second, k])**2 for each k."""
    c = c.double()
    return torch.stack([(c * (along[first] - along[second]).square()).sum() for along in z.T])


def grow(d: torch.Tensor, h: torch.Tensor, step: torch.Tensor) -> None:
    """Compute d += step * h."""
    d += step.to(d.dtype) * h


def moments(d: torch.Tensor, h: torch.Tensor, step: torch.Tensor, sign: float) -> Sums:
    """Sums of h along rows, with weights exp(sign * (d + step * h))."""
    x = sign * (d + step.to(d.dtype) * h)
    return _sums(x, h)


def distances(d: torch.Tensor, sign: float) -> Sums:
    """Sums of d along rows, with weights exp(sign * d)."""
    return _sums(sign * d, d)


def _sums(x: torch.Tensor, value: torch.Tensor) -> Sums:
    top = x.amax(1, keepdim=True)
    e = torch.exp(x - top)
    total = e.sum(1, dtype=torch.float64)
    mean = (e * value).sum(1, dtype=torch.float64) / total
    apart = value - mean[:, None].to(e.dtype)
    variance = (e * apart * apart).sum(1, dtype=torch.float64) / total  # in this order, empty places give 0, not NaN
    return Sums(top[:, 0].double() + torch.log(total), mean, variance)


def count_reached(near: torch.Tensor, far: torch.Tensor) -> torch.Tensor:
    """For each row, the number of pairs of a near and a far number in which the near one is at least as large."""
    # For each far number, how many near numbers are below it.
    below = torch.searchsorted(near.sort(1).values, far.contiguous(), side="left")
    return (near.shape[1] - below).sum(1)


def coefficients(d: torch.Tensor, log_factor: torch.Tensor, sign: float, c: torch.Tensor) -> None:
    """Write c = -sign * exp(sign * d + log_factor), with one factor per row."""
    c.copy_(-sign * torch.exp((sign * d).double() + log_factor[:, None]))


def add_up(c: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    """Sum the coefficients at the places of each row."""
    return c[place].sum(1, dtype=torch.float64)


def half_laplacian(
    points: torch.Tensor, row: torch.Tensor, place: torch.Tensor, other: torch.Tensor, c: torch.Tensor
) -> torch.Tensor:
    """Compute sum_m c_m (a_row / 2 - a_other) over the members m of each piece.

    Parameters
    ----------
    points : Tensor of shape (n_points, n_features)
    row : Tensor of shape (n_pieces,)
        The point that the members of a piece share.
    place, other : Tensor of shape (n_pieces, width)
        Place of the coefficient of each member, and its other point.
    c : Tensor of shape (n_places + 1,)
    """
    coefficient = c[place].double()
    sums = torch.einsum("pm,pmf->pf", coefficient, points[other].double())
    return 0.5 * coefficient.sum(1, keepdim=True) * points[row].double() - sums
