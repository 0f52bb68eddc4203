"""A problem cut into shards that compute on the CPU."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from boostmetric.comparisons import Comparisons
from boostmetric.oracles.blocks import BlockShard, Columns
from boostmetric.oracles.groups import GroupShard
from boostmetric.oracles.points import PointRows
from boostmetric.oracles.shard import Shard
from boostmetric.oracles.singles import SingleShard

# A shard should be worth the hand-over to a thread, and more shards than this would not be run at once.
_MEMBERS_PER_SHARD = 2**15
_ROWS_PER_SHARD = 2**10
_MOST_SHARDS = 64


def make_shards(points: PointRows, comparisons: Comparisons) -> list[Shard]:
    """Cut a problem into shards of similar size, each of one kind of groups.

    The number of shards depends on the problem only. Every shard goes over its points when it finds a direction, so
    fewer are made of groups that share many points or features.
    """
    near, far = comparisons.side_sizes
    sizes, is_open = near + far, comparisons.is_open
    single = (sizes == 2) & ~is_open
    shards: list[Shard] = []
    for kind, chosen in ((GroupShard, ~single & ~is_open), (SingleShard, single)):
        n_members = int(sizes[chosen].sum())
        pieces = _cut(chosen, sizes, min(_MOST_SHARDS, n_members // _MEMBERS_PER_SHARD))
        parts = [comparisons.subset(groups) for groups in pieces]
        # Nanoseconds, roughly, of the kernels over the members, and over the points.
        kernel_cost = n_members * (25 + points.n_features / 3)
        points_cost = points.direction_cost * sum(len(part.points) for part in parts) / len(points)
        if points_cost > 0.5 * kernel_cost and len(parts) > 1:
            pieces = _cut(chosen, sizes, int(0.5 * kernel_cost / points.direction_cost))
            parts = [comparisons.subset(groups) for groups in pieces]
        shards += [kind(points, part) for part in parts]
    if comparisons.classes is not None:
        columns = Columns(points, comparisons.classes)
        n_shards = min(_MOST_SHARDS, int(is_open.sum()) // _ROWS_PER_SHARD)
        pieces = _cut(is_open, sizes, n_shards)
        shards += [BlockShard(points, comparisons.subset(groups), columns) for groups in pieces]
    return shards


def _cut(chosen: NDArray[np.bool_], sizes: NDArray[np.int64], n_pieces: int) -> list[NDArray[np.int64]]:
    """The chosen groups in pieces of consecutive ones with about as many members each."""
    groups = np.flatnonzero(chosen)
    ends = np.cumsum(sizes[groups])
    cuts = np.searchsorted(ends, ends[-1:] * np.arange(1, n_pieces) / max(n_pieces, 1))
    return [piece for piece in np.split(groups, np.unique(cuts)) if len(piece)]
