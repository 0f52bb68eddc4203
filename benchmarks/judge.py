"""Which question next: answers of people, replayed to several rules."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from rich.progress import track
from scipy.stats import t as student

from boostmetric.comparisons import Comparisons
from boostmetric.estimators import committee
from boostmetric.judge.learning import Answers, fitted, learn, learner
from boostmetric.judge.modes import MODES
from boostmetric.judge.questions import disagreement
from boostmetric.paper.datasets import MissingDataError

_N_ANSWERS = (20, 40, 100, 200)
_N_RUNS = 16
_BATCH = 20
_POOL = 300
_N_MEMBERS = 8
_N_ITER = 20
_MODE = MODES["triplet"]

Rows = NDArray[np.int64]  # (head, nearer, farther)
Points = NDArray[np.float64]


class Judged(NamedTuple):
    """Points, answers to ask, and answers to measure on."""

    name: str
    points: Points
    asked: Rows
    test: Rows


# The pictures in the order of their numbers in the answers: stsievert/salmon, examples/alien-eggs, Noise-model.ipynb.
_EGGS = (
    "126 208 76 326 526 322 312 36 414 256 74 50 470 22 430 254 572 200 524 220 438 454 112 494 194 152 420 142 114 184"
)


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """Agreement with answers of people never learned from, by number of answers, for five rules of what to ask."""
    folder = None if data_dir is None else data_dir / "human"
    if folder is None or not folder.is_dir():
        raise MissingDataError("Answers of people are read from the folder human of --data-dir.")
    rows: list[dict[str, object]] = []
    for judged in (material(folder), eggs(folder)):
        runs = Parallel(n_jobs=2, return_as="generator")(delayed(replay)(judged, seed) for seed in range(_N_RUNS))
        results = list(track(runs, description=judged.name, total=_N_RUNS, transient=True))
        base = share(judged.points, judged.test)
        for n in _N_ANSWERS:
            random = np.array([result["random"][n] for result in results])
            row: dict[str, object] = {
                "answers of": judged.name,
                "learned from": n,
                "base": base,
                "random": float(random.mean()),
                "random - base": interval(random - base),
                "worst": float(random.min() - base),
            }
            for name in RULES:
                if name != "random":
                    other = np.array([result[name][n] for result in results])
                    row[f"{name} - random"] = interval(other - random)
            rows.append(row)
    return rows


def interval(differences: NDArray[np.float64]) -> str:
    """Mean and interval of 95 % over paired runs."""
    n = len(differences)
    half = float(student.ppf(0.975, n - 1)) * differences.std(ddof=1) / np.sqrt(n)
    return f"{differences.mean():+.3f} ±{half:.3f}"


def replay(judged: Judged, seed: int) -> dict[str, dict[int, float]]:
    """Agreement of each rule after each number of answers. All rules begin with the same answers."""
    order = np.random.default_rng(seed).permutation(len(judged.asked))
    return {name: _replayed(judged, order, rule, seed) for name, rule in RULES.items()}


@dataclass(frozen=True)
class Sight:
    """What a rule sees: answers so far, and the questions of a pool, but not their answers."""

    points: Points
    known: Rows
    pool: Rows
    rng: np.random.Generator


def _replayed(judged: Judged, order: Rows, rule: Callable[[Sight], Rows], seed: int) -> dict[int, float]:
    rng = np.random.default_rng([seed, 1])
    known, left = list(order[:_BATCH]), list(order[_BATCH:])
    agreement = {}
    while True:
        if len(known) in _N_ANSWERS:
            answers = Answers(_MODE, judged.asked[known], [[near] for near in judged.asked[known, 1].tolist()])
            components = learn(answers, judged.points).components
            agreement[len(known)] = share(judged.points @ components.T, judged.test)
        if len(known) >= _N_ANSWERS[-1]:
            return agreement
        pool = left[:_POOL]
        # The nearer one is not always the first: a rule must not see which it is.
        hidden = judged.asked[pool].copy()
        swapped = rng.random(len(hidden)) < 0.5
        hidden[swapped] = hidden[swapped][:, [0, 2, 1]]
        chosen = [pool[i] for i in rule(Sight(judged.points, judged.asked[known], hidden, rng))[:_BATCH]]
        known += chosen
        taken = set(chosen)
        left = [number for number in left if number not in taken]


def _random(sight: Sight) -> Rows:
    return np.arange(len(sight.pool))


def _margin(sight: Sight) -> Rows:
    answers = Answers(_MODE, sight.known, [[near] for near in sight.known[:, 1].tolist()])
    mapped = sight.points @ fitted(answers, sight.points, _N_ITER).T
    head, one, other = (mapped[column] for column in sight.pool.T)
    first, second = ((head - one) ** 2).sum(axis=1), ((head - other) ** 2).sum(axis=1)
    return np.argsort(abs(first - second) / (first + second), kind="stable")


def _disputed(sight: Sight) -> NDArray[np.float64]:
    answers = Comparisons.from_triplets(sight.known, grouped=False)
    members = committee(
        learner(_N_ITER),
        answers,
        points=sight.points,
        n_members=_N_MEMBERS,
        random_state=int(sight.rng.integers(2**31 - 1)),
    )
    return disagreement(_MODE, [member.components for member in members], sight.points, sight.pool)


def _committee(sight: Sight) -> Rows:
    """The most disputed questions, each with another head, as long as there are some."""
    order = np.argsort(-_disputed(sight), kind="stable")
    heads, first, later = set[int](), list[int](), list[int]()
    for i in order.tolist():
        head = int(sight.pool[i, 0])
        (later if head in heads else first).append(i)
        heads.add(head)
    return np.array(first + later)


def _half(sight: Sight) -> Rows:
    """What the page does: every other question is a random one."""
    disputed = _committee(sight)[: _BATCH // 2]
    others = np.setdiff1d(np.arange(len(sight.pool)), disputed)[: _BATCH // 2]
    return np.concatenate([disputed, others])


def _drawn(sight: Sight) -> Rows:
    """Questions drawn with probabilities in proportion to the disagreement."""
    weight = _disputed(sight) + 1e-3
    return sight.rng.choice(len(weight), _BATCH, replace=False, p=weight / weight.sum())


RULES: dict[str, Callable[[Sight], Rows]] = {
    "random": _random,
    "margin": _margin,
    "committee": _committee,
    "half": _half,
    "drawn": _drawn,
}


def share(points: Points, rows: Rows) -> float:
    """Share of answers that Euclidean distances agree with."""
    head, near, far = (points[column] for column in rows.T)
    return float(np.mean(((head - far) ** 2).sum(axis=1) > ((head - near) ** 2).sum(axis=1)))


def material(folder: Path) -> Judged:
    """Appearance of 100 materials (Lagunas et al., SIGGRAPH 2019), with 60 components of features of the pictures."""
    with np.load(folder / "material_appearance.npz") as answers, np.load(folder / "material_feats.npz") as features:
        rows = [answers[name].astype(np.int64) for name in ("train", "test")]
        return Judged("materials", features["P"].astype(np.float64), *rows)


def eggs(folder: Path) -> Judged:
    """Thirty alien eggs (Jamieson et al., NEXT, 2015), with twelve components of features of the pictures."""
    with np.load(folder / "eggs30_next2015.npz") as answers:
        rows, sampler = answers["triplets"].astype(np.int64), answers["sampler"]
    return Judged("eggs", egg_features(folder), rows[sampler == "RandomSampling"], rows[sampler == "Test"])


def egg_features(folder: Path) -> Points:
    """Principal components of colours and of the directions of edges at four sizes: nothing made for eggs."""
    from PIL import Image

    described = []
    with ZipFile(folder / "eggs30_images.zip") as archive:
        for number in _EGGS.split():
            with Image.open(io.BytesIO(archive.read(f"i{int(number):04d}.png"))) as picture:
                pixels = np.asarray(picture.convert("RGB").resize((128, 128)), dtype=np.float64) / 255.0
            described.append(np.concatenate([_colours(pixels), _edges(pixels.mean(axis=2))]))
    features = np.array(described)
    features = features[:, features.std(axis=0) > 1e-9]
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    left, sizes, _ = np.linalg.svd(features, full_matrices=False)
    return np.asarray((left * sizes)[:, :12])


def _colours(pixels: Points) -> Points:
    return np.concatenate([np.histogram(pixels[..., c], 8, (0, 1))[0] for c in range(3)]) / pixels[..., 0].size


def _edges(grey: Points) -> Points:
    parts = []
    for size in (1, 2, 4, 8):
        side = len(grey) // size
        down, right = np.gradient(grey.reshape(side, size, side, size).mean(axis=(1, 3)))
        strength = np.hypot(right, down)
        angle = np.arctan2(down, right) % np.pi
        parts += [
            [strength.mean(), strength.std()],
            np.histogram(angle, 8, (0, np.pi), weights=strength)[0] / strength.size,
        ]
    return np.concatenate(parts)
