"""Arrays to work in, one set for each thread."""

from __future__ import annotations

import math
from threading import local

import numpy as np
from numpy.typing import NDArray


class Scratch(local):
    """Arrays to work in. What a thread does one after the other uses the same ones, which then stay in its cache."""

    def __init__(self) -> None:
        self._rooms: dict[str, NDArray[np.float64]] = {}

    def room(self, name: str, *shape: int) -> NDArray[np.float64]:
        """An array of the given shape, holding anything."""
        size = math.prod(shape)
        if name not in self._rooms or self._rooms[name].size < size:
            from boostmetric.kernels.lanes import aligned_zeros  # with numba, when it is needed

            self._rooms[name] = aligned_zeros(size)
        return self._rooms[name][:size].reshape(shape)
