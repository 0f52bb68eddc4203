"""What the parts of the plain and the recommended setting bring: on the 34 tables of pyDML-Stats, and on embeddings.

`run` takes some of `VARIANTS`, folds and sets of `adapters`, too.
"""

from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import MinMaxScaler

from benchmarks import adapters, pydml
from boostmetric import BoostMetric
from boostmetric.paper.datasets import MissingDataError
from boostmetric.paper.protocol import TrainTestSplit

# Three of the ten folds, and sets on which a fit takes less than a minute.
FOLDS = (0, 1, 2)
SETS = ("TREC-6", "TREC-50", "HWU64")
_WITHOUT_MEAN = "recommended, the best metric alone"
# Metrics that are averaged, and the share of the samples that each learns from.
_BAGS, _IN_A_BAG = 10, 0.8


class Bagged:
    """The mean of metrics learned from parts of the data, each in units of its mean squared distance."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Learn from parts, and average."""
        rng, matrix = np.random.default_rng(0), np.zeros((X.shape[1], X.shape[1]))
        scatter = np.cov(X, rowvar=False)
        for _ in range(_BAGS):
            part = np.sort(rng.permutation(len(y))[: round(_IN_A_BAG * len(y))])
            learned = plain().fit(X[part], y[part]).get_mahalanobis_matrix()
            matrix += learned / np.vdot(learned, scatter)
        values, vectors = np.linalg.eigh(matrix)
        self._map = vectors * np.sqrt(values.clip(0))
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Map samples."""
        return X @ self._map


def plain(**changes: object) -> BoostMetric:
    return BoostMetric(random_state=0, **changes)


def recommended(**changes: object) -> BoostMetric:
    return BoostMetric.recommended(random_state=0, **changes)


VARIANTS = {
    "paper": lambda: BoostMetric.paper(),
    "plain": lambda: plain(),
    "plain, exponential loss": lambda: plain(loss="exponential"),
    "plain, from the Euclidean distance": lambda: plain(init="identity"),
    "plain, 3 targets, 3 impostors": lambda: plain(n_neighbors=3, n_impostors=3),
    "plain, 5 targets, 10 impostors": lambda: plain(n_neighbors=5, n_impostors=10),
    "plain, 10 targets, 50 impostors": lambda: plain(n_neighbors=10, n_impostors=50),
    "plain, 5 targets, all impostors": lambda: plain(n_neighbors=5, n_impostors="all"),
    "plain, one pass": lambda: plain(n_passes=1, early_stopping=True),
    "plain, single directions": lambda: plain(block_size=1),
    "plain, learning rate 0.3": lambda: plain(learning_rate=0.3),
    "plain, mean of ten": lambda: Bagged(),
    "recommended": lambda: recommended(),
    "recommended, from the Euclidean distance": lambda: recommended(init="identity"),
    "recommended, 3 targets, 3 impostors": lambda: recommended(n_neighbors=3, n_impostors=3),
    "recommended, never unit length": lambda: recommended(normalize=False),
    _WITHOUT_MEAN: lambda: recommended(),
}


def run(
    data_dir: Path | None,
    variants: Iterable[str] = tuple(VARIANTS),
    folds: Iterable[int] = FOLDS,
    sets: Iterable[str] = SETS,
) -> list[dict[str, object]]:
    """Single changes to the plain and the recommended setting: 34 tables (three folds), and embeddings."""
    folder, folds = pydml.find(data_dir), list(folds)
    printed = pydml.read_printed(folder)
    splits = dict(loaded(sets, data_dir))
    rows = []
    for variant in variants:
        start = perf_counter()
        accuracies = Parallel(n_jobs=-1)(delayed(accuracy)(folder / f"{name}.npz", variant, folds) for name in printed)
        by_set = dict(zip(printed, accuracies, strict=True))
        compared = pydml.compare(by_set, printed)
        row: dict[str, object] = {
            "variant": variant,
            **{key: compared[key] for key in ("average rank of 13", "mean accuracy")},
            "seconds": perf_counter() - start,
        }
        for name, split in splits.items():
            found = adapters.errors(split, learned(variant, split.X_train, split.y_train).transform)
            row |= {f"{name}, errors": found["mean"], f"{name}, others among 10": found["others among 10"]}
        rows.append(row)
        print(
            "  "
            + "; ".join(f"{key}: {value:.4g}" if isinstance(value, float) else str(value) for key, value in row.items())
        )
    return rows


def loaded(sets: Iterable[str], data_dir: Path | None) -> Iterable[tuple[str, TrainTestSplit]]:
    """Sets that are there."""
    for name in sets:
        try:
            yield name, adapters.load(name, data_dir)
        except MissingDataError as missing:
            print(f"{name} left out. {missing}")


def learned(variant: str, X: np.ndarray, y: np.ndarray) -> BoostMetric | Bagged:
    metric = VARIANTS[variant]().fit(X, y)
    if variant == _WITHOUT_MEAN and len(metric.chosen_) > 1:
        metric.chosen_ = metric.chosen_[:1]
        metric.refit(X, y)
    return metric


def accuracy(path: Path, variant: str, folds: Iterable[int]) -> float:
    """Mean 3-NN accuracy on some of the folds of a table."""
    with np.load(path) as table:
        X, y, part = table["X"].astype(np.float64), table["y"], table["fold"]
    found = []
    for fold in folds:
        scaler, tested = MinMaxScaler().fit(X[part != fold]), part == fold
        train, test = scaler.transform(X[~tested]), scaler.transform(X[tested])
        metric = learned(variant, train, y[~tested])
        classifier = KNeighborsClassifier(3).fit(metric.transform(train), y[~tested])
        found.append(np.mean(classifier.predict(metric.transform(test)) == y[tested]))
    return float(np.mean(found))
