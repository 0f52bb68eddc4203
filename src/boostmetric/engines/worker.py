"""A worker process of a cluster: it holds a share of a problem, and knows which state it is in."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from boostmetric.arrays.frame import Shift
from boostmetric.arrays.types import FloatArray
from boostmetric.comparisons import Comparisons
from boostmetric.comparisons.shares import Loaded, Share
from boostmetric.engines.threads import ThreadShardPool
from boostmetric.oracles.losses import Loss
from boostmetric.oracles.merged import MergedShard
from boostmetric.parallel.crew import Crew

# A verb and its arguments.
Call = tuple[Any, ...]
# A parameter of mallopt(3): arrays of at least this size are mapped individually.
_MMAP_THRESHOLD = -3


class Worker:
    """A share of a problem, in its own process with some threads."""

    def __init__(self, loss: Loss, n_threads: int = 1) -> None:
        self._one_thread = threadpool_limits(limits=1, user_api="blas")  # for as long as the process lives
        _give_memory_back()
        self._loss = loss
        self._crew = Crew(n_threads)
        self._loaded: Loaded | None = None
        self._shard: MergedShard | None = None
        self._weight = 0.0
        self._number: int | None = None

    def ends(self, share: Share) -> tuple[FloatArray, FloatArray]:
        """Lowest and highest value of each coordinate, for the points of a share."""
        points = self._load(share).points
        return points.min(axis=0), points.max(axis=0)

    def weight(self, share: Share, shift: Shift | None) -> float:
        """Load a share, convert its points by `shift` (if None, they are already converted), and return its weight."""
        if self._shard is None:
            self._make_shard(share, shift)
        return self._weight

    def ask(self, number: int, calls: list[Call], after: int) -> list[Any] | None:
        """Answer calls that refer to a state; None if this worker is in another state, or in none."""
        return self._follow(calls, after) if number == self._number else None

    def restore(
        self, share: Share, shift: Shift | None, before: list[Call], calls: list[Call], after: int
    ) -> list[Any]:
        """Answer calls after replaying those `before`; the first is a `rebuild`, so no earlier state is needed."""
        self.weight(share, shift)
        return self._follow([*before, *calls], after)[len(before) :]

    def _load(self, share: Share) -> Loaded:
        self._loaded = self._loaded or share.load(self._crew)
        return self._loaded

    def _make_shard(self, share: Share, shift: Shift | None) -> None:
        # Imported here so that the process that starts workers does not import the kernels and numba.
        from boostmetric.oracles.cpu import MOST_SHARDS, make_shards
        from boostmetric.oracles.point_rows import as_points

        (given, blocks), self._loaded = self._load(share), None
        points = as_points(given if shift is None else shift.coordinates_of(given), self._crew)
        del given
        # No more shards than the threads need, because each goes over its points.
        most = max(MOST_SHARDS // len(blocks), 1) if self._crew.n_threads > 1 else 1

        def made(block: Callable[[], Comparisons | None]) -> tuple[Sequence[object], float]:
            comparisons = block()
            if comparisons is None:
                return [], 0.0
            shards = make_shards(points, comparisons, self._loss, most=most)
            return shards, float(comparisons.weights.sum())

        parts = self._crew.each(made, blocks)
        self._weight = sum(weight for _, weight in parts)
        if self._weight:
            self._shard = MergedShard(ThreadShardPool([shard for shards, _ in parts for shard in shards], self._crew))

    def _follow(self, calls: list[Call], after: int) -> list[Any]:
        self._number = None  # undefined while calls run
        answers = [getattr(self._shard, verb)(*arguments) for verb, *arguments in calls]
        self._number = after
        return [
            answer[np.triu_indices(len(answer))] if call[0] == "gram" else answer
            for call, answer in zip(calls, answers, strict=True)
        ]


def _give_memory_back() -> None:
    """Make the C library return freed arrays to the system.

    On Linux it keeps arrays of up to 32 MB for reuse once one of that size has been freed. After building a share, that
    would be as much memory as the shards themselves take.
    """
    with suppress(OSError, AttributeError, TypeError):  # if there is no such library or function
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 2**20)
