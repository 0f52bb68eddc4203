"""One boosting iteration, compared with the literal transcription of the paper."""

from pathlib import Path
from time import perf_counter

import numpy as np
from tests import reference

from boostmetric import Comparisons
from boostmetric.paper.datasets import BENCHMARKS, load
from boostmetric.paper.protocol import splits
from boostmetric.solver.learn import learn

_ITERATIONS = 25


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """One iteration on Letters (10,500 x 16, k = 3, 94,500 triplets), compared with tests/reference.py."""
    (letters,) = [benchmark for benchmark in BENCHMARKS if benchmark.name == "Letters"]
    split = next(splits(letters, load("letters", data_dir)))
    comparisons = Comparisons.from_labels(split.X_train, split.y_train)
    quadruplets = list(comparisons.quadruplets())

    def by_reference(n: int) -> np.ndarray:
        return reference.boost(split.X_train, quadruplets, 1e-7, n)[0]

    def by_us(n: int, **options: object) -> np.ndarray:
        boosted = learn(split.X_train, comparisons, max_iter=n, **options)
        return (boosted.directions.T * boosted.step_sizes) @ boosted.directions

    systems = {
        "reference": by_reference,
        "ours": by_us,
        "ours, bisection": lambda n: by_us(n, line_search="bisection"),
    }
    by_us(1)  # compile
    rows: list[dict[str, object]] = []
    expected = np.zeros(0)
    for name, solve in systems.items():
        seconds, X = seconds_per_iteration(solve)
        if not rows:
            expected, slowest = X, seconds
        values, vectors = np.linalg.eigh(X)
        L = vectors * np.sqrt(np.maximum(values, 0))
        rows.append(
            {
                "system": name,
                "ms per iteration": 1000 * seconds,
                "times faster": slowest / seconds,
                f"3-NN error % after {_ITERATIONS}": split.error(lambda points, L=L: points @ L),
                "difference of X": float(np.linalg.norm(X - expected) / np.linalg.norm(expected)),
            }
        )
    return rows


def seconds_per_iteration(solve) -> tuple[float, np.ndarray]:  # type: ignore[no-untyped-def]
    """Time of an iteration without setup: the difference of two runs, best of three."""
    times = []
    for _ in range(3):
        start = perf_counter()
        solve(1)
        middle = perf_counter()
        X = solve(_ITERATIONS)
        times.append((perf_counter() - middle) - (middle - start))
    return max(min(times), 1e-9) / (_ITERATIONS - 1), X
