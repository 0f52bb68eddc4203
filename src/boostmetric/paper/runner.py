"""Many fits, one after the other or at the same time, whose outcomes are rows of a file.

Fits run in other processes, so that one that takes too long, needs too much memory or crashes is a row that says so.
Rows are appended as they finish: a run that was killed goes on where it was.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import boostmetric

# Beyond the limit of a fit, for reading the data and the test error.
_GRACE = 60.0
# Share of the memory of the machine that all fits together may take.
_MOST_MEMORY = 0.9

OK, OVER_TIME, OUT_OF_MEMORY, FAILED = "ok", "over time", "out of memory", "failed"


class FitTask(NamedTuple):
    """One fit: what a row is about."""

    experiment: str
    data: str
    system: str
    seed: int


@dataclass(frozen=True)
class FitRow:
    """What a fit came to.

    Attributes
    ----------
    experiment, data, system, seed
        Of the `FitTask`.
    version : str
        Of boostmetric.
    status : str
        "ok", "over time", "out of memory" or "failed".
    figures : dict
        What was measured; empty unless ok.
    message : str
        What went wrong.
    """

    experiment: str
    data: str
    system: str
    seed: int
    version: str
    status: str
    figures: dict[str, Any]
    message: str = ""

    @property
    def task(self) -> FitTask:
        """What it is about."""
        return FitTask(self.experiment, self.data, self.system, self.seed)

    @property
    def trouble(self) -> str:
        """What went wrong, and where; the data alone, the size of a codebook for instance, would not say."""
        return f"{self.experiment}, {self.data}, {self.system}, split {self.seed}: {self.status}. {self.message}"


class RowFile:
    """A file with a line of JSON for each fit.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    rows : dict of FitTask to FitRow
        Those of this version of boostmetric; others are left alone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[FitTask, FitRow] = {}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        # A run that was killed while it wrote leaves part of a line, which the next one must not be appended to.
        self._separator = "" if not text or text.endswith("\n") else "\n"
        for line in text.splitlines():
            try:
                row = FitRow(**json.loads(line))
            except (json.JSONDecodeError, TypeError):
                continue
            if row.version == boostmetric.__version__:
                self.rows[row.task] = row

    def append(self, row: FitRow) -> None:
        """Write a row, and keep it."""
        self.rows[row.task] = row
        with self.path.open("a", encoding="utf-8") as file:
            file.write(self._separator + json.dumps(asdict(row)) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._separator = ""

    def is_hopeless(self, task: FitTask) -> bool:
        """Whether the same fit to another split took too long, or too much memory."""
        return any(row.status in (OVER_TIME, OUT_OF_MEMORY) and row.task[:3] == task[:3] for row in self.rows.values())


def run(
    tasks: Sequence[FitTask],
    execute: Callable[[FitTask], dict[str, Any]],
    file: RowFile,
    *,
    jobs: int = 1,
    time_limit: float = 600.0,
    on_row: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Carry out the tasks that have no row yet.

    Parameters
    ----------
    tasks : sequence of FitTask
        A task is left out where the same fit to another split took too long.
    execute : callable
        What to measure; called in other processes, so it must be picklable.
    file : RowFile
    jobs : int, default=1
        Processes at work at the same time.
    time_limit : float, default=600.0
        Seconds after which a fit is given up.
    on_row : callable, optional
        Told how many tasks are done, of how many.
    """
    waiting = [task for task in tasks if task not in file.rows][::-1]
    workers = [_Worker(execute, jobs) for _ in range(min(jobs, len(waiting)))]
    try:
        while True:
            while waiting and file.is_hopeless(waiting[-1]):
                waiting.pop()
            for worker in workers:
                if worker.task is None and waiting:
                    worker.begin(waiting.pop(), time_limit)
            busy = [worker for worker in workers if worker.task is not None]
            on_row(len(tasks) - len(waiting) - len(busy), len(tasks))
            if not busy:
                return
            for row in _next_rows(busy):
                file.append(row)
    finally:
        for worker in workers:
            worker.end()


def _next_rows(busy: list[_Worker]) -> list[FitRow]:
    """Wait until a fit ends, or has taken too long."""
    until = min(worker.deadline for worker in busy)
    ready = wait([worker.connection for worker in busy], timeout=max(0.0, until - monotonic()))
    ended = [worker.answer() for worker in busy if worker.connection in ready]
    late = [worker.give_up() for worker in busy if worker.task is not None and worker.deadline <= monotonic()]
    return ended + late


class _Worker:
    """A process that carries out one task after the other, and is replaced where it has to be ended."""

    def __init__(self, execute: Callable[[FitTask], dict[str, Any]], jobs: int) -> None:
        self.task: FitTask | None = None
        self.deadline = math.inf
        self._execute, self._jobs = execute, jobs
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # threads of this process are not to be forked
        self.connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self._execute, self._jobs))
        self._process.start()
        self._ready = False
        other.close()

    def begin(self, task: FitTask, time_limit: float) -> None:
        if not self._ready:
            self.connection.recv()  # imports take seconds, which are not the fit's
            self._ready = True
        self.task, self.deadline = task, monotonic() + time_limit + _GRACE
        self._limit = time_limit
        self.connection.send((task, time_limit))

    def answer(self) -> FitRow:
        """The row that was sent, or one about a process that died."""
        try:
            status, figures, message = self.connection.recv()
        except EOFError:
            self._process.join()
            code = self._process.exitcode
            status, figures, message = FAILED, {}, f"The process ended with exit status {code}."
            self._start()
        return self._row(status, figures, message)

    def give_up(self) -> FitRow:
        self.end()
        self._start()
        return self._row(OVER_TIME, {}, f"over {self._limit:g} s")

    def _row(self, status: str, figures: dict[str, Any], message: str) -> FitRow:
        assert self.task is not None
        row = FitRow(*self.task, boostmetric.__version__, status, figures, message)
        self.task, self.deadline = None, math.inf
        return row

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()


def _serve(connection: Connection, execute: Callable[[FitTask], dict[str, Any]], jobs: int) -> None:
    """Carry out tasks until the other side is gone."""
    from threadpoolctl import threadpool_limits

    _limit_memory(jobs)
    warnings.simplefilter("ignore")  # they would break the progress bar; why a fit ended is in its row
    connection.send("ready")
    with threadpool_limits(limits=1 if jobs > 1 else None):
        while True:
            try:
                task, time_limit = connection.recv()
            except EOFError:
                return
            try:
                figures = execute(task)
                late = figures.get("seconds", 0.0) > time_limit
                answer = (OVER_TIME, {}, f"over {time_limit:g} s") if late else (OK, figures, "")
            except MemoryError as error:
                answer = (OUT_OF_MEMORY, {}, str(error))
            except Exception as error:  # whatever it is, it is this row's and not the end
                answer = (FAILED, {}, f"{type(error).__name__}: {error}")
            connection.send(answer)


def _limit_memory(jobs: int) -> None:
    """Let a fit that needs more than its share of the memory fail, before the system ends something else."""
    try:
        import resource

        installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, AttributeError, ValueError):  # not on every system
        return
    share = int(_MOST_MEMORY * installed / jobs)
    resource.setrlimit(resource.RLIMIT_DATA, (share, share))
