"""Single-threaded BLAS while a fit runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from weakref import WeakSet

from threadpoolctl import LibController, ThreadpoolController


class _User:
    """A running fit. One that is interrupted before it ends is forgotten with its frame."""


_blas_lock = Lock()
_blas_users: WeakSet[_User] = WeakSet()
_blas: ThreadpoolController | None = None
_n_modules = 0  # imported when `_blas` was made
# The libraries, with their numbers of threads before the first fit began; None if they are not limited.
_blas_limits: list[tuple[LibController, int]] | None = None


def _forget_other_threads() -> None:
    """Reset the state in a forked process, where threads that were not forked may hold the lock or be counted."""
    global _blas_lock
    _blas_lock = Lock()
    _blas_users.clear()
    _restore()


def _restore() -> None:
    """Restore the numbers of threads before the first fit, if they are limited."""
    global _blas_limits
    for library, n_threads in _blas_limits or ():
        library.set_num_threads(n_threads)
    _blas_limits = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread: our own threads are enough, and BLAS sums may depend on the number of threads.

    The limit is process-wide, so fits that overlap in several threads share it: the first sets it, the last removes
    it. If each fit had its own limit, one that ends late would restore the limit set by another.

    A keyboard interrupt may arrive anywhere. So the numbers to restore are kept before any is changed: what an
    interrupt leaves behind, the end of the next fit restores.
    """
    global _blas_limits
    user = _User()
    try:
        with _blas_lock:
            _blas_users.add(user)
            if _blas_limits is None:
                _blas_limits = [(library, library.get_num_threads()) for library in _libraries().lib_controllers]
            for library, _ in _blas_limits:
                library.set_num_threads(1)
        yield
    finally:
        with _blas_lock:
            _blas_users.discard(user)
            if not _blas_users:
                _restore()


def _libraries() -> ThreadpoolController:
    """BLAS libraries of this process, searched for only after imports: a search takes longer than many fits."""
    global _blas, _n_modules
    if _blas is None or len(sys.modules) != _n_modules:
        _blas = ThreadpoolController().select(user_api="blas")
        _n_modules = len(sys.modules)
    return _blas
