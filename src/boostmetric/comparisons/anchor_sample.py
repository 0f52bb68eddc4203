"""Anchors chosen by their ids, so that processes that see only some of the comparisons choose the same ones."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.comparisons.comparisons import Comparisons

# Whole numbers as they are written in one way only.
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")


@dataclass(frozen=True)
class AnchorSample:
    """A share of the anchors, chosen by their ids alone.

    Attributes
    ----------
    fraction : float
    seed : int
    held_out : bool
        Whether the comparisons are those of the chosen anchors, or all others.
    """

    fraction: float
    seed: int
    held_out: bool

    def of(self, comparisons: Comparisons, ids: NDArray[Any]) -> Comparisons | None:
        """The comparisons of this sample; None if there are none."""
        first = comparisons.pairs[comparisons.members[comparisons.bounds[:-1:2]], 0]
        anchors = np.where(comparisons.anchors < 0, first, comparisons.anchors)
        numbers, place = np.unique(anchors, return_inverse=True)
        chosen = _hashed(ids[numbers], self.seed) < self.fraction
        groups = np.flatnonzero(chosen[place] == self.held_out)
        return comparisons.subset(groups) if len(groups) else None


def _hashed(ids: NDArray[Any], seed: int) -> NDArray[np.float64]:
    """Numbers between 0 and 1 that look random, the same for 7 and "7"."""
    if ids.dtype == object:
        ids = np.array([_number(text) for text in ids], dtype=np.int64)
    x = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15 * (seed + 1) % 2**64)
    # The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray((x ^ (x >> np.uint64(31))) / 2.0**64)


def _number(text: str) -> int:
    """The number that a text is, as it would be in a column of whole numbers; or one that stands for it."""
    if _WHOLE.fullmatch(text) and -(2**63) <= int(text) < 2**63:
        return int(text)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)
