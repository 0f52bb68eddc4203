"""Threads that do the pieces of a job together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

_Piece = TypeVar("_Piece")
_Answer = TypeVar("_Answer")


class Crew:
    """Some threads, the calling one among them; a context manager that ends the others.

    A piece may itself be a job for the crew: whoever has a job does its pieces too, and waits for nobody who has not
    begun, so that there is no deadlock, and threads that stand idle help.

    Parameters
    ----------
    n_threads : int, default=1
        At work at once.

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
        """What a function returns for each piece, in their order, whichever was done first."""
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

        # One hand-over a thread, not one a piece: it costs as much as a kernel over 10,000 pairs.
        others = [self._pool.submit(work) for _ in range(min(self.n_threads, len(pieces)) - 1)]
        try:
            work()
        finally:
            left.clear()
        for other in others:
            if not other.cancel():
                other.result()
        return [answers[i] for i in range(len(pieces))]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
