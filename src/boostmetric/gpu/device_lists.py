"""Groups whose members are listed, including single comparisons, on a device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch

from boostmetric.arrays.types import FloatArray
from boostmetric.comparisons import Comparisons
from boostmetric.gpu.device_losses import Sums, mass_moments, mass_weights
from boostmetric.gpu.device_points import DevicePoints
from boostmetric.gpu.pieces import cut
from boostmetric.oracles.losses import Loss
from boostmetric.oracles.masses import Mass
from boostmetric.oracles.protocol import ONE
from boostmetric.oracles.shard import Shard, as_map

# The distance in a far place without a pair, chosen to have no weight; in a near place, minus this.
_EMPTY = 1e30
_MOST_PLACES = 2**31 - 1
# Maximum members of a piece, for sums of points and for sums of coefficients.
_LONGEST, _LONGEST_OF_COEFFICIENTS = 256, 1024
# Pieces whose sums are in memory at once.
_AT_ONCE = 2**17

NEAR, FAR = 1.0, -1.0  # the sign of distances in the exponent


@dataclass(frozen=True)
class GroupBatch:
    """Groups of similar sizes, one per row; near and far sides are two arrays, one after the other in memory.

    Attributes
    ----------
    groups : slice
        Groups of the batch, in the order of the batches.
    begin : int
        First place.
    n_near, n_far : int
        Number of near and far places per row.
    """

    groups: slice
    begin: int
    n_near: int
    n_far: int

    @property
    def middle(self) -> int:
        return self.begin + self.n_groups * self.n_near

    @property
    def end(self) -> int:
        return self.middle + self.n_groups * self.n_far

    @property
    def n_groups(self) -> int:
        return int(self.groups.stop - self.groups.start)

    def sides(self, flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Views of the near and far sides in an array of all places."""
        near, far = flat[self.begin : self.middle], flat[self.middle : self.end]
        return near.view(self.n_groups, self.n_near), far.view(self.n_groups, self.n_far)


