"""Shards in this process, worked on by a pool of threads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from types import TracebackType
from typing import Any, Self

from threadpoolctl import threadpool_limits

from boostmetric.comparisons import Comparisons
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

        with ThreadEngine(make_shards(as_points(points), comparisons, logistic=logistic), self.n_threads) as engine:
            yield engine


ONE_THREAD = Threads()


class ThreadEngine:
    """Keeps shards and asks them on several threads, the calling one among them; a context manager that ends them.

    Parameters
    ----------
    shards : sequence
        Objects with the verbs of an oracle.
    n_threads : int
        Threads at work at once.
    """

    rounding = 0.0
    steps_at_once = 1

    def __init__(self, shards: Sequence[object], n_threads: int) -> None:
        self.shards = shards
        n_threads = min(n_threads, len(shards))
        cuts = [len(shards) * i // n_threads for i in range(n_threads + 1)]
        # One share of shards a thread, not one task a shard: a hand-over costs as much as a kernel over 10,000 members.
        self._own_share, *self._shares = [shards[low:high] for low, high in pairwise(cuts)]
        self._pool = ThreadPoolExecutor(n_threads - 1, thread_name_prefix="boostmetric") if n_threads > 1 else None

    def each(self, verb: str, *arguments: Any) -> list[Any]:
        def ask(share: Sequence[object]) -> list[Any]:
            return [getattr(shard, verb)(*arguments) for shard in share]

        if self._pool is None:
            return ask(self._own_share)
        others = [self._pool.submit(ask, share) for share in self._shares]
        answers = ask(self._own_share)
        for other in others:
            answers += other.result()
        return answers

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


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
