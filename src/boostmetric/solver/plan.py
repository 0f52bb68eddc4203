"""The plan of a fit, decided before it begins."""

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
# Called with every iteration; returning True or a `StopReason` stops the fit.
Watcher = Callable[[Iteration], object]


@dataclass(frozen=True)
class Settings:
    """Settings for solving any problem.

    Attributes
    ----------
    loss : Loss
    solver, regularization, tol, line_search, learning_rate, block_size
        As in `boostmetric.BoostMetric`.
    backend : Backend
        Backend that runs the shards of the problem.
    rng : RandomState
        Random generator for the start vector of the first direction in high dimensions.
    """

    loss: Loss = EXPONENTIAL
    solver: SolverName = "stagewise"
    regularization: float = 1e-7
    tol: float = 0.0
    line_search: LineSearch = "exact"
    learning_rate: float = 1.0
    block_size: int = 1
    backend: Backend = ONE_THREAD
    rng: np.random.RandomState = field(default_factory=lambda: np.random.RandomState(0))


class Split(NamedTuple):
    """Which comparisons to hold out: a fraction of the anchors, and the random seed that chooses them."""

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
        Progress to continue from: an initial metric, or an earlier fit.
    max_iter : tuple of int
        Maximum number of iterations of each pass.
    settings : Settings
    held_out : Source, optional
        Comparisons to validate on. Each pass keeps the iteration that satisfies most of them.
    split : Split, optional
        Without `held_out`: comparisons of the source to validate on instead of learning from them.
    patience : int
        Number of iterations to wait for an improvement on held-out comparisons.
    watchers : tuple of callables
        Callbacks for every iteration.
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
                "{max_iter}={most} is less than the {n} iterations of the fit to continue, which are included. Raise "
                "{max_iter}, or start over without {warm_start} and {resume_from}.",
                most=most,
                n=n_iterations,
            )
