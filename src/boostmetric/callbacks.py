"""What may watch a fit: one method, called after every iteration."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from boostmetric.solver.result import Iteration


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

    def on_iteration(self, record: Iteration) -> bool | None:
        """See one iteration; return True to stop the fit."""
        ...


class ProgressBar:
    """A progress bar on standard error, with the loss and the share of comparisons not yet satisfied.

    Parameters
    ----------
    max_iter : int
        Length of the bar.
    """

    def __init__(self, max_iter: int) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task("Learning", total=max_iter, figures="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def on_iteration(self, record: Iteration) -> bool:
        """Move the bar."""
        figures = f"loss {record.loss:.4g}, violated {record.violated:.1%}"
        self._progress.update(self._task, completed=record.number, figures=figures)
        return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:  # done, though perhaps before max_iter
            self._progress.update(self._task, total=self._progress.tasks[0].completed)
        self._progress.stop()
