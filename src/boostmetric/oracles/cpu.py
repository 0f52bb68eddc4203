"""Cutting a problem into shards that compute on the CPU."""

from __future__ import annotations

import math
import os

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import NotEnoughMemoryError
from boostmetric.comparisons import Comparisons
from boostmetric.comparisons.classes import Classes
from boostmetric.oracles.block_shard import BlockShard, Columns
from boostmetric.oracles.group_shard import GroupShard
from boostmetric.oracles.losses import Loss
from boostmetric.oracles.point_rows import PointRows
from boostmetric.oracles.shard import Shard
from boostmetric.oracles.single_shard import SingleShard

# A shard should be worth handing to a thread, and more shards than this would not run at the same time.
_MEMBERS_PER_SHARD = 2**17
_ROWS_PER_SHARD = 2**10
MOST_SHARDS = 64
# Time that shards may spend on their points, as a fraction of the time of the kernels over the members.
_MOST_ON_POINTS = 0.5


def make_shards(points: PointRows, comparisons: Comparisons, loss: Loss, *, most: int = MOST_SHARDS) -> list[Shard]:
    """Cut a problem into shards of similar size, each with one kind of groups; at most `most` of each kind.

    The number of shards depends only on the problem. Every shard goes over its points to find a direction, so there are
    fewer shards if groups share many points, or if there are many features.
    """
    near, far = comparisons.side_sizes
    sizes, is_open = near + far, comparisons.is_open
    single = (sizes == 2) & ~is_open
    shards: list[Shard] = []
    for kind, chosen in ((GroupShard, ~single & ~is_open), (SingleShard, single)):
        n_members = int(sizes[chosen].sum())
        pieces = _cut(chosen, sizes, min(most, n_members / _MEMBERS_PER_SHARD))
        if len(pieces) > 1:
            # Approximate nanoseconds for the kernels over the members, and over the points.
            kernel_cost = n_members * (25 + points.n_features / 3)
            points_cost = points.direction_cost * sum(_share(comparisons, piece, len(points)) for piece in pieces)
            if points_cost > _MOST_ON_POINTS * kernel_cost:
                pieces = _cut(chosen, sizes, _MOST_ON_POINTS * kernel_cost / points.direction_cost)
        shards += [kind(points, _part(comparisons, piece), loss) for piece in pieces]
    if comparisons.classes is not None:
        _check_memory(int(is_open.sum()), comparisons.classes)
        columns = Columns(points, comparisons.classes)
        # In single precision the products with the points, of all columns, are a larger part of a shard's work.
        rows_per_shard = max(_ROWS_PER_SHARD, 4 * points.n_features) if points.is_single else _ROWS_PER_SHARD
        n_shards = min(most, is_open.sum() / rows_per_shard)
        pieces = _cut(is_open, sizes, n_shards)
        shards += [BlockShard(points, _part(comparisons, piece), loss, columns) for piece in pieces]
    return shards


def _cut(chosen: NDArray[np.bool_], sizes: NDArray[np.int64], n_pieces: float) -> list[NDArray[np.int64]]:
    """Cut the chosen groups into about `n_pieces` runs of consecutive groups, with equally many members.

    Their number is a power of two, which divides evenly among most numbers of threads.
    """
    groups = np.flatnonzero(chosen)
    n_pieces = 2 ** round(math.log2(max(n_pieces, 1.0)))
    ends = np.cumsum(sizes[groups])
    cuts = np.searchsorted(ends, ends[-1:] * np.arange(1, n_pieces) / n_pieces)
    return [piece for piece in np.split(groups, np.unique(cuts)) if len(piece)]


def _part(comparisons: Comparisons, groups: NDArray[np.int64]) -> Comparisons:
    """Some of the groups, in order; all without a copy."""
    return comparisons if len(groups) == comparisons.n_groups else comparisons.subset(groups)


def _share(comparisons: Comparisons, groups: NDArray[np.int64], n_points: int) -> float:
    """Fraction of the points that occur in listed pairs of a run of groups."""
    first, last = int(groups[0]), int(groups[-1]) + 1
    begin, *ends = comparisons.bounds[2 * first : 2 * last + 1 : 2].tolist()
    members = comparisons.members[begin : ends[-1]]
    if len(groups) < last - first:
        chosen = np.isin(np.arange(first, last), groups)
        members = members[np.repeat(chosen, np.diff([begin, *ends]))]
    occurs = np.zeros(n_points, dtype=bool)
    occurs[comparisons.pairs[members]] = True
    return float(occurs.mean())


def _check_memory(n_anchors: int, classes: Classes) -> None:
    """Raise an error if memory does not suffice; the system would kill the process without a message."""
    n_points = int(classes.sizes.sum())
    needed = 16 * n_anchors * n_points
    try:
        installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError):  # not on every system
        return
    if needed > installed:
        raise NotEnoughMemoryError(
            "All impostors of {n_anchors:,} of {n_points:,} samples need {needed:,.1f} GB, but this machine has "
            "{installed:,.1f} GB. Set {n_impostors} to a number, such as 50, or use fewer samples.",
            n_anchors=n_anchors,
            n_points=n_points,
            needed=needed / 1e9,
            installed=installed / 1e9,
        )
