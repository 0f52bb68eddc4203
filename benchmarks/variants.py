"""What the parts of the plain and the recommended setting bring: on the 34 tables of pyDML-Stats, and on embeddings.

`run` takes some of `VARIANTS`, folds and sets of `adapters`, too.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Self

import numpy as np
from joblib import Parallel, delayed

from benchmarks import adapters, pydml
from boostmetric import BoostMetric
from boostmetric.estimators.candidates import Candidate, choose
from boostmetric.paper.datasets import MissingDataError
from boostmetric.paper.protocol import TrainTestSplit

# Three of the ten folds, and sets on which a fit takes less than a minute.
FOLDS = (0, 1, 2)
SETS = ("TREC-6", "TREC-50", "HWU64")
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
}
# What the choice of "recommended" leads to from fewer candidates: these share one fit, and are learned again.
CHOSEN: dict[str, Callable[[Sequence[Candidate]], list[Candidate]]] = {
    "recommended, learning rate 1": lambda found: choose([each for each in found if each.recipe.learning_rate == 1]),
    "recommended, without all impostors": lambda found: choose(
        [each for each in found if each.recipe.n_impostors != "all"]
    ),
    "recommended, without bagging": lambda found: choose([each for each in found if each.recipe.n_bags == 1]),
    "recommended, the best metric alone": lambda found: choose(found)[:1],
}
_CHOOSING = "recommended"


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
        found = Parallel(n_jobs=-1)(delayed(accuracies)(folder / f"{name}.npz", variant, folds) for name in printed)
        seconds = perf_counter() - start
        on_sets = {
            set_name: {name: adapters.errors(split, metric.transform) for name, metric in learned(variant, *train)}
            for set_name, split in splits.items()
            for train in [(split.X_train, split.y_train)]
        }
        for name in names(variant):
            compared = pydml.compare({table: of[name] for table, of in zip(printed, found, strict=True)}, printed)
            row: dict[str, object] = {
                "variant": name,
                **{key: compared[key] for key in ("average rank of 13", "mean accuracy")},
                "seconds": seconds,
            }
            for set_name, of in on_sets.items():
                row |= {f"{set_name}, errors": of[name]["mean"]}
                row |= {f"{set_name}, others among 10": of[name]["others among 10"]}
            rows.append(row)
            shown = (f"{key}: {value:.4g}" if isinstance(value, float) else str(value) for key, value in row.items())
            print("  " + "; ".join(shown), flush=True)
    return rows


def loaded(sets: Iterable[str], data_dir: Path | None) -> Iterable[tuple[str, TrainTestSplit]]:
    """Sets that are there."""
    for name in sets:
        try:
            yield name, adapters.load(name, data_dir)
        except MissingDataError as missing:
            print(f"{name} left out. {missing}")


def names(variant: str) -> list[str]:
    """The rows that one fit leads to."""
    return [variant, *CHOSEN] if variant == _CHOOSING else [variant]


def learned(variant: str, X: np.ndarray, y: np.ndarray) -> Iterator[tuple[str, BoostMetric | Bagged]]:
    """The metrics of a variant, one after the other, by the names of their rows."""
    metric = VARIANTS[variant]().fit(X, y)
    yield variant, metric
    for name in names(variant)[1:]:
        metric.chosen_ = CHOSEN[name](metric.candidates_)
        yield name, metric.refit(X, y)


def accuracies(path: Path, variant: str, folds: Sequence[int]) -> dict[str, float]:
    """Mean 3-NN accuracies of the rows of a variant on some of the folds of a table."""
    found: dict[str, list[float]] = {name: [] for name in names(variant)}
    for fold in folds:
        train, labels, test, truth = pydml.load_fold(path, fold)
        for name, metric in learned(variant, train, labels):
            found[name].append(pydml.accuracy(metric, train, labels, test, truth))
    return {name: float(np.mean(each)) for name, each in found.items()}
