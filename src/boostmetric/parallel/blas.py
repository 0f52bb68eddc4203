"""BLAS kept to one thread while a fit runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from threadpoolctl import threadpool_limits

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
