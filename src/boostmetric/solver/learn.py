"""From points and comparisons to a metric: choose coordinates, cut shards, boost, and go back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from boostmetric.comparisons import Comparisons
from boostmetric.frame import Frame
from boostmetric.solver.loop import boost
from boostmetric.solver.result import Boosted, Iteration, scaled
from boostmetric.solver.step import bisection_step, exact_step

LineSearch = Literal["exact", "bisection"]
STEP_FINDERS = {"exact": exact_step, "bisection": bisection_step}


def learn(
    points: NDArray[np.floating[Any]],
    comparisons: Comparisons,
    *,
    regularization: float = 1e-7,
    max_iter: int = 500,
    tol: float = 0.0,
    line_search: LineSearch = "exact",
    n_threads: int = 1,
    on_iteration: Sequence[Callable[[Iteration], object]] = (),
    rng: np.random.RandomState | None = None,
) -> Boosted:
    """Learn a metric for the points from comparisons of their pairs.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    comparisons : Comparisons
    regularization, max_iter, tol, line_search
        As in `boostmetric.BoostMetric`.
    n_threads : int
        Threads to work with; the result does not depend on it.
    on_iteration : sequence of callables
        Each sees every `Iteration`; boosting stops when one returns True.
    rng : RandomState, optional
        See `boost`.
    """
    # numba is imported here, with the kernels, and not by ``import boostmetric``.
    from boostmetric.engines.threads import ThreadEngine, single_threaded_blas
    from boostmetric.oracles.cpu import make_shards
    from boostmetric.oracles.sharded import ShardedOracle

    if comparisons.n_points > len(points):
        raise ValueError(
            f"The comparisons name point {comparisons.n_points - 1}, but there are only {len(points)} points "
            f"(0 to {len(points) - 1}). Check that they refer to these points, counted from 0."
        )
    used = np.unique(comparisons.pairs)
    frame = Frame.of(points[used])
    comparisons = replace(comparisons, pairs=np.searchsorted(used, comparisons.pairs).astype(np.int32))

    def report(record: Iteration) -> bool:
        in_user_units = record.in_units(frame.exponent)
        answers = [callback(in_user_units) for callback in on_iteration]  # all of them see it
        return any(answers)

    with single_threaded_blas(), ThreadEngine(make_shards(frame.points, comparisons), n_threads) as engine:
        boosted = boost(
            ShardedOracle(engine, frame.points.shape[1]),
            scaled(regularization, -2 * frame.exponent),
            max_iter=max_iter,
            tol=tol,
            find_step=STEP_FINDERS[line_search],
            on_iteration=report,
            rng=np.random.RandomState(0) if rng is None else rng,
        )
    return Boosted(
        directions=frame.lift(boosted.directions),
        step_sizes=np.array([scaled(w, -2 * frame.exponent) for w in boosted.step_sizes]),
        history=[record.in_units(frame.exponent) for record in boosted.history],
        stop_reason=boosted.stop_reason,
        eigenvalue=scaled(boosted.eigenvalue, 2 * frame.exponent),
        duality_gap=boosted.duality_gap,
    )
