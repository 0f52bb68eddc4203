"""Scratch arrays, one set per thread."""

from __future__ import annotations

import math
from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Scratch(local):
    """Scratch arrays of a thread, reused from one call to the next so that they stay in its cache."""

    def __init__(self) -> None:
        self._rooms: dict[str, NDArray[Any]] = {}

    def room(self, name: str, *shape: int, dtype: Any = np.float64) -> NDArray[Any]:
        """Array of the given shape, with arbitrary contents; always of the same type for a name."""
        size = math.prod(shape)
        if name not in self._rooms or self._rooms[name].size < size:
            from boostmetric.kernels.lanes import aligned_zeros  # imports numba, so only when needed

            self._rooms[name] = aligned_zeros(size, dtype=dtype)
        return self._rooms[name][:size].reshape(shape)
