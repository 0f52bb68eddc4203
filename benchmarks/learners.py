"""All metric learners that can be installed today, on the same splits, in one run."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from rich.progress import track
from sklearn.datasets import load_digits

from benchmarks.fit_peer import LEARNERS
from boostmetric.paper.datasets import BENCHMARKS, Benchmark, MissingDataError, load
from boostmetric.paper.protocol import TrainTestSplit, splits

ENVIRONMENTS = Path(__file__).parents[1] / ".venv-peers"
# metric-learn raises on every fit under scikit-learn 1.8 and later, and warns under 1.6 and 1.7: it has its own
# environment. pylmnn passes a matrix to SciPy's minimize, which later versions refuse.
REQUIREMENTS = {
    "metric-learn": ["metric-learn==0.7.0", "scikit-learn<1.5"],
    "mlpack": ["mlpack"],
    "pylmnn": ["pylmnn==1.6.4", "six", "numpy<2", "scipy<1.11", "scikit-learn<1.4"],
}
TIME_LIMIT = 120
DIGITS = Benchmark("Digits", "digits", 1257, 540, 64, 10, n_runs=1)


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """Fit time and 3-NN error on one split of Letters, Vehicle, Digits and USPS (PCA 64), at most 120 s per fit."""
    chosen = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    rows: list[dict[str, object]] = []
    for benchmark in (chosen["Letters"], chosen["Vehicle"], DIGITS, chosen["USPS-2"]):
        try:
            data = load_digits(return_X_y=True) if benchmark is DIGITS else load(benchmark.source, data_dir)
        except MissingDataError as missing:
            print(f"{benchmark.name} left out. {missing}")
            continue
        rows += compare(benchmark.name, next(splits(benchmark, data)))
    return rows


def compare(name: str, split: TrainTestSplit) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = [{"set": name, "learner": "Euclidean", "seconds": 0.0, "error %": split.error()}]
    for learner in track(LEARNERS, description=name, transient=True):
        python = environment(learner)
        if python is None:
            continue
        L, seconds = fit(python, learner, split.X_train, split.y_train)
        if L is None:
            said = "failed" if np.isnan(seconds) else f"over {TIME_LIMIT}"
            rows.append({"set": name, "learner": learner, "seconds": said, "error %": "-"})
        else:
            error = split.error(lambda points, L=L: points @ L.T)
            rows.append({"set": name, "learner": learner, "seconds": seconds, "error %": error})
    (ours,) = [float(row["seconds"]) for row in rows if row["learner"] == "BoostMetric"]  # type: ignore[arg-type]
    for row in rows:
        seconds = row["seconds"]
        ratio: object = f"over {TIME_LIMIT / ours:.0f}" if isinstance(seconds, str) else float(seconds) / ours  # type: ignore[arg-type]
        ratio = "-" if seconds == "failed" else ratio
        row["times as long as BoostMetric"] = ratio
    return rows


def environment(learner: str) -> Path | None:
    """Python interpreter for a learner; None if its packages cannot be installed."""
    package = learner.split()[0]
    if package not in REQUIREMENTS:
        return Path(sys.executable)
    folder = ENVIRONMENTS / package
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet", *REQUIREMENTS[package]]
        if subprocess.run(install, capture_output=True).returncode:
            print(f"{learner} left out: {' '.join(REQUIREMENTS[package])} could not be installed.")
            return None
        (folder / "ready").touch()
    return python


def fit(
    python: Path, learner: str, X: np.ndarray, y: np.ndarray, k: int = 3, time_limit: float = TIME_LIMIT
) -> tuple[np.ndarray | None, float]:
    """The learned map and the seconds of the fit; without a map, inf seconds if it took too long, nan if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(source, X=X, y=y, k=k)
        command = [python, Path(__file__).with_name("fit_peer.py"), learner, source, target]
        try:
            subprocess.run(command, check=True, timeout=time_limit + 10, capture_output=True, cwd=folder)
        except subprocess.TimeoutExpired:
            return None, np.inf
        except subprocess.CalledProcessError as error:
            last_line = (error.stderr.decode().strip().splitlines() or [f"exit status {error.returncode}"])[-1]
            print(f"{learner} failed on {X.shape}: {last_line}")
            return None, np.nan
        answer = np.load(target)
        return answer["L"], float(answer["seconds"])
