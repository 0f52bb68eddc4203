"""Giving memory that was freed back to the system."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


def give_back() -> None:
    """Give freed memory back to the system, where the C library has a function for it.

    glibc keeps freed arrays of up to 32 MB for later ones of the same thread. The stages of a fit need arrays of
    different sizes on different threads, so a process would keep about twice the memory that is ever in use at once.
    Cost: some milliseconds, and as much again where the memory is used once more.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # not on every system
        return None
