"""Far sides in one pass each, without an array of all pairs: kernels in Triton, in the style of flash attention.

A program holds some rows and goes over the columns tile by tile: matrix units compute the exponents of a tile, and the
sums of them are accumulated in registers; nothing of the size of a tile is ever written. `boostmetric.gpu.far` defines
what is computed; these functions are for single precision and take the same arguments.

Matrix units multiply short numbers. So each number is the sum of two 16-bit halves (`far.halves`), and a product is the
sum of three. This has single precision except for a bit or two, at two thirds of the speed of products of one shortened
number (``tf32``), which would have errors of 1e-2 in the exponents of ordinary data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from boostmetric.gpu import far

if TYPE_CHECKING:
    from boostmetric.gpu.far import Bins, Side

# Rows and columns of a tile, and number of warps; measured to be fastest on an H200.
_TILE_OF_SUMS, _TILE_OF_PRODUCTS, _TILE_OF_TABLE = (64, 128, 4), (128, 64, 8), (128, 64, 4)
_MOST_THRESHOLDS = 16
# Values that are summed at once.
_VALUES = 64
# Half the squared length of mapped points up to which their exponents, which are of that size, are accurate to 2e-4 in
# single precision: pairs are then not short compared with the spread of all points.
MOST_LENGTH = 1e3
# Features of a product; a tile has a single product. Several products, for more features, gave wrong results in one of
# the kernels on a GPU (Triton 3.6, whose interpreter was right), so more features are left to `far`.
MOST_FEATURES = 64
# Minimum number of programs, if there are enough columns to distribute: several for each multiprocessor.
_PROGRAMS = 2048
_HIDDEN = tl.constexpr(-1e30)  # the exponent of pairs that are not far pairs
# Weights, which do not exceed 1, are multiplied by 2 to this power, so that small ones keep all their bits.
_SCALE = tl.constexpr(14.0)


def _points(rows: Side, columns: Side) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows and columns in halves, and the unit of their products; the unit of a subset of points may differ."""
    row_high, row_low, row_unit = rows.halves
    column_high, column_low, column_unit = columns.halves
    return row_high, row_low, column_high, column_low, row_unit * column_unit


@triton.jit
def _add_products(a_high, a_low, b_high, b_low, products):
    """Add the product of two matrices given in halves, without that of the low halves, which is lost in rounding.

    Matrix units truncate instead of rounding, so do not accumulate sums over many tiles in them.
    """
    products = tl.dot(a_low, b_high, products)
    products = tl.dot(a_high, b_low, products)
    return tl.dot(a_high, b_high, products)


@triton.jit
def _halves(x):
    """Split a tile into halves."""
    high = x.to(tl.float16)
    return high, (x - high.to(tl.float32)).to(tl.float16)


@triton.jit
def _exponents(high, low, row_label, columns_high, columns_low, column, unit, q, label, width: tl.constexpr):
    """Compute s = p_i'p_k - q_k for a tile whose rows are given in halves."""
    place = column[:, None] * width + tl.arange(0, width)[None, :]
    column_high, column_low = tl.load(columns_high + place), tl.load(columns_low + place)
    products = tl.zeros((high.shape[0], column.shape[0]), dtype=tl.float32)
    products = _add_products(high, low, tl.trans(column_high), tl.trans(column_low), products)
    s = products * unit - tl.load(q + column)[None, :]
    return tl.where(row_label[:, None] == tl.load(label + column)[None, :], _HIDDEN, s)


