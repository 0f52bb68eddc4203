"""What owners of embeddings with labels would use instead: LDA, whitening, and linear maps learned by torch.

`run` takes some of `SETS` and `METHODS`, too: ``adapters.run(None, sets=["TREC-6"], methods=["Euclidean", "LDA"])``.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from boostmetric import BoostMetric
from boostmetric.baselines import RCA
from boostmetric.evaluation.knn import neighbor_labels, vote
from boostmetric.paper.datasets import MissingDataError, own_file
from boostmetric.paper.protocol import TrainTestSplit

Transform = Callable[[np.ndarray], np.ndarray]
# File and labels of each set.
_FILES = {
    "CLINC150": ("clinc150_minilm", "y"),
    "HWU64": ("hwu64_minilm", "y"),
    "TREC-50": ("trec_minilm", "y"),
    "TREC-6": ("trec_minilm", "y_coarse"),
    "CIFAR-10 HOG": ("cifar10_hog", "y"),
}
SETS = (*_FILES, "Digits")
_OUT_OF_SCOPE = "oos"  # requests in CLINC150 that belong to no class
_N_NEAREST = 10


def lda(X: np.ndarray, y: np.ndarray) -> Transform:
    return LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(X, y).transform


def lda_unit_length(X: np.ndarray, y: np.ndarray) -> Transform:
    transform = lda(X, y)
    return lambda points: normalize(transform(points))


def by_torch(loss: str, X: np.ndarray, y: np.ndarray) -> Transform:
    from benchmarks import torch_adapters

    return torch_adapters.fit(loss, X, y)


def recommended(seed: int, X: np.ndarray, y: np.ndarray) -> Transform:
    return BoostMetric.recommended(random_state=seed, n_jobs=-1, device="auto").fit(X, y).transform


METHODS: dict[str, Callable[[np.ndarray, np.ndarray], Transform]] = {
    "Euclidean": lambda X, y: lambda points: points,
    "cosine": lambda X, y: normalize,
    "whitening": lambda X, y: PCA(whiten=True).fit(X).transform,
    "LDA": lda,
    "LDA at unit length": lda_unit_length,
    "RCA": lambda X, y: RCA().fit(X, y).transform,
    **{f"torch {loss}": partial(by_torch, loss) for loss in ("NCA", "SupCon", "triplets", "proxies")},
    "paper": lambda X, y: BoostMetric.paper().fit(X, y).transform,
    "plain": lambda X, y: BoostMetric(random_state=0).fit(X, y).transform,
    "recommended": partial(recommended, 0),
    "recommended, another seed": partial(recommended, 1),
}


def run(
    data_dir: Path | None, sets: Iterable[str] = SETS, methods: Iterable[str] = tuple(METHODS)
) -> list[dict[str, object]]:
    """Embeddings with labels: k-NN errors, and how many of the ten nearest have another class, in per cent; seconds."""
    rows = []
    for row in measured(data_dir, sets, methods):
        rows.append(row)
        shown = (f"{key}: {value:.4g}" if isinstance(value, float) else f"{value}" for key, value in row.items())
        print("  " + "; ".join(shown), flush=True)
    return rows


def measured(data_dir: Path | None, sets: Iterable[str], methods: Iterable[str]) -> Iterator[dict[str, object]]:
    """Run the methods on one set after the other."""
    methods = list(installed(methods))
    X, y = load_iris(return_X_y=True)
    for method in methods:
        METHODS[method](X.astype(np.float32), y)  # compile, and start the GPU
    for name in sets:
        try:
            split = load(name, data_dir)
        except MissingDataError as missing:
            print(f"{name} left out. {missing}")
            continue
        for method in methods:
            start = perf_counter()
            transform = METHODS[method](split.X_train, split.y_train)
            seconds = perf_counter() - start
            yield {"set": name, "method": method, **errors(split, transform), "seconds": seconds}


def installed(methods: Iterable[str]) -> Iterator[str]:
    """Methods whose packages are installed."""
    for method in methods:
        if method.startswith("torch ") and find_spec("torch") is None:
            print(f"{method} left out: torch is not installed.")
        else:
            yield method


def load(name: str, data_dir: Path | None = None) -> TrainTestSplit:
    """The split that comes with a set, or a stratified one with 30 per cent for testing."""
    if name == "Digits":
        return at_random(*load_digits(return_X_y=True))
    source, target = _FILES[name]
    path = own_file(source, data_dir)
    if path is None or not path.exists():
        where = f"there is no file {path}" if path else "no data folder was given"
        raise MissingDataError(
            f"It is read from {source}.npz, but {where}. Name the folder by --data-dir or in BOOSTMETRIC_DATA."
        )
    with np.load(path) as stored:
        X, y = stored["X"], stored[target]
        if "split" not in stored:
            return at_random(X, y)
        part, in_scope = stored["split"], stored["labels"][stored["y"]] != _OUT_OF_SCOPE
    train, test = (part == 0) & in_scope, (part == part.max()) & in_scope
    return of_parts(X[train], X[test], y[train], y[test])


def at_random(X: np.ndarray, y: np.ndarray) -> TrainTestSplit:
    return of_parts(*train_test_split(X, y, test_size=0.3, random_state=0, stratify=y))


def of_parts(X_train: np.ndarray, X_test: np.ndarray, y_train: np.ndarray, y_test: np.ndarray) -> TrainTestSplit:
    return TrainTestSplit(
        X_train.astype(np.float32), y_train.astype(np.int64), X_test.astype(np.float32), y_test.astype(np.int64)
    )


def errors(split: TrainTestSplit, transform: Transform) -> dict[str, float]:
    """Errors of votes of the nearest, and the share of other classes among the ten nearest, in per cent."""
    train, test = transform(split.X_train), transform(split.X_test)
    labels = neighbor_labels(train, split.y_train, test, _N_NEAREST)
    found = {f"{k}-NN": 100 * float(np.mean(vote(labels[:, :k]) != split.y_test)) for k in (1, 3, 5)}
    others = 100 * float(np.mean(labels != split.y_test[:, None]))
    return {**found, "mean": float(np.mean(list(found.values()))), "others among 10": others}
