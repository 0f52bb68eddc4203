"""How close each verb comes to memory bandwidth."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np

from boostmetric import Comparisons
from boostmetric.arrays.frame import Frame
from boostmetric.engines.threads import ThreadShardPool
from boostmetric.oracles.cpu import make_shards
from boostmetric.oracles.group_shard import GroupShard
from boostmetric.oracles.losses import EXPONENTIAL
from boostmetric.oracles.point_rows import as_points
from boostmetric.oracles.sharded import ShardedOracle
from boostmetric.parallel.blas import single_threaded_blas
from boostmetric.parallel.crew import Crew
from boostmetric.solver.loop import Stagewise, boost
from boostmetric.solver.result import Progress
from boostmetric.solver.step import exact_step

N_THREADS = 2


def labelled_problem(
    n_pairs: int, n_features: int = 16, n_near: int = 3, n_far: int = 47
) -> tuple[np.ndarray, Comparisons]:
    """About n_pairs pairs of points that are also near each other in memory, as in data sorted by class."""
    rng = np.random.default_rng(0)
    n_points = n_pairs // (n_near + n_far)
    points = rng.standard_normal((n_points, n_features))
    anchors = np.arange(n_points)
    reach = min(2000, n_points // 4)
    steps = np.array([rng.choice(reach, n_near + n_far, replace=False) + 1 for _ in range(min(1000, n_points))])
    others = (anchors[:, None] + steps[anchors % len(steps)]) % n_points
    return points, Comparisons.from_groups(others[:, :n_near], others[:, n_near:], anchors=anchors)


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """Ten million pairs in groups of 3 x 47, 16 features, two threads: bytes a verb must move, compared with a copy.

    Streamed arrays are read or written in order, each once, and come from memory. Gathered data are reached through an
    index, such as the row of a point for every pair; here they come from the caches.
    """
    del data_dir
    points, comparisons = labelled_problem(10_000_000)
    crew = Crew(N_THREADS)
    shards = make_shards(as_points(Frame.of(points).points, crew), comparisons, EXPONENTIAL)
    members = sum(len(shard._members) for shard in shards if isinstance(shard, GroupShard))
    pairs = sum(len(shard._second) for shard in shards)
    n_points = sum(len(shard._points) for shard in shards)
    width = points.shape[1]
    with single_threaded_blas(), crew:
        oracle = ShardedOracle(ThreadShardPool(shards, crew), width, EXPONENTIAL, 1.0)
        oracle.rebuild(np.zeros((0, width)), np.zeros(0))
        xi = np.linalg.eigh(oracle.gram())[1][:, -1]
        oracle.project(xi)
        row_bytes = 8 * width
        verbs: dict[str, tuple[Callable[[], object], float, float]] = {
            "gram": (oracle.gram, pairs * (4 + 8) + n_points * (row_bytes + 8), pairs * (row_bytes + 16)),
            "project": (
                lambda: oracle.project(xi),
                pairs * 4 + members * (4 + 8) + n_points * row_bytes,
                pairs * (8 + 8) + members * 8,
            ),
            "moments": (lambda: oracle.moments(np.zeros(1)), members * (8 + 8), 0.0),
            "commit": (lambda: oracle.commit(1e-9), members * (16 + 16 + 8 + 4) + pairs * 8, members * 16),
        }
        copy = copy_bandwidth()
        rows: list[dict[str, object]] = []
        for name, (verb, *n_bytes) in verbs.items():
            seconds = best_of(verb, prepare=lambda: oracle.project(xi))
            rows.append(row(name, seconds, *n_bytes, copy))
        evaluations: list[float] = []
        moments = oracle.moments
        oracle.moments = lambda steps: (evaluations.append(1.0), moments(steps))[1]  # type: ignore[method-assign]
        n_iterations = 10

        def iterate(n: int) -> float:
            start = perf_counter()
            boost(
                oracle,
                1e-7,
                start=Progress.nothing(width),
                max_iter=n,
                tol=0.0,
                solver=Stagewise(exact_step),
                on_iteration=lambda record, so_far: None,
                rng=np.random.RandomState(0),
            )
            return perf_counter() - start

        one = iterate(1)
        evaluations.clear()
        seconds = (iterate(1 + n_iterations) - one) / n_iterations
        per_iteration = len(evaluations) / (1 + n_iterations)
    times = {name: per_iteration if name == "moments" else 1.0 for name in verbs}
    streamed, gathered = (sum(times[name] * verbs[name][i] for name in verbs) for i in (1, 2))  # type: ignore[misc, operator]
    rows.append(row(f"iteration ({per_iteration:.1f} moments)", seconds, streamed, gathered, copy))
    return rows


def row(name: str, seconds: float, streamed: float, gathered: float, copy: float) -> dict[str, object]:
    return {
        "verb": name,
        "ms": 1e3 * seconds,
        "MB streamed": streamed / 1e6,
        "MB gathered": gathered / 1e6,
        "copy GB/s": copy,
        "% of copy, streamed": 100 * streamed / seconds / 1e9 / copy,
        "% of copy, all": 100 * (streamed + gathered) / seconds / 1e9 / copy,
    }


def best_of(function: Callable[[], object], prepare: Callable[[], object], n: int = 5) -> float:
    times = []
    for _ in range(n):
        prepare()
        start = perf_counter()
        function()
        times.append(perf_counter() - start)
    return min(times)


def copy_bandwidth() -> float:
    """Bytes read and written per nanosecond by a copy of large arrays on N_THREADS threads."""

    class Part:
        def __init__(self) -> None:
            self.source, self.target = np.ones(2**26), np.ones(2**26)

        def copy(self) -> None:
            np.copyto(self.target, self.source)

    parts = [Part() for _ in range(N_THREADS)]
    with Crew(N_THREADS) as crew:
        seconds = best_of(lambda: crew.each(Part.copy, parts), prepare=lambda: None)
    return 16 * 2**26 * N_THREADS / seconds / 1e9
