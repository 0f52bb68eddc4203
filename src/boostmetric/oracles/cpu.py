"""A problem cut into shards that compute on the CPU."""

from __future__ import annotations

import numpy as np

from boostmetric.comparisons import Comparisons
from boostmetric.oracles.groups import GroupShard
from boostmetric.oracles.points import PointRows
from boostmetric.oracles.shard import Shard
from boostmetric.oracles.singles import SingleShard

# A shard should be worth the hand-over to a thread, and more shards than this would not be run at once.
_MEMBERS_PER_SHARD = 2**15
_MOST_SHARDS = 32


def make_shards(points: PointRows, comparisons: Comparisons) -> list[Shard]:
    """Cut a problem into shards of similar size, groups and single comparisons apart.

    The number of shards depends on the problem only. Every shard goes over its points when it finds a direction, so
    many points or features with few members a point ask for fewer shards.
    """
    single = np.diff(comparisons.bounds[::2]) == 2
    shards: list[Shard] = []
    for kind, groups in ((GroupShard, np.flatnonzero(~single)), (SingleShard, np.flatnonzero(single))):
        if not len(groups):
            continue
        part = comparisons.subset(groups) if len(groups) < comparisons.n_groups else comparisons
        # Nanoseconds, roughly, of the kernels over the members.
        kernel_cost = len(part.members) * (60 + points.n_features / 2)
        worth = int(kernel_cost / (2 * points.direction_cost))
        n_shards = min(_MOST_SHARDS, len(part.members) // _MEMBERS_PER_SHARD, worth)
        shards += [kind(points, piece) for piece in _cut(part, max(1, n_shards))]
    return shards


def _cut(comparisons: Comparisons, n_pieces: int) -> list[Comparisons]:
    """Pieces of consecutive groups with about as many members each."""
    if n_pieces == 1:
        return [comparisons]
    ends = comparisons.bounds[2::2]
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, n_pieces) / n_pieces)
    ranges = np.split(np.arange(comparisons.n_groups), np.unique(cuts))
    return [comparisons.subset(groups) for groups in ranges if len(groups)]
