"""A fit on a Ray cluster of this machine beside one in a process: CPU time, rounds and bytes of an iteration."""

import importlib.util
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks import LeftOutError
from boostmetric import Comparisons
from boostmetric.engines.place import Place
from boostmetric.engines.ray import RayEngine, RayWorkers
from boostmetric.engines.threads import Threads
from boostmetric.solver.learn import learn

_N_POINTS, _N_FEATURES, _N_TRIPLETS = 100_000, 128, 2_000_000
_ITERATIONS = 12
_N_WORKERS = 2


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """2 million triplets on 100,000 x 128 points, on two threads and on two workers of a Ray cluster."""
    if importlib.util.find_spec("ray") is None:
        raise LeftOutError("It needs ray: pip install 'boostmetric[ray]'.")
    rng = np.random.default_rng(0)
    points = rng.standard_normal((_N_POINTS, _N_FEATURES))
    triplets = rng.integers(0, _N_POINTS, (_N_TRIPLETS, 3))
    triplets = triplets[(triplets != np.roll(triplets, 1, axis=1)).all(axis=1)]
    # What a hidden metric says, as often as not.
    hidden = points * np.linspace(1.0, 0.0, _N_FEATURES)
    near, far = (np.linalg.norm(hidden[triplets[:, 0]] - hidden[triplets[:, c]], axis=1) for c in (1, 2))
    swap = (near > far) ^ (rng.random(len(triplets)) < 0.2)
    triplets[swap] = triplets[swap][:, [0, 2, 1]]
    comparisons = Comparisons.from_triplets(triplets)
    threads = measure("threads", points, comparisons, Threads(_N_WORKERS), [])
    counted: list[RayWorkers] = []
    cluster = measure("Ray workers", points, comparisons, _Counting(counted), counted)
    cluster["CPU, times that of threads"] = float(cluster["CPU an iteration, s"]) / float(
        threads["CPU an iteration, s"]
    )
    cluster["loss, relative difference"] = abs(float(cluster["loss"]) / float(threads["loss"]) - 1)
    return [threads, cluster]


class _Counting:
    """A Ray cluster, whose workers are kept in a list to ask for their traffic."""

    def __init__(self, workers: list[RayWorkers]) -> None:
        self._workers = workers

    @contextmanager
    def engine(self, points, comparisons, *, logistic):
        with RayEngine(n_workers=_N_WORKERS).engine(points, comparisons, logistic=logistic) as workers:
            self._workers.append(workers)
            yield workers


def measure(
    name: str, points: np.ndarray, comparisons: Comparisons, place: Place, workers: list[RayWorkers]
) -> dict[str, object]:
    """Time, CPU time and traffic of an iteration, without the first three."""
    marks: list[tuple[float, float, tuple[int, int, int]]] = []

    def mark(record: object) -> None:
        traffic = tuple(workers[0].traffic) if workers else (0, 0, 0)
        marks.append((perf_counter(), cpu_seconds(), traffic))

    boosted = learn(points, comparisons, max_iter=_ITERATIONS, place=place, on_iteration=[mark])
    n = _ITERATIONS - 3
    (wall, cpu, before), (wall_end, cpu_end, after) = marks[2], marks[-1]
    rounds, sent, received = ((b - a) / n for a, b in zip(before, after, strict=True))
    row: dict[str, object] = {
        "on": f"{_N_WORKERS} {name}",
        "iteration, s": (wall_end - wall) / n,
        "CPU an iteration, s": (cpu_end - cpu) / n,
        "loss": boosted.history[-1].loss,
    }
    return row | ({"rounds": rounds, "sent, kB": sent / 1e3, "received, kB": received / 1e3} if workers else {})


def cpu_seconds() -> float:
    """Of this process and of the workers that Ray named after their class."""
    total, ticks = 0.0, os.sysconf("SC_CLK_TCK")
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if not folder.name.isdigit():
                continue
            ours = int(folder.name) == os.getpid()
            if ours or (folder / "cmdline").read_bytes().startswith(b"ray::Worker"):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                total += (int(fields[11]) + int(fields[12])) / ticks
    return total
