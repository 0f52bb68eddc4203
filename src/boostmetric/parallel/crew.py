"""Threads that share the pieces of a job."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from types import TracebackType
from typing import Any, Self, TypeVar

_Piece = TypeVar("_Piece")
_Answer = TypeVar("_Answer")


class Crew:
    """Group of threads that includes the calling one; a context manager that ends the others.

    A piece may itself be a job for the crew. The thread that submits a job also works on its pieces and never waits
    for a piece that has not started, so there is no deadlock, and idle threads help.

    Parameters
    ----------
    n_threads : int, default=1
        Number of threads, including the calling one.

    Examples
    --------
    >>> with Crew(2) as crew:
    ...     crew.each(abs, [3, -2, -1])
    [3, 2, 1]
    """

    def __init__(self, n_threads: int = 1) -> None:
        self.n_threads = n_threads
        self._pool = ThreadPoolExecutor(n_threads - 1, thread_name_prefix="boostmetric") if n_threads > 1 else None

    def each(self, function: Callable[[_Piece], _Answer], pieces: Sequence[_Piece]) -> list[_Answer]:
        """Apply a function to each piece and return the results in the order of the pieces."""
        if self._pool is None or len(pieces) < 2:
            return [function(piece) for piece in pieces]
        answers: dict[int, _Answer] = {}
        left = deque(range(len(pieces)))

        def work() -> None:
            while left:
                try:
                    i = left.popleft()
                except IndexError:  # another thread was faster
                    return
                answers[i] = function(pieces[i])

        # Submit once per thread, not per piece: a submission costs as much as a kernel over 10,000 pairs.
        others = [self._pool.submit(work) for _ in range(min(self.n_threads, len(pieces)) - 1)]
        try:
            work()
        finally:
            left.clear()
        for other in others:
            if not other.cancel():
                other.result()
        return [answers[i] for i in range(len(pieces))]

    def total(self, function: Callable[[_Piece], Any], pieces: Sequence[_Piece]) -> Any:
        """Add up the results of a function for each piece, in the order of the pieces, holding only a few of them.

        The first result is overwritten.
        """
        waiting: dict[int, Any] = {}
        lock, n_added, total = Lock(), 0, None

        def add(i: int) -> None:
            nonlocal n_added, total
            answer = function(pieces[i])
            with lock:
                waiting[i] = answer
                while n_added in waiting:
                    following = waiting.pop(n_added)
                    if total is None:
                        total = following
                    else:
                        total += following
                    n_added += 1

        self.each(add, range(len(pieces)))
        return total

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
