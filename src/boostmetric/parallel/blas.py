"""Single-threaded BLAS while a fit runs."""

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
    """Reset the state in a forked process, where threads that were not forked may hold the lock or be counted."""
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
    """Limit BLAS to one thread: our own threads are enough, and BLAS sums may depend on the number of threads.

    The limit is process-wide, so fits that overlap in several threads share it: the first sets it, the last removes
    it. If each fit had its own limit, one that ends late would restore the limit set by another.
    """
    global _blas_limits
    user = object()  # not a counter: this is removed exactly once, wherever a keyboard interrupt arrives
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
