"""All steps at once: the distribution of margins along a direction, with moments in every bin.

For single comparisons and the exponential loss, the mass after a step w is S(w) = sum_r u_r exp(w m_r), where
m_r = h_near - h_far. Sort the m_r into bins, and write each as its bin's centre plus an offset of at most half a width:
the exponential of the offset is a power series that needs only the weighted moments of the offsets in the bin. So one
pass over the comparisons answers for every w.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from boostmetric.oracles.losses import ExponentialLoss
from boostmetric.oracles.masses import MassMoments, mix
from boostmetric.oracles.protocol import FloatArray, Moments


@dataclass(frozen=True)
class Histogram:
    """Weighted moments of the growth of single comparisons, bin by bin.

    Attributes
    ----------
    log_mass : float
        Logarithm of the mass that the weights are a share of.
    exponent : int
        Bins are ``2**exponent`` wide, so that wider bins are unions of narrower ones.
    table : ndarray of shape (n_bins, n_moments)
        ``table[b, k]`` is the sum of u x**k over bin b, x being the offset from its centre in half widths. The bins
        lie symmetric around zero.
    """

    log_mass: float
    exponent: int
    table: FloatArray

    @property
    def half_width(self) -> float:
        """Half the width of a bin."""
        return math.ldexp(0.5, self.exponent)

    def reach(self, error: float) -> float:
        """Largest step at which `moments` is good to a relative error: that of the first term its series leave out."""
        order = self.table.shape[1] - 2
        return float((error * math.factorial(order)) ** (1 / order)) / self.half_width

    def moments(self, steps: FloatArray) -> Moments:
        """The loss and its derivatives at each step, exact to rounding within `reach`, useless far beyond it."""
        n_bins, n_moments = self.table.shape
        half = self.half_width
        centre = (2 * np.arange(n_bins) + 1 - n_bins) * half
        rows = []
        for w in steps:
            # Terms (w half)^k / k! of the power series of the exponential of an offset.
            series = np.cumprod(np.concatenate([[1.0], w * half / np.arange(1, n_moments)]))
            t0 = self.table @ series
            t1 = half * (self.table[:, 1:] @ series[:-1])
            t2 = half**2 * (self.table[:, 2:] @ series[:-2])
            shift = w * centre[np.flatnonzero(self.table[:, 0])[-1]]
            e = np.exp(np.minimum(w * centre - shift, 0.0))
            s0 = e @ t0
            s1 = e @ (centre * t0 + t1)
            s2 = e @ (centre**2 * t0 + 2 * centre * t1 + t2)
            rows.append((self.log_mass + shift + math.log(s0), s1 / s0, s2 / s0))
        return ExponentialLoss().moments(MassMoments(*np.array(rows).T))

    @classmethod
    def merge(cls, parts: Sequence[Histogram]) -> Histogram:
        """The histogram of all shards together, in the widest bins among them."""
        exponent = max(part.exponent for part in parts)
        shares, log_mass = mix(np.array([part.log_mass for part in parts]))
        tables = [share * part._widened(exponent).table for share, part in zip(shares, parts, strict=True)]
        return cls(float(log_mass), exponent, reduce(np.add, tables))

    def _widened(self, exponent: int) -> Histogram:
        """The same distribution in bins ``2**exponent`` wide; moments about another centre are sums of moments."""
        if exponent == self.exponent:
            return self
        n_bins, n_moments = self.table.shape
        table = np.zeros_like(self.table)
        # Two narrow bins make a wide one; their centres lie half a wide half width below and above its centre.
        for parity, side in ((0, -1.0), (1, 1.0)):
            narrow = self.table[parity::2]
            for k in range(n_moments):
                binomial = [math.comb(k, j) * side ** (k - j) / 2.0**k for j in range(k + 1)]
                table[n_bins // 4 : 3 * n_bins // 4, k] += narrow[:, : k + 1] @ np.array(binomial)
        return Histogram(self.log_mass, self.exponent + 1, table)._widened(exponent)
