"""What is seen of a fit while it runs, and how Ctrl-C ends it."""

from __future__ import annotations

import math
import os
import signal
import threading
from time import monotonic
from types import FrameType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from boostmetric.solver.result import Iteration

# Not in a terminal, a line after so many seconds.
_SECONDS_BETWEEN_LINES = 10.0
# In a terminal, how often figures are renewed.
_SECONDS_BETWEEN_FIGURES = 0.25


class Display:
    """Loss, rank, held-out accuracy and time left on standard error: a bar in a terminal, else a line now and then.

    Parameters
    ----------
    total : int
        Most iterations.
    n_features : int
        The largest rank.
    quiet : bool
        Show nothing.
    """

    def __init__(self, total: int, n_features: int, *, quiet: bool) -> None:
        self._console = Console(stderr=True)
        self._total, self._n_features, self._quiet = total, n_features, quiet
        self._errors: list[float] = []
        self._shown_at = monotonic()
        self._last = 0
        self._begun = False
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=6),  # all of it shall fit into 80 columns
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
        )
        left = TimeRemainingColumn(compact=True)
        self._bar = Progress(*columns, left, console=self._console, transient=True, disable=not self._draws)
        # Without a total the bar pulses: the best of several starts is found before the first iteration.
        self._task = self._bar.add_task("Choosing", total=None, figures="")

    @property
    def _draws(self) -> bool:
        return self._console.is_terminal and not self._quiet

    def __enter__(self) -> Self:
        if self._draws:  # before version 14.3 of rich, a bar that is disabled ends with an empty line
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._draws:
            self._bar.stop()

    def on_candidate(self, candidate: Any) -> None:
        """Remember how well a candidate of "auto" did on what is held out; the first is the Euclidean distance."""
        self._errors.append(candidate.error)

    def on_iteration(self, record: Iteration) -> bool:
        """Show an iteration."""
        if self._quiet:
            return False
        if not self._begun or record.number <= self._last:  # with the next solver it begins anew
            self._begun = True
            self._bar.reset(self._task, total=self._total, description="Learning", figures="")
        self._last = record.number
        wait = _SECONDS_BETWEEN_FIGURES if self._draws else _SECONDS_BETWEEN_LINES
        due = monotonic() - self._shown_at >= wait
        if due:
            self._shown_at = monotonic()
        if self._draws:
            figures = {"figures": self._figures(record)} if due else {}
            self._bar.update(self._task, completed=record.number, **figures)  # type: ignore[arg-type]
        elif due:
            line = f"Iteration {record.number} of at most {self._total}: {self._figures(record)}"
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        return False

    def _figures(self, record: Iteration) -> str:
        figures = [f"loss {record.loss:.3g}"]
        if record.so_far is not None:
            figures.append(f"rank {min(len(record.so_far().step_sizes), self._n_features)}")
        if record.held_out is not None and not math.isnan(record.held_out):
            figures.append(f"held-out {record.held_out:.3f}")
        elif self._errors:
            figures.append(f"held-out {1 - min(self._errors):.3f}, base {1 - self._errors[0]:.3f}")
        return ", ".join(figures)


class Interrupt:
    """Ends a fit in order when Ctrl-C is pressed, after the current iteration; pressed again, at once.

    While folds choose the setting, it ends the choice: what did best so far is learned.

    Parameters
    ----------
    choosing : bool
        Whether folds choose before the first iteration.
    """

    def __init__(self, *, choosing: bool) -> None:
        self.asked = False
        self._choosing, self._chosen_early = choosing, False
        self._before: Any = None

    def on_candidate(self, candidate: Any) -> bool:
        """Answer whether to choose from what was tried so far."""
        return self._chosen_early

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # no other may do so
            self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def on_iteration(self, record: Iteration) -> bool:
        """Answer whether to stop."""
        self._choosing = False
        return self.asked

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.asked or (self._choosing and self._chosen_early):
            raise KeyboardInterrupt
        if self._choosing:
            self._chosen_early = True
            os.write(2, b"\nLearning with the best setting so far. Press Ctrl-C again to stop at once.\n")
            return
        self.asked = True
        # Written past Python's buffers, which the interrupted code may be using.
        os.write(2, b"\nStopping after this iteration. Press Ctrl-C again to stop at once.\n")
