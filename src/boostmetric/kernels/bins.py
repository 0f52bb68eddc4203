"""The bins of a histogram of growths: narrow around zero, and wider with the distance where growths are negative.

On both sides of zero they have one width, the unit here. Positive growths have no others. Of the negative ones, those
from 128 widths on have bins of two widths, those from 256 on of four, and so on: 64 bins of each, like floating-point
numbers with six bits of fraction. In a table of bins, those of positive growths come first, then those of negative
ones, both from zero on.

After a change of the numbers below, touch `singles.py`: numba would use its old machine code, which writes elsewhere.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

# Bins of positive growths; those of negative ones that have one width; and as many of each further width.
N_POSITIVE, N_EVEN, N_DOUBLED = 256, 128, 64
# Weighted moments kept of the growths in a bin.
N_MOMENTS = 10
# The largest negative growth, in widths; and after so many doublings of the width, it is none.
_MOST_WIDTHS, _MOST_DOUBLINGS = 2.0**26, 26 + 60


def exponent_for(highest: float, lowest: float) -> int:
    """The least width, as a power of two, for growths from the lowest to the highest.

    Raises
    ------
    FloatingPointError
        If one of them is not finite: it would have no place in a table.
    """
    if not (math.isfinite(lowest) and math.isfinite(highest)):
        raise FloatingPointError(f"Growths along a direction are not finite: from {lowest} to {highest}.")
    _, exponent = math.frexp(max(highest / N_POSITIVE, -lowest / _MOST_WIDTHS, np.finfo(np.float64).tiny))
    return exponent


def n_bins_for(lowest: float) -> int:
    """The size of a table for growths down to the lowest, in widths: all bins of a width are there, or none."""
    _, exponent = math.frexp(max(-lowest, 0.0) / N_EVEN)
    return N_POSITIVE + N_EVEN + N_DOUBLED * max(exponent, 0)


def widened(table: NDArray[np.float64], doublings: int) -> NDArray[np.float64]:
    """The moments in bins that are twice as wide, so many times.

    Those of one width are joined two by two, and all others are there already.
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
    """The centre of each bin, and half its width; with the sign of its growths, so that offsets go away from zero."""
    positive, negative = np.arange(N_POSITIVE), np.arange(n_bins - N_POSITIVE)
    doublings = np.maximum(negative // N_DOUBLED - 1, 0)
    half = np.concatenate([np.full(N_POSITIVE, 0.5), -0.5 * np.exp2(doublings)])
    centre = 2 * half * (np.concatenate([positive, negative - N_DOUBLED * doublings]) + 0.5)
    for values in (centre, half):
        values.setflags(write=False)  # they are kept
    return centre, half


def _shifted(shift: float) -> NDArray[np.float64]:
    """From moments of an offset x to those of (x + shift) / 2."""
    powers = range(N_MOMENTS)
    return np.array([[math.comb(k, j) * shift ** (k - j) / 2**k if j <= k else 0.0 for k in powers] for j in powers])


# Of two bins that are joined, whose offsets are counted from the new centre, in half its width.
_OF_THE_NEARER, _OF_THE_FARTHER = _shifted(-1.0), _shifted(1.0)
