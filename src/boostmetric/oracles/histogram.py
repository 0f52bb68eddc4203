"""All steps at once: the distribution of margins along a direction, with moments in every bin.

For single comparisons and the exponential loss, the mass after a step w is S(w) = sum_r u_r exp(w m_r), where
m_r = h_near - h_far. Sort the m_r into bins, and write each as its bin's centre plus an offset of at most half a width:
the exponential of the offset is a power series that needs only the weighted moments of the offsets in the bin. So one
pass over the comparisons answers for every w.

How long a step may be is decided by the comparisons that it hurts, those with m_r > 0, and bins must be narrow for
them. Those that gain much weigh nothing after it, and their bins may be wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from boostmetric.arrays.types import FloatArray
from boostmetric.kernels.bins import N_EVEN, N_MOMENTS, N_POSITIVE, centres_and_halves, widened
from boostmetric.oracles.losses import EXPONENTIAL
from boostmetric.oracles.masses import MassMoments, mix
from boostmetric.oracles.protocol import Moments

_POWERS = np.arange(N_MOMENTS)


@dataclass(frozen=True)
class Histogram:
    """Weighted moments of the growth of single comparisons, bin by bin.

    Attributes
    ----------
    log_mass : float
        Logarithm of the mass that the weights are a share of.
    exponent : int
        Bins are ``2**exponent`` wide, around zero.
    table : ndarray of shape (n_bins, N_MOMENTS)
        ``table[b, k]`` is the sum of u x**k over bin b, x being the offset from its centre in half widths, away from
        zero. The bins are those of `boostmetric.kernels.bins`, up to the last that is needed.
    """

    log_mass: float
    exponent: int
    table: FloatArray

    @property
    def width(self) -> float:
        """Of the bins around zero."""
        return math.ldexp(1.0, self.exponent)

    def reach(self, error: float) -> float:
        """Largest step at which the mass is good to a relative error: that of the first term that series leave out.

        In a bin of half the width h, that is (w h)^n / n! of what is in it. So a step may be long if all bins are
        narrow. And it may be long though some are wide, since these lie below -128 h, where masses fall with the step:
        their error is largest at w = n / (128 h), where it is `of_wide` of the mass before. That counts little beside
        the mass after the step. If A is the mass of the growths from -a on, exp(-w a) A is left at least, whatever a.
        """
        n = N_MOMENTS - 2
        centre, half = centres_and_halves(len(self.table))
        mass = self.table[:, 0]
        by_width = (error * math.factorial(n)) ** (1 / n) / self.width
        of_wide = (n / (math.e * N_EVEN)) ** n / math.factorial(n) * mass[N_POSITIVE + N_EVEN :].sum()
        positive = mass[:N_POSITIVE].sum()
        if of_wide <= error * positive:  # a = 0
            return float(by_width / half[0])
        a = -(centre + half)[N_POSITIVE:] * self.width
        A = positive + np.cumsum(mass[N_POSITIVE:])
        with np.errstate(divide="ignore"):
            though_wide = (np.log(error * A / of_wide) / a).max()
        widest = np.abs(half[mass > 0]).max()
        return float(min(max(though_wide, by_width / widest), by_width / half[0]))

    def moments(self, steps: FloatArray) -> Moments:
        """The loss and its derivatives at each step, useless far beyond `reach`.

        The loss is exact to the error of `reach`, its derivatives to about that of those at step 0. So slopes may be
        wrong where they are 1e-15 of the first one; the search for a step takes these for 0.
        """
        centre, coefficients = self._series
        top = centre.max()
        rows = []
        for w in steps * self.width:  # with growths in units of the width
            power = w**_POWERS
            first, second = _POWERS[1:] * power[:-1], _POWERS[2:] * _POWERS[1:-1] * power[:-2]  # less zeros
            # The series of all bins together, each times the exponential of its centre, and derivatives of that.
            a, b, c = np.exp(w * (centre - top)) @ coefficients
            s0 = a @ power
            s1 = b @ power + a[1:] @ first
            s2 = c @ power + 2 * (b[1:] @ first) + a[2:] @ second
            rows.append((self.log_mass + w * top + math.log(s0), self.width * s1 / s0, self.width**2 * s2 / s0))
        return EXPONENTIAL.moments(MassMoments(*np.array(rows).T), weight=1.0)

    @cached_property
    def _series(self) -> tuple[FloatArray, FloatArray]:
        """Of the bins that are not empty: centres, and coefficients of the power series in the step.

        These are there three times: as they are, times the centre, and times its square.
        """
        occupied = np.flatnonzero(self.table[:, 0])
        centre = centres_and_halves(len(self.table))[0][occupied]
        coefficients = np.empty((3, len(occupied), N_MOMENTS))
        coefficients[0] = (self.table * _factors(len(self.table)))[occupied]
        coefficients[1] = centre[:, None] * coefficients[0]
        coefficients[2] = centre[:, None] * coefficients[1]
        return centre, coefficients

    @classmethod
    def merge(cls, parts: Sequence[Histogram]) -> Histogram:
        """The histogram of all shards together, in the widest bins among them."""
        exponent = max(part.exponent for part in parts)
        shares, log_mass = mix(np.array([part.log_mass for part in parts]))
        tables = [widened(part.table, exponent - part.exponent) for part in parts]
        table = np.zeros((max(map(len, tables)), N_MOMENTS))
        for share, part in zip(shares, tables, strict=True):
            table[: len(part)] += share * part
        return cls(float(log_mass), exponent, table)


@lru_cache
def _factors(n_bins: int) -> FloatArray:
    """From moments of offsets in half widths to those in widths, over k!."""
    _, half = centres_and_halves(n_bins)
    factors = half[:, None] ** _POWERS / np.cumprod(np.maximum(_POWERS, 1))
    factors.setflags(write=False)  # they are kept
    return np.asarray(factors)
