"""Shares of a problem, as workers get them: each knows where its points and comparisons are, and loads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from boostmetric.comparisons import Comparisons
from boostmetric.frame import Given


class Loaded(NamedTuple):
    """What a worker has of a problem.

    Attributes
    ----------
    points : ndarray or csr_array
    blocks : iterable of Comparisons
        Each about the points by number. They may be made one after the other, so that not all need be held.
    """

    points: Given
    blocks: Iterable[Comparisons]


class Share(Protocol):
    """A part of a problem; it can be sent."""

    def load(self) -> Loaded:
        """Its points and comparisons, in the process that calls."""
        ...
