"""Embeddings in single precision on this machine's processors: fits against searches and products of the same points.

Times are those of the processors (`time.process_time`), which other work on the machine changes less than the clock;
seconds by the clock stand beside them.
"""

import ctypes
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from sklearn.neighbors import NearestNeighbors

from benchmarks import adapters
from boostmetric import BoostMetric, Comparisons
from boostmetric.engines.threads import ThreadBackend
from boostmetric.paper.datasets import MissingDataError
from boostmetric.paper.protocol import TrainTestSplit
from boostmetric.parallel.blas import single_threaded_blas
from boostmetric.solver.learn import learn

_SETS = ("CLINC150", "HWU64")
_N_NEIGHBORS = 10
_TARGETS, _ITERATIONS = 3, 3
_ROWS_AT_ONCE = 512
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """Fits over scikit-learn's search for ten neighbours of all points; an iteration over two products; memory."""
    rows = []
    for row in measured(data_dir):
        rows.append(row)
        shown = (f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}" for key, value in row.items())
        print("  " + "; ".join(shown), flush=True)
    return rows


def measured(data_dir: Path | None) -> Iterator[dict[str, object]]:
    """Run the measurements one after the other."""
    rng = np.random.default_rng(0)
    small = rng.standard_normal((600, 160)).astype(np.float32), np.arange(600) % 3
    BoostMetric(n_passes=1, random_state=0).fit(*small)  # load the kernels
    learn(small[0], Comparisons.from_labels(*small, _TARGETS, "all"), max_iter=2)
    for name in _SETS:
        try:
            split = adapters.load(name, data_dir)
        except MissingDataError as missing:
            print(f"{name} left out. {missing}")
            continue
        yield from fits(name, split)
        yield all_impostors(name, split.X_train, split.y_train)


def fits(name: str, split: TrainTestSplit, **parameters: object) -> Iterator[dict[str, object]]:
    """Fits with all threads, and the search before each of them."""
    for setting, metric in {
        "plain": BoostMetric(random_state=0, n_jobs=-1, **parameters),
        "recommended": BoostMetric.recommended(random_state=0, n_jobs=-1, **parameters),
    }.items():
        search = Timed(
            lambda: NearestNeighbors(n_neighbors=_N_NEIGHBORS, algorithm="brute").fit(split.X_train).kneighbors()
        )
        fit = Timed(lambda metric=metric: metric.fit(split.X_train, split.y_train))
        yield {
            "set": name,
            "fit": setting,
            "over the search": fit.cpu / search.cpu,
            "CPU, s": fit.cpu,
            "clock, s": fit.clock,
            "search, CPU, s": search.cpu,
            "memory over points": fit.memory / split.X_train.nbytes,
            **adapters.errors(split, metric.transform),
        }


def all_impostors(name: str, X: np.ndarray, y: np.ndarray) -> dict[str, object]:
    """An iteration of the paper's method on one thread, with all impostors, over two products of all pairs."""
    comparisons = Comparisons.from_labels(X, y, _TARGETS, "all")
    times: list[float] = []
    with single_threaded_blas():
        fit = Timed(
            lambda: learn(
                X,
                comparisons,
                max_iter=_ITERATIONS,
                backend=ThreadBackend(1),
                on_iteration=[lambda record: times.append(process_time())],
            )
        )
        products = Timed(lambda: two_products(X))
    return {
        "set": name,
        "fit": "all impostors",
        "an iteration, CPU, s": float(np.median(np.diff(times))),
        "two products, CPU, s": products.cpu,
        "over the products": float(np.median(np.diff(times))) / products.cpu,
        "memory over pairs in float64": fit.memory / (8 * len(X) ** 2),
    }


def two_products(X: np.ndarray) -> None:
    """All inner products of the points, and the product of a matrix of that size with the points."""
    room = np.empty((_ROWS_AT_ONCE, len(X)), dtype=X.dtype)
    for begin in range(0, len(X), _ROWS_AT_ONCE):
        rows = X[begin : begin + _ROWS_AT_ONCE]
        np.matmul(rows, X.T, out=room[: len(rows)])
        np.matmul(room[: len(rows)], X)


class Timed:
    """Time that work takes by the processors and by the clock, and the memory that it takes at most.

    Attributes
    ----------
    cpu, clock : float
        Seconds.
    memory : float
        Bytes; NaN where the system does not tell.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        gc.collect()
        with suppress(OSError, AttributeError):  # give freed memory back, if there is such a function
            ctypes.CDLL(None).malloc_trim(0)
        before = _memory("VmRSS")
        if _RESET.exists() and os.access(_RESET, os.W_OK):
            _RESET.write_text("5")  # forget the peak so far
        cpu, clock = process_time(), perf_counter()
        work()
        self.cpu, self.clock = process_time() - cpu, perf_counter() - clock
        self.memory = _memory("VmHWM") - before


def _memory(name: str) -> float:
    """Bytes that this process has, from the system's table."""
    if not _STATUS.exists():
        return float("nan")
    lines = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
    return 1024 * float(lines[name].split()[0])
