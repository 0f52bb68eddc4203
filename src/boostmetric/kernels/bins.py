"""Bins of a histogram of growths: narrow around zero, and wider the more negative the growths.

Around zero, all bins have the same width, which is the unit here. Positive growths use only these. Negative growths
beyond 128 widths have bins of two widths, beyond 256 of four, and so on: 64 bins of each width, like floating-point
numbers with a six-bit fraction. In a table of bins, those of positive growths come first, then those of negative
growths, both starting at zero.

After changing the numbers below, touch `singles.py`. Otherwise numba uses its old machine code, which writes elsewhere.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

# Number of bins for positive growths; for negative growths, number of bins of one width, and of each larger width.
N_POSITIVE, N_EVEN, N_DOUBLED = 256, 128, 64
# Number of weighted moments of the growths in a bin.
N_MOMENTS = 10
# The largest negative growth, in widths; and the number of doublings of the width after which it is negligible.
_MOST_WIDTHS, _MOST_DOUBLINGS = 2.0**26, 26 + 60


def exponent_for(highest: float, lowest: float) -> int:
    """Exponent of the smallest width, a power of two, that fits growths from the lowest to the highest.

    Raises
    ------
    FloatingPointError
        If one of them is not finite, and so has no bin.
    """
    if not (math.isfinite(lowest) and math.isfinite(highest)):
        raise FloatingPointError(f"Growths along a direction are not finite: from {lowest} to {highest}.")
    _, exponent = math.frexp(max(highest / N_POSITIVE, -lowest / _MOST_WIDTHS, np.finfo(np.float64).tiny))
    return exponent


def n_bins_for(lowest: float) -> int:
    """Number of bins for growths down to the lowest, in widths; each width has all of its bins, or none."""
    _, exponent = math.frexp(max(-lowest, 0.0) / N_EVEN)
    return N_POSITIVE + N_EVEN + N_DOUBLED * max(exponent, 0)


def widened(table: NDArray[np.float64], doublings: int) -> NDArray[np.float64]:
    """Convert moments to bins whose width is doubled the given number of times.

    Bins of one width are merged in pairs; the wider bins stay as they are.
    """
    n = N_POSITIVE + N_EVEN
    for _ in range(min(doublings, _MOST_DOUBLINGS)):
        even = table[0:n:2] @ _OF_THE_NEARER + table[1:n:2] @ _OF_THE_FARTHER
        positive, negative = even[: N_POSITIVE // 2], np.concatenate([even[N_POSITIVE // 2 :], table[n:]])
        table = np.zeros((N_POSITIVE + max(len(negative), N_EVEN), N_MOMENTS))
        table[: len(positive)] = positive
        table[N_POSITIVE : N_POSITIVE + len(negative)] = negative
    return table


@lru_cache
def centres_and_halves(n_bins: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The centre and half-width of each bin, with the sign of its growths, so that offsets point away from zero."""
    positive, negative = np.arange(N_POSITIVE), np.arange(n_bins - N_POSITIVE)
    doublings = np.maximum(negative // N_DOUBLED - 1, 0)
    half = np.concatenate([np.full(N_POSITIVE, 0.5), -0.5 * np.exp2(doublings)])
    centre = 2 * half * (np.concatenate([positive, negative - N_DOUBLED * doublings]) + 0.5)
    for values in (centre, half):
        values.setflags(write=False)  # they are cached
    return centre, half


def _shifted(shift: float) -> NDArray[np.float64]:
    """Matrix that converts moments of an offset x to moments of (x + shift) / 2."""
    powers = range(N_MOMENTS)
    return np.array([[math.comb(k, j) * shift ** (k - j) / 2**k if j <= k else 0.0 for k in powers] for j in powers])


# For two bins that are merged; offsets are then measured from the new centre, in units of the new half-width.
_OF_THE_NEARER, _OF_THE_FARTHER = _shifted(-1.0), _shifted(1.0)
