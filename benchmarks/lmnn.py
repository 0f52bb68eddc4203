"""Our LMNN compared with metric-learn's and mlpack's: the same errors in less time."""

import subprocess
from pathlib import Path

import numpy as np
from rich.progress import track

from benchmarks.learners import environment, fit
from boostmetric.baselines.lmnn.impostors import Neighborhoods
from boostmetric.baselines.lmnn.large_margin import LargeMargin
from boostmetric.paper.datasets import BENCHMARKS, Benchmark, MissingDataError, load
from boostmetric.paper.protocol import TrainTestSplit, splits

OURS, *PEERS = ["boostmetric LMNN", "metric-learn LMNN", "mlpack LMNN"]
SMALL, LARGE = ["Wine", "Iris", "Vehicle", "Bal"], "Letters"
TIME_LIMIT = 1200


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """3-NN error on ten splits of Wine, Iris, Vehicle and Balance; fit time, objective and error on Letters."""
    chosen = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    rows: list[dict[str, object]] = []
    for name in [*SMALL, LARGE]:
        benchmark = chosen[name]
        try:
            data = load(benchmark.source, data_dir)
        except MissingDataError as missing:
            print(f"{name} left out. {missing}")
            continue
        rows += compare(benchmark, list(splits(benchmark, data))[: 1 if name == LARGE else None])
    return rows


def compare(benchmark: Benchmark, chosen: list[TrainTestSplit]) -> list[dict[str, object]]:
    """One row per learner: means over the splits, and the difference from our error with its standard error."""
    found = {
        learner: [
            answer(learner, split, benchmark.n_neighbors) for split in track(chosen, f"{benchmark.name} {learner}")
        ]
        for learner in [OURS, *PEERS]
    }
    ours = np.array(found[OURS], dtype=float)
    rows = []
    for learner, answers in found.items():
        seconds, error, objective = np.array(answers, dtype=float).T
        difference = ours[:, 1] - error
        rows.append(
            {
                "set": benchmark.name,
                "learner": learner,
                "version": version(learner),
                "splits": len(chosen),
                "seconds": shown(seconds.mean()),
                "times as long": shown(np.mean(seconds) / np.mean(ours[:, 0]), over=TIME_LIMIT / np.mean(ours[:, 0])),
                "objective": shown(objective.mean()),
                "error %": shown(error.mean()),
                "ours less": shown(difference.mean()),
                "+-": shown(difference.std(ddof=1) / np.sqrt(len(chosen))) if len(chosen) > 1 else "-",
            }
        )
    return rows


def answer(learner: str, split: TrainTestSplit, n_neighbors: int) -> tuple[float, float, float]:
    """Seconds of a fit, test error and objective; inf seconds if it took too long."""
    python = environment(learner)
    if python is None:
        return np.nan, np.nan, np.nan
    L, seconds = fit(python, learner, split.X_train, split.y_train, n_neighbors, TIME_LIMIT)
    if L is None:
        return seconds, np.nan, np.nan
    return seconds, split.error(lambda points: points @ L.T), objective(L, split, n_neighbors)


def objective(L: np.ndarray, split: TrainTestSplit, n_neighbors: int) -> float:
    """LMNN's objective for any map, with targets under the Euclidean distance."""
    X, y = split.X_train, split.y_train
    around = Neighborhoods.of(X, y, n_neighbors, np.ones(len(y)), quiet=True)
    mapped = X @ L.T
    hinges = LargeMargin(mapped, around.find(mapped, 1.0), np.zeros(len(L)), 0.5).at(np.eye(len(L)), 1.0).exact
    pairs, _ = around.target_pairs()
    return 0.5 * float(np.square(mapped[pairs[:, 0]] - mapped[pairs[:, 1]]).sum()) + hinges


def version(learner: str) -> str:
    code = f"from importlib.metadata import version; print(version({learner.split()[0]!r}))"
    python = environment(learner)
    return "-" if python is None else subprocess.check_output([python, "-c", code], text=True).strip()


def shown(value: float, over: float = TIME_LIMIT) -> object:
    """Table entry for a figure; inf means over the time limit."""
    if np.isnan(value):
        return "-"
    return f"over {over:.0f}" if np.isinf(value) else float(value)
