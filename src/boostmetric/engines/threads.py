"""Shards in this process, worked on by a pool of threads."""

from __future__ import annotations

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
_blas_users = 0
_blas_limits: threadpool_limits | None = None


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Keep BLAS to one thread: ours are enough, and its sums may depend on how many it uses.

    The limit belongs to the process, so fits that overlap in several threads share one: the first sets it, the
    last takes it back. With a limit for each, one that ends late would restore the limit of another.
    """
    global _blas_users, _blas_limits
    with _blas_lock:
        if _blas_users == 0:
            _blas_limits = threadpool_limits(limits=1, user_api="blas")
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0 and _blas_limits is not None:
                _blas_limits.restore_original_limits()
                _blas_limits = None
