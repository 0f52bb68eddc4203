"""Shards in this process, run by a pool of threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from boostmetric.arrays.frame import Coordinates
from boostmetric.comparisons import Comparisons
from boostmetric.oracles.losses import Loss
from boostmetric.parallel.crew import Crew


@dataclass(frozen=True)
class ThreadBackend:
    """Threads of this process; the answers do not depend on their number."""

    n_threads: int = 1

    @contextmanager
    def pool(self, points: Coordinates, comparisons: Comparisons, loss: Loss) -> Iterator[ThreadShardPool]:
        # Imported here so that ``import boostmetric`` does not import the kernels and numba.
        from boostmetric.oracles.cpu import make_shards
        from boostmetric.oracles.point_rows import as_points

        with Crew(self.n_threads) as crew:
            yield ThreadShardPool(make_shards(as_points(points, crew), comparisons, loss), crew)


ONE_THREAD = ThreadBackend()


class ThreadShardPool:
    """Pool of shards, called on several threads.

    Parameters
    ----------
    shards : sequence
        Objects with the verbs of an oracle.
    crew : Crew
        Threads to run the shards on.
    """

    rounding = 0.0
    steps_at_once = 1

    def __init__(self, shards: Sequence[object], crew: Crew) -> None:
        self.shards = shards
        self._crew = crew
        # One share per thread, mostly the same one in every call, so that it stays in the cache of its core.
        n_shares = min(crew.n_threads, len(shards))
        cuts = [len(shards) * i // n_shares for i in range(n_shares + 1)]
        self._shares = [shards[low:high] for low, high in pairwise(cuts)]

    def each(self, verb: str, *arguments: Any) -> list[Any]:
        def ask(share: Sequence[object]) -> list[Any]:
            return [getattr(shard, verb)(*arguments) for shard in share]

        return [answer for answers in self._crew.each(ask, self._shares) for answer in answers]
