"""Shards in this process, worked on by a pool of threads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import Any

from threadpoolctl import threadpool_limits

from boostmetric.comparisons import Comparisons
from boostmetric.crew import Crew
from boostmetric.frame import Coordinates


@dataclass(frozen=True)
class Threads:
    """Threads of this process; the answers do not depend on how many."""

    n_threads: int = 1

    @contextmanager
    def engine(self, points: Coordinates, comparisons: Comparisons, *, logistic: bool) -> Iterator[ThreadEngine]:
        # numba is imported here, with the kernels, and not by ``import boostmetric``.
        from boostmetric.oracles.cpu import make_shards
        from boostmetric.oracles.points import as_points

        with Crew(self.n_threads) as crew:
            yield ThreadEngine(make_shards(as_points(points, crew), comparisons, logistic=logistic), crew)


ONE_THREAD = Threads()


class ThreadEngine:
    """Keeps shards and asks them on several threads.

    Parameters
    ----------
    shards : sequence
        Objects with the verbs of an oracle.
    crew : Crew
        The threads.
    """

    rounding = 0.0
    steps_at_once = 1

    def __init__(self, shards: Sequence[object], crew: Crew) -> None:
        self.shards = shards
        self._crew = crew
        # A share for each thread, mostly the same one in every call: what is in the cache of its core stays there.
        n_shares = min(crew.n_threads, len(shards))
        cuts = [len(shards) * i // n_shares for i in range(n_shares + 1)]
        self._shares = [shards[low:high] for low, high in pairwise(cuts)]

    def each(self, verb: str, *arguments: Any) -> list[Any]:
        def ask(share: Sequence[object]) -> list[Any]:
            return [getattr(shard, verb)(*arguments) for shard in share]

        return [answer for answers in self._crew.each(ask, self._shares) for answer in answers]


_blas_lock = Lock()
_blas_users: set[object] = set()
_blas_limits: threadpool_limits | None = None


def _forget_other_threads() -> None:
    """In a forked process: the lock may be held, and fits be counted, by threads that were not forked along."""
    global _blas_lock, _blas_limits
    _blas_lock = Lock()
    _blas_users.clear()
    if _blas_limits is not None:
        _blas_limits.restore_original_limits()
        _blas_limits = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Keep BLAS to one thread: ours are enough, and its sums may depend on how many it uses.

    The limit belongs to the process, so fits that overlap in several threads share one: the first sets it, the
    last takes it back. With a limit for each, one that ends late would restore the limit of another.
    """
    global _blas_limits
    user = object()  # not a count: wherever a keyboard interrupt comes in between, it is taken back once
    try:
        with _blas_lock:
            if _blas_limits is None:
                _blas_limits = threadpool_limits(limits=1, user_api="blas")
            _blas_users.add(user)
        yield
    finally:
        with _blas_lock:
            _blas_users.discard(user)
            if not _blas_users and _blas_limits is not None:
                _blas_limits.restore_original_limits()
                _blas_limits = None
