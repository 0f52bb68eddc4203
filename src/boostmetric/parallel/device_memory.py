"""Errors for too little device memory that say how much is needed; memory taken is released."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from boostmetric.arrays.errors import NotEnoughMemoryError


@contextmanager
def memory_of(name: str, needed: int, remedy: str) -> Iterator[None]:
    """Turn torch's out-of-memory error into one that says how much is needed, and release what was taken.

    Parameters
    ----------
    name : str
        Name of the device.
    needed : int
        Approximate number of bytes needed.
    remedy : str
        What to do, as a sentence with parameters as fields (see `arrays.errors`).
    """
    held = _held(name)
    try:
        yield
    except torch.OutOfMemoryError as error:
        # While the error exists, its frames keep their memory.
        traceback.clear_frames(error.__traceback__)
        torch.cuda.empty_cache()
        found = str(error).partition("\n")[0].partition(". ")[0]
        raise _not_enough(name, held, needed, found, remedy) from None


def _held(name: str) -> int:
    """Bytes this process holds on a device, for example training comparisons while held-out ones are loaded."""
    return int(torch.cuda.memory_allocated(name)) if torch.device(name).type == "cuda" else 0


def check_memory(name: str, needed: int, remedy: str) -> None:
    """Raise an error before any work starts if a device has too little free memory."""
    device = torch.device(name)
    if device.type != "cuda":
        return
    held = _held(name)
    free, _ = torch.cuda.mem_get_info(device)
    free += torch.cuda.memory_reserved(device) - held  # memory that torch caches for reuse
    if needed > free:
        raise _not_enough(name, held, needed, f"{free / 1e9:,.1f} GB are free", remedy)


def _not_enough(name: str, held: int, needed: int, found: str, remedy: str) -> NotEnoughMemoryError:
    beside = f" in addition to the {held / 1e9:,.1f} GB that this process holds there" if held else ""
    return NotEnoughMemoryError(
        f"About {{needed:,.1f}} GB are needed on device {{name!r}}{beside}, but: {{found}}. {remedy}",
        needed=needed / 1e9,
        name=name,
        found=found,
    )
