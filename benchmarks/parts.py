"""Mining targets and impostors from files in parts, compared with all points at once: time, CPU time and memory."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext, suppress
from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks import LeftOutError

_N_POINTS, _N_FEATURES, _N_CLASSES, _N_FILES = 100_000, 64, 50, 8
_N_NEIGHBORS, _N_IMPOSTORS = 3, 10
_N_WORKERS = 2


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """100,000 x 64 points in 8 files, 3 targets and 10 impostors each: from_labels, and parts here and on Ray."""
    del data_dir
    if importlib.util.find_spec("ray") is None:
        raise LeftOutError("It needs ray: pip install 'boostmetric[ray]'.")
    with tempfile.TemporaryDirectory() as folder:
        write_points(Path(folder))
        rows = []
        for way in ("all at once", "parts, in one process", f"parts, on {_N_WORKERS} Ray workers"):
            command = [sys.executable, "-m", "benchmarks.parts", way, folder]
            answer = subprocess.run(command, capture_output=True, check=True)
            rows.append({"way": way, **json.loads(answer.stdout)})
    return rows


def write_points(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    label = rng.integers(0, _N_CLASSES, _N_POINTS)
    centres = rng.standard_normal((_N_CLASSES, _N_FEATURES))
    points = (centres[label] + 1.5 * rng.standard_normal((_N_POINTS, _N_FEATURES))).astype(np.float32)
    for number, rows in enumerate(np.array_split(np.arange(_N_POINTS), _N_FILES)):
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(points[rows].ravel()), _N_FEATURES)
        pq.write_table(pa.table({"id": rows, "label": label[rows], "vector": vectors}), folder / f"{number}.parquet")


def measure(way: str, folder: str) -> dict[str, object]:
    """One way to mine, run in its own process to measure memory; Ray workers are already running."""
    from boostmetric import Comparisons
    from boostmetric.engines.ray import RayEngine
    from boostmetric.mining import mine_neighbors
    from boostmetric.tables import read_points

    points = f"{folder}/*.parquet"
    engine = RayEngine(n_workers=_N_WORKERS) if "Ray" in way else None
    with nullcontext() if engine is None else engine.connected():
        before = perf_counter()
        if way == "all at once":
            table = read_points(points, id="id", label="label")
            n_pairs = len(Comparisons.from_labels(table.points, table.labels, _N_NEIGHBORS, _N_IMPOSTORS).members)
        else:
            options = {"label": "label", "id": "id", "n_neighbors": _N_NEIGHBORS, "n_impostors": _N_IMPOSTORS}
            n_pairs = mine_neighbors(points, f"{folder}/{way}", engine=engine, **options).n_rows
        seconds = perf_counter() - before
        here, *workers = used()
    return {
        "s": seconds,
        "CPU, s": sum(cpu for cpu, _ in (here, *workers)),
        "memory of this process, MB": here[1],
        "of a worker, MB": max((memory for _, memory in workers), default=0.0),
        "targets and impostors": n_pairs,
    }


def used() -> list[tuple[float, float]]:
    """CPU seconds and peak memory: of this process first, then of the workers of the cluster it started."""
    found, ours, ticks = {}, os.getpid(), os.sysconf("SC_CLK_TCK")
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):  # not a process, or a system process
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            memory = int((folder / "status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
            worker = (folder / "cmdline").read_bytes().startswith((b"ray::IDLE", b"ray::answer"))
            found[int(folder.name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / ticks, memory, worker
    workers = [rest for parent, *rest, worker in found.values() if worker and found.get(parent, (0,))[0] == ours]
    return [found[ours][1:3], *((cpu, memory) for cpu, memory in workers)]


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
