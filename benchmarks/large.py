"""A hundred million triplets in files that workers read themselves: time, traffic and memory."""

import importlib.util
import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks import LeftOutError
from boostmetric.engines.ray import RayEngine, RayShardPool
from boostmetric.solver.file_problem import FileProblem
from boostmetric.solver.learn import solve
from boostmetric.solver.plan import Settings
from boostmetric.tables import ComparisonFiles

_N_POINTS, _N_FEATURES = 100_000, 64
# All combinations of some near and some far points per anchor, like clicked and skipped results.
_N_NEAR, _N_FAR = 20, 50
_POINTS_PER_FILE = 2_000
_ITERATIONS = 6
_N_WORKERS = 2


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """100 million triplets of 100,000 x 64 points in 50 Parquet files: two Ray workers, in two processes or one."""
    del data_dir
    if importlib.util.find_spec("ray") is None or importlib.util.find_spec("pyarrow") is None:
        raise LeftOutError("It needs ray and pyarrow: pip install 'boostmetric[ray,data]'.")
    with tempfile.TemporaryDirectory() as folder:
        begun = perf_counter()
        n_triplets = write(Path(folder))
        print(f"  {n_triplets:,} triplets were written in {perf_counter() - begun:.0f} s.", flush=True)
        return [measure(Path(folder), n_triplets, n) for n in (1, _N_WORKERS)]


def write(folder: Path) -> int:
    """Write points and triplets; for a fifth of the anchors the triplets are reversed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    points = rng.standard_normal((_N_POINTS, _N_FEATURES), dtype=np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(points.ravel()), _N_FEATURES)
    pq.write_table(pa.table({"id": np.arange(_N_POINTS), "vector": vectors}), folder / "points.parquet", 2**14)
    hidden = points * np.linspace(1.0, 0.0, _N_FEATURES, dtype=np.float32)
    n_triplets = 0
    for begin in range(0, _N_POINTS, _POINTS_PER_FILE):
        anchor = np.arange(begin, begin + _POINTS_PER_FILE)
        drawn = rng.integers(1, _N_POINTS, (len(anchor), _N_NEAR + _N_FAR))
        others = (anchor[:, None] + np.sort(drawn, axis=1)) % _N_POINTS
        order = np.argsort(np.square(hidden[others] - hidden[anchor, None]).sum(axis=2), axis=1)
        ranked = np.take_along_axis(others, order, axis=1)
        wrong = rng.random(len(anchor)) < 0.2
        ranked[wrong] = ranked[wrong, ::-1]
        triplets = np.broadcast_arrays(anchor[:, None, None], ranked[:, :_N_NEAR, None], ranked[:, None, _N_NEAR:])
        columns = [column.ravel() for column in triplets]
        distinct = columns[1] != columns[2]  # drawn twice
        table = dict(zip(("anchor", "near", "far"), (column[distinct] for column in columns), strict=True))
        pq.write_table(pa.table(table), folder / f"triplets-{begin:06}.parquet", 2**20)
        n_triplets += int(distinct.sum())
    return n_triplets


class _Counting:
    """A Ray cluster that exposes its traffic."""

    workers: RayShardPool

    def __init__(self, workers_per_process: int) -> None:
        self._engine = RayEngine(None, _N_WORKERS, workers_per_process, timeout=3600.0)
        self.pool = self._engine.pool

    @contextmanager
    def shared_pool(self, shares, n_features, loss, shift=None):
        with self._engine.shared_pool(shares, n_features, loss, shift) as (self.workers, *rest):
            yield self.workers, *rest


def measure(folder: Path, n_triplets: int, workers_per_process: int) -> dict[str, object]:
    """Time until the first iteration, time and traffic of the others, and peak memory per process."""
    files = ComparisonFiles(folder / "points.parquet", str(folder / "triplets-*.parquet"), id="id")
    marks: list[tuple[float, tuple[int, ...]]] = []
    backend = _Counting(workers_per_process)
    peaks: list[float] = []

    def mark(record: object) -> None:
        marks.append((perf_counter(), tuple(backend.workers.traffic)))
        if len(marks) == _ITERATIONS:
            peaks.extend(memory())

    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    begun = perf_counter()
    boosted = solve(FileProblem(files.opened()), Settings(backend=backend), max_iter=_ITERATIONS, on_iteration=[mark])
    n = len(marks) - 1
    rounds, sent, received = ((b - a) / n for a, b in zip(marks[0][1], marks[-1][1], strict=True))
    return {
        "triplets": float(n_triplets),
        "processes": _N_WORKERS // workers_per_process,
        "threads of each": workers_per_process,
        "until the first iteration is done, s": marks[0][0] - begun,
        "iteration, s": (marks[-1][0] - marks[0][0]) / n,
        "rounds": rounds,
        "sent, kB": sent / 1e3,
        "received, kB": received / 1e3,
        "memory of this process, GB": peaks[0],
        "of a process of workers, GB": max(peaks[1:]),
        "loss": boosted.history[-1].loss,
        "violated": boosted.history[-1].violated,
    }


def memory() -> list[float]:
    """Peak memory in GB: of this process, then of each worker."""
    ours, workers = 0.0, []
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            most = int((folder / "status").read_text().partition("VmHWM:")[2].split()[0]) / 1e6
            if folder.name == str(os.getpid()):
                ours = most
            elif (folder / "cmdline").read_bytes().startswith(b"ray::Worker"):
                workers.append(most)
    return [ours, *workers]
