"""A billion comparisons on two cores."""

import json
import resource
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import numpy as np

from boostmetric import Comparisons
from boostmetric.engines.threads import ThreadBackend
from boostmetric.paper.datasets import BENCHMARKS, load
from boostmetric.paper.protocol import splits
from boostmetric.solver.learn import learn

N_THREADS = 2
_ITERATIONS = 25
_PASSES = 5


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """Letters, 10 targets and all impostors (1.06e9 comparisons): one iteration against one pass of numpy.exp."""
    load("letters", data_dir)  # raises here if the data are missing
    # In a separate process, so that the peak memory is that of the fit alone.
    command = [sys.executable, "-m", "benchmarks.billion", str(data_dir or "")]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(answer.stdout)]


def measure(data_dir: Path | None) -> dict[str, object]:
    (letters,) = [benchmark for benchmark in BENCHMARKS if benchmark.name == "Letters"]
    split = next(splits(letters, load("letters", data_dir)))
    start = perf_counter()
    comparisons = Comparisons.from_labels(split.X_train, split.y_train, n_neighbors=10, n_impostors="all")
    mined = perf_counter()
    times: list[float] = []
    boosted = learn(
        split.X_train,
        comparisons,
        max_iter=_ITERATIONS,
        backend=ThreadBackend(N_THREADS),
        on_iteration=[lambda record: times.append(perf_counter())],
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    L = np.sqrt(boosted.step_sizes)[:, None] * boosted.directions
    n_far = comparisons.side_sizes[1].sum()
    # After the fit, so that it does not add to its memory. Into an existing array: a new one takes ten times as long.
    x, out = np.random.default_rng(0).uniform(-50, 0, n_far), np.ones(n_far)
    passes = []
    for _ in range(_PASSES):
        before = perf_counter()
        np.exp(x, out=out)
        passes.append(perf_counter() - before)
    iteration, one_pass = float(np.median(np.diff(times))), float(np.median(passes))
    return {
        "comparisons": comparisons.n_comparisons,
        "far pairs": int(n_far),
        "mining, s": mined - start,
        "iteration, s": iteration,
        "numpy.exp, s": one_pass,
        "ratio": iteration / one_pass,
        "peak GB": peak / 1e9,
        f"3-NN error % after {_ITERATIONS}": split.error(lambda points: points @ L.T),
    }


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]) if sys.argv[1] else None)))
