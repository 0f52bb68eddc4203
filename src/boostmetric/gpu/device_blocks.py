"""Groups whose far side is "all points of another class", on a device."""

from __future__ import annotations

import math
from types import ModuleType
from typing import NamedTuple

import numpy as np
import torch

from boostmetric.arrays.types import FloatArray
from boostmetric.comparisons import Comparisons
from boostmetric.gpu import far as plain
from boostmetric.gpu.device_losses import Sums, mass_moments, mass_weights
from boostmetric.gpu.device_points import DevicePoints
from boostmetric.gpu.far import PADDING, Bins, Side
from boostmetric.kernels.chebyshev import N_BINS, N_NODES, TO_SERIES, node_coordinates
from boostmetric.oracles.losses import Loss
from boostmetric.oracles.masses import Mass
from boostmetric.oracles.protocol import ONE
from boostmetric.oracles.shard import Shard

_LOG2_E = 1 / math.log(2)
_EMPTY = 1e30
# If step * (half the range of the coordinates)**2 is at most this, a table is exact to the rounding of its dtype.
_REACH = {torch.float64: 30.0, torch.float32: 480.0}
# The table is not used for a far side whose sum has fallen below this fraction of its value at step 0,
_LEAST_OF_TABLE = {torch.float64: 1e-3, torch.float32: 1e-4}
# or whose mean growth is less than this, in units of the squared bin width.
_LEAST_GROWTH = {torch.float64: 1e-4, torch.float32: 1e-2}
# Eigenvalues of the metric below this fraction of the largest are rounding errors.
_ROUNDING = 1e-13
# Entries of differences of near pairs in memory at once.
_AT_ONCE = 2**24


