"""Far sides that are "all points of another class": sums over rows of a matrix of all pairs, made block by block.

Points are mapped by a linear map of the metric, scaled so that the squared distance d of points i and k satisfies
log2(e) d = q_i + q_k - p_i'p_k, where q = |p|^2 / 2. The *exponents* of row i are s_ik = p_i'p_k - q_k, which equals
q_i - log2(e) d_ik. So exp(-d_ik) = 2^(s_ik - q_i), and each pair needs only its entry of a matrix product and one
subtraction. Pairs of the same class have the exponent -1e30.

The functions here go over blocks of rows in double precision. They are slow and simple: the reference for the kernels
in `fused_far`, and the fallback where those cannot be used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch

_HIDDEN = -1e30
MOST_LENGTH = math.inf  # mapped points may have any length
# Pairs per block: enough to keep a device busy; on the CPU, few enough for its caches.
BLOCK, _BLOCK_ON_CPU = 2**25, 2**20
# Rows and columns are padded to multiples of this.
PADDING = 128
# Halves are scaled so that the largest number is about 2 to this power; products of two are then far from overflow.
_LARGEST_IN_HALVES = 10


@dataclass(frozen=True)
class Side:
    """Rows or columns of the matrix of pairs.

    Attributes
    ----------
    p : Tensor of shape (n_padded, width)
        Mapped points, followed by at least one row of zeros as padding.
    q : Tensor of shape (n_padded,)
        Half the squared length of each, in double precision; in the padding, so large that it has no weight.
    label : Tensor of shape (n_padded,)
        Classes; -1 in the padding.
    n : int
        Number of points.
    """

    p: torch.Tensor
    q: torch.Tensor
    label: torch.Tensor
    n: int

    @classmethod
    def of(cls, p: torch.Tensor, q: torch.Tensor, label: torch.Tensor) -> Side:
        """Pad mapped points; up to 64 features are padded to a power of two of at least 16, as matrix units need."""
        n, n_features = p.shape
        width = n_features if n_features > 64 else max(16, 1 << (n_features - 1).bit_length())
        n_padded = (n // PADDING + 1) * PADDING
        padded = p.new_zeros((n_padded, width))
        padded[:n, :n_features] = p
        half = p.new_full((n_padded,), -_HIDDEN, dtype=torch.float64)
        half[:n] = q
        classes = label.new_full((n_padded,), -1, dtype=torch.int32)
        classes[:n] = label
        return cls(padded, half, classes, n)

    @cached_property
    def halves(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The points in halves, for `fused_far`."""
        return halves(self.p)

    def take(self, numbers: torch.Tensor | slice, n: int) -> Side:
        """Select points, in the given order."""
        return Side(self.p[numbers], self.q[numbers], self.label[numbers], n)


