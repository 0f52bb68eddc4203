"""What may watch a fit: one method, called after every iteration.

A callback that is also a context manager is entered before the first iteration and left after the last, whatever ended
the fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from glob import escape
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from boostmetric.arrays.validation import check_count, check_number
from boostmetric.solver.checkpoint_file import read_checkpoint, write_checkpoint
from boostmetric.solver.result import Iteration, Progress, StopReason
from boostmetric.solver.stopping import EarlyStopping

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
    >>> metric = BoostMetric(callbacks=[GoodEnough()]).fit(*load_iris(return_X_y=True))
    >>> str(metric.stop_reason_)
    'A callback asked to stop.'
    """

    def on_iteration(self, record: Iteration) -> bool | StopReason | None:
        """See one iteration; return True, or a `StopReason`, to stop the fit."""
        ...


def tell(callbacks: Sequence[Callback], candidate: Any) -> bool:
    """Show a candidate of "auto" to callbacks that have a method ``on_candidate``; whether one has seen enough."""
    seen = [callback.on_candidate(candidate) for callback in callbacks if hasattr(callback, "on_candidate")]
    return any(seen)


class ProgressBar:
    """A progress bar on standard error, with the loss and the share of comparisons not yet satisfied.

    Where "auto" validates the fit itself, also with the best validation error, and that of the Euclidean distance.

    Parameters
    ----------
    max_iter : int
        Length of the bar.
    """

    def __init__(self, max_iter: int) -> None:
        self._progress = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task("Learning", total=max_iter, figures="")
        self._errors: list[float] = []

    def on_candidate(self, candidate: Any) -> None:
        """Remember the error of a candidate."""
        self._errors.append(candidate.error)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def on_iteration(self, record: Iteration) -> bool:
        """Move the bar."""
        figures = f"loss {record.loss:.4g}"
        if not math.isnan(record.violated):
            figures += f", violated {record.violated:.1%}"
        if record.held_out is not None:
            figures += f", of those held out {1 - record.held_out:.1%}"
        if self._errors:
            figures += f", error {min(self._errors):.1%}, at first {self._errors[0]:.1%}"
        self._progress.update(self._task, completed=record.number, figures=figures)
        return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:  # done, though perhaps before max_iter
            self._progress.update(self._task, total=self._progress.tasks[0].completed)
        self._progress.stop()


class Steps:
    """A progress bar on standard error for work that is not boosting itself; a context manager.

    Parameters
    ----------
    description : str
    visible : bool
    """

    def __init__(self, description: str, *, visible: bool) -> None:
        # Quiet as well: before version 14.3 of rich, a bar that is disabled ends with an empty line.
        self._progress = RichProgress(console=Console(stderr=True, quiet=not visible), disable=not visible)
        self._task = self._progress.add_task(description, total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def update(self, done: int, total: int) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=done, total=total)

    def __exit__(self, *error: object) -> None:
        self._progress.stop()


class Checkpoint:
    """Write a fit to a file as it goes on, so that it can be resumed after a crash.

    The file is replaced as a whole: whenever the process ends, a complete checkpoint is there. An error or a keyboard
    interrupt writes a last one. Reading it runs no code. Fits that run at the same time, as in a grid search, need
    paths of their own.

    Parameters
    ----------
    path : str or Path
        The file, of NumPy's npz format.
    every : int or None, default=50
        Write after so many iterations,
    seconds : float or None, default=60.0
        or after so much time, whichever comes first.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from boostmetric import BoostMetric
    >>> from boostmetric.callbacks import Checkpoint
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> path = Path(tempfile.mkdtemp()) / "wine.npz"
    >>> part = BoostMetric(max_iter=20, callbacks=[Checkpoint(path)]).fit(X, y)
    >>> whole = BoostMetric(max_iter=50).fit(X, y, resume_from=path)
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
        write_checkpoint(self._unsaved.so_far(), self.path)
        self._unsaved = None
        self._saved_at = monotonic()

    @staticmethod
    def load(path: str | Path) -> Progress:
        """Read a checkpoint."""
        return read_checkpoint(path)
