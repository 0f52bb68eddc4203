"""Shards on a torch device, such as a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from boostmetric.arrays.frame import Coordinates
from boostmetric.comparisons import Comparisons
from boostmetric.oracles.losses import Loss

_REMEDY = (
    "Give the points as float32 if they are not, lower {n_impostors} or {n_neighbors}, give fewer comparisons, or "
    'set {device}="cpu".'
)


@dataclass(frozen=True)
class DeviceBackend:
    """A torch device.

    Attributes
    ----------
    name : str
        Torch's name for the device.
    single : bool
        Whether points and distances are stored in single precision. Sums over them are in double precision.
    """

    name: str
    single: bool

    @contextmanager
    def pool(self, points: Coordinates, comparisons: Comparisons, loss: Loss) -> Iterator[DeviceShardPool]:
        # Imported here so that ``import boostmetric`` does not import torch.
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
                engine.shards = ()  # free the memory even if a stored error, as in a notebook, refers to the engine


class DeviceShardPool:
    """Pool of shards on a device, called one after the other.

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