class DeviceBlockShard(Shard):
    """Groups with an anchor each, and all points of other classes on the far side.

    The only state is the metric X: it maps the points, and every pass computes the exponents of all pairs from the
    mapped points (see `far`).

    Parameters
    ----------
    points : DevicePoints
    comparisons : Comparisons
        Comparisons with open far sides only.
    loss : Loss
    kernels : module
        `far` or `fused_far`.
    """

    def __init__(self, points: DevicePoints, comparisons: Comparisons, loss: Loss, kernels: ModuleType) -> None:
        super().__init__(points.n_features, comparisons.total_weight, loss)
        assert comparisons.classes is not None
        self._kernels = self._wanted = kernels  # `far` instead, while points are too long for these
        device = points.device
        in_class = np.flatnonzero(comparisons.classes.label >= 0)
        column = np.full(len(comparisons.classes.label), -1)
        column[in_class] = np.arange(len(in_class))
        self._points = points
        self._in_class = torch.as_tensor(in_class, device=device)
        self._label = torch.as_tensor(comparisons.classes.label[in_class], device=device)
        own = column[comparisons.anchors]
        self._own = torch.as_tensor(own, device=device)
        self._all_are_anchors = np.array_equal(own, np.arange(len(in_class)))
        self._omega = torch.as_tensor(comparisons.weights, device=device)

        n_near, _ = comparisons.side_sizes
        there = np.arange(n_near.max()) < n_near[:, None]
        first, second = np.zeros((2, *there.shape), dtype=np.int64)
        first[there], second[there] = comparisons.pairs[comparisons.members].T
        self._there = torch.as_tensor(there, device=device)
        self._filled = torch.as_tensor(np.flatnonzero(there), device=device)
        self._near = torch.as_tensor(first, device=device), torch.as_tensor(second, device=device)

        self._longest = 0.0
        self._X = np.zeros((self.n_features, self.n_features))
        self._directions, self._factors = np.zeros((1, self.n_features)), ONE
        self._gram: FloatArray | None = None
        self._table: torch.Tensor | None = None

    def rebuild(self, directions: FloatArray, step_sizes: FloatArray, at_once: bool = False) -> Mass:
        self._X[:] = 0.0
        return self.extend(directions, step_sizes)

    def extend(self, directions: FloatArray, step_sizes: FloatArray) -> Mass:
        for xi, step in zip(directions, step_sizes, strict=True):
            self._grow(xi[None], ONE, step)
        self.project(np.zeros(self.n_features))
        return self.commit(0.0)

    def _grow(self, directions: FloatArray, factors: FloatArray, step: float) -> None:
        self._X += (directions.T * (step * factors)) @ directions

    def project(self, xi: FloatArray, factors: FloatArray = ONE) -> None:
        self._directions, self._factors = np.atleast_2d(xi), np.asarray(factors)
        self._z = self._points.times(self._directions)
        first, second = self._near
        self._near_h = torch.zeros(first.shape, dtype=torch.float64, device=self._points.device)
        for z, factor in zip(self._z, self._factors.tolist(), strict=True):
            self._near_h += factor * (z[first] - z[second]).square()
        self._line: _DeviceLine | None = None
        self._table = None

    def _distances(self) -> tuple[FloatArray, ...]:
        return (self._X,)

    def _move(self, step: float) -> FloatArray:
        if step:
            self._grow(self._directions, self._factors, step)
        self._map_points()
        # Distances are treated as equal if they are equal up to rounding.
        rounding = 4 * torch.finfo(self._columns.p.dtype).eps * (self._row_q.abs() + self._longest)
        thresholds = self._row_q[:, None] - _LOG2_E * self._near_d - rounding[:, None]
        self._log_sum, mean, count = self._kernels.log_sums(self._rows, self._columns, thresholds)
        near = _near_sums(self._near_d, self._near_d)
        log_far, far_mean = (self._log_sum - self._row_q) / _LOG2_E, (self._row_q - mean) / _LOG2_E
        sums, self._log_u = mass_weights(
            self._loss, self._omega, near, Sums(log_far, far_mean, torch.zeros_like(mean)), count
        )
        self._log_near = near.log
        self._gram = self._table = None
        return sums

    def _map_points(self) -> None:
        """Map points by a factor of X; if X is not positive semidefinite, some of its rows have a negative sign."""
        # Scaled so that all features count alike, whatever their size.
        unit = np.sqrt(np.abs(np.diag(self._X)))
        unit[unit == 0.0] = 1.0
        values, vectors = np.linalg.eigh(self._X / np.outer(unit, unit))
        values[np.abs(values) <= _ROUNDING * np.abs(values).max()] = 0.0
        factor = unit[:, None] * vectors * np.sqrt(2 * _LOG2_E * np.abs(values))
        sign = self._points.vector(np.sign(values))
        mapping = self._points.vector(factor.T)
        p = torch.cat([block @ mapping.T for _, block in self._points.blocks()])
        first, second = self._near
        near_d = torch.zeros(first.shape, dtype=torch.float64, device=self._points.device)
        for j in range(first.shape[1]):
            near_d[:, j] = 0.5 / _LOG2_E * ((p[first[:, j]] - p[second[:, j]]).square() @ sign)
        self._near_d = torch.where(self._there, near_d, -_EMPTY)
        stored = p[self._in_class]
        self._longest = float((0.5 * (stored.square() @ sign)).abs().amax())
        self._kernels = self._wanted if self._longest <= self._wanted.MOST_LENGTH else plain
        if self._kernels is self._wanted:
            stored = stored.to(self._points.dtype)
        q = 0.5 * (stored.double().square() @ sign)
        self._columns = Side.of(stored, q, self._label)
        signed = self._columns
        if values.min() < 0.0:
            signed = Side.of(stored * sign.to(stored.dtype), q, self._label)
        self._rows = self._signed = signed
        if not self._all_are_anchors:
            n_padded = (len(self._own) // PADDING + 1) * PADDING
            chosen = self._own.new_full((n_padded,), signed.n)
            chosen[: len(self._own)] = self._own
            self._rows = signed.take(chosen, len(self._own))
        self._row_q = self._rows.q[: self._rows.n]

    def gram(self) -> FloatArray:
        if self._gram is None:
            self._gram = np.asarray((self._near_gram() + self._far_gram()).cpu().numpy() / self._mass)
        return self._gram

    def matvec(self, x: FloatArray) -> FloatArray:
        return np.asarray(self.gram() @ x)

    def _near_gram(self) -> torch.Tensor:
        c = -torch.exp(self._log_u[:, None] + self._near_d - self._log_near[:, None])
        first, second, c = (numbers.flatten()[self._filled] for numbers in (*self._near, c))
        gram = torch.zeros((self.n_features, self.n_features), dtype=torch.float64, device=c.device)
        size = max(1, _AT_ONCE // self.n_features)
        for begin in range(0, len(c), size):
            block = slice(begin, begin + size)
            difference = self._points.take(first[block]) - self._points.take(second[block])
            gram += difference.T @ (c[block, None] * difference)
        return gram

    def _far_gram(self) -> torch.Tensor:
        columns, n = self._columns, self._columns.n
        log_sum = torch.full((n,), _EMPTY, dtype=torch.float64, device=self._points.device)
        u = torch.zeros(n, dtype=torch.float64, device=self._points.device)
        log_sum[self._own] = self._log_sum
        u.index_put_((self._own,), torch.exp(self._log_u), accumulate=True)
        bias = torch.log2(u) + columns.q[:n] - log_sum
        points = self._points.take(self._in_class)
        sums, column_sums = self._kernels.products(self._signed, columns, log_sum, bias.clamp(min=-_EMPTY), points)
        half = points.T @ (0.5 * (u + column_sums)[:, None] * points - u[:, None] * sums)
        return half + half.T

    def _moments(self, w: float) -> FloatArray:
        near = _near_sums(self._near_d + w * self._near_h, self._near_h)
        return mass_moments(self._loss, self._omega, near, self._far_moments(w))

    def _far_moments(self, w: float) -> Sums:
        """Sums of growths over far sides, from a table of the direction where that is accurate enough."""
        if self._line is None:
            self._line = self._measured()
        line = self._line
        if w > line.reach:
            return self._exact_moments(w, self._rows, self._own, self._row_q)
        if self._table is None:
            self._table = self._kernels.table(self._rows, self._log_sum, self._bins(line))
        total, first, second = self._kernels.table_sums(self._table, line.own, line.nodes, self._points.number(w))
        kept = total.clamp(min=1e-30)
        mean = first / kept
        least = _LEAST_GROWTH[self._points.dtype] * line.width**2
        doubtful = torch.nonzero((total < _LEAST_OF_TABLE[self._points.dtype]) | (mean < least))[:, 0]
        sums = Sums((self._log_sum - self._row_q) / _LOG2_E + torch.log(kept), mean, second / kept - mean * mean)
        if len(doubtful):
            rows = self._rows.take(doubtful, len(doubtful))
            exact = self._exact_moments(w, rows, self._own[doubtful], self._row_q[doubtful])
            for whole, part in zip(sums, exact, strict=True):
                whole[doubtful] = part
        return sums

    def _exact_moments(self, w: float, rows: Side, own: torch.Tensor, q: torch.Tensor) -> Sums:
        z, factors = self._z[:, self._in_class], self._points.vector(self._factors)
        log_sum, mean, variance = plain.moments(rows, self._columns, z[:, own], z, factors, w * _LOG2_E)
        return Sums((log_sum - q) / _LOG2_E, mean, variance)

    def _measured(self) -> _DeviceLine:
        """Compute the points along the direction."""
        along = self._z[0][self._in_class]
        low, high = torch.stack(torch.aminmax(along)).tolist()
        width = (high - low) / N_BINS
        has_table = len(self._z) == 1 and self._factors[0] == 1.0 and width > 0.0
        reach = _REACH[self._points.dtype] / (0.5 * (high - low)) ** 2 if has_table else -1.0
        return _DeviceLine(
            along, along[self._own], self._points.vector(node_coordinates(low, width)), low, width, reach
        )

    def _bins(self, line: _DeviceLine) -> Bins:
        """Sort the columns into bins of the direction."""
        place = (line.along - line.low) / line.width
        number = place.long().clamp(max=N_BINS - 1)
        order = torch.argsort(number, stable=True)
        counts = torch.bincount(number, minlength=N_BINS)
        padded = (counts + PADDING - 1) // PADDING * PADDING
        ends = torch.cumsum(padded, 0)
        shift = (ends - padded) - (torch.cumsum(counts, 0) - counts)
        source = order.new_full((int(ends[-1]),), self._columns.n)
        source[torch.arange(len(order), device=order.device) + shift[number[order]]] = order
        # Chebyshev polynomials at the coordinates, and from these the polynomials of the nodes.
        x = (2 * (place - number) - 1).clamp(-1.0, 1.0)
        angles = torch.arccos(x)[:, None] * torch.arange(N_NODES, dtype=torch.float64, device=x.device)
        polynomials = torch.cos(angles) @ self._points.vector(TO_SERIES)
        basis = torch.cat([polynomials, polynomials.new_zeros((1, N_NODES))])[source]
        bounds = torch.cat([ends.new_zeros(1), ends]).to(torch.int32)
        return Bins(self._columns.take(source, len(source)), bounds, basis)


class _DeviceLine(NamedTuple):
    """Points along a direction.

    Attributes
    ----------
    along, own : Tensor of shape (n_columns,), (n_rows,)
        Coordinates of columns and rows.
    nodes : Tensor of shape (n_bins * n_nodes,)
    low, width : float
        Start of the first bin, and width of each.
    reach : float
        Largest step for which a table is accurate; negative for several directions.
    """

    along: torch.Tensor
    own: torch.Tensor
    nodes: torch.Tensor
    low: float
    width: float
    reach: float


def _near_sums(d: torch.Tensor, value: torch.Tensor) -> Sums:
    """Sums over near sides with weights exp(d); empty places have no weight."""
    log = torch.logsumexp(d, 1)
    weight = torch.exp(d - log[:, None])
    mean = (weight * value).sum(1)
    apart = value - mean[:, None]
    return Sums(log, mean, (weight * apart * apart).sum(1))
