"""Memory of a device that is not enough: said with the size needed, and given back."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from boostmetric.arrays.errors import NotEnoughMemoryError


@contextmanager
def memory_of(name: str, needed: int, remedy: str) -> Iterator[None]:
    """Say what is needed where a device has not enough, and give back what was taken.

    Parameters
    ----------
    name : str
        Of the device.
    needed : int
        Bytes, roughly.
    remedy : str
        What to do, as a sentence, in which parameters are fields (see `arrays.errors`).
    """
    held = _held(name)
    try:
        yield
    except torch.OutOfMemoryError as error:
        # As long as there is an error, its frames hold what they had taken.
        traceback.clear_frames(error.__traceback__)
        torch.cuda.empty_cache()
        found = str(error).partition("\n")[0].partition(". ")[0]
        raise _not_enough(name, held, needed, found, remedy) from None


def _held(name: str) -> int:
    """Bytes that this process holds on a device, as for the comparisons to learn from, where others are held out."""
    return int(torch.cuda.memory_allocated(name)) if torch.device(name).type == "cuda" else 0


def check_memory(name: str, needed: int, remedy: str) -> None:
    """Refuse before any work what cannot be held."""
    device = torch.device(name)
    if device.type != "cuda":
        return
    held = _held(name)
    free, _ = torch.cuda.mem_get_info(device)
    free += torch.cuda.memory_reserved(device) - held  # what torch keeps for further use
    if needed > free:
        raise _not_enough(name, held, needed, f"{free / 1e9:,.1f} GB are free", remedy)


def _not_enough(name: str, held: int, needed: int, found: str, remedy: str) -> NotEnoughMemoryError:
    beside = f" beside the {held / 1e9:,.1f} GB that this process holds there" if held else ""
    return NotEnoughMemoryError(
        f"{{needed:,.1f}} GB or so are needed on device {{name!r}}{beside}, but: {{found}}. {remedy}",
        needed=needed / 1e9,
        name=name,
        found=found,
    )
