"""Candidates for nearest neighbours on a torch device: compute all distances in blocks and keep the shortest.

`nearest_points` defines what the nearest are, and decides which of the candidates are among them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from boostmetric.neighbors.searches import square_lengths
from boostmetric.parallel.device_memory import memory_of

_BLOCK = 2**28  # distances in memory at once: 2 GiB
_REMEDY = 'Set {device}="cpu", or give fewer samples.'
_GROUP = 64  # points that are first represented by their smallest distance


class DeviceSearch:
    """Search for the nearest points of many queries at once, on a device.

    Products are in double precision: in single precision torch may, depending on user settings, round their factors to
    11 bits (TF32). Selection takes the time, not multiplication.

    Parameters
    ----------
    centred : ndarray of shape (n_points, n_features)
    device : str
        Torch's name for the device.
    label : ndarray of shape (n_points,), optional
        Class numbers, so that the class of a query can be left out.
    """

    def __init__(self, centred: NDArray[Any], device: str, label: NDArray[np.int64] | None = None) -> None:
        self._device = device
        n_points, n_features = centred.shape
        # Pad to whole groups; padding is infinitely far away.
        n_places = n_points + -n_points % _GROUP
        with memory_of(device, 8 * n_places * n_features, _REMEDY):
            self._points = torch.zeros((n_places, n_features), dtype=torch.float64, device=device)
            self._points[:n_points] = self._sent(centred)
            self._half_norms = torch.full((n_places,), torch.inf, dtype=torch.float64, device=device)
            self._half_norms[:n_points] = self._sent(0.5 * square_lengths(centred))
            self._label = torch.full((n_places,), -1, dtype=torch.int64, device=device)
            if label is not None:
                self._label[:n_points] = self._sent(label)

    def propose(
        self, queries: NDArray[Any], n_candidates: int, own: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Find the nearest points of each query, nearest first, leaving out its own class.

        If other classes have fewer than `n_candidates` points, the numbers after them are meaningless.

        Notes
        -----
        Memory: a block of distances, which is halved until it fits on the device.
        """
        with memory_of(self._device, self._points.nbytes, _REMEDY):
            return self._proposed(queries, n_candidates, own)

    def _proposed(self, queries: NDArray[Any], n_candidates: int, own: NDArray[np.int64] | None) -> NDArray[np.int64]:
        numbers = np.empty((len(queries), n_candidates), dtype=np.int64)
        size = max(1, _BLOCK // len(self._points))
        begin = 0
        while begin < len(queries):
            rows = slice(begin, begin + size)
            try:
                found = self._nearest(queries[rows], n_candidates, None if own is None else own[rows])
            except torch.cuda.OutOfMemoryError:
                if size == 1:
                    raise
                size = max(1, min(size, len(queries) - begin) // 2)
            else:
                numbers[rows] = found.cpu().numpy()
                begin += size
        return numbers

    def _nearest(self, queries: NDArray[Any], n_candidates: int, own: NDArray[np.int64] | None) -> torch.Tensor:
        """`propose` for one block, comparing |p|^2 / 2 - q'p."""
        scores = self._sent(queries) @ self._points.T
        torch.sub(self._half_norms, scores, out=scores)
        if own is not None:
            scores.masked_fill_(self._label == self._sent(own)[:, None], torch.inf)
        return _smallest(scores, n_candidates)

    def _sent(self, array: NDArray[Any]) -> torch.Tensor:
        """Copy an array to the device."""
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)


def _smallest(scores: torch.Tensor, n: int) -> torch.Tensor:
    """Columns of the n smallest numbers of each row, smallest first.

    They lie in the n groups with the smallest minima. So only one pass, for these minima, goes over all scores, and the
    others over few numbers; `torch.topk` alone makes a pass over all scores for every few bits.
    """
    groups = scores.view(len(scores), -1, _GROUP)
    if n >= groups.shape[1]:
        return scores.topk(n, dim=1, largest=False).indices
    chosen = groups.amin(dim=2).topk(n, dim=1, largest=False, sorted=False).indices
    inside = groups.gather(1, chosen[:, :, None].expand(-1, -1, _GROUP)).flatten(1)
    place = inside.topk(n, dim=1, largest=False).indices
    return _GROUP * chosen.gather(1, place // _GROUP) + place % _GROUP
