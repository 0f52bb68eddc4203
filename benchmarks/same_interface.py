"""metric-learn beside our learners, through the same interface: time, and the objective that both minimise.

Times are those of the processor, with one BLAS thread: with two, a fit of metric-learn to small data takes a hundred
times as long while another program runs. Ours limit themselves to one.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.progress import track
from scipy.spatial.distance import cdist
from scipy.special import softmax
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from benchmarks import pydml
from benchmarks.fit_weak import INPUT, PARAMETERS
from benchmarks.learners import environment
from boostmetric.baselines.itml import Penalty
from boostmetric.baselines.soft_neighbors import Errors
from boostmetric.metric_learn import Constraints
from boostmetric.paper.datasets import MissingDataError, load

TIME_LIMIT = 600
ONE_THREAD = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
Data = dict[str, np.ndarray]


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """Wine, Vehicle and Vowel, standardized: processor seconds and objectives of both, on the same constraints."""
    sets = {"Wine": load_wine(return_X_y=True)}
    for name, read in {"Vehicle": lambda: load("vehicle", data_dir), "Vowel": lambda: vowel(data_dir)}.items():
        try:
            sets[name] = read()
        except MissingDataError as missing:
            print(f"{name} left out. {missing}")
    rows: list[dict[str, object]] = []
    for name, (X, y) in sets.items():
        data = constrained(StandardScaler().fit_transform(X), np.unique(y, return_inverse=True)[1])
        rows += [compare(name, learner, data) for learner in track(INPUT, description=name, transient=True)]
    return rows


def vowel(data_dir: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """990 samples of 11 classes."""
    with np.load(pydml.find(data_dir) / "vowel.npz") as table:
        return table["X"].astype(np.float64), table["y"]


def constrained(X: np.ndarray, y: np.ndarray) -> Data:
    """Points, labels and 80 chunks, with metric-learn's default numbers of other constraints."""
    constraints, n = Constraints(y), 20 * len(np.unique(y)) ** 2
    a, b, c, d = constraints.positive_negative_pairs(n, same_length=True, random_state=0)
    rows = np.concatenate([np.stack([a, b], axis=1), np.stack([c, d], axis=1)])
    return {
        "X": X,
        "y": y,
        "chunks": constraints.chunks(n_chunks=80, random_state=0),
        "pairs": X[rows],
        "kinds": np.repeat([1, -1], len(a)),
        "quadruplets": X[np.stack([a, b, c, d], axis=1)],
        "triplets": X[constraints.generate_knntriplets(X, 3, 3)],
    }


def compare(name: str, learner: str, data: Data) -> dict[str, object]:
    """One row: processor seconds and objectives of both."""
    peer = environment("metric-learn")
    theirs, their_seconds = (None, np.nan) if peer is None else fit(peer, "metric_learn", learner, data)
    own = environment("boostmetric")
    assert own is not None
    ours, our_seconds = fit(own, "boostmetric.metric_learn", learner, data)
    objective = OBJECTIVES.get(learner)

    def value(L: np.ndarray | None) -> object:
        return "-" if objective is None or L is None else float(objective(L, data))

    return {
        "set": name,
        "learner": learner,
        "metric-learn s": their_seconds if np.isfinite(their_seconds) else str(their_seconds),
        "ours s": our_seconds if np.isfinite(our_seconds) else str(our_seconds),
        "times faster": their_seconds / our_seconds,
        "metric-learn objective": value(theirs),
        "our objective": value(ours),
    }


