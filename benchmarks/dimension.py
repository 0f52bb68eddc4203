"""Running time against the dimension: the paper's figure 2."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track

from benchmarks.fit_peer import LEARNERS
from benchmarks.learners import environment, fit
from boostmetric.paper.experiments import circles_in_noise
from boostmetric.paper.protocol import TrainTestSplit
from boostmetric.storage.files import replacing

_N_POINTS = 250  # with one target and one impostor each: the paper's 250 triplets
_DIMENSIONS = (50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
_TIME_LIMIT = 30
_FIGURE = Path(__file__).parent / "results" / "dimension.png"
_COMPARED = [name for name in LEARNERS if "SCML" not in name]


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """Concentric circles in noise, 250 triplets, 50 to 20,000 dimensions: seconds per fit, and 3-NN error."""
    del data_dir
    seconds: dict[str, dict[int, float]] = {learner: {} for learner in _COMPARED}
    errors: dict[str, dict[int, float]] = {learner: {} for learner in _COMPARED}
    for dimension in track(_DIMENSIONS, description="dimensions", transient=True):
        split = TrainTestSplit(*(array for seed in (0, 1) for array in circles_in_noise(_N_POINTS, dimension, seed)))
        for learner in _COMPARED:
            python = environment(learner)
            if python is None or not np.isfinite(list(seconds[learner].values())).all():
                continue  # took too long, or failed, in fewer dimensions
            repeats = 3 if learner == "BoostMetric" else 1
            fits = [fit(python, learner, split.X_train, split.y_train, 1, _TIME_LIMIT) for _ in range(repeats)]
            seconds[learner][dimension] = min(time for _, time in fits)
            L = fits[0][0]
            if L is not None:
                errors[learner][dimension] = split.error(lambda points, L=L: points @ L.T)
    draw(seconds)
    rows: list[dict[str, object]] = []
    for dimension in _DIMENSIONS:
        ours = seconds["BoostMetric"].get(dimension, np.inf)
        row: dict[str, object] = {"dimensions": dimension, "times those at 50": ours / seconds["BoostMetric"][50]}
        for learner in _COMPARED:
            time = seconds[learner].get(dimension)
            error = errors[learner].get(dimension)
            row[f"{learner}, s"] = said(time)
            row[f"{learner}, error %"] = "-" if error is None else error
        rows.append(row)
    return rows


def said(time: float | None) -> object:
    """Table entry for a time; a learner is not run if it took too long, or failed, in fewer dimensions."""
    if time is None:
        return "not run"
    return "failed" if np.isnan(time) else f"over {_TIME_LIMIT}" if time == np.inf else time


def draw(seconds: dict[str, dict[int, float]]) -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for (learner, times), marker, style in zip(seconds.items(), "oDsv^", ("-", "-", "--", ":", "-."), strict=True):
        finite = {dimension: time for dimension, time in times.items() if time < np.inf}
        axes.loglog(list(finite), list(finite.values()), marker=marker, linestyle=style, label=learner)
    axes.set(xlabel="dimensions", ylabel="seconds", title=f"250 triplets; a line ends before {_TIME_LIMIT} s")
    axes.grid(alpha=0.3)
    axes.legend()
    with replacing(_FIGURE) as temporary:
        figure.savefig(temporary, dpi=150, format="png")
