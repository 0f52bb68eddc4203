"""Loops over single comparisons: one near pair, one far pair.

Arrays are padded to a multiple of eight with comparisons whose log omega is minus infinity.
"""

import math

import numpy as np

from boostmetric.kernels.bins import N_DOUBLED, N_EVEN, N_MOMENTS, N_POSITIVE
from boostmetric.kernels.group_losses import EXPONENTIAL, group_loss
from boostmetric.kernels.groups import NOTHING
from boostmetric.kernels.lanes import (
    WIDTH,
    at_least,
    exp,
    kernel,
    larger,
    largest,
    load,
    multiply_add,
    splat,
    store,
    total,
)

# Biased float64 exponent of the largest numbers below N_EVEN.
_EVEN = 1023 + int(math.log2(N_EVEN)) - 1

# Comparisons per block, which is read twice while it is in the first-level cache.
BLOCK = 1024


@kernel
def take_differences(values, minuend, subtrahend, out):
    """Compute out = values[minuend] - values[subtrahend]."""
    for r in range(minuend.size):
        out[r] = values[minuend[r]] - values[subtrahend[r]]


@kernel
def single_moments(loss, rho, m, step, omega, log_omega, sums):
    """`group_moments` for single comparisons, with margins rho = d_far - d_near and m = h_near - h_far."""
    w = splat(step)
    shift, s0, s1, s2 = splat(NOTHING), splat(0.0), splat(0.0), splat(0.0)
    if loss != EXPONENTIAL:
        for i in range(0, rho.size, WIDTH):
            g = load(m, i)
            value, derivative, bend = group_loss(loss, multiply_add(w, g, splat(0.0) - load(rho, i)))
            weight = load(omega, i) * derivative
            s0 = multiply_add(load(omega, i), value, s0)
            s1 = multiply_add(weight, g, s1)
            s2 = multiply_add((weight - weight * bend) * g, g, s2)
        sums[0], sums[1], sums[2], sums[3] = 0.0, total(s0), total(s1), total(s2)
        return
    for start in range(0, rho.size, BLOCK):
        end = min(start + BLOCK, rho.size)
        top = shift
        for i in range(start, end, WIDTH):
            top = larger(top, multiply_add(w, load(m, i), load(log_omega, i) - load(rho, i)))
        top = splat(largest(top))
        rescale = exp(shift - top)
        shift, s0, s1, s2 = top, s0 * rescale, s1 * rescale, s2 * rescale
        for i in range(start, end, WIDTH):
            g = load(m, i)
            mass = exp(multiply_add(w, g, load(log_omega, i) - load(rho, i)) - shift)
            s0, s1, s2 = s0 + mass, multiply_add(mass, g, s1), multiply_add(mass * g, g, s2)
    sums[0], sums[1], sums[2], sums[3] = largest(shift), total(s0), total(s1), total(s2)


@kernel
def shrink(rho, m, step):
    """Compute rho -= step * m, to the same bits as in `single_weights`."""
    w = splat(-step)
    for i in range(0, rho.size, WIDTH):
        store(rho, i, multiply_add(w, load(m, i), load(rho, i)))


@kernel
def single_weights(loss, rho, m, step, near, far, omega, log_omega, u, c, sums):
    """`group_masses` and `group_coefficients` for single comparisons; keeps the weights u for `single_histogram`."""
    w, shift = splat(-step), splat(NOTHING)
    for i in range(0, rho.size, WIDTH):
        margin = multiply_add(w, load(m, i), load(rho, i))
        store(rho, i, margin)
        shift = larger(shift, load(log_omega, i) - margin)
    shift = splat(0.0 if loss != EXPONENTIAL else largest(shift))
    mass, margins, violated = splat(0.0), splat(0.0), splat(0.0)
    for i in range(0, rho.size, WIDTH):
        margin = load(rho, i)
        if loss != EXPONENTIAL:
            value, derivative, _ = group_loss(loss, splat(0.0) - margin)
            value, weight = load(omega, i) * value, load(omega, i) * derivative
        else:
            weight = exp(load(log_omega, i) - margin - shift)
            value = weight
        store(u, i, weight)
        mass, margins = mass + value, multiply_add(weight, margin, margins)
        violated = multiply_add(load(omega, i), at_least(splat(0.0), margin), violated)
    c[:] = 0.0
    for r in range(near.size):
        c[near[r]] -= u[r]
        c[far[r]] += u[r]
    sums[0], sums[1], sums[2], sums[3] = largest(shift), total(mass), total(margins), total(violated)


@kernel
def single_histogram(m, u, width, places, offsets, table):
    """Compute weighted moments of m in each bin.

    Bins are as in `bins`; the narrowest have the given width, a power of two. table[b, k] receives the sum of u x**k,
    where x is the offset from the centre of bin b, away from zero, in half-widths: -1 <= x <= 1. Bins and offsets are
    computed for BLOCK comparisons before any are added up, because this vectorises, without branches.
    """
    table[:] = 0.0
    scale = 1.0 / width
    for start in range(0, m.size, BLOCK):
        n = min(BLOCK, m.size - start)
        for i in range(n):
            growth = m[start + i]
            size = abs(growth) * scale
            negative = np.float64(growth).view(np.int64) >> 63  # all bits, or none
            beyond = (np.float64(size).view(np.int64) >> 52) - _EVEN
            doublings = beyond & ~(beyond >> 63) & negative
            position = size * np.int64((1023 - doublings) << 52).view(np.float64)  # times 2**-doublings
            b = np.int64(position)
            places[i] = b + N_DOUBLED * doublings + (N_POSITIVE & negative)
            offsets[i] = 2.0 * (position - b) - 1.0
        for i in range(n):
            term, x = u[start + i], offsets[i]
            row = table[places[i]]
            for k in range(N_MOMENTS):
                row[k] += term
                term *= x
