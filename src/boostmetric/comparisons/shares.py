"""Shares of a problem, as workers get them: each knows where its points and comparisons are, and loads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from boostmetric.arrays.frame import Given
from boostmetric.comparisons.comparisons import Comparisons
from boostmetric.parallel.crew import Crew


class Loaded(NamedTuple):
    """What a process has of a problem.

    Attributes
    ----------
    points : ndarray or csr_array
    blocks : sequence of callable
        Each makes comparisons of the points by number, or has none. They are functions, so that not all need be held.
    """

    points: Given
    blocks: Sequence[Callable[[], Comparisons | None]]


class Share(Protocol):
    """A part of a problem; it can be sent."""

    def load(self, crew: Crew) -> Loaded:
        """Its points and comparisons, in the process that calls, which has some threads for it."""
        ...
