"""Error and fit time beside the metric learner that scikit-learn has."""

from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from boostmetric import BoostMetric
from boostmetric.paper.datasets import BENCHMARKS, MissingDataError, load
from boostmetric.paper.protocol import splits

_SETS = ("Wine", "Bal", "Iris", "Vehicle", "Breast-Cancer", "Diabetes")


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """Small sets of the paper, ten splits: 3-NN error in per cent and fit time, BoostMetric and scikit-learn's NCA."""
    wine = load("wine")
    BoostMetric(max_iter=1).fit(*wine)  # compile
    rows: list[dict[str, object]] = []
    for benchmark in BENCHMARKS:
        if benchmark.name not in _SETS:
            continue
        try:
            data = load(benchmark.source, data_dir)
        except MissingDataError as missing:
            print(f"{benchmark.name} left out. {missing}")
            continue
        learners = {"NCA": NeighborhoodComponentsAnalysis(random_state=0), "BoostMetric": BoostMetric()}
        errors: dict[str, list[float]] = {"Euclidean": [], **{name: [] for name in learners}}
        seconds: dict[str, list[float]] = {name: [] for name in learners}
        for split in splits(benchmark, data):
            errors["Euclidean"].append(split.error())
            for name, learner in learners.items():
                start = perf_counter()
                learner.fit(split.X_train, split.y_train)
                seconds[name].append(perf_counter() - start)
                errors[name].append(split.error(learner.transform))
        rows.append(
            {
                "set": benchmark.name,
                **{f"{name} error": float(np.mean(values)) for name, values in errors.items()},
                **{f"{name} s": float(np.mean(values)) for name, values in seconds.items()},
                "times faster": float(np.mean(seconds["NCA"]) / np.mean(seconds["BoostMetric"])),
            }
        )
    return rows
