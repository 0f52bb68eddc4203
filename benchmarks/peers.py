"""Error and fit time compared with scikit-learn's metric learner."""

from pathlib import Path
from statistics import mean

from sklearn.neighbors import NeighborhoodComponentsAnalysis

from boostmetric import BoostMetric
from boostmetric.paper.datasets import BENCHMARKS, MissingDataError, load
from boostmetric.paper.protocol import run as run_split
from boostmetric.paper.protocol import splits

_SETS = ("Wine", "Bal", "Iris", "Vehicle", "Breast-Cancer", "Diabetes")


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """Small sets of the paper, ten splits: 3-NN error in per cent and fit time of NCA and BoostMetric."""
    wine = load("wine")
    BoostMetric.paper(max_iter=1).fit(*wine)  # compile
    rows: list[dict[str, object]] = []
    for benchmark in BENCHMARKS:
        if benchmark.name not in _SETS:
            continue
        try:
            data = load(benchmark.source, data_dir)
        except MissingDataError as missing:
            print(f"{benchmark.name} left out. {missing}")
            continue
        learners = {
            "Euclidean": None,
            "NCA": NeighborhoodComponentsAnalysis(random_state=0),
            "BoostMetric": BoostMetric.paper(),
            "recommended": BoostMetric.recommended(random_state=0),
        }
        parts = list(splits(benchmark, data))
        outcomes = {name: [run_split(learner, split) for split in parts] for name, learner in learners.items()}
        errors = {f"{name} error": mean([outcome.error for outcome in row]) for name, row in outcomes.items()}
        seconds = {f"{name} s": mean([outcome.seconds for outcome in row]) for name, row in outcomes.items()}
        del seconds["Euclidean s"]
        ratio = seconds["NCA s"] / seconds["BoostMetric s"]
        rows.append({"set": benchmark.name, **errors, **seconds, "times faster": ratio})
    return rows
