"""Where the shards of a problem are kept and worked on: threads of this process, a device, or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from boostmetric.arrays.frame import Coordinates, Shift
from boostmetric.comparisons import Comparisons
from boostmetric.comparisons.shares import Share
from boostmetric.oracles.merged import Engine


class Place(Protocol):
    """Cuts problems into shards, and keeps them."""

    def engine(
        self, points: Coordinates, comparisons: Comparisons, *, logistic: bool
    ) -> AbstractContextManager[Engine]:
        """The shards of a problem, as long as the context lasts."""
        ...


@runtime_checkable
class SharingPlace(Place, Protocol):
    """One whose workers load their shares of a problem themselves."""

    def shared(
        self,
        shares: Callable[[int], Sequence[Share]],
        n_features: int,
        *,
        logistic: bool,
        shift: Shift | None = None,
    ) -> AbstractContextManager[tuple[Engine, Shift, float]]:
        """The shards of a problem, the coordinates of its points, and the weight of its groups.

        Parameters
        ----------
        shares : callable
            So many shares of the problem, or fewer.
        n_features : int
        logistic : bool
        shift : Shift, optional
            Coordinates to put the points in; by default those that suit them.
        """
        ...
