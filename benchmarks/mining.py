"""Mining compared with boosting on its result, and our neighbour search compared with others."""

from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn.neighbors import NearestNeighbors

from benchmarks.scaling import seconds_per_iteration
from boostmetric import Comparisons
from boostmetric.neighbors import nearest

_N, _FEATURES, _CLASSES, _TARGETS, _IMPOSTORS = 50_000, 50, 10, 3, 50


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """50,000 x 50, 10 classes, 3 targets and 50 impostors: mining against 100 iterations; search for one class."""
    del data_dir
    rng = np.random.default_rng(0)
    y = rng.integers(0, _CLASSES, _N)
    X = rng.standard_normal((_N, _FEATURES)) + rng.standard_normal((_CLASSES, _FEATURES))[y]
    Comparisons.from_labels(X[:1000], y[:1000])  # load the kernels
    start = perf_counter()
    comparisons = Comparisons.from_labels(X, y, _TARGETS, _IMPOSTORS)
    mining = perf_counter() - start
    iteration, _ = seconds_per_iteration(X, comparisons, n_iterations=20, n_threads=2)
    points, queries = X[y != 0], X[y == 0]
    start = perf_counter()
    ours = nearest(points, queries, _IMPOSTORS)
    search = perf_counter() - start
    rows: list[dict[str, object]] = [
        row("from_labels", mining, 100 * iteration, "100 iterations on its result", f"{comparisons.n_pairs} pairs"),
    ]
    for name, find in {"scikit-learn, brute": by_scikit_learn, "faiss, IndexFlatL2": by_faiss}.items():
        found = find(points, queries)
        if found is None:
            print(f"{name} left out: it is not installed.")
            continue
        seconds, theirs = found
        same = np.mean(np.sort(theirs, axis=1) == np.sort(ours, axis=1))
        rows.append(row("search for impostors of a class", search, seconds, name, f"{100 * same:.4f} % the same"))
    return rows


def row(what: str, seconds: float, other: float, name: str, quality: str) -> dict[str, object]:
    return {
        "ours": what,
        "seconds": seconds,
        "against": name,
        "its seconds": other,
        "times as long": other / seconds,
        "quality": quality,
    }


def by_scikit_learn(points: np.ndarray, queries: np.ndarray) -> tuple[float, np.ndarray]:
    start = perf_counter()
    search = NearestNeighbors(n_neighbors=_IMPOSTORS, algorithm="brute").fit(points)
    numbers = search.kneighbors(queries, return_distance=False)
    return perf_counter() - start, numbers


def by_faiss(points: np.ndarray, queries: np.ndarray) -> tuple[float, np.ndarray] | None:
    try:
        import faiss
    except ImportError:
        return None
    start = perf_counter()
    index = faiss.IndexFlatL2(points.shape[1])
    index.add(points.astype(np.float32))
    _, numbers = index.search(queries.astype(np.float32), _IMPOSTORS)
    return perf_counter() - start, numbers
