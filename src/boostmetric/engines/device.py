"""Shards on a device that torch can use, such as a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from boostmetric.arrays.frame import Coordinates
from boostmetric.comparisons import Comparisons
from boostmetric.oracles.losses import Loss

_REMEDY = (
    "Give the points as float32, if they are not; lower {n_impostors} or {n_neighbors}, or give fewer comparisons; or "
    'set {device}="cpu".'
)


@dataclass(frozen=True)
class DeviceBackend:
    """A device of torch.

    Attributes
    ----------
    name : str
        As torch calls it.
    single : bool
        Whether points and distances are held in single precision. Sums over them are made in double precision.
    """

    name: str
    single: bool

    @contextmanager
    def pool(self, points: Coordinates, comparisons: Comparisons, loss: Loss) -> Iterator[DeviceShardPool]:
        # torch is imported here, and not by ``import boostmetric``.
        import torch

        from boostmetric.gpu.device_shards import bytes_needed, make_shards
        from boostmetric.parallel.device_memory import check_memory, memory_of

        dtype = torch.float32 if self.single else torch.float64
        needed = bytes_needed(points.shape, comparisons, dtype.itemsize)
        with memory_of(self.name, needed, _REMEDY):
            check_memory(self.name, needed, _REMEDY)
            engine = DeviceShardPool(
                make_shards(points, comparisons, self.name, dtype, loss),
                torch.finfo(dtype).eps if self.single else 0.0,
            )
            try:
                yield engine
            finally:
                engine.shards = ()  # an error that is kept, as in a notebook, leads to the engine


class DeviceShardPool:
    """Keeps shards, which work on a device, and asks them one after the other.

    Attributes
    ----------
    shards : sequence
        Objects with the verbs of an oracle.
    """

    steps_at_once = 1

    def __init__(self, shards: Sequence[object], rounding: float) -> None:
        self.rounding = rounding
        self.shards = shards

    def each(self, verb: str, *arguments: Any) -> list[Any]:
        import torch

        with torch.no_grad():  # not around a whole fit, whose callbacks may want gradients
            return [getattr(shard, verb)(*arguments) for shard in self.shards]
