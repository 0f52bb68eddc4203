"""All learners on the 34 small tables of pyDML-Stats: average ranks, time, and a critical-difference diagram.

`run` takes some of the learners, too, as in ``ranking.run(None, learners=["SCML"])``; accuracies of the others are
those of the last run. The learners of `benchmarks.pydml` are taken from its results: its tables, folds and classifier
are the same.
"""

import json
import os
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from rich.progress import track
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from benchmarks import pydml
from boostmetric import baselines
from boostmetric.baselines.baseline import Baseline

LEARNERS: dict[str, Callable[[], Baseline]] = {
    "Covariance": baselines.Covariance,
    "RCA": baselines.RCA,
    "LFDA": baselines.LFDA,
    "GMML": baselines.GMML,
    "DMLMJ": baselines.DMLMJ,
    "MMC": lambda: baselines.MMC(random_state=0),
    "ITML": lambda: baselines.ITML(random_state=0),
    "LSML": lambda: baselines.LSML(random_state=0),
    "SDML": lambda: baselines.SDML(random_state=0),
    "LMNN": baselines.LMNN,
    "NCA": baselines.NCA,
    "SCML": lambda: baselines.SCML(random_state=0),
}
OURS = {"paper": "BoostMetric.paper", "plain": "BoostMetric", "recommended": "recommended"}
RESULTS = Path(__file__).parent / "results"
SIGNIFICANCE = 0.05


def run(data_dir: Path | None, learners: Iterable[str] = tuple(LEARNERS)) -> list[dict[str, object]]:
    """34 tables, ten folds: average rank and mean of 3-NN accuracies, seconds of a fit, and the accuracies."""
    folder = pydml.find(data_dir)
    sets, chosen = list(pydml.read_printed(folder)), list(learners)
    tasks = list(product(chosen, sets, range(pydml.N_FOLDS)))
    found = Parallel(n_jobs=os.cpu_count(), return_as="generator")(
        delayed(score)(folder / f"{name}.npz", learner, fold) for learner, name, fold in tasks
    )
    outcomes = np.array(list(track(found, description="ranking", total=len(tasks), transient=True)))
    outcomes = outcomes.reshape(len(chosen), len(sets), pydml.N_FOLDS, 2).mean(axis=2)
    accuracies, seconds = earlier(sets)
    for learner, (of_learner, times) in zip(chosen, np.moveaxis(outcomes, 2, 1), strict=True):
        accuracies[learner], seconds[learner] = (
            dict(zip(sets, map(float, of_learner), strict=True)),
            float(times.mean()),
        )
    rows = ranked(accuracies, seconds)
    draw({str(row["learner"]): row["average rank"] for row in rows}, len(sets), RESULTS / "ranking.png")
    rows += [{"set": name, **{learner: values[name] for learner, values in accuracies.items()}} for name in sets]
    return rows


def earlier(sets: list[str]) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Accuracies and seconds of the last run, and of `benchmarks.pydml`."""
    accuracies: dict[str, dict[str, float]] = {}
    seconds: dict[str, float] = {}
    for file, names in (("pydml.json", {"Euclidean": "Euclidean", **OURS}), ("ranking.json", {})):
        path = RESULTS / file
        if not path.exists():
            continue
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
        for row in rows:
            if "learner" in row and row["learner"] in (names or LEARNERS):
                seconds[names.get(row["learner"], row["learner"])] = row["seconds a fit"]
        by_set = {row["set"]: row for row in rows if "set" in row}
        for learner in (key for key in by_set[sets[0]] if key in names or key in LEARNERS):
            accuracies[names.get(learner, learner)] = {name: by_set[name][learner] for name in sets}
    return accuracies, seconds


def score(path: Path, learner: str, fold: int) -> tuple[float, float]:
    """3-NN accuracy on one fold, and seconds of the fit."""
    train, labels, test, truth = pydml.load_fold(path, fold)
    start = perf_counter()
    metric = LEARNERS[learner]().fit(train, labels)
    seconds = perf_counter() - start
    return pydml.accuracy(metric, train, labels, test, truth), seconds


def ranked(accuracies: dict[str, dict[str, float]], seconds: dict[str, float]) -> list[dict[str, Any]]:
    """One row per learner, the best first."""
    table = np.array([list(values.values()) for values in accuracies.values()])
    ranks = np.apply_along_axis(rankdata, 0, -table).mean(axis=1)
    order = np.argsort(ranks)
    names = list(accuracies)
    best = table.max(axis=0)
    return [
        {
            "learner": names[i],
            "average rank": float(ranks[i]),
            "mean accuracy": float(table[i].mean()),
            "best on": int((table[i] == best).sum()),
            "seconds a fit": seconds[names[i]],
            "Friedman p": float(friedmanchisquare(*table).pvalue),
        }
        for i in order
    ]


def critical_difference(n_learners: int, n_sets: int) -> float:
    """Least difference of two average ranks that is significant by the test of Nemenyi (Demsar, 2006)."""
    q = studentized_range.ppf(1 - SIGNIFICANCE, n_learners, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_learners * (n_learners + 1) / (6 * n_sets)))


def draw(ranks: dict[str, float], n_sets: int, path: Path) -> None:
    """Draw average ranks on a line, with bars over groups that do not differ significantly."""
    from matplotlib.figure import Figure

    difference = critical_difference(len(ranks), n_sets)
    ordered = sorted(ranks.items(), key=lambda item: item[1])
    half = (len(ordered) + 1) // 2
    low, high = int(np.floor(ordered[0][1])), int(np.ceil(ordered[-1][1]))
    figure = Figure(figsize=(9, 0.6 + 0.3 * half + 0.2 * half), layout="constrained")
    axes = figure.add_subplot()
    axes.axis("off")
    axes.hlines(0, low, high, color="black")
    for tick in range(low, high + 1):
        axes.vlines(tick, 0, 0.25, color="black")
        axes.text(tick, 0.4, str(tick), ha="center")
    axes.hlines(1.5, low, low + difference, color="black", lw=2)
    axes.text(low + difference + 0.1, 1.5, f"critical difference {difference:.2f}", va="center")
    bars = groups([rank for _, rank in ordered], difference)
    top = -0.4 - 0.35 * len(bars)
    axes.set(xlim=(low - 3, high + 3), ylim=(top - 0.8 * half - 0.4, 2))
    for i, (name, rank) in enumerate(ordered):
        left = i < half
        y = top - 0.8 * ((i if left else len(ordered) - 1 - i) + 1)
        end = low - 0.3 if left else high + 0.3
        axes.plot([rank, rank, end], [0, y, y], color="#888888", lw=0.8)
        axes.text(end, y, f"{name} ({rank:.2f})", ha="right" if left else "left", va="center")
    for i, (begin, end) in enumerate(bars):
        axes.hlines(-0.35 * (i + 1), begin - 0.05, end + 0.05, color="#3b6ea5", lw=3)
    figure.savefig(path, dpi=150)


def groups(ranks: list[float], difference: float) -> list[tuple[float, float]]:
    """Longest runs of ranks, in ascending order, that differ by less than the critical difference."""
    found: list[tuple[float, float]] = []
    for begin in ranks:
        end = max(rank for rank in ranks if rank - begin < difference)
        if end > begin and (not found or end > found[-1][1]):
            found.append((begin, end))
    return found
