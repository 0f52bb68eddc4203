"""What a fit is going to do, decided before it begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from boostmetric.arrays.errors import ParameterError
from boostmetric.engines.backend import Backend
from boostmetric.engines.threads import ONE_THREAD
from boostmetric.oracles.losses import EXPONENTIAL, Loss
from boostmetric.solver.result import Iteration, Progress
from boostmetric.solver.sources import Source

SolverName = Literal["stagewise", "corrective"]
LineSearch = Literal["exact", "bisection"]
# Sees every iteration; True, or a `StopReason`, stops the fit.
Watcher = Callable[[Iteration], object]


@dataclass(frozen=True)
class Settings:
    """How a problem is solved, whichever it is.

    Attributes
    ----------
    loss : Loss
    solver, regularization, tol, line_search
        As in `boostmetric.BoostMetric`.
    backend : Backend
        What runs the shards of the problem.
    rng : RandomState
        For the start of the search for the first direction in high dimension.
    """

    loss: Loss = EXPONENTIAL
    solver: SolverName = "stagewise"
    regularization: float = 1e-7
    tol: float = 0.0
    line_search: LineSearch = "exact"
    backend: Backend = ONE_THREAD
    rng: np.random.RandomState = field(default_factory=lambda: np.random.RandomState(0))


class Split(NamedTuple):
    """Which comparisons to hold out: a fraction of the anchors, and the seed that chooses them."""

    fraction: float
    seed: int


@dataclass(frozen=True)
class Plan:
    """A fit in one or more passes.

    Attributes
    ----------
    source : Source
        Where the comparisons come from.
    start : Progress
        Where to begin, or where an earlier fit ended.
    max_iter : tuple of int
        Most iterations of each pass.
    settings : Settings
    held_out : Source, optional
        Comparisons to validate on. Each pass keeps its iteration that satisfies most of them.
    split : Split, optional
        Without `held_out`: which comparisons of the source to validate on instead of learning from them.
    patience : int
        Iterations to wait for an improvement on what is held out.
    watchers : tuple of callables
    """

    source: Source
    start: Progress
    max_iter: tuple[int, ...]
    settings: Settings
    held_out: Source | None = None
    split: Split | None = None
    patience: int = 20
    watchers: tuple[Watcher, ...] = ()

    def __post_init__(self) -> None:
        start = self.start
        most = self.max_iter[min(len(start.pass_ends), len(self.max_iter) - 1)]
        n_iterations = len(start.history) - (start.pass_ends[-1] if start.pass_ends else 0)
        if most < n_iterations:
            raise ParameterError(
                "{max_iter}={most} is less than the {n} iterations of the fit to go on with; they count. Raise "
                "{max_iter}, or begin anew, without {warm_start} and {resume_from}.",
                most=most,
                n=n_iterations,
            )
