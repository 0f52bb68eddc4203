"""How the time and the memory of a fit grow with points and features.

Each fit runs in a process of its own, after a small one that loads what is compiled. The results for each device are
in a file of their own, and the figure shows all that there are: run it again with another ``--device`` to add to it.
"""

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time

import numpy as np
from matplotlib.figure import Figure
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from benchmarks.embeddings import Timed
from benchmarks.gpu import clustered
from boostmetric import BoostMetric
from boostmetric.paper.protocol import TrainTestSplit
from boostmetric.storage.files import replacing

_RESULTS = Path(__file__).parent / "results"
_FIGURE = _RESULTS / "growth.png"
_POINTS, _FEATURES = (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000), (16, 64, 384, 1536)
_AT_POINTS, _AT_FEATURES, _N_CLASSES, _N_TESTED = 3000, 384, 20, 2000
_LEARNERS = ("recommended", "plain", "scikit-learn's NCA", "torch's NCA")
_TIME_LIMIT = 30  # seconds: of all processors, and with a device by the clock
_OVER = "over the limit"


def run(data_dir: Path | None, device: str = "cpu") -> list[dict[str, object]]:
    """Fits of 1,000 points and more, and of 16 to 1,536 features, within 30 seconds: time, memory, error, slopes."""
    del data_dir
    rows = list(measured(device))
    draw(rows, device)
    return [*rows, *slopes(rows)]


def measured(device: str) -> Iterator[dict[str, object]]:
    """Fit every learner to ever more points, and to ever more features, until a fit takes too long."""
    for learner in _LEARNERS:
        if learner == "torch's NCA" and importlib.util.find_spec("torch") is None:
            print("torch's NCA left out: torch is not installed.")
            continue
        if learner == "scikit-learn's NCA" and device != "cpu":
            continue
        for grows, sizes in (
            ("points", [(n, _AT_FEATURES) for n in _POINTS]),
            ("features", [(_AT_POINTS, n) for n in _FEATURES]),
        ):
            for n_points, n_features in sizes:
                found = _fitted(learner, device, n_points, n_features)
                row = {"learner": learner, "grows": grows, "points": n_points, "features": n_features, **found}
                print("  " + "; ".join(f"{key}: {value}" for key, value in row.items()), flush=True)
                yield row
                if found["clock, s"] == _OVER:
                    break


def _fitted(learner: str, device: str, n_points: int, n_features: int) -> dict[str, object]:
    """Time, memory and error of a fit in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.growth", learner, device, str(n_points), str(n_features)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode == 0:
        answer: dict[str, object] = json.loads(found.stdout.splitlines()[-1])
        if device == "cpu" or float(answer["clock, s"]) <= _TIME_LIMIT:  # type: ignore[arg-type]
            return answer
    elif found.returncode > 0:
        raise RuntimeError(found.stderr)
    return {"clock, s": _OVER, "CPU, s": "-", "memory over points": "-", "3-NN error %": "-"}


def fit_one(learner: str, device: str, n_points: int, n_features: int) -> dict[str, float]:
    """Fit a learner, after a small fit with the same number of features."""
    X, y = clustered(n_points + _N_TESTED, n_features, _N_CLASSES)
    split = TrainTestSplit(X[:n_points], y[:n_points], X[n_points:], y[n_points:])
    _transform(learner, device, X[:600], y[:600])
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    if device == "cpu":
        resource.setrlimit(resource.RLIMIT_CPU, (int(process_time() + _TIME_LIMIT) + 1, most))
    answers: list[Callable[[np.ndarray], np.ndarray]] = []
    fit = Timed(lambda: answers.append(_transform(learner, device, split.X_train, split.y_train)))
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    return {
        "clock, s": fit.clock,
        "CPU, s": fit.cpu,
        "memory over points": fit.memory / split.X_train.nbytes,
        "3-NN error %": split.error(answers[0]),
    }


def _transform(learner: str, device: str, X: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The map that a learner learns."""
    if learner == "torch's NCA":
        from benchmarks import torch_adapters

        torch_adapters.DEVICE = device
        return torch_adapters.fit("NCA", X, y)
    if learner == "scikit-learn's NCA":
        nca: NeighborhoodComponentsAnalysis = NeighborhoodComponentsAnalysis(random_state=0).fit(X, y)
        return nca.transform
    setting = BoostMetric.recommended if learner == "recommended" else BoostMetric
    metric: BoostMetric = setting(random_state=0, n_jobs=-1, device=device).fit(X, y)
    return metric.transform


def slopes(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Powers of points and features with which time and memory grow, by least squares."""
    found: list[dict[str, object]] = []
    for learner in _LEARNERS:
        for grows in ("points", "features"):
            done = [row for row in _of(rows, learner, grows) if row["clock, s"] != _OVER]
            if len(done) < 2:
                continue
            size = np.log([float(row[grows]) for row in done])  # type: ignore[arg-type]
            powers: dict[str, object] = {}
            for name in ("clock, s", "CPU, s"):
                powers[f"power of {name}"] = float(np.polyfit(size, np.log([row[name] for row in done]), 1)[0])
            found.append({"learner": learner, "grows": grows, "fits": len(done), **powers})
    return found


def _of(rows: list[dict[str, object]], learner: str, grows: str) -> list[dict[str, object]]:
    return [row for row in rows if row["learner"] == learner and row["grows"] == grows and "points" in row]


def draw(rows: list[dict[str, object]], device: str) -> None:
    """Draw these results, and those of other devices that are stored."""
    series = {device: rows}
    for path in sorted(_RESULTS.glob("growth_*.json")):
        other = path.stem.removeprefix("growth_")
        if other != device:
            series[other] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    figure = Figure(figsize=(10, 7), layout="constrained")
    axes = figure.subplots(2, 2, sharex="col")
    for column, (grows, fixed) in zip(
        axes.T, (("points", f"{_AT_FEATURES} features"), ("features", f"{_AT_POINTS:,} points")), strict=True
    ):
        for which, found in series.items():
            for number, learner in enumerate(_LEARNERS):
                done = [row for row in _of(found, learner, grows) if row["clock, s"] != _OVER]
                style = {"marker": "o", "color": f"C{number}", "linestyle": "-" if which == "cpu" else "--"}
                if done:
                    sizes = [row[grows] for row in done]
                    time = "CPU, s" if which == "cpu" else "clock, s"
                    column[0].plot(sizes, [row[time] for row in done], label=f"{learner} ({which})", **style)
                    bytes_of = [4 * row["points"] * row["features"] * row["memory over points"] for row in done]
                    column[1].plot(sizes, np.divide(bytes_of, 1e6), **style)
        column[0].set_title(fixed)
        column[1].set_xlabel(grows)
        for axis in column:
            axis.set_xscale("log")
            axis.set_yscale("log")
            shown = sorted({row[grows] for found in series.values() for row in _of(found, "recommended", grows)})
            axis.set_xticks(shown, [f"{size:,}" for size in shown])
            axis.set_xticks([], minor=True)
            axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("seconds (CPU; of a device, clock)")
    axes[1, 0].set_ylabel("peak memory of the process, MB")
    axes[0, 0].legend(fontsize="small")
    with replacing(_FIGURE) as temporary:
        figure.savefig(temporary, dpi=120, format="png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fit one learner to one size, and print the time it takes.")
    parser.add_argument("learner", choices=_LEARNERS)
    parser.add_argument("device")
    parser.add_argument("n_points", type=int)
    parser.add_argument("n_features", type=int)
    print(json.dumps(fit_one(**vars(parser.parse_args()))))
