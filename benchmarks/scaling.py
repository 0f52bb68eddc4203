"""Time of an iteration against the number of pairs and threads."""

from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks.roofline import labelled_problem
from boostmetric import Comparisons
from boostmetric.engines.threads import ThreadBackend
from boostmetric.solver.learn import learn

_SIZES = (10**4, 10**5, 10**6, 10**7, 10**8)


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """Groups of 3 x 47 pairs, 16 features, 1e4 to 1e8 pairs: seconds per iteration with one and two threads."""
    del data_dir
    rows: list[dict[str, object]] = []
    for n_pairs in _SIZES:
        points, comparisons = labelled_problem(n_pairs)
        n_iterations = int(np.clip(2 * 10**8 // n_pairs, 6, 400))
        best = {1: np.inf, 2: np.inf}
        for _ in range(2 if n_pairs == max(_SIZES) else 3):  # in turn, because the machine's speed varies
            for n_threads in best:
                seconds, loss = seconds_per_iteration(points, comparisons, n_iterations, n_threads)
                best[n_threads] = min(best[n_threads], seconds)
        rows.append(
            {
                "pairs": comparisons.n_pairs,
                "1 thread, s": best[1],
                "2 threads, s": best[2],
                "times faster": best[1] / best[2],
                "ns a pair, 2 threads": 1e9 * best[2] / comparisons.n_pairs,
                "exponent, 1 thread": exponent([*rows, {"pairs": comparisons.n_pairs, "1 thread, s": best[1]}]),
                "loss": loss,
            }
        )
        print(f"  {n_pairs:.0e} pairs: {best[1]:.4g} s, {best[2]:.4g} s", flush=True)
    return rows


def seconds_per_iteration(
    points: np.ndarray, comparisons: Comparisons, n_iterations: int, n_threads: int
) -> tuple[float, float]:
    """Median time of an iteration after the first, and the loss at the end."""
    times: list[float] = []
    boosted = learn(
        points,
        comparisons,
        max_iter=1 + n_iterations,
        backend=ThreadBackend(n_threads),
        on_iteration=[lambda record: times.append(perf_counter())],
    )
    return float(np.median(np.diff(times))), boosted.history[-1].loss


def exponent(rows: list[dict[str, object]]) -> float | str:
    """Slope of log time against log number of pairs, over all rows so far."""
    if len(rows) < 2:
        return "-"
    pairs, seconds = (np.log([float(row[key]) for row in rows]) for key in ("pairs", "1 thread, s"))  # type: ignore[arg-type]
    return float(np.polyfit(pairs, seconds, 1)[0])
