"""Workers of a cluster that share a process: a share of a problem, which knows in which state it is."""

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
# A parameter of mallopt(3): arrays of at least this size are mapped, each by itself.
_MMAP_THRESHOLD = -3


class Worker:
    """A share of a problem, in a process of its own with some threads."""

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
        """Of the range of each coordinate, for the points of a share."""
        points = self._load(share).points
        return points.min(axis=0), points.max(axis=0)

    def weight(self, share: Share, shift: Shift | None) -> float:
        """Of the groups of a share, whose points are put in coordinates; those in memory are in them already."""
        if self._shard is None:
            self._make_shard(share, shift)
        return self._weight

    def ask(self, number: int, calls: list[Call], after: int) -> list[Any] | None:
        """Answer calls about a state; None if this worker is in another one, or in none."""
        return self._follow(calls, after) if number == self._number else None

    def restore(
        self, share: Share, shift: Shift | None, before: list[Call], calls: list[Call], after: int
    ) -> list[Any]:
        """Answer calls after those `before`, of which the first is `rebuild`, so that they are about no state."""
        self.weight(share, shift)
        return self._follow([*before, *calls], after)[len(before) :]

    def _load(self, share: Share) -> Loaded:
        self._loaded = self._loaded or share.load(self._crew)
        return self._loaded

    def _make_shard(self, share: Share, shift: Shift | None) -> None:
        # numba is imported here, with the kernels, and not by the process that starts workers.
        from boostmetric.oracles.cpu import MOST_SHARDS, make_shards
        from boostmetric.oracles.point_rows import as_points

        (given, blocks), self._loaded = self._load(share), None
        points = as_points(given if shift is None else shift.coordinates_of(given), self._crew)
        del given
        # No more than threads need: each goes over its points.
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
        self._number = None  # in between
        answers = [getattr(self._shard, verb)(*arguments) for verb, *arguments in calls]
        self._number = after
        return [
            answer[np.triu_indices(len(answer))] if call[0] == "gram" else answer
            for call, answer in zip(calls, answers, strict=True)
        ]


def _give_memory_back() -> None:
    """Let the C library give arrays that are freed back to the system.

    That of Linux keeps those of up to 32 MB for further use, once such a one was freed. Of what is made while a share
    is built, as much stays then as the shards take.
    """
    with suppress(OSError, AttributeError, TypeError):  # where there is no such library, or no such function
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 2**20)
