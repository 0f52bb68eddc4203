"""Experiments of the paper, as tasks for the `runner` and functions that measure each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.baselines import LMNN, MMC, NCA, RCA, PSDBoost
from boostmetric.comparisons import Comparisons
from boostmetric.estimators import BoostMetric
from boostmetric.paper.archive import content_hash
from boostmetric.paper.datasets import BENCHMARKS, Benchmark, MissingDataError, concentric_circles, load
from boostmetric.paper.image_experiments import (
    IMAGE_BENCHMARKS,
    IMAGES_OF,
    ImageBenchmark,
    image_tasks,
    measure,
    prepare,
)
from boostmetric.paper.protocol import TrainTestSplit, paper_setting, run, split
from boostmetric.paper.runner import FitTask
from boostmetric.paper.validated import ValidatedIterations
from boostmetric.vision import UnusableImageError

# Columns of Table 2: those of the paper, then our own.
SYSTEMS: dict[str, Callable[[Benchmark], Any]] = {
    "Euclidean": lambda benchmark: None,
    "Xing": lambda benchmark: MMC(random_state=0),
    "RCA": lambda benchmark: RCA(),
    "NCA": lambda benchmark: NCA(random_state=0),
    "LMNN": lambda benchmark: LMNN(n_neighbors=benchmark.n_neighbors),
    "BoostMetric": paper_setting,
    "validated iterations": lambda benchmark: ValidatedIterations(paper_setting(benchmark)),
    "recommended": lambda benchmark: BoostMetric.recommended(random_state=0),
    "PSDBoost": lambda benchmark: PSDBoost(n_neighbors=benchmark.n_neighbors, n_impostors=benchmark.n_neighbors),
}
# Table 3: the regularization v.
TRACE_WEIGHTS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
TABLE_3 = ("Bal", "Breast-Cancer", "Diabetes")
# Running time against the dimension.
TIMED = ("BoostMetric", "LMNN")
DIMENSIONS = (50, 100, 200, 300, 500, 700, 1000)
_N_TRIPLETS = 250
# Error against the number of triplets: number of targets, and of impostors, per sample.
NEIGHBORS = (1, 2, 3, 5, 7, 10)
TRIPLETS = ("Bal", "Vehicle", "Letters")
# Convergence of both solvers, on sets that no metric separates: on separable sets the loss has no minimum.
SOLVERS = ("stagewise", "corrective")
CONVERGENCE = ("Bal", "Vehicle", "Diabetes", "Letters")

ALL_SETS: tuple[Benchmark | ImageBenchmark, ...] = (*BENCHMARKS, *IMAGE_BENCHMARKS)
EXPERIMENTS = ("table2", "table3", "cputime", "convergence", "triplets", "motorbikes", "faces")


def tasks(
    experiment: str,
    chosen: Sequence[Benchmark | ImageBenchmark] = ALL_SETS,
    runs: int | None = None,
    systems: Sequence[str] = (),
) -> list[FitTask]:
    """List the tasks of an experiment.

    Parameters
    ----------
    experiment : str
        One of `EXPERIMENTS`.
    chosen : sequence of Benchmark or ImageBenchmark
        Sets to use, for experiments on several sets.
    runs : int, optional
        Maximum number of splits per set; by default as in the paper.
    systems : sequence of str, optional
        Columns of Table 2; all by default.
    """
    names = {benchmark.name: benchmark for benchmark in chosen if isinstance(benchmark, Benchmark)}

    def over_splits(data: Sequence[str], columns: Sequence[str], most: int | None = None) -> list[FitTask]:
        return [
            FitTask(experiment, name, column, seed)
            for name in data
            if name in names
            for column in columns
            for seed in range(min(names[name].n_runs, most or names[name].n_runs))
        ]

    if experiment == "table2":
        return over_splits(list(names), list(systems or SYSTEMS), runs)
    if experiment == "table3":
        return over_splits(TABLE_3, [f"{v:g}" for v in TRACE_WEIGHTS], runs)
    if experiment == "triplets":
        return over_splits(TRIPLETS, [str(k) for k in NEIGHBORS], min(runs or 3, 3))
    if experiment == "convergence":
        return over_splits(CONVERGENCE, SOLVERS, 1)
    if experiment == "cputime":
        n_seeds = min(runs or 3, 3)
        return [
            FitTask(experiment, str(dimension), system, seed)
            for system in TIMED
            for dimension in DIMENSIONS
            for seed in range(n_seeds)
        ]
    if experiment in ("motorbikes", "faces"):
        images = [benchmark for benchmark in chosen if isinstance(benchmark, ImageBenchmark)]
        return [task for benchmark in images if benchmark.source == experiment for task in image_tasks(benchmark, runs)]
    raise ValueError(f"There is no experiment {experiment!r}. Available experiments: {', '.join(EXPERIMENTS)}.")


def find_data(planned: Sequence[FitTask], data_dir: Path | None) -> tuple[dict[str, str], dict[str, str]]:
    """Find the data that tasks need, and describe images, with a progress bar.

    Returns
    -------
    hashes : dict of str to str
        Hashes of the data sets' contents.
    missing : dict of str to str
        Names of the sets that are not available, and why.
    """
    named = {benchmark.name: benchmark for benchmark in ALL_SETS}
    hashes, missing = {}, {}
    for name in dict.fromkeys(data_of(task) for task in planned):
        benchmark = named.get(name)
        try:
            if isinstance(benchmark, ImageBenchmark):
                hashes[benchmark.source] = prepare(benchmark, data_dir)
            elif benchmark is not None:
                hashes[benchmark.source] = content_hash(*load(benchmark.source, data_dir))
        except (MissingDataError, UnusableImageError, ImportError) as error:
            missing[name] = str(error)
    return hashes, missing


def data_of(task: FitTask) -> str:
    """Name of the set that a task uses."""
    return IMAGES_OF[task.experiment].name if task.experiment in IMAGES_OF else task.data


class Laboratory:
    """Callable that runs tasks, and keeps the last data set in memory.

    Parameters
    ----------
    data_dir : Path or None
        Folder of the data sets.
    """

    def __init__(self, data_dir: Path | None) -> None:
        self._data_dir = data_dir
        self._last: tuple[str, Any] = ("", None)

    def __call__(self, task: FitTask) -> dict[str, Any]:
        """Run a task and return what was measured."""
        if task.experiment in IMAGES_OF:
            return measure(task, self._data_dir)
        way = {
            "table2": self._table2,
            "table3": self._table3,
            "cputime": self._cputime,
            "convergence": self._convergence,
            "triplets": self._triplets,
        }[task.experiment]
        return way(task)

    def _split(self, task: FitTask) -> tuple[Benchmark, TrainTestSplit]:
        benchmark = next(benchmark for benchmark in BENCHMARKS if benchmark.name == task.data)
        if self._last[0] != benchmark.source:
            self._last = benchmark.source, load(benchmark.source, self._data_dir)
        return benchmark, split(benchmark, self._last[1], task.seed)

    def _table2(self, task: FitTask) -> dict[str, Any]:
        benchmark, part = self._split(task)
        return _outcome(SYSTEMS[task.system](benchmark), part)

    def _table3(self, task: FitTask) -> dict[str, Any]:
        benchmark, part = self._split(task)
        return _outcome(paper_setting(benchmark).set_params(regularization=float(task.system)), part)

    def _triplets(self, task: FitTask) -> dict[str, Any]:
        _, part = self._split(task)
        k = int(task.system)
        n_triplets = Comparisons.from_labels(part.X_train, part.y_train, k, k).n_comparisons
        return {"triplets": n_triplets, **_outcome(BoostMetric.paper(n_neighbors=k, n_impostors=k), part)}

    def _convergence(self, task: FitTask) -> dict[str, Any]:
        benchmark, part = self._split(task)
        n_iter = {"stagewise": 500, "corrective": 50}[task.system]
        metric = paper_setting(benchmark).set_params(solver=task.system, max_iter=n_iter)
        outcome = _outcome(metric, part)
        return {"loss": [record.loss for record in metric.history_], "gap": metric.duality_gap_, **outcome}

    def _cputime(self, task: FitTask) -> dict[str, Any]:
        points, labels = circles_in_noise(_N_TRIPLETS, int(task.data), task.seed)
        comparisons = Comparisons.from_labels(points, labels, n_neighbors=1, n_impostors=1)
        learners: dict[str, Callable[[], Any]] = {
            "BoostMetric": lambda: BoostMetric.paper(n_neighbors=1, n_impostors=1).fit(points, labels),
            "LMNN": lambda: LMNN().fit(points, comparisons=comparisons),
        }
        start = perf_counter()
        learners[task.system]()
        return {"seconds": perf_counter() - start}


def _outcome(metric: Any, part: TrainTestSplit) -> dict[str, Any]:
    outcome = run(metric, part)
    reason = "" if metric is None else str(metric.stop_reason_)
    return {"error": outcome.error, "seconds": outcome.seconds, "stop_reason": reason}


def circles_in_noise(n_points: int, dimension: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Concentric circles with additional dimensions of noise."""
    points, labels = concentric_circles(n_points, seed=seed)
    noise = np.random.default_rng([seed, dimension]).standard_normal((len(points), dimension - points.shape[1]))
    return np.hstack([points, noise]), labels
