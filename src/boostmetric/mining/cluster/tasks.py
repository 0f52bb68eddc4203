"""Run tasks: in sequence in this process, or in parallel in processes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Literal, Protocol, TypeVar

import joblib
from threadpoolctl import threadpool_limits

from boostmetric.arrays.validation import check_choice
from boostmetric.engines.ray import RayEngine

# How often a task is given to another worker when its own was lost.
_MOST_RETRIES = 5
# Errors that users can fix; raised unchanged, as they would be in this process.
_FOR_USERS = (ValueError, OSError, ImportError, MemoryError)

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Run(Protocol):
    """Protocol of a function that runs a task for each item."""

    def __call__(
        self, task: Callable[[Shared, Item, int], Answer], shared: Shared, items: Iterable[Item]
    ) -> Iterator[tuple[Item, Answer]]:
        """Yield items with ``task(shared, item, n_threads)``, in the order in which they finish."""
        ...


@contextmanager
def tasks_on(engine: RayEngine | Literal["ray"] | None) -> Iterator[Run]:
    """Context that runs tasks on an engine; None is this process."""
    if engine is None:
        with threadpool_limits(limits=1, user_api="blas"):  # tasks have their own threads
            yield _in_process
        return
    if isinstance(engine, str):
        check_choice("engine", engine, ["ray"])
        engine = RayEngine()
    if not isinstance(engine, RayEngine):
        raise TypeError(f'engine must be "ray", a RayEngine, or None. Got {engine!r}.')
    with engine.connected() as ray:
        yield _RayTasks(ray, engine.n_workers or int(ray.cluster_resources().get("CPU", 1)))


def _in_process(task: Callable[[Any, Any, int], Any], shared: Any, items: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    n_threads = joblib.effective_n_jobs(-1)
    for item in items:
        yield item, task(shared, item, n_threads)


class _RayTasks:
    """Run tasks in `n_workers` processes at once; tasks of a lost worker are run again."""

    def __init__(self, ray: Any, n_workers: int) -> None:
        self._ray, self._n_workers = ray, n_workers
        self._answer = ray.remote(num_cpus=1, max_retries=_MOST_RETRIES, scheduling_strategy="SPREAD")(answer)

    def __call__(
        self, task: Callable[[Any, Any, int], Any], shared: Any, items: Iterable[Any]
    ) -> Iterator[tuple[Any, Any]]:
        sent, left = self._ray.put(shared), iter(items)
        running = {self._answer.remote(task, sent, item): item for item in islice(left, self._n_workers)}
        # After an error, running tasks are left to finish: cancelling a task that had just finished made Ray 2.60 end
        # this process ("Tried to complete task that was not pending").
        while running:
            (done,), _ = self._ray.wait(list(running), num_returns=1)
            found = self._get(done)
            item = running.pop(done)
            running |= {self._answer.remote(task, sent, item): item for item in islice(left, 1)}
            yield item, found

    def _get(self, reference: Any) -> Any:
        errors = self._ray.exceptions
        try:
            found = self._ray.get(reference)
        except (errors.WorkerCrashedError, errors.OutOfMemoryError, errors.NodeDiedError) as error:
            raise RuntimeError(
                f"A worker was lost {_MOST_RETRIES + 1} times at the same task. Check the cluster (`ray status`), "
                "above all its memory; then the same call continues from the finished parts."
            ) from error
        if isinstance(found, Exception):
            raise found
        return found


def answer(task: Callable[[Any, Any, int], Any], shared: Any, item: Any) -> Any:
    """Run a task on one processor; return errors for users as answers, so that Ray does not wrap them."""
    with threadpool_limits(limits=1, user_api="blas"):
        try:
            return task(shared, item, 1)
        except _FOR_USERS as error:
            return error
