"""Interface of the backends that run shards: threads of this process, a device, or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from boostmetric.arrays.frame import Coordinates, Shift
from boostmetric.comparisons import Comparisons
from boostmetric.comparisons.shares import Share
from boostmetric.oracles.losses import Loss
from boostmetric.oracles.merged import ShardPool


class Backend(Protocol):
    """Backend that cuts problems into shards and runs them."""

    def pool(self, points: Coordinates, comparisons: Comparisons, loss: Loss) -> AbstractContextManager[ShardPool]:
        """Provide the shards of a problem while the context is open."""
        ...


@runtime_checkable
class SharingBackend(Backend, Protocol):
    """Backend whose workers load their shares of a problem themselves."""

    def shared_pool(
        self, shares: Callable[[int], Sequence[Share]], n_features: int, loss: Loss, shift: Shift | None = None
    ) -> AbstractContextManager[tuple[ShardPool, Shift, float]]:
        """Provide the shards of a problem, the coordinates of its points, and the weight of its groups.

        Parameters
        ----------
        shares : callable
            Given n, returns n shares of the problem, or fewer.
        n_features : int
        loss : Loss
        shift : Shift, optional
            Coordinates to convert the points to; by default chosen to suit them.
        """
        ...
