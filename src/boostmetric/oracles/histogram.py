"""The loss at all steps at once, from the distribution of growths along a direction, with moments in every bin.

For single comparisons and the exponential loss, the mass after a step w is S(w) = sum_r u_r exp(w m_r), where
m_r = h_near - h_far. Sort the m_r into bins, and write each as its bin's centre plus an offset of at most half a width:
the exponential of the offset is a power series that needs only the weighted moments of the offsets in the bin. So one
pass over the comparisons gives the answer for every w.

The length of a step is limited by the comparisons that it hurts, those with m_r > 0, so bins must be narrow for them.
Those that gain a lot have a negligible weight after the step, so their bins may be wide.
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
        Logarithm of the mass that the weights are relative to.
    exponent : int
        Bins around zero are ``2**exponent`` wide.
    table : ndarray of shape (n_bins, N_MOMENTS)
        ``table[b, k]`` is the sum of u x**k over bin b, where x is the offset from its centre in half-widths, away from
        zero. The bins are those of `boostmetric.kernels.bins`, up to the last one needed.
    """

    log_mass: float
    exponent: int
    table: FloatArray

    @property
    def width(self) -> float:
        """Width of the bins around zero."""
        return math.ldexp(1.0, self.exponent)

    def reach(self, error: float) -> float:
        """Largest step at which the mass has at most the given relative error, estimated by the first omitted term.

        In a bin of half-width h, that term is (w h)^n / n! of the mass in it. So steps can be long if all bins are
        narrow. They can also be long if some are wide, because wide bins lie below -128 h, where masses fall with the
        step: their error is largest at w = n / (128 h), where it is `of_wide` of the mass before the step. It only has
        to be small relative to the mass after the step. If A is the mass of the growths above -a, at least
        exp(-w a) A is left, for every a.
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
        """The loss and its derivatives at each step; not accurate far beyond `reach`.

        The loss is accurate to the error given to `reach`, and its derivatives to about that error relative to their
        values at step 0. So slopes of about 1e-15 of the initial slope may be wrong; the step search treats them as 0.
        """
        centre, coefficients = self._series
        top = centre.max()
        rows = []
        for w in steps * self.width:  # with growths in units of the width
            power = w**_POWERS
            first, second = _POWERS[1:] * power[:-1], _POWERS[2:] * _POWERS[1:-1] * power[:-2]  # without zeros
            # Sum of the series of all bins, each times the exponential of its centre, and its derivatives.
            a, b, c = np.exp(w * (centre - top)) @ coefficients
            s0 = a @ power
            s1 = b @ power + a[1:] @ first
            s2 = c @ power + 2 * (b[1:] @ first) + a[2:] @ second
            rows.append((self.log_mass + w * top + math.log(s0), self.width * s1 / s0, self.width**2 * s2 / s0))
        return EXPONENTIAL.moments(MassMoments(*np.array(rows).T), weight=1.0)

    @cached_property
    def _series(self) -> tuple[FloatArray, FloatArray]:
        """Centres of the nonempty bins, and coefficients of their power series in the step.

        The coefficients come in three versions: as they are, times the centre, and times its square.
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
        """Merge the histograms of all shards, in the widest bins among them."""
        exponent = max(part.exponent for part in parts)
        shares, log_mass = mix(np.array([part.log_mass for part in parts]))
        tables = [widened(part.table, exponent - part.exponent) for part in parts]
        table = np.zeros((max(map(len, tables)), N_MOMENTS))
        for share, part in zip(shares, tables, strict=True):
            table[: len(part)] += share * part
        return cls(float(log_mass), exponent, table)


@lru_cache
def _factors(n_bins: int) -> FloatArray:
    """Factors that convert moments of offsets from half-widths to widths, divided by k!."""
    _, half = centres_and_halves(n_bins)
    factors = half[:, None] ** _POWERS / np.cumprod(np.maximum(_POWERS, 1))
    factors.setflags(write=False)  # they are cached
    return np.asarray(factors)
