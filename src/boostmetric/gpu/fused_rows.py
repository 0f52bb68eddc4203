"""The functions of `rows` as kernels in Triton, each in one pass over memory."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from boostmetric.gpu import rows
from boostmetric.gpu.device_losses import Sums

# Size of a tile, and its largest width.
_TILE = 4096
_WIDEST = 1024
# Wider rows, such as one group of all similar and all dissimilar pairs, are left to `rows`: they would keep one program
# busy for a long time, and their sums in single precision would have many terms.
_WIDEST_ROW = 2**15
# Maximum near pairs of a group for which comparisons are counted one by one, in the pass over the distances.
_FEW_NEAR = 16
# Rows of points per tile, features, and warps: the fastest of those tried on an H200.
_MEMBERS, _FEATURES, _WARPS = 64, 128, 2
# Directions per tile, and tiles of members that a program adds up.
_DIRECTIONS, _BLOCKS_IN_A_RUN = 32, 64


@triton.jit
def _growths(z, first, second, h, n, block: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = place < n
    i, k = tl.load(first + place, mask=inside, other=0), tl.load(second + place, mask=inside, other=0)
    difference = tl.load(z + i) - tl.load(z + k)
    tl.store(h + place, (difference * difference).to(h.dtype.element_ty), mask=inside)


def growths(z: torch.Tensor, first: torch.Tensor, second: torch.Tensor, h: torch.Tensor) -> None:
    """As in `rows`."""
    _growths[(triton.cdiv(h.numel(), 1024),)](z, first, second, h, h.numel(), block=1024)


@triton.jit
def _growths_along(z, factors, first, second, h, n, n_directions, block: tl.constexpr, block_directions: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = place < n
    i = tl.load(first + place, mask=inside, other=0).to(tl.int64) * n_directions
    j = tl.load(second + place, mask=inside, other=0).to(tl.int64) * n_directions
    total = tl.zeros((block, block_directions), dtype=tl.float64)  # summed after the loop, as in `_add_up`
    for start in range(0, n_directions, block_directions):
        k = start + tl.arange(0, block_directions)
        wanted = k < n_directions
        there = inside[:, None] & wanted[None, :]
        a = tl.load(z + i[:, None] + k[None, :], mask=there, other=0.0)
        difference = a - tl.load(z + j[:, None] + k[None, :], mask=there, other=0.0)
        total += tl.load(factors + k, mask=wanted, other=0.0)[None, :] * (difference * difference)
    tl.store(h + place, tl.sum(total, 1).to(h.dtype.element_ty), mask=inside)


def growths_along(
    z: torch.Tensor, factors: torch.Tensor, first: torch.Tensor, second: torch.Tensor, h: torch.Tensor
) -> None:
    """As in `rows`."""
    grid = (triton.cdiv(h.numel(), _MEMBERS),)
    _growths_along[grid](
        z, factors, first, second, h, h.numel(), z.shape[1], block=_MEMBERS, block_directions=_DIRECTIONS
    )


@triton.jit
def _gains(z, first, second, c, out, n, n_directions, n_blocks, block: tl.constexpr, block_directions: tl.constexpr):
    run = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * block_directions + tl.arange(0, block_directions)
    wanted = k < n_directions
    total = tl.zeros((block, block_directions), dtype=tl.float64)  # summed after the loop, as in `_add_up`
    for number in range(0, n_blocks):
        place = (run * n_blocks + number) * block + tl.arange(0, block)
        inside = place < n
        there = inside[:, None] & wanted[None, :]
        i = tl.load(first + place, mask=inside, other=0).to(tl.int64) * n_directions
        j = tl.load(second + place, mask=inside, other=0).to(tl.int64) * n_directions
        a = tl.load(z + i[:, None] + k[None, :], mask=there, other=0.0)
        difference = a - tl.load(z + j[:, None] + k[None, :], mask=there, other=0.0)
        coefficient = tl.load(c + place, mask=inside, other=0.0).to(tl.float64)
        total += coefficient[:, None] * (difference * difference)
    tl.store(out + run * n_directions + k, tl.sum(total, 0), mask=wanted)


def gains(z: torch.Tensor, first: torch.Tensor, second: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """As in `rows`: sums over runs of members, which are then added up in their order."""
    n_runs = triton.cdiv(c.numel(), _MEMBERS * _BLOCKS_IN_A_RUN)
    out = torch.empty((n_runs, z.shape[1]), dtype=torch.float64, device=z.device)
    _gains[(n_runs, triton.cdiv(z.shape[1], _DIRECTIONS))](
        z, first, second, c, out, c.numel(), z.shape[1], _BLOCKS_IN_A_RUN, block=_MEMBERS, block_directions=_DIRECTIONS
    )
    return out.sum(0)


@triton.jit
def _grow(d, h, step, n, block: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = place < n
    w = tl.load(step).to(d.dtype.element_ty)
    x = tl.fma(w, tl.load(h + place, mask=inside), tl.load(d + place, mask=inside))
    tl.store(d + place, x, mask=inside)


def grow(d: torch.Tensor, h: torch.Tensor, step: torch.Tensor) -> None:
    """As in `rows`."""
    _grow[(triton.cdiv(d.numel(), 1024),)](d, h, step, d.numel(), block=1024)


@triton.jit
def _moments(d, h, step, out, n_rows, width, sign: tl.constexpr, block_rows: tl.constexpr, block_width: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    inside = row < n_rows
    dtype = d.dtype.element_ty
    w = tl.load(step).to(dtype)
    top = tl.full((block_rows,), -1e30, dtype=dtype)
    total, first, second = tl.zeros_like(top), tl.zeros_like(top), tl.zeros_like(top)
    for start in range(0, width, block_width):
        column = start + tl.arange(0, block_width)
        place = row[:, None] * width + column[None, :]
        there = inside[:, None] & (column < width)[None, :]
        growth = tl.load(h + place, mask=there, other=0.0)
        x = sign * tl.fma(w, growth, tl.load(d + place, mask=there, other=-1e30 * sign))
        highest = tl.maximum(top, tl.max(x, 1))
        e, shrink = tl.exp(x - highest[:, None]), tl.exp(top - highest)
        e = tl.where(there, e, 0.0)
        total = total * shrink + tl.sum(e, 1)
        first = first * shrink + tl.sum(e * growth, 1)
        second = second * shrink + tl.sum(e * growth * growth, 1)
        top = highest
    tl.store(out + row, top, mask=inside)
    tl.store(out + n_rows + row, total, mask=inside)
    tl.store(out + 2 * n_rows + row, first, mask=inside)
    tl.store(out + 3 * n_rows + row, second, mask=inside)


def moments(d: torch.Tensor, h: torch.Tensor, step: torch.Tensor, sign: float) -> Sums:
    """As in `rows`."""
    n_rows, width = d.shape
    if width > _WIDEST_ROW:
        return rows.moments(d, h, step, sign)
    out = torch.empty((4, n_rows), dtype=d.dtype, device=d.device)
    block_rows, block_width = _blocks(width)
    _moments[(triton.cdiv(n_rows, block_rows),)](
        d, h, step, out, n_rows, width, sign=sign, block_rows=block_rows, block_width=block_width
    )
    top, total, first, second = out.double()
    mean = first / total
    return Sums(top + torch.log(total), mean, second / total - mean * mean)


def distances(d: torch.Tensor, sign: float) -> Sums:
    """As in `rows`, by taking the distances as growths and a step of 0."""
    return moments(d, d, torch.zeros((), dtype=torch.float64, device=d.device), sign)


@triton.jit
def _count_reached(near, far, out, n_rows, n_near, width, block_rows: tl.constexpr, block_width: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    inside = row < n_rows
    count = tl.zeros((block_rows,), dtype=tl.int64)
    for start in range(0, width, block_width):
        column = start + tl.arange(0, block_width)
        there = inside[:, None] & (column < width)[None, :]
        x = tl.load(far + row[:, None] * width + column[None, :], mask=there, other=1e30)
        for j in range(n_near):
            own = tl.load(near + row * n_near + j, mask=inside, other=-1e30)
            count += tl.sum((own[:, None] >= x).to(tl.int64), 1)
    tl.store(out + row, count, mask=inside)


def count_reached(near: torch.Tensor, far: torch.Tensor) -> torch.Tensor:
    """As in `rows`, which is used if there are many near pairs."""
    (n_rows, n_near), width = near.shape, far.shape[1]
    if n_near > _FEW_NEAR or width > _WIDEST_ROW:
        return rows.count_reached(near, far)
    out = torch.empty(n_rows, dtype=torch.int64, device=near.device)
    block_rows, block_width = _blocks(width)
    _count_reached[(triton.cdiv(n_rows, block_rows),)](
        near, far, out, n_rows, n_near, width, block_rows=block_rows, block_width=block_width
    )
    return out


@triton.jit
def _coefficients(
    d, log_factor, c, n_rows, width, sign: tl.constexpr, block_rows: tl.constexpr, block_width: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    inside = row < n_rows
    factor = tl.load(log_factor + row, mask=inside, other=0.0)
    for start in range(0, width, block_width):
        column = start + tl.arange(0, block_width)
        place = row[:, None] * width + column[None, :]
        there = inside[:, None] & (column < width)[None, :]
        x = sign * tl.load(d + place, mask=there, other=-1e30 * sign) + factor[:, None]
        tl.store(c + place, -sign * tl.exp(x), mask=there)


def coefficients(d: torch.Tensor, log_factor: torch.Tensor, sign: float, c: torch.Tensor) -> None:
    """As in `rows`."""
    n_rows, width = d.shape
    if width > _WIDEST_ROW:
        rows.coefficients(d, log_factor, sign, c)
        return
    block_rows, block_width = _blocks(width)
    _coefficients[(triton.cdiv(n_rows, block_rows),)](
        d, log_factor.to(d.dtype), c, n_rows, width, sign=sign, block_rows=block_rows, block_width=block_width
    )


@triton.jit
def _add_up(c, place, out, n_rows, width, block_rows: tl.constexpr, block_width: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    inside = row < n_rows
    # Summed after the loop: inside it, Triton 3.6 gives wrong sums of values loaded from addresses that were themselves
    # loaded.
    total = tl.zeros((block_rows, block_width), dtype=tl.float64)
    for start in range(0, width, block_width):
        column = start + tl.arange(0, block_width)
        there = inside[:, None] & (column < width)[None, :]
        member = tl.load(place + row[:, None] * width + column[None, :], mask=there, other=0)
        total += tl.load(c + member, mask=there, other=0.0).to(tl.float64)
    tl.store(out + row, tl.sum(total, 1), mask=inside)


def add_up(c: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    """As in `rows`."""
    n_rows, width = place.shape
    out = torch.empty(n_rows, dtype=torch.float64, device=c.device)
    block_rows, block_width = _blocks(width)
    _add_up[(triton.cdiv(n_rows, block_rows),)](
        c, place, out, n_rows, width, block_rows=block_rows, block_width=block_width
    )
    return out


@triton.jit
def _half_laplacian(
    points,
    row,
    place,
    other,
    c,
    out,
    n_pieces,
    width,
    n_features,
    block_pieces: tl.constexpr,
    block_width: tl.constexpr,
    block_features: tl.constexpr,
):
    piece = tl.program_id(0).to(tl.int64) * block_pieces + tl.arange(0, block_pieces)
    feature = tl.program_id(1) * block_features + tl.arange(0, block_features)
    inside, wanted = piece < n_pieces, feature < n_features
    wide = inside[:, None] & wanted[None, :]
    own = tl.load(row + piece, mask=inside, other=0).to(tl.int64)
    own = tl.load(points + own[:, None] * n_features + feature[None, :], mask=wide, other=0.0)
    # The results are of the size of differences of points, so differences are summed: within a tile in the precision of
    # the points, over tiles in double precision.
    sums = tl.zeros((block_pieces, block_features), dtype=tl.float64)
    degree = tl.zeros((block_pieces, block_width), dtype=tl.float64)  # summed after the loop, as in `_add_up`
    for start in range(0, width, block_width):
        column = start + tl.arange(0, block_width)
        there = inside[:, None] & (column < width)[None, :]
        member = piece[:, None] * width + column[None, :]
        coefficient = tl.load(c + tl.load(place + member, mask=there, other=0), mask=there, other=0.0)
        point = tl.load(other + member, mask=there, other=0).to(tl.int64)
        a = tl.load(
            points + point[:, :, None] * n_features + feature[None, None, :],
            mask=there[:, :, None] & wanted[None, None, :],
            other=0.0,
        )
        sums += tl.sum(coefficient[:, :, None] * (a - own[:, None, :]), 1).to(tl.float64)
        degree += coefficient.to(tl.float64)
    sums = -0.5 * tl.sum(degree, 1)[:, None] * own.to(tl.float64) - sums
    tl.store(out + piece[:, None] * n_features + feature[None, :], sums, mask=wide)


def half_laplacian(
    points: torch.Tensor, row: torch.Tensor, place: torch.Tensor, other: torch.Tensor, c: torch.Tensor
) -> torch.Tensor:
    """As in `rows`."""
    (n_pieces, width), n_features = place.shape, points.shape[1]
    out = torch.empty((n_pieces, n_features), dtype=torch.float64, device=points.device)
    block_width = min(triton.next_power_of_2(width), _MEMBERS)
    block_features = min(max(triton.next_power_of_2(n_features), 16), _FEATURES)
    grid = (triton.cdiv(n_pieces, _MEMBERS // block_width), triton.cdiv(n_features, block_features))
    _half_laplacian[grid](
        points,
        row,
        place,
        other,
        c,
        out,
        n_pieces,
        width,
        n_features,
        block_pieces=_MEMBERS // block_width,
        block_width=block_width,
        block_features=block_features,
        num_warps=_WARPS,
    )
    return out


def _blocks(width: int) -> tuple[int, int]:
    """Rows and columns of a tile."""
    block_width = min(triton.next_power_of_2(width), _WIDEST)
    return _TILE // block_width, block_width
