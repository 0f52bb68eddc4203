"""Shards on a device that torch can use, such as a GPU."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from boostmetric.comparisons import Comparisons
from boostmetric.frame import Coordinates

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Device:
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
    def engine(self, points: Coordinates, comparisons: Comparisons, *, logistic: bool) -> Iterator[DeviceEngine]:
        # torch is imported here, and not by ``import boostmetric``.
        import torch

        from boostmetric.gpu.shards import bytes_needed, make_shards

        dtype = torch.float32 if self.single else torch.float64
        needed = bytes_needed(points.shape, comparisons, dtype.itemsize)
        held = _held(self.name)  # by the comparisons to learn from, if these are those held out
        with _memory_of(self.name, held + needed), torch.no_grad():
            _check_memory(self.name, held, needed)
            engine = DeviceEngine(
                make_shards(points, comparisons, self.name, dtype, logistic=logistic),
                torch.finfo(dtype).eps if self.single else 0.0,
            )
            try:
                yield engine
            finally:
                engine.shards = ()  # an error that is kept, as in a notebook, leads to the engine


class DeviceEngine:
    """Keeps shards, which work on a device, and asks them one after the other.

    Attributes
    ----------
    shards : sequence
        Objects with the verbs of an oracle.
    """

    def __init__(self, shards: Sequence[object], rounding: float) -> None:
        self.rounding = rounding
        self.shards = shards

    def each(self, verb: str, *arguments: Any) -> list[Any]:
        return [getattr(shard, verb)(*arguments) for shard in self.shards]


@contextmanager
def _memory_of(name: str, needed: int) -> Iterator[None]:
    """Say what is needed where a device has not enough, and give back what was taken."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        # As long as there is an error, its frames hold what they had taken.
        traceback.clear_frames(error.__traceback__)
        torch.cuda.empty_cache()
        message = _message(name, needed, str(error).partition("\n")[0].partition(". ")[0])
        raise MemoryError(message) from None


def _held(name: str) -> int:
    """Bytes that this process holds on a device."""
    import torch

    return int(torch.cuda.memory_allocated(name)) if torch.device(name).type == "cuda" else 0


def _check_memory(name: str, held: int, needed: int) -> None:
    """Refuse before any work what cannot be held."""
    import torch

    device: torch.device = torch.device(name)
    if device.type != "cuda":
        return
    free, _ = torch.cuda.mem_get_info(device)
    free += torch.cuda.memory_reserved(device) - held  # what torch keeps for further use
    if needed > free:
        raise MemoryError(_message(name, held + needed, f"{free / 1e9:,.1f} GB are free"))


def _message(name: str, needed: int, found: str) -> str:
    return (
        f"The fit needs about {needed / 1e9:,.1f} GB on device {name!r}, but: {found}. Give the points as float32, if "
        'they are not; lower n_impostors or n_neighbors, or give fewer comparisons; or set device="cpu".'
    )
