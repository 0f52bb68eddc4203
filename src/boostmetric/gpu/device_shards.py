"""Cutting a problem into shards on a device."""

from __future__ import annotations

import importlib.util
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from boostmetric.arrays.validation import warn
from boostmetric.comparisons import Comparisons
from boostmetric.gpu import far, rows
from boostmetric.gpu.device_blocks import DeviceBlockShard
from boostmetric.gpu.device_lists import DeviceListShard
from boostmetric.gpu.device_points import DevicePoints
from boostmetric.kernels.chebyshev import N_BINS, N_NODES
from boostmetric.oracles.losses import Loss
from boostmetric.oracles.shard import Shard


def make_shards(
    coordinates: NDArray[np.floating[Any]], comparisons: Comparisons, device: str, dtype: torch.dtype, loss: Loss
) -> list[Shard]:
    """Make one shard of the listed groups, and one of the open groups."""
    points = DevicePoints(coordinates, device, dtype)
    row_kernels, far_kernels = kernels(points)
    is_open = comparisons.is_open
    listed = comparisons.subset(~is_open) if is_open.any() else comparisons
    shards: list[Shard] = [DeviceListShard(points, listed, loss, row_kernels)] if listed.n_groups else []
    if is_open.any():
        shards.append(DeviceBlockShard(points, comparisons.subset(is_open), loss, far_kernels))
    return shards


def bytes_needed(shape: tuple[int, ...], comparisons: Comparisons, itemsize: int) -> int:
    """Approximate memory that the shards take on a device, in bytes.

    Parameters
    ----------
    shape : tuple
        Shape of the points.
    itemsize : int
        Bytes per number.
    """
    n_points, n_features = shape
    # Distance, growth and coefficient of a member; its two points; its place in the order of each of them, with its
    # other point, in pieces that are not all full; and eight numbers of eight bytes while these are made.
    members = len(comparisons.members) * (3 * itemsize + 8 + 18 + 64)
    n_open = int(comparisons.is_open.sum())
    # Mapped points in double precision, as stored, sorted, and in halves; a table; and six blocks of pairs.
    mapped = n_points * n_features * (8 + 4 * itemsize) + n_open * N_BINS * N_NODES * (itemsize + 8) + 48 * far.BLOCK
    return n_points * n_features * itemsize + members + (mapped if n_open else 0)


def kernels(points: DevicePoints) -> tuple[ModuleType, ModuleType]:
    """Kernels for listed and for open sides; the fused ones on a GPU that Triton can compile for."""
    if not points.rows.is_cuda or not _compiles(str(points.device)):
        return rows, far
    return fused(points)


def fused(points: DevicePoints) -> tuple[ModuleType, ModuleType]:
    """Kernels in Triton, or plain ones where there are none in Triton."""
    from boostmetric.gpu import fused_far, fused_rows

    # The kernels for open sides use products in single precision.
    fits = points.dtype == torch.float32 and points.n_features <= fused_far.MOST_FEATURES
    return fused_rows, fused_far if fits else far


@cache
def _compiles(device: str) -> bool:
    """Whether Triton can compile here: it needs a C compiler at run time, and a GPU that is not too old."""
    if importlib.util.find_spec("triton") is None:
        return False
    from boostmetric.gpu import fused_rows

    d, h = torch.zeros((2, 1), device=device)
    try:
        fused_rows.grow(d, h, torch.zeros((), dtype=torch.float64, device=device))
    except Exception as error:
        warn(f"Triton cannot compile for {device!r}, so fits there are slower: {str(error).partition(chr(10))[0]}")
        return False
    return True
