"""A fit on a local Ray cluster compared with one process: CPU time, rounds and bytes per iteration."""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from benchmarks import LeftOutError
from boostmetric import Comparisons
from boostmetric.engines.backend import Backend
from boostmetric.engines.ray import RayEngine, RayShardPool
from boostmetric.engines.threads import ThreadBackend
from boostmetric.solver.learn import learn

_N_POINTS, _N_FEATURES, _N_TRIPLETS = 100_000, 128, 2_000_000
_N_GROUPS, _PER_SIDE = 100_000, 3
_FEW = 2_000
_ITERATIONS = 12
_N_WORKERS = 2
_N_TURNS = 3


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """2 million triplets, and 100,000 groups, on 100,000 x 128 points: threads against two Ray workers."""
    if importlib.util.find_spec("ray") is None:
        raise LeftOutError("It needs ray: pip install 'boostmetric[ray]'.")
    rng = np.random.default_rng(0)
    points = rng.standard_normal((_N_POINTS, _N_FEATURES))
    return [
        *compare("triplets", points, Comparisons.from_triplets(answered(points, rng, _N_TRIPLETS, 1))),
        *compare("groups", points, Comparisons.from_triplets(answered(points, rng, _N_GROUPS, _PER_SIDE))),
        *rounds_alone(points, Comparisons.from_triplets(answered(points, rng, _FEW, 1))),
    ]


def answered(points: np.ndarray, rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    """Triplets of n points with k near and k far ones under a hidden metric; a fifth of them are reversed."""
    tuples = rng.integers(0, _N_POINTS, (n, 1 + 2 * k))
    tuples[:, 0] = np.resize(rng.permutation(_N_POINTS), n)  # a repeated anchor would break up its group
    ranked = np.sort(tuples, axis=1)
    tuples = tuples[(ranked[:, 1:] != ranked[:, :-1]).all(axis=1)]
    hidden = points * np.linspace(1.0, 0.0, _N_FEATURES)
    distance = [np.linalg.norm(hidden[tuples[:, 0]] - hidden[column], axis=1) for column in tuples.T[1:]]
    nearest_first = np.take_along_axis(tuples[:, 1:], np.argsort(np.stack(distance, axis=1), axis=1), axis=1)
    opposite = rng.random(len(tuples)) < 0.2
    nearest_first[opposite] = nearest_first[opposite, ::-1]
    near, far = nearest_first[:, :k], nearest_first[:, k:]
    columns = (tuples[:, :1, None], near[:, :, None], far[:, None, :])
    return np.stack(np.broadcast_arrays(*columns), axis=-1).reshape(-1, 3)


def compare(kind: str, points: np.ndarray, comparisons: Comparisons) -> list[dict[str, object]]:
    """Rows for one thread, for one thread per worker, and for Ray workers: medians of runs in turn."""
    runs: dict[str, list[dict[str, float]]] = {}
    for _ in range(_N_TURNS):
        backends: dict[str, Backend] = {
            "1 thread": ThreadBackend(),
            f"{_N_WORKERS} threads": ThreadBackend(_N_WORKERS),
            f"{_N_WORKERS} Ray workers": _Counting(RayEngine(n_workers=_N_WORKERS)),
            f"{_N_WORKERS} Ray workers, a process each": _Counting(RayEngine(None, _N_WORKERS, 1)),
        }
        for name, backend in backends.items():
            runs.setdefault(name, []).append(measure(points, comparisons, backend))
    rows = {name: median_of(of_backend) for name, of_backend in runs.items()}
    one, many, *clusters = rows
    for cluster in clusters:
        for name in (one, many):
            ratio = rows[cluster]["CPU an iteration, s"] / rows[name]["CPU an iteration, s"]
            rows[cluster][f"CPU, times that of {name}"] = ratio
        rows[cluster]["loss, relative difference"] = abs(rows[cluster]["loss"] / rows[one]["loss"] - 1)
    return [{"comparisons": kind, "on": name} | row for name, row in rows.items()]


def median_of(rows: list[dict[str, float]]) -> dict[str, float]:
    """Median of each figure, since other work on the machine disturbs some runs."""
    return {name: float(np.median([row[name] for row in rows])) for name in rows[0]}


def rounds_alone(points: np.ndarray, comparisons: Comparisons) -> Iterator[dict[str, object]]:
    """Cost of a round and of each process, with so few comparisons that rounds dominate."""
    for n_processes in (1, 2, 4, 8):
        row = measure(points, comparisons, _Counting(RayEngine(None, n_processes, 1)))
        yield {"comparisons": f"{_FEW:,} triplets", "on": f"{n_processes} processes of Ray"} | row


class _Counting:
    """A Ray cluster that exposes its traffic."""

    workers: RayShardPool

    def __init__(self, engine: RayEngine) -> None:
        self._engine = engine

    @contextmanager
    def pool(self, points, comparisons, loss):
        with self._engine.pool(points, comparisons, loss) as self.workers:
            yield self.workers


def measure(points: np.ndarray, comparisons: Comparisons, backend: Backend) -> dict[str, float]:
    """Time, CPU time and traffic per iteration, without the first three."""
    marks: list[tuple[float, float, float, tuple[int, int, int]]] = []

    def mark(record: object) -> None:
        traffic = tuple(backend.workers.traffic) if isinstance(backend, _Counting) else (0, 0, 0)
        marks.append((perf_counter(), cpu_seconds(), process_time(), traffic))

    boosted = learn(points, comparisons, max_iter=_ITERATIONS, backend=backend, on_iteration=[mark])
    n = _ITERATIONS - 3
    (wall, cpu, own, before), (wall_end, cpu_end, own_end, after) = marks[2], marks[-1]
    rounds, sent, received = ((b - a) / n for a, b in zip(before, after, strict=True))
    row = {
        "iteration, s": (wall_end - wall) / n,
        "CPU an iteration, s": (cpu_end - cpu) / n,
        "of it in this process, s": (own_end - own) / n,
        "loss": boosted.history[-1].loss,
    }
    if not isinstance(backend, _Counting):
        return row
    return row | {"rounds": rounds, "sent, kB": sent / 1e3, "received, kB": received / 1e3}


def cpu_seconds() -> float:
    """CPU seconds of this process and of its Ray workers, which are found by their process names."""
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