class DeviceListShard(Shard):
    """Groups as rows of arrays, and their members also sorted by their points.

    Distances and growths are stored for every member: a pair that several groups share is stored several times.

    Parameters
    ----------
    points : DevicePoints
    comparisons : Comparisons
        Comparisons without open far sides.
    loss : Loss
    kernels : module
        `rows` or `fused_rows`.
    """

    def __init__(self, points: DevicePoints, comparisons: Comparisons, loss: Loss, kernels: ModuleType) -> None:
        super().__init__(points.n_features, comparisons.total_weight, loss)
        self._points, self._kernels = points, kernels
        device = points.device
        order, self._batches = _batches(comparisons)
        n_places = self._batches[-1].end
        if n_places >= _MOST_PLACES:
            raise ValueError(
                f"The groups take {n_places:,} places on the device; at most {_MOST_PLACES:,} are supported. Lower "
                'n_impostors, give fewer comparisons, or set device="cpu".'
            )
        self._omega = torch.as_tensor(comparisons.weights[order], device=device)
        # The extra place at the end has no member; it pads pieces that are shorter than others.
        member = torch.full((n_places + 1,), -1, dtype=torch.int32, device=device)
        bounds = torch.as_tensor(comparisons.bounds[2 * order[:, None] + np.arange(3)], device=device)
        for batch in self._batches:
            low, middle, high = bounds[batch.groups].T
            for side, begin, end in zip(batch.sides(member[:-1]), (low, middle), (middle, high), strict=True):
                position = begin[:, None] + torch.arange(side.shape[1], device=device)
                side.copy_(torch.where(position < end[:, None], position, -1))
        place = torch.nonzero(member >= 0)[:, 0]
        pairs = torch.as_tensor(comparisons.pairs, device=device)
        pair = torch.as_tensor(comparisons.members, device=device)[member[place]]
        self._first, self._second = torch.zeros((2, n_places + 1), dtype=torch.int32, device=device)
        self._first[place], self._second[place] = pairs[pair].T
        self._empty = torch.nonzero(member[:-1] < 0)[:, 0]
        self._by_first = cut(self._first[place], place, _LONGEST, n_places)
        self._by_second = cut(self._second[place], place, _LONGEST_OF_COEFFICIENTS, n_places)
        del member, place, pairs, pair
        self._others = [self._second[pieces.place] for pieces in self._by_first]

        self._d, self._h = torch.zeros((2, n_places), dtype=points.dtype, device=device)
        self._c = torch.zeros(n_places + 1, dtype=points.dtype, device=device)
        self._d[self._empty] = 1.0
        for batch in self._batches:
            near, far = batch.sides(self._d)
            near *= -_EMPTY
            far *= _EMPTY
        self._empty_d = self._d[self._empty]

    def rebuild(self, directions: FloatArray, step_sizes: FloatArray, at_once: bool = False) -> Mass:
        self._d.zero_()
        self._d[self._empty] = self._empty_d
        if at_once and len(directions):
            self.project(directions, step_sizes)
            return self.commit(1.0)
        return self.extend(directions, step_sizes)

    def extend(self, directions: FloatArray, step_sizes: FloatArray) -> Mass:
        for xi, step in zip(directions, step_sizes, strict=True):
            self.project(xi)
            self._kernels.grow(self._d, self._h, self._points.number(step))
        self._h.zero_()
        return self.commit(0.0)

    def project(self, xi: FloatArray, factors: FloatArray = ONE) -> None:
        pairs = self._first[:-1], self._second[:-1]
        if xi.ndim == 1:
            self._kernels.growths(self._points.times(xi[None])[0], *pairs, self._h)
            return
        if len(xi) > self.n_features and factors.min() >= 0.0:
            xi = as_map(xi, factors)
            factors = np.ones(len(xi))
        self._kernels.growths_along(self._points.along(xi), self._points.vector(factors), *pairs, self._h)

    def _gains(self, directions: FloatArray) -> FloatArray:
        gains = self._kernels.gains(self._points.along(directions), self._first[:-1], self._second[:-1], self._c[:-1])
        return np.asarray(gains.cpu().numpy() / self._mass)

    def _distances(self) -> tuple[torch.Tensor, ...]:
        return (self._d,)

    def _moments(self, w: float) -> FloatArray:
        step = self._points.number(w)
        near, far = self._sums(
            (self._kernels.moments(d, h, step, sign) for d, h, sign in self._sides(self._d, self._h))
        )
        return mass_moments(self._loss, self._omega, near, far)

    def _move(self, step: float) -> FloatArray:
        self._kernels.grow(self._d, self._h, self._points.number(step))
        near, far = self._sums(self._kernels.distances(d, sign) for d, sign in self._sides(self._d))
        count = torch.cat([self._kernels.count_reached(*batch.sides(self._d)) for batch in self._batches])
        sums, log_u = mass_weights(self._loss, self._omega, near, far, count)
        log_factors = {NEAR: log_u - near.log, FAR: log_u - far.log}
        for batch in self._batches:
            sides = zip(batch.sides(self._d), batch.sides(self._c[:-1]), (NEAR, FAR), strict=True)
            for d, c, sign in sides:
                self._kernels.coefficients(d, log_factors[sign][batch.groups], sign, c)
        return sums

    def _sides(self, *arrays: torch.Tensor) -> Iterator[tuple[Any, ...]]:
        """Yield the near and far side of every batch, in each of the arrays, with its sign."""
        for batch in self._batches:
            near, far = zip(*(batch.sides(array) for array in arrays), strict=True)
            yield *near, NEAR
            yield *far, FAR

    def _sums(self, parts: Iterator[Sums]) -> tuple[Sums, Sums]:
        """Concatenate the near and far sums of the batches."""
        together = list(parts)
        near, far = (Sums(*map(torch.cat, zip(*together[side::2], strict=True))) for side in (0, 1))
        return near, far

    def gram(self) -> FloatArray:
        half = torch.zeros((self.n_features, self.n_features), dtype=torch.float64, device=self._points.device)
        for pieces, others in zip(self._by_first, self._others, strict=True):
            for block in _slices(len(pieces.row)):
                row = pieces.row[block]
                sums = self._kernels.half_laplacian(self._points.rows, row, pieces.place[block], others[block], self._c)
                half += self._points.take(row).T @ sums
        for pieces in self._by_second:
            for block in _slices(len(pieces.row)):
                rows = self._points.take(pieces.row[block])
                degree = self._kernels.add_up(self._c, pieces.place[block])
                half += rows.T @ (0.5 * degree[:, None] * rows)
        return np.asarray((half + half.T).cpu().numpy() / self._mass)

    def matvec(self, x: FloatArray) -> FloatArray:
        (z,) = self._points.times(x[None])
        out = torch.zeros(self.n_features, dtype=torch.float64, device=self._points.device)
        for sorted_pieces, others in ((self._by_first, self._second), (self._by_second, self._first)):
            for pieces in sorted_pieces:
                for block in _slices(len(pieces.row)):
                    row, place = pieces.row[block], pieces.place[block]
                    flow = (self._c[place] * (z[row][:, None] - z[others[place]])).sum(1)
                    out += self._points.take(row).T @ flow
        return np.asarray(out.cpu().numpy() / self._mass)


def _batches(comparisons: Comparisons) -> tuple[np.ndarray, list[GroupBatch]]:
    """Order of the groups, and their batches: sizes of one power of two together, as wide as the largest needs."""
    near, far = comparisons.side_sizes
    kinds = np.frexp(np.stack([far, near]) - 1.0)[1]
    order = np.lexsort(kinds)
    changes = np.flatnonzero(np.any(np.diff(kinds[:, order]), axis=0)) + 1
    batches: list[GroupBatch] = []
    end = 0
    for groups in np.split(np.arange(len(order)), changes):
        members = order[groups]
        rows = slice(int(groups[0]), int(groups[-1]) + 1)
        batches.append(GroupBatch(rows, end, int(near[members].max()), int(far[members].max())))
        end = batches[-1].end
    return order, batches


def _slices(n: int) -> Iterator[slice]:
    """Yield slices of at most `_AT_ONCE` that cover `n`."""
    for begin in range(0, n, _AT_ONCE):
        yield slice(begin, min(begin + _AT_ONCE, n))
