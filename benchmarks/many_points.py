"""Many points of few features: the paper's setting beside large-margin nearest neighbours."""

from pathlib import Path

import numpy as np

from benchmarks.gpu import clustered
from benchmarks.learners import environment, fit
from boostmetric.paper.protocol import TrainTestSplit

_N_POINTS, _N_TRAINING, _N_FEATURES = 25_000, 20_000, 64
_LEARNERS = ("BoostMetric", "boostmetric LMNN", "pylmnn LMNN")
_TIME_LIMIT = 600


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """Fits of 20,000 x 64 points with 3 targets: seconds and 3-NN error, beside pylmnn."""
    del data_dir
    X, y = clustered(_N_POINTS, _N_FEATURES)
    X = X * np.random.default_rng(1).lognormal(size=_N_FEATURES)  # features in different units
    split = TrainTestSplit(X[:_N_TRAINING], y[:_N_TRAINING], X[_N_TRAINING:], y[_N_TRAINING:])
    rows: list[dict[str, object]] = [{"learner": "Euclidean", "seconds": 0.0, "error %": split.error()}]
    for learner in _LEARNERS:
        python = environment(learner)
        if python is None:
            continue
        L, seconds = fit(python, learner, split.X_train, split.y_train, time_limit=_TIME_LIMIT)
        error = "-" if L is None else split.error(lambda points, L=L: points @ L.T)
        rows.append({"learner": learner, "seconds": seconds, "error %": error})
        print("  " + "; ".join(f"{key}: {value}" for key, value in rows[-1].items()), flush=True)
    ours = float(rows[1]["seconds"])  # type: ignore[arg-type]
    return [row | {"times as long as BoostMetric": float(row["seconds"]) / ours} for row in rows]  # type: ignore[arg-type]
