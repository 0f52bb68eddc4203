"""Rounds per iteration of a backend that is asked for several steps at once, and the accuracy of the steps."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from boostmetric import Comparisons
from boostmetric.engines.ray import RayShardPool
from boostmetric.engines.threads import ThreadBackend
from boostmetric.oracles.losses import LOSSES
from boostmetric.oracles.protocol import Oracle
from boostmetric.paper.datasets import BENCHMARKS, MissingDataError, load
from boostmetric.solver.loop import Stagewise, boost
from boostmetric.solver.problem import Problem
from boostmetric.solver.result import Progress
from boostmetric.solver.step import exact_step

_MOST_SAMPLES, _MOST_FEATURES = 1500, 50
_N_NEAR, _N_FAR = 3, 8
_N_SINGLE = 5000
_ITERATIONS = 80


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """Rounds and steps per iteration as on a cluster, and their steps compared with those found one by one."""
    rows: list[dict[str, object]] = []
    for name, X, y in sets(data_dir):
        for scale, points in (("raw", X), ("standardised", StandardScaler().fit_transform(X))):
            groups = Comparisons.from_labels(points, y, _N_NEAR, _N_FAR)
            listed = np.array(list(groups.quadruplets()))
            chosen = np.random.default_rng(0).permutation(len(listed))[:_N_SINGLE]
            single = Comparisons.from_quadruplets(listed[chosen], grouped=False)
            for kind, comparisons in (("groups", groups), ("single", single)):
                for loss in ("exponential", "logistic"):
                    found = measure(points, comparisons, loss)
                    rows.append({"set": name, "features": scale, "comparisons": kind, "loss": loss} | found)
    return [*rows, *in_all(rows)]


def sets(data_dir: Path | None) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Two data sets of scikit-learn's and those of the paper, with a limited number of samples and features."""
    rng = np.random.default_rng(0)
    named = {benchmark.name: benchmark.source for benchmark in BENCHMARKS}
    for name, source in {"Digits": load_digits, "Breast cancer, diagnostic": load_breast_cancer, **named}.items():
        try:
            X, y = load(source, data_dir)[:2] if isinstance(source, str) else source(return_X_y=True)
        except MissingDataError as missing:
            print(f"{name} left out. {missing}")
            continue
        chosen = rng.permutation(len(y))[:_MOST_SAMPLES]
        X = np.asarray(X[chosen], dtype=np.float64)
        if X.shape[1] > 2 * _MOST_FEATURES:
            X = PCA(_MOST_FEATURES, random_state=0).fit_transform(X)
        yield name, X, y[chosen]


class _Counting:
    """A thread that is asked for as many steps at once as a cluster, and counts the calls."""

    rounding = RayShardPool.rounding
    steps_at_once = RayShardPool.steps_at_once

    def __init__(self) -> None:
        self.n_evaluations = self.n_steps = 0

    @contextmanager
    def pool(self, points, comparisons, loss):
        with ThreadBackend().pool(points, comparisons, loss) as self._threads:
            yield self

    def each(self, verb, *arguments):
        self.n_evaluations += verb in ("moments", "histogram")
        self.n_steps += len(arguments[0]) if verb == "moments" else 0
        return self._threads.each(verb, *arguments)


def measure(points: np.ndarray, comparisons: Comparisons, loss: str) -> dict[str, object]:
    """Fit, and count the iterations that took two, three or more rounds, and the steps they asked for."""
    backend, rounds, steps, errors = _Counting(), [], [], []

    def find_step(oracle, v, guess=None):
        before = backend.n_evaluations, backend.n_steps
        step = exact_step(oracle, v, guess)
        rounds.append(1 + backend.n_evaluations - before[0])  # plus one for the step and the direction
        steps.append(backend.n_steps - before[1])
        errors.append(abs(step.size / one_by_one(oracle, v) - 1))
        return step

    with Problem(points, comparisons).opened(backend, loss=LOSSES[loss]) as (_, oracle):
        boost(
            oracle,
            1e-7,
            start=Progress.nothing(oracle.n_features),
            max_iter=_ITERATIONS,
            tol=1e-7,
            solver=Stagewise(find_step),
            on_iteration=lambda record, so_far: None,
            rng=np.random.RandomState(0),
        )
    counts = {f"of {n} rounds": rounds.count(n) for n in (2, 3, 4)} | {"of more": sum(n > 4 for n in rounds)}
    found = {"iterations": len(rounds), **counts, "steps an iteration": float(np.mean(steps))}
    return found | {"largest difference of a step": float(max(errors))}


def one_by_one(oracle: Oracle, v: float) -> float:
    """The step found without a histogram, asking for one step at a time."""
    asked = copy(oracle)
    asked.histogram, asked.steps_at_once = lambda: None, 1
    return exact_step(asked, v).size


def in_all(rows: list[dict[str, object]]) -> Iterator[dict[str, object]]:
    """Totals over all fits of each kind."""
    for kind, loss in (
        ("groups", "exponential"),
        ("groups", "logistic"),
        ("single", "exponential"),
        ("single", "logistic"),
    ):
        chosen = [row for row in rows if (row["comparisons"], row["loss"]) == (kind, loss)]
        summed = [name for name in rows[0] if name == "iterations" or name.startswith("of ")]
        total = {name: sum(row[name] for row in chosen) for name in summed}
        steps = sum(row["iterations"] * row["steps an iteration"] for row in chosen) / total["iterations"]
        largest = max(row["largest difference of a step"] for row in chosen)
        yield {
            "set": "all",
            "features": "",
            "comparisons": kind,
            "loss": loss,
            **total,
            "steps an iteration": steps,
            "largest difference of a step": largest,
        }