@triton.jit
def _log_sums(
    rows_high,
    rows_low,
    columns_high,
    columns_low,
    units,
    row_labels,
    thresholds,
    q,
    labels,
    out,
    n_rows,
    n_columns,
    columns_each,
    n_near: tl.constexpr,
    width: tl.constexpr,
    block_rows: tl.constexpr,
    block_columns: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    begin = tl.program_id(1) * columns_each
    place = row[:, None] * width + tl.arange(0, width)[None, :]
    high, low, unit = tl.load(rows_high + place), tl.load(rows_low + place), tl.load(units)
    row_label = tl.load(row_labels + row)
    top = tl.full((block_rows,), _HIDDEN, dtype=tl.float32)
    total = tl.zeros((block_rows,), dtype=tl.float32)
    first = tl.zeros((block_rows,), dtype=tl.float32)
    count = tl.zeros((block_rows,), dtype=tl.float32)
    for start in range(begin, tl.minimum(begin + columns_each, n_columns), block_columns):
        column = start + tl.arange(0, block_columns)
        s = _exponents(high, low, row_label, columns_high, columns_low, column, unit, q, labels, width)
        highest = tl.maximum(top, tl.max(s, 1))
        e = tl.exp2(s - highest[:, None])
        shrink = tl.exp2(top - highest)
        total = total * shrink + tl.sum(e, 1)
        first = first * shrink + tl.sum(e * s, 1)
        top = highest
        for near in tl.static_range(n_near):
            threshold = tl.load(thresholds + near * n_rows + row)
            count += tl.sum((s >= threshold[:, None]).to(tl.float32), 1)
    place = out + tl.program_id(1).to(tl.int64) * 4 * n_rows + row
    tl.store(place, top)
    tl.store(place + n_rows, total)
    tl.store(place + 2 * n_rows, first)
    tl.store(place + 3 * n_rows, count)


def log_sums(rows: Side, columns: Side, thresholds: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As in `far`, which is used if there are many thresholds: the kernel unrolls its loop over them."""
    if thresholds.shape[1] > _MOST_THRESHOLDS:
        return far.log_sums(rows, columns, thresholds)
    n_rows, n_columns, width = len(rows.p), len(columns.p), columns.p.shape[1]
    block_rows, block_columns, n_warps = _TILE_OF_SUMS
    n_parts, columns_each = _parts(n_rows // block_rows, n_columns, block_columns)
    padded = torch.full((thresholds.shape[1], n_rows), torch.inf, dtype=torch.float32, device=rows.p.device)
    padded[:, : rows.n] = thresholds.T
    out = torch.empty((n_parts, 4, n_rows), dtype=torch.float32, device=rows.p.device)
    _log_sums[(n_rows // block_rows, n_parts)](
        *_points(rows, columns),
        rows.label,
        padded,
        columns.q.float(),
        columns.label,
        out,
        n_rows,
        n_columns,
        columns_each,
        n_near=len(padded),
        width=width,
        block_rows=block_rows,
        block_columns=block_columns,
        num_warps=n_warps,
    )
    top, total, first, count = out[:, :, : rows.n].double().unbind(1)
    highest = top.amax(0)
    shrink = torch.exp2(top - highest)
    total = (total * shrink).sum(0)
    return highest + torch.log2(total), (first * shrink).sum(0) / total, count.sum(0)


@triton.jit
def _products(
    rows_high,
    rows_low,
    columns_high,
    columns_low,
    units,
    q,
    labels,
    row_log_sums,
    bias,
    high_values,
    low_values,
    out,
    out_sums,
    n_rows,
    n_columns,
    columns_each,
    n_values,
    width: tl.constexpr,
    block_rows: tl.constexpr,
    block_columns: tl.constexpr,
    block_values: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    begin = tl.program_id(1) * columns_each
    value = tl.program_id(2) * block_values + tl.arange(0, block_values)
    place = row[:, None] * width + tl.arange(0, width)[None, :]
    high, low, unit = tl.load(rows_high + place), tl.load(rows_low + place), tl.load(units)
    row_label, log_sum, own = tl.load(labels + row), tl.load(row_log_sums + row), tl.load(q + row)
    sums = tl.zeros((block_rows, block_values), dtype=tl.float32)
    column_sums = tl.zeros((block_rows,), dtype=tl.float32)
    for start in range(begin, tl.minimum(begin + columns_each, n_columns), block_columns):
        column = start + tl.arange(0, block_columns)
        s = _exponents(high, low, row_label, columns_high, columns_low, column, unit, q, labels, width)
        e_high, e_low = _halves(tl.exp2(s - log_sum[:, None] + _SCALE))
        v = column[:, None] * n_values + value[None, :]
        sums += _add_products(e_high, e_low, tl.load(high_values + v), tl.load(low_values + v), tl.zeros_like(sums))
        column_sums += tl.sum(tl.exp2((s - own[:, None]) + tl.load(bias + column)[None, :]), 1)
    part = tl.program_id(1).to(tl.int64) * n_rows + row
    tl.store(out + part[:, None] * n_values + value[None, :], sums)
    if tl.program_id(2) == 0:
        tl.store(out_sums + part, column_sums)


def products(
    rows: Side, columns: Side, log_sum: torch.Tensor, bias: torch.Tensor, values: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """As in `far`."""
    n, width = columns.p.shape
    n_values = -(-values.shape[1] // _VALUES) * _VALUES
    block_rows, block_columns, n_warps = _TILE_OF_PRODUCTS
    n_parts, columns_each = _parts(n // block_rows * (n_values // _VALUES), n, block_columns)
    padded = torch.zeros((n, n_values), dtype=torch.float64, device=columns.p.device)
    padded[: columns.n, : values.shape[1]] = values
    high, low, unit = far.halves(padded)
    per_row = [torch.full((n,), fill, dtype=torch.float32, device=columns.p.device) for fill in (0.0, -1e30)]
    for own, given in zip(per_row, (log_sum, bias), strict=True):
        own[: columns.n] = given
    out = torch.empty((n_parts, n, n_values), dtype=torch.float32, device=columns.p.device)
    sums = torch.empty((n_parts, n), dtype=torch.float32, device=columns.p.device)
    _products[(n // block_rows, n_parts, n_values // _VALUES)](
        *_points(rows, columns),
        columns.q.float(),
        columns.label,
        *per_row,
        high,
        low,
        out,
        sums,
        n,
        n,
        columns_each,
        n_values,
        width=width,
        block_rows=block_rows,
        block_columns=block_columns,
        block_values=_VALUES,
        num_warps=n_warps,
    )
    out_of_units = unit.double() * 2.0**-_SCALE.value
    return (
        out.sum(0, dtype=torch.float64)[: columns.n, : values.shape[1]] * out_of_units,
        sums.sum(0, dtype=torch.float64)[: columns.n],
    )


@triton.jit
def _table(
    rows_high,
    rows_low,
    columns_high,
    columns_low,
    units,
    row_labels,
    row_log_sums,
    q,
    labels,
    high_basis,
    low_basis,
    bounds,
    out,
    n_bins,
    n_nodes: tl.constexpr,
    width: tl.constexpr,
    block_rows: tl.constexpr,
    block_columns: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    number = tl.program_id(1)
    place = row[:, None] * width + tl.arange(0, width)[None, :]
    high, low, unit = tl.load(rows_high + place), tl.load(rows_low + place), tl.load(units)
    row_label, log_sum = tl.load(row_labels + row), tl.load(row_log_sums + row)
    node = tl.arange(0, n_nodes)
    sums = tl.zeros((block_rows, n_nodes), dtype=tl.float32)
    for start in range(tl.load(bounds + number), tl.load(bounds + number + 1), block_columns):
        column = start + tl.arange(0, block_columns)
        s = _exponents(high, low, row_label, columns_high, columns_low, column, unit, q, labels, width)
        e_high, e_low = _halves(tl.exp2(s - log_sum[:, None] + _SCALE))
        v = column[:, None] * n_nodes + node[None, :]
        sums += _add_products(e_high, e_low, tl.load(high_basis + v), tl.load(low_basis + v), tl.zeros_like(sums))
    tl.store(out + (row[:, None] * n_bins + number) * n_nodes + node[None, :], sums)


def table(rows: Side, log_sum: torch.Tensor, bins: Bins) -> torch.Tensor:
    """As in `far`."""
    n_rows, width = rows.p.shape
    n_bins, n_nodes = len(bins.bounds) - 1, bins.basis.shape[1]
    padded = torch.zeros(n_rows, dtype=torch.float32, device=rows.p.device)
    padded[: rows.n] = log_sum
    high, low, unit = far.halves(bins.basis)
    out = torch.empty((n_rows, n_bins * n_nodes), dtype=torch.float32, device=rows.p.device)
    block_rows, block_columns, n_warps = _TILE_OF_TABLE
    _table[(n_rows // block_rows, n_bins)](
        *_points(rows, bins.columns),
        rows.label,
        padded,
        bins.columns.q.float(),
        bins.columns.label,
        high,
        low,
        bins.bounds,
        out,
        n_bins,
        n_nodes=n_nodes,
        width=width,
        block_rows=block_rows,
        block_columns=block_columns,
        num_warps=n_warps,
    )
    return out[: rows.n] * (unit * 2.0**-_SCALE.value)


@triton.jit
def _table_sums(table, own, nodes, step, out, n_rows, n_nodes: tl.constexpr, block_rows: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    inside = row < n_rows
    node = tl.arange(0, n_nodes)
    # All differences of coordinates are in double precision, because they may be small compared with the coordinates.
    difference = tl.load(own + row, mask=inside, other=0.0)[:, None] - tl.load(nodes + node)[None, :]
    h = (difference * difference).to(tl.float32)
    e = tl.load(table + row[:, None] * n_nodes + node[None, :], mask=inside[:, None], other=0.0)
    e *= tl.exp(-tl.load(step).to(tl.float32) * h)
    tl.store(out + row, tl.sum(e, 1), mask=inside)
    tl.store(out + n_rows + row, tl.sum(e * h, 1), mask=inside)
    tl.store(out + 2 * n_rows + row, tl.sum(e * h * h, 1), mask=inside)


def table_sums(
    table: torch.Tensor, own: torch.Tensor, nodes: torch.Tensor, step: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As in `far`."""
    n_rows, n_nodes = table.shape
    out = torch.empty((3, n_rows), dtype=torch.float32, device=table.device)
    _table_sums[(triton.cdiv(n_rows, 16),)](table, own, nodes, step, out, n_rows, n_nodes=n_nodes, block_rows=16)
    total, first, second = out.double()
    return total, first, second


def _parts(n_programs: int, n_columns: int, block: int) -> tuple[int, int]:
    """Number of parts to cut the columns into, and number of columns of each, a multiple of `block`."""
    n_parts = max(1, min(-(-_PROGRAMS // max(n_programs, 1)), n_columns // (4 * block)))
    each = -(-n_columns // (n_parts * block)) * block
    return -(-n_columns // each), each
