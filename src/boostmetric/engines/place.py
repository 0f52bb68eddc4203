"""Where the shards of a problem are kept and worked on: threads of this process, a device, or a cluster."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from boostmetric.comparisons import Comparisons
from boostmetric.frame import Coordinates
from boostmetric.oracles.merged import Engine


class Place(Protocol):
    """Cuts problems into shards, and keeps them."""

    def engine(
        self, points: Coordinates, comparisons: Comparisons, *, logistic: bool
    ) -> AbstractContextManager[Engine]:
        """The shards of a problem, as long as the context lasts."""
        ...
