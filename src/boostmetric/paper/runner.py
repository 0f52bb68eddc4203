"""Run many fits, in sequence or in parallel, and write the result of each as a row of a file.

Fits run in other processes, so that one that takes too long, needs too much memory or crashes becomes a row that says
so. Rows are appended as fits finish: a run that was killed resumes where it stopped.
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

# Seconds beyond the limit of a fit, to read the data and compute the test error.
_GRACE = 60.0
# Share of the machine's memory that all fits together may use.
_MOST_MEMORY = 0.9

OK, OVER_TIME, OUT_OF_MEMORY, FAILED = "ok", "over time", "out of memory", "failed"


class FitTask(NamedTuple):
    """One fit to run, described by the key of its row."""

    experiment: str
    data: str
    system: str
    seed: int


@dataclass(frozen=True)
class FitRow:
    """Result of a fit.

    Attributes
    ----------
    experiment, data, system, seed
        Fields of the `FitTask`.
    version : str
        Version of boostmetric.
    status : str
        "ok", "over time", "out of memory" or "failed".
    figures : dict
        Measurements; empty unless ok.
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
        """The task of this row."""
        return FitTask(self.experiment, self.data, self.system, self.seed)

    @property
    def trouble(self) -> str:
        """What went wrong, and in which fit; `data` alone, such as the size of a codebook, would not tell."""
        return f"{self.experiment}, {self.data}, {self.system}, split {self.seed}: {self.status}. {self.message}"


class RowFile:
    """File with a line of JSON for each fit.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    rows : dict of FitTask to FitRow
        Rows written by this version of boostmetric; others are ignored.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[FitTask, FitRow] = {}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        # A run that was killed while writing leaves a partial line; the next row must start on a new one.
        self._separator = "" if not text or text.endswith("\n") else "\n"
        for line in text.splitlines():
            try:
                row = FitRow(**json.loads(line))
            except (json.JSONDecodeError, TypeError):
                continue
            if row.version == boostmetric.__version__:
                self.rows[row.task] = row

    def append(self, row: FitRow) -> None:
        """Append a row to the file and to `rows`."""
        self.rows[row.task] = row
        with self.path.open("a", encoding="utf-8") as file:
            file.write(self._separator + json.dumps(asdict(row)) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._separator = ""

    def is_hopeless(self, task: FitTask) -> bool:
        """Whether the same fit on another split took too much time or memory."""
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
    """Run the tasks that have no row yet.

    Parameters
    ----------
    tasks : sequence of FitTask
        A task is skipped if the same fit on another split took too much time or memory.
    execute : callable
        Runs a task and returns its measurements; called in other processes, so it must be picklable.
    file : RowFile
    jobs : int, default=1
        Number of parallel processes.
    time_limit : float, default=600.0
        Seconds after which a fit is stopped.
    on_row : callable, optional
        Called with the number of tasks done and the total.
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
    """Wait until a fit ends or exceeds its time limit, and return the new rows."""
    until = min(worker.deadline for worker in busy)
    ready = wait([worker.connection for worker in busy], timeout=max(0.0, until - monotonic()))
    ended = [worker.answer() for worker in busy if worker.connection in ready]
    late = [worker.give_up() for worker in busy if worker.task is not None and worker.deadline <= monotonic()]
    return ended + late


class _Worker:
    """Process that runs tasks one by one, and is replaced if it has to be killed."""

    def __init__(self, execute: Callable[[FitTask], dict[str, Any]], jobs: int) -> None:
        self.task: FitTask | None = None
        self.deadline = math.inf
        self._execute, self._jobs = execute, jobs
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # threads of this process must not be forked
        self.connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self._execute, self._jobs))
        self._process.start()
        self._ready = False
        other.close()

    def begin(self, task: FitTask, time_limit: float) -> None:
        if not self._ready:
            self.connection.recv()  # imports take seconds, which do not count for the fit
            self._ready = True
        self.task, self.deadline = task, monotonic() + time_limit + _GRACE
        self._limit = time_limit
        self.connection.send((task, time_limit))

    def answer(self) -> FitRow:
        """Row that the process sent, or a row saying that it died."""
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
    """Run tasks until the other side closes the connection."""
    from threadpoolctl import threadpool_limits

    _limit_memory(jobs)
    warnings.simplefilter("ignore")  # they would break the progress bar; the row says why a fit stopped
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
            except Exception as error:  # whatever it is, it fails this row only, not the run
                answer = (FAILED, {}, f"{type(error).__name__}: {error}")
            connection.send(answer)


def _limit_memory(jobs: int) -> None:
    """Make a fit that exceeds its share of the memory fail, before the system kills another process."""
    try:
        import resource

        installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, AttributeError, ValueError):  # not on every system
        return
    share = int(_MOST_MEMORY * installed / jobs)
    resource.setrlimit(resource.RLIMIT_DATA, (share, share))
