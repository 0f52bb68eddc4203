"""Callbacks: objects whose method ``on_iteration`` is called after every iteration of a fit.

A callback that is also a context manager is entered before the first iteration and left after the last, however the fit
ends.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from glob import escape
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from boostmetric.arrays.validation import check_count, check_number
from boostmetric.solver.checkpoint_file import read_checkpoint, write_checkpoint
from boostmetric.solver.result import Iteration, Progress, StopReason
from boostmetric.solver.stopping import EarlyStopping

# In a terminal figures are renewed this often; elsewhere there is a line this often.
_SECONDS_BETWEEN_FIGURES, _SECONDS_BETWEEN_LINES = 0.25, 10.0

__all__ = ["Callback", "Checkpoint", "EarlyStopping", "Iteration", "ProgressBar", "StopReason"]


@runtime_checkable
class Callback(Protocol):
    """Anything with `on_iteration`.

    Examples
    --------
    Stop when nine comparisons in ten are satisfied:

    >>> from boostmetric import BoostMetric
    >>> from sklearn.datasets import load_iris
    >>> class GoodEnough:
    ...     def on_iteration(self, record):
    ...         return record.violated < 0.1
    >>> metric = BoostMetric.paper(callbacks=[GoodEnough()]).fit(*load_iris(return_X_y=True))
    >>> str(metric.stop_reason_)
    'A callback asked to stop.'
    """

    def on_iteration(self, record: Iteration) -> bool | StopReason | None:
        """See one iteration; return True, or a `StopReason`, to stop the fit."""
        ...


def tell(callbacks: Sequence[Callback], candidate: Any) -> bool:
    """Show a candidate of "auto" to callbacks with a method ``on_candidate``; True if one asks for no more."""
    seen = [callback.on_candidate(candidate) for callback in callbacks if hasattr(callback, "on_candidate")]
    return any(seen)


class ProgressBar:
    """Progress on standard error: a bar in a terminal or notebook, else a line every ten seconds.

    Shows the loss, the rank, and how well the metric does on what is held out. The bar needs the package rich, which
    comes with the extra ``cli``.

    Parameters
    ----------
    max_iter : int
        Length of the bar.
    """

    def __init__(self, max_iter: int) -> None:
        self._max_iter = max_iter
        self._bar = _Bar("Learning")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def on_iteration(self, record: Iteration) -> bool:
        """Move the bar."""
        self._bar.update(record.number, self._max_iter, lambda: self._figures(record))
        return False

    def _figures(self, record: Iteration) -> str:
        figures = [f"loss {record.loss:.3g}"]
        if record.so_far is not None:
            figures.append(f"rank {min(record.so_far().directions.shape)}")
        if record.held_out is not None and not math.isnan(record.held_out):
            figures.append(f"held-out {record.held_out:.3f}")
        return ", ".join(figures)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


class Steps:
    """Progress on standard error for work that is not boosting itself; a context manager.

    Parameters
    ----------
    description : str
    visible : bool
    """

    def __init__(self, description: str, *, visible: bool) -> None:
        self._bar = _Bar(description) if visible else None

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def update(self, done: int, total: int, what: str = "") -> None:
        """Move the bar; `what` is being done now."""
        if self._bar is not None:
            self._bar.update(done, total, lambda: what)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()


class _Bar:
    """A bar that rich draws in a terminal or notebook; without rich, or elsewhere, lines now and then.

    Attributes
    ----------
    description : str
    """

    def __init__(self, description: str) -> None:
        self.description = description
        self._drawn: Any = None
        self._shown_at = 0.0
        self._unsaid: Callable[[], str] | None = None

    def start(self) -> None:
        """Begin to show."""
        self._shown_at, self._unsaid = monotonic(), None
        if find_spec("rich") is None:
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        console = Console(stderr=True)
        if not (console.is_terminal or console.is_jupyter):
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=6),  # all of it fits into 80 columns
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(compact=True),
        )
        self._drawn = RichProgress(*columns, console=console, transient=True)
        self._drawn.add_task(self.description, total=None, figures="")  # pulses until the total is known
        self._drawn.start()

    def update(self, done: int, total: int, figures: Callable[[], str] = lambda: "") -> None:
        """Show how much is done; `figures` are asked for when it is time to show them."""

        def line() -> str:
            return f"{self.description}: {done} of {total} {figures()}".rstrip()

        due = monotonic() - self._shown_at >= (
            _SECONDS_BETWEEN_LINES if self._drawn is None else _SECONDS_BETWEEN_FIGURES
        )
        if due:
            self._shown_at = monotonic()
        if self._drawn is not None:
            more = {"figures": figures()} if due else {}
            self._drawn.update(
                self._drawn.task_ids[0], description=self.description, completed=done, total=total, **more
            )
        elif due:
            print(line(), file=sys.stderr)
        self._unsaid = None if due else line

    def stop(self) -> None:
        """Take the bar away, or say how far it came."""
        if self._drawn is not None:
            self._drawn.stop()
            self._drawn = None
        elif self._unsaid is not None:
            print(self._unsaid(), file=sys.stderr)


class Checkpoint:
    """Write a fit to a file at intervals, so that it can be resumed after a crash.

    The file is replaced as a whole, so it is complete whenever the process ends. An error or a keyboard
    interrupt writes a last one. If it cannot be written, as on a full disk, a warning says so, and the fit goes on.
    Reading it runs no code. Fits that run at the same time, as in a grid search, need
    paths of their own.

    Parameters
    ----------
    path : str or Path
        The file, of NumPy's npz format.
    every : int or None, default=50
        Write after this many iterations,
    seconds : float or None, default=60.0
        or after this much time, whichever comes first.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from boostmetric import BoostMetric
    >>> from boostmetric.callbacks import Checkpoint
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> path = Path(tempfile.mkdtemp()) / "wine.npz"
    >>> part = BoostMetric.paper(max_iter=20, callbacks=[Checkpoint(path)]).fit(X, y)
    >>> whole = BoostMetric.paper(max_iter=50).fit(X, y, resume_from=path)
    >>> whole.n_iter_
    50
    """

    def __init__(self, path: str | Path, every: int | None = 50, seconds: float | None = 60.0) -> None:
        if every is not None:
            check_count("every", every, alternative=", or None")
        if seconds is not None:
            check_number("seconds", seconds)
        self.path = Path(path)
        self.every = every
        self.seconds = seconds
        self._unsaved: Iteration | None = None
        self._saved_at = monotonic()

    def __enter__(self) -> Self:
        self._unsaved = None
        self._saved_at = monotonic()
        for leftover in self.path.parent.glob(f".{escape(self.path.stem)}-*{escape(self.path.suffix)}"):
            leftover.unlink(missing_ok=True)  # of a process that was killed while it wrote
        return self

    def on_iteration(self, record: Iteration) -> bool:
        """Write if it is time."""
        self._unsaved = record
        due = self.every is not None and record.number % self.every == 0
        if due or (self.seconds is not None and monotonic() - self._saved_at >= self.seconds):
            self._save()
        return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._unsaved is not None:
            self._save()

    def _save(self) -> None:
        assert self._unsaved is not None
        assert self._unsaved.so_far is not None
        try:
            write_checkpoint(self._unsaved.so_far(), self.path)
        except OSError as error:
            reason = error.strerror or error
            warnings.warn(f"No checkpoint: {self.path} cannot be written ({reason}).", RuntimeWarning, stacklevel=2)
        self._unsaved = None
        self._saved_at = monotonic()

    @staticmethod
    def load(path: str | Path) -> Progress:
        """Read a checkpoint."""
        return read_checkpoint(path)
