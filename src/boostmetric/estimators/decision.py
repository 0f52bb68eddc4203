"""What a fit does, decided before it begins: by the parameters, or by validation where they are "auto"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from boostmetric.metric.starts import Init
from boostmetric.solver.plan import SolverName
from boostmetric.solver.sources import Source

AUTO: Literal["auto"] = "auto"

# From this many features, iterations add blocks of this many directions, and more targets and impostors do better.
_MANY_FEATURES = 128
_BLOCK_SIZE = 32
_SIZES, _SIZES_OF_MANY = (5, 10), (10, 50)
# Single stagewise iterations that an iteration of the corrective solver, or a block, stands for.
CORRECTIVE_DOES, BLOCK_DOES = 5, 10


@dataclass(frozen=True)
class Decision:
    """What a fit does.

    Attributes
    ----------
    source : Source
        What to learn from.
    init : Init
    solver : str
    block_size : int
    learning_rate : float
    max_iter : tuple of int
        Most iterations of each pass.
    normalize : bool
        Whether mapped points are scaled to unit length.
    is_validated : bool
        Whether it was chosen by validation.
    beside : tuple of Decision
        Other fits, to take the mean of all metrics.
    n_bags : int
        How many of these fits, with this one, learn the same from parts of the samples, and have one vote together.
    """

    source: Source
    init: Init
    solver: SolverName
    block_size: int
    learning_rate: float
    max_iter: tuple[int, ...]
    normalize: bool
    is_validated: bool = False
    beside: tuple[Decision, ...] = ()
    n_bags: int = 1


def block_of(n_features: int, solver: str, block_size: int | str) -> tuple[int, int]:
    """The block size, and the number of single iterations that an iteration stands for."""
    if not isinstance(block_size, str):
        return block_size, 1
    if solver == "corrective" or n_features < _MANY_FEATURES:
        return 1, 1
    return _BLOCK_SIZE, BLOCK_DOES


def sizes_of(n_features: int) -> tuple[int, int]:
    """Targets and impostors of a sample that do best without a choice."""
    return _SIZES if n_features < _MANY_FEATURES else _SIZES_OF_MANY


def is_auto(value: object) -> bool:
    """Whether a parameter is to be chosen."""
    return isinstance(value, str) and value == AUTO
