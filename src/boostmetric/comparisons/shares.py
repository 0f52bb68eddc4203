"""Shares of a problem for workers; each share knows where its points and comparisons are, and loads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from boostmetric.arrays.frame import Given
from boostmetric.comparisons.comparisons import Comparisons
from boostmetric.parallel.crew import Crew


class Loaded(NamedTuple):
    """Part of a problem that a process has loaded.

    Attributes
    ----------
    points : ndarray or csr_array
    blocks : sequence of callable
        Each returns comparisons that refer to the points by number, or None. They are functions so that not all blocks
        need to be in memory at once.
    """

    points: Given
    blocks: Sequence[Callable[[], Comparisons | None]]


class Share(Protocol):
    """Part of a problem that can be sent to a worker."""

    def load(self, crew: Crew) -> Loaded:
        """Load its points and comparisons in the calling process, with the threads of `crew`."""
        ...
