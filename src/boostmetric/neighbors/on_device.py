"""Proposals of nearest neighbours on a torch device: all distances, in blocks, of which the shortest are kept.

`nearest_points` says what the nearest are, and settles which of the points proposed here are among them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from boostmetric.neighbors.searches import square_lengths
from boostmetric.parallel.device_memory import memory_of

_BLOCK = 2**28  # distances held at once: 2 GiB
_REMEDY = 'Set {device}="cpu", or give fewer samples.'
_GROUP = 64  # points whose least distance stands for them all, at first


class DeviceSearch:
    """Points on a device, to which the distances of many queries are found at once.

    Products are taken in double precision: in single precision torch may round their factors to 11 bits (TF32), as
    users set it, and selection, not multiplication, takes the time.

    Parameters
    ----------
    centred : ndarray of shape (n_points, n_features)
    device : str
        Torch's name of it.
    label : ndarray of shape (n_points,), optional
        Classes, of which that of a query can be left out.
    """

    def __init__(self, centred: NDArray[Any], device: str, label: NDArray[np.int64] | None = None) -> None:
        self._device = device
        n_points, n_features = centred.shape
        # Whole groups: what is added is infinitely far away.
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
        """Numbers of the nearest points of each query, nearest first, but for those of its own class.

        Where other classes have fewer than `n_candidates`, the numbers after theirs mean nothing.

        Notes
        -----
        Memory: a block of distances, which is halved where the device has no room for it.
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
        """`propose` for one block. What is compared is |p|^2 / 2 - q'p."""
        scores = self._sent(queries) @ self._points.T
        torch.sub(self._half_norms, scores, out=scores)
        if own is not None:
            scores.masked_fill_(self._label == self._sent(own)[:, None], torch.inf)
        return _smallest(scores, n_candidates)

    def _sent(self, array: NDArray[Any]) -> torch.Tensor:
        """An array on the device."""
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)


def _smallest(scores: torch.Tensor, n: int) -> torch.Tensor:
    """Columns of the n smallest numbers of each row, smallest first.

    They lie in the n groups with the smallest minima, so that all but one pass over the scores, for these minima, goes
    over few numbers; `torch.topk` alone makes a pass for every few bits.
    """
    groups = scores.view(len(scores), -1, _GROUP)
    if n >= groups.shape[1]:
        return scores.topk(n, dim=1, largest=False).indices
    chosen = groups.amin(dim=2).topk(n, dim=1, largest=False, sorted=False).indices
    inside = groups.gather(1, chosen[:, :, None].expand(-1, -1, _GROUP)).flatten(1)
    place = inside.topk(n, dim=1, largest=False).indices
    return _GROUP * chosen.gather(1, place // _GROUP) + place % _GROUP
