"""The 34 small tables of pyDML-Stats: our accuracies beside those printed there for twelve metric learners.

`run` takes some of the sets, `LEARNERS` and folds, too: ``pydml.run(None, sets=["iris"], learners=["plain"])``.
"""

import csv
import os
from collections.abc import Callable, Iterable
from functools import cache
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from rich.progress import track
from scipy.stats import rankdata
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler

from boostmetric import BoostMetric
from boostmetric.paper.datasets import MissingDataError

LEARNERS: dict[str, Callable[[], BoostMetric | FunctionTransformer]] = {
    "Euclidean": FunctionTransformer,  # the identity
    "paper": lambda: BoostMetric.paper(),
    "plain": lambda: BoostMetric(random_state=0),
    "recommended": lambda: BoostMetric.recommended(random_state=0),
}
N_FOLDS = 10
_PRINTED = "printed-3nn.csv"
_CLEARLY = 0.005


def run(
    data_dir: Path | None,
    sets: Iterable[str] | None = None,
    learners: Iterable[str] = tuple(LEARNERS),
    folds: Iterable[int] = range(N_FOLDS),
) -> list[dict[str, object]]:
    """34 tables, ten folds: 3-NN accuracies, and ranks among the twelve learners that pyDML-Stats prints."""
    folder = find(data_dir)
    printed = read_printed(folder)
    chosen, learners, folds = list(sets or printed), list(learners), list(folds)
    for learner in learners:
        warm_up(learner)  # compile before there are several processes
    tasks = list(product(chosen, learners, folds))
    found = Parallel(n_jobs=os.cpu_count(), return_as="generator")(
        delayed(score)(folder / f"{name}.npz", learner, fold) for name, learner, fold in tasks
    )
    outcomes = np.array(list(track(found, description="pydml", total=len(tasks), transient=True)))
    accuracies, seconds = np.moveaxis(outcomes.reshape(len(chosen), len(learners), len(folds), 2), 3, 0)
    by_learner = dict(zip(learners, accuracies.mean(axis=2).T, strict=True))
    rows: list[dict[str, object]] = [
        {"learner": learner, **compare(dict(zip(chosen, row, strict=True)), printed), "seconds a fit": float(time)}
        for (learner, row), time in zip(by_learner.items(), seconds.mean(axis=(0, 2)), strict=True)
    ]
    for i, name in enumerate(chosen):
        of_set = {learner: float(row[i]) for learner, row in by_learner.items()}
        rows.append({"set": name, **of_set, "printed Euclidean": float(printed[name][0])})
    return rows


def find(data_dir: Path | None) -> Path:
    """The folder of the tables."""
    given = data_dir or os.environ.get("BOOSTMETRIC_DATA")
    folder = Path(given) / "pydml34" if given else None
    if folder is None or not (folder / _PRINTED).exists():
        where = f"there is no {folder / _PRINTED}" if folder else "no data folder was given"
        raise MissingDataError(
            f"The tables are read from the folder pydml34, but {where}. Name the folder around it by --data-dir or in "
            "BOOSTMETRIC_DATA."
        )
    return folder


def read_printed(folder: Path) -> dict[str, np.ndarray]:
    """Printed accuracies of twelve learners on each set, Euclidean first; -1 for those that are missing."""
    with (folder / _PRINTED).open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    averages = ("AVG SCORE", "AVG RANKING")
    return {name: np.array([float(cell or -1) for cell in cells]) for name, *cells in rows if name not in averages}


@cache  # once per process
def warm_up(learner: str) -> None:
    """Compile kernels, or load them."""
    LEARNERS[learner]().fit(*load_iris(return_X_y=True))


def score(path: Path, learner: str, fold: int) -> tuple[float, float]:
    """3-NN accuracy on one fold, and seconds of the fit."""
    warm_up(learner)
    train, labels, test, truth = load_fold(path, fold)
    start = perf_counter()
    metric = LEARNERS[learner]().fit(train, labels)
    seconds = perf_counter() - start
    return accuracy(metric, train, labels, test, truth), seconds


def load_fold(path: Path, fold: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training samples and labels, and those to test, scaled to [0, 1]."""
    with np.load(path) as table:
        X, y, tested = table["X"].astype(np.float64), table["y"], table["fold"] == fold
    scaler = MinMaxScaler().fit(X[~tested])
    return scaler.transform(X[~tested]), y[~tested], scaler.transform(X[tested]), y[tested]


def accuracy(metric: Any, train: np.ndarray, labels: np.ndarray, test: np.ndarray, truth: np.ndarray) -> float:
    """Of 3 nearest neighbours after the map of a metric."""
    classifier = KNeighborsClassifier(3).fit(metric.transform(train), labels)
    return float(np.mean(classifier.predict(metric.transform(test)) == truth))


def compare(accuracies: dict[str, float], printed: dict[str, np.ndarray]) -> dict[str, object]:
    """Average rank among the printed learners, mean accuracy, and the sets that lose to the Euclidean distance."""
    ranks = [rankdata(-np.append(printed[name], accuracy))[-1] for name, accuracy in accuracies.items()]
    worse = [name for name, accuracy in accuracies.items() if accuracy < printed[name][0] - _CLEARLY]
    return {
        "average rank of 13": float(np.mean(ranks)),
        "mean accuracy": float(np.mean(list(accuracies.values()))),
        "sets below Euclidean": len(worse),
        "which": ", ".join(worse) or "-",
    }