def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Split numbers into a sum of two 16-bit numbers, and return both with their unit."""
    _, exponent = torch.frexp(x.abs().amax())
    scaled = torch.ldexp(x, _LARGEST_IN_HALVES - exponent)
    high = scaled.half()
    unit = torch.ldexp(torch.ones((), dtype=torch.float32, device=x.device), exponent - _LARGEST_IN_HALVES)
    return high, (scaled - high).half(), unit


@dataclass(frozen=True)
class Bins:
    """Columns sorted into bins of their coordinates along a direction.

    Attributes
    ----------
    columns : Side
        Columns of each bin in turn, padded to a multiple of `PADDING`.
    bounds : Tensor of shape (n_bins + 1,)
        Start of each bin, and end of the last one.
    basis : Tensor of shape (n_sorted, n_nodes)
        Polynomials of the nodes at each column.
    """

    columns: Side
    bounds: torch.Tensor
    basis: torch.Tensor


def log_sums(rows: Side, columns: Side, thresholds: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """For each row, log2 of the sum of 2^s, the mean of s with weights 2^s, and how often s reaches a threshold.

    Parameters
    ----------
    rows, columns : Side
    thresholds : Tensor of shape (n_rows, n_near)

    Returns
    -------
    log_sum, mean, count : Tensor of shape (n_rows,)
    """
    answers = []
    for block, s in _blocks(rows, columns):
        top = s.amax(1, keepdim=True)
        e = torch.exp2(s - top)
        total = e.sum(1)
        mean = (e * s).sum(1) / total
        count = sum((s >= thresholds[block, j, None]).sum(1) for j in range(thresholds.shape[1]))
        answers.append(torch.stack([top[:, 0] + torch.log2(total), mean, torch.as_tensor(count).double()]))
    log_sum, mean, count = torch.cat(answers, 1)
    return log_sum, mean, count


def products(
    rows: Side, columns: Side, log_sum: torch.Tensor, bias: torch.Tensor, values: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """If rows and columns are the same points, weighted sums of values for each row, and sums of weights per column.

    Parameters
    ----------
    rows, columns : Side
        The same points; if the metric is not positive semidefinite, some features of the rows have the opposite sign.
    log_sum : Tensor of shape (n,)
        From `log_sums`; the weights of row i are 2^(s_ik - log_sum_i).
    bias : Tensor of shape (n,)
        log2(u_i) + q_i - log_sum_i. The column sums are sums of u_i times the weights of row i. Because distances are
        symmetric, the sum of column k is the sum of 2^(s_ki - q_k + bias_i) over i, which is a sum over a row.
    values : Tensor of shape (n, n_values)

    Returns
    -------
    sums : Tensor of shape (n, n_values)
    column_sums : Tensor of shape (n,)
    """
    answers = []
    wide = columns.p.new_zeros((len(columns.p), values.shape[1]), dtype=torch.float64)
    wide[: columns.n] = values
    own_bias = torch.full((len(columns.p),), _HIDDEN, dtype=torch.float64, device=columns.p.device)
    own_bias[: columns.n] = bias
    for block, s in _blocks(rows, columns):
        sums = torch.exp2(s - log_sum[block, None]) @ wide
        column_sums = torch.exp2(s - rows.q[block, None] + own_bias).sum(1)
        answers.append(torch.cat([sums, column_sums[:, None]], 1))
    together = torch.cat(answers)
    return together[:, :-1], together[:, -1]


def table(rows: Side, log_sum: torch.Tensor, bins: Bins) -> torch.Tensor:
    """Sum the polynomials of the nodes over each bin, with the weights of each row.

    Returns
    -------
    Tensor of shape (n_rows, n_bins * n_nodes)
    """
    out = []
    bounds = bins.bounds.tolist()
    for begin, end in pairwise(bounds):
        columns, basis = bins.columns.take(slice(begin, end), end - begin), bins.basis[begin:end].double()
        out.append(torch.cat([torch.exp2(s - log_sum[block, None]) @ basis for block, s in _blocks(rows, columns)]))
    return torch.cat(out, 1)


def table_sums(
    table: torch.Tensor, own: torch.Tensor, nodes: torch.Tensor, step: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sums over each row of a table of exp(-step h), and of the same times h and h**2.

    Parameters
    ----------
    table : Tensor of shape (n_rows, n_bins * n_nodes)
    own : Tensor of shape (n_rows,)
        Coordinates of the rows along the direction; h is the squared difference from the coordinate of a node.
    nodes : Tensor of shape (n_bins * n_nodes,)
        Coordinates of the nodes.
    step : Tensor of shape ()
    """
    parts = []
    size = max(1, (BLOCK if table.is_cuda else _BLOCK_ON_CPU) // len(nodes))
    for begin in range(0, len(own), size):
        h = (own[begin : begin + size, None] - nodes).square()
        e = table[begin : begin + size] * torch.exp(-step * h)
        parts.append(torch.stack([e.sum(1), (e * h).sum(1), (e * h * h).sum(1)]))
    total, first, second = torch.cat(parts, 1)
    return total, first, second


def moments(
    rows: Side, columns: Side, row_z: torch.Tensor, column_z: torch.Tensor, factors: torch.Tensor, step: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """For each row, log2 of the sum of 2^(s - step h), and mean and variance of the growth h with these weights.

    Parameters
    ----------
    row_z, column_z : Tensor of shape (n_directions, n_rows or n_columns)
        Coordinates along the directions; h is the sum of factors times squared differences.
    factors : Tensor of shape (n_directions,)
    step : float
        The step times log2(e).
    """
    answers = []
    weighted = factors[:, None] * row_z
    row_squares, column_squares = (weighted * row_z).sum(0), factors @ column_z.square()
    for block, s in _blocks(rows, columns):
        h = torch.zeros_like(s)
        if len(factors) == 1:
            h[:, : columns.n] = factors * (row_z[0, block, None] - column_z[0]).square()
        else:  # a matrix product, because there may be as many directions as features
            h[:, : columns.n] = row_squares[block, None] + column_squares - 2 * (weighted[:, block].T @ column_z)
        s -= step * h
        top = s.amax(1, keepdim=True)
        e = torch.exp2(s - top)
        total = e.sum(1)
        mean = (e * h).sum(1) / total
        variance = (e * (h - mean[:, None]).square()).sum(1) / total
        answers.append(torch.stack([top[:, 0] + torch.log2(total), mean, variance]))
    log_sum, mean, variance = torch.cat(answers, 1)
    return log_sum, mean, variance


def _blocks(rows: Side, columns: Side) -> Iterator[tuple[slice, torch.Tensor]]:
    """Yield blocks of rows, with their exponents in double precision."""
    p, q = columns.p.double().T, columns.q
    size = max(1, (BLOCK if rows.p.is_cuda else _BLOCK_ON_CPU) // max(1, len(columns.p)))
    for begin in range(0, rows.n, size):
        block = slice(begin, min(begin + size, rows.n))
        s = rows.p[block].double() @ p
        s -= q
        s[rows.label[block, None] == columns.label] = _HIDDEN
        s[:, columns.n :] = _HIDDEN
        yield block, s
