"""The points of a problem on a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from boostmetric.arrays.types import FloatArray

# Rows in double precision in memory at once.
_AT_ONCE = 2**18


class DevicePoints:
    """Points on a device, in the precision they are stored in; products with them are in double precision.

    In single precision torch may, depending on user settings, shorten the factors to ten bits (TF32).

    Attributes
    ----------
    rows : Tensor of shape (n_points, n_features)
    """

    def __init__(self, coordinates: NDArray[np.floating[Any]], device: str, dtype: torch.dtype) -> None:
        self.rows = torch.as_tensor(coordinates, dtype=dtype, device=device)
        self.n_features = coordinates.shape[1]
        self.dtype = dtype
        self.device = self.rows.device

    def __len__(self) -> int:
        return len(self.rows)

    def number(self, value: float) -> torch.Tensor:
        """Convert a number to a scalar tensor in double precision."""
        return torch.tensor(value, dtype=torch.float64, device=self.device)

    def vector(self, values: FloatArray) -> torch.Tensor:
        """Convert an array to a tensor in double precision."""
        return torch.as_tensor(np.ascontiguousarray(values, dtype=np.float64), device=self.device)

    def take(self, numbers: torch.Tensor) -> torch.Tensor:
        """Select points, in double precision."""
        return self.rows[numbers].double()

    def times(self, directions: FloatArray) -> torch.Tensor:
        """Coordinates of all points along each direction."""
        along = self.vector(directions)
        return torch.cat([along @ block.T for _, block in self.blocks()], 1)

    def along(self, directions: FloatArray) -> torch.Tensor:
        """The same as columns, in the precision of the points."""
        directions_ = self.vector(directions).T
        return torch.cat([(block @ directions_).to(self.dtype) for _, block in self.blocks()])

    def blocks(self) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yield all points in double precision, block by block."""
        for begin in range(0, len(self.rows), _AT_ONCE):
            block = slice(begin, min(begin + _AT_ONCE, len(self.rows)))
            yield block, self.rows[block].double()