def fit(python: Path, module: str, learner: str, data: Data) -> tuple[np.ndarray | None, float]:
    """The learned map and the seconds of the fit; without a map, inf seconds if it took too long, nan if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(source, **data)
        command = [python, Path(__file__).with_name("fit_weak.py"), module, learner, source, target]
        try:
            subprocess.run(command, check=True, timeout=TIME_LIMIT, capture_output=True, env=ONE_THREAD)
        except subprocess.TimeoutExpired:
            return None, np.inf
        except subprocess.CalledProcessError as error:
            print(f"{module} {learner} failed: {error.stderr.decode().strip().splitlines()[-1]}")
            return None, np.nan
        answer = np.load(target)
        return answer["L"], float(answer["seconds"])


def squares(L: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.square((first - second) @ L.T).sum(axis=1)


def divergence(L: np.ndarray) -> float:
    """From the identity."""
    matrix = L.T @ L
    return float(np.trace(matrix) - np.linalg.slogdet(matrix)[1] - len(matrix))


def itml(L: np.ndarray, data: Data) -> float:
    """Divergence plus penalties; bounds are metric-learn's, percentiles of distances compared with their squares."""
    pairs, near = data["pairs"], data["kinds"] == 1
    points = np.unique(pairs.reshape(-1, pairs.shape[2]), axis=0)
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    penalty = Penalty(np.percentile(distances, (5, 95)), int(near.sum()), 1.0)
    value, _ = penalty(squares(L, *np.moveaxis(np.concatenate([pairs[near], pairs[~near]]), 1, 0)))
    return divergence(L) + value


def lsml(L: np.ndarray, data: Data) -> float:
    """Divergence plus mean squared residual."""
    a, b, c, d = np.moveaxis(data["quadruplets"], 1, 0)
    excess = np.maximum(np.sqrt(squares(L, a, b)) - np.sqrt(squares(L, c, d)), 0)
    return divergence(L) + float(np.mean(excess**2))


def mmc(L: np.ndarray, data: Data) -> float:
    """Minus the sum of the distances of dissimilar pairs, where squared distances of similar ones sum to 1."""
    pairs, near = data["pairs"], data["kinds"] == 1
    square = squares(L, pairs[:, 0], pairs[:, 1])
    return -float(np.sqrt(square[~near]).sum() / np.sqrt(square[near].sum()))


def sdml(L: np.ndarray, data: Data) -> float:
    """Divergence, signed sum of squared distances with the weight 1e-4, and absolute values off the diagonal."""
    pairs, matrix = data["pairs"], L.T @ L
    off_diagonal = np.abs(matrix).sum() - np.trace(matrix)
    balance = PARAMETERS["SDML"]["balance_param"]
    return divergence(L) + balance * float(data["kinds"] @ squares(L, pairs[:, 0], pairs[:, 1])) + 0.01 * off_diagonal


def scml(L: np.ndarray, data: Data) -> float:
    """Mean hinge loss, and 1e-5 times the trace: directions have length 1, so that is the sum of their weights."""
    a, b, c = np.moveaxis(data["triplets"], 1, 0)
    return float(np.maximum(1 + squares(L, a, b) - squares(L, a, c), 0).mean()) + 1e-5 * float(np.square(L).sum())


def lmnn(L: np.ndarray, data: Data) -> float:
    """Half the squared distances of the three nearest of a class, and half the hinge losses of all others near them."""
    X, y = data["X"], data["y"]
    plain = np.where(y[:, None] == y, cdist(X, X, "sqeuclidean"), np.inf)
    np.fill_diagonal(plain, np.inf)
    mapped = cdist(X @ L.T, X @ L.T, "sqeuclidean")
    total = 0.0
    for targets in np.argsort(plain, axis=1, kind="stable")[:, :3].T:
        near = np.take_along_axis(mapped, targets[:, None], axis=1)
        total += float(near.sum()) + float(np.maximum(1 + near - mapped, 0)[y[:, None] != y].sum())
    return total / 2


def nca(L: np.ndarray, data: Data) -> float:
    """Minus the mean probability that a soft nearest neighbour has the right label."""
    mapped, y = data["X"] @ L.T, data["y"]
    distances = cdist(mapped, mapped, "sqeuclidean")
    np.fill_diagonal(distances, np.inf)
    return -float((softmax(-distances, axis=1) * (y[:, None] == y)).sum() / len(y))


def mlkr(L: np.ndarray, data: Data) -> float:
    """Sum of squared errors."""
    return Errors(data["X"], data["y"].astype(np.float64))(L)[0]


OBJECTIVES: dict[str, Callable[[np.ndarray, Data], float]] = {
    "ITML": itml,
    "LSML": lsml,
    "MMC": mmc,
    "SDML": sdml,
    "SCML": scml,
    "LMNN": lmnn,
    "NCA": nca,
    "MLKR": mlkr,
}
