"""Compiled loops over the pairs and groups of one shard.

Every kernel is one loop nest over arrays that the caller has checked and allocated: it is single-threaded,
releases the GIL, allocates nothing and raises nothing. Threads come from running several shards at once, never
from inside a kernel, so the bits of a result do not depend on the number of threads.

The layout is that of `Comparisons`: group g has two *sides*, near (side 2g) and far (side 2g + 1); the members of side
s are the pair numbers ``members[bounds[s]:bounds[s + 1]]``. Letters as in the paper: `d` squared distances of the
pairs, `h` their growth per unit of step along the direction xi, `w` a step, `c` pair coefficients, `u` weights.

Sums over members are exact log-sum-exps: each side is shifted by its own largest exponent, the groups of a shard by
the largest exponent among them, so nothing overflows however far X has grown. A *mass* is always returned as
the pair (shift, sum), meaning ``sum * exp(shift)``.
"""

import math

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

# Members (or singles) per block: a few blocks of float64 scratch stay in the first-level cache.
BLOCK = 1024

# The histogram of single comparisons: bins on each side of zero, and weighted moments kept per bin.
HALF_BINS = 128
N_MOMENTS = 10

# Sums may be reordered, so that they vectorise: in one order for one machine, whatever the number of threads.
_compile = njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
# Without "reassoc": the rounding trick in `_exp` adds a constant and takes it away again, which must not be simplified.
_inline = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"}, forceinline=True)


@intrinsic
def _bits_to_float(typing_context, bits):
    """Reinterpret the bits of an int64 as a float64."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@intrinsic
def _float_to_bits(typing_context, value):
    """Reinterpret the bits of a float64 as an int64."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


# Adding this constant to a float64 of modest size leaves its nearest integer in the low mantissa bits. `round` and
# int conversions do not vectorise before AVX-512; one addition and one subtraction do everywhere.
_ROUND = 6755399441055744.0  # 1.5 * 2**52
_ROUND_BITS = 0x4338000000000000
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238  # 32 leading bits of ln 2, so that n * _LN2_HIGH is exact
_LN2_LOW = 1.9082149292705877e-10
_SMALLEST = -708.0


@_inline
def _exp(x):
    """exp(x) for x <= 700, vectorisable, relative error below 4e-16; below -708 the smallest normal number.

    x = n ln 2 + r with abs(r) <= ln 2 / 2; exp(r) by its Chebyshev polynomial of degree 11 (error 3e-18), 2**n
    by its bits. `math.exp` is a call that LLVM does not vectorise: 4 times slower in the loops below.
    """
    x = max(x, _SMALLEST)
    shifted = x * _LOG2_E + _ROUND
    n = shifted - _ROUND
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = 2.5110049204818658e-08
    p = p * r + 2.763265472252779e-07
    p = p * r + 2.755724088722987e-06
    p = p * r + 2.4801485441561313e-05
    p = p * r + 0.00019841269890076403
    p = p * r + 0.0013888888952352863
    p = p * r + 0.008333333333319589
    p = p * r + 0.04166666666648795
    p = p * r + 0.1666666666666668
    p = p * r + 0.5000000000000019
    p = p * r + 1.0
    p = p * r + 1.0
    return p * _bits_to_float((_float_to_bits(shifted) - _ROUND_BITS + 1023) << 52)  # type: ignore[call-arg]


@_compile
def squared_differences(z, first, second, h):
    """h = (z[first] - z[second])**2 for every pair; returns the largest."""
    largest = 0.0
    for p in range(first.size):
        difference = z[first[p]] - z[second[p]]
        h[p] = difference * difference
        largest = max(largest, h[p])
    return largest


@_compile
def add_squared_differences(z, first, second, d):
    """d += squared length of z[first] - z[second], rows of z being points under a linear map."""
    for p in range(first.size):
        i, j = first[p], second[p]
        total = 0.0
        for k in range(z.shape[1]):
            difference = z[i, k] - z[j, k]
            total += difference * difference
        d[p] += total


# --- groups -----------------------------------------------------------------------------------------------------


@_inline
def _block_end(bounds, start, n_groups):
    """End of the block of groups that begins at `start`: at most BLOCK members, but at least one group."""
    stop = start + 1
    while stop < n_groups and bounds[2 * stop + 2] - bounds[2 * start] <= BLOCK:
        stop += 1
    return stop


@_inline
def _exponentials(d, h, w, members, bounds, start, stop, kept, e, g, top):
    """Exponentials of the members of groups start..stop at step w, each side divided by its largest.

    Writes, from position 0 on, e = exp(+-(d + w h) - top) with the sign of the side, g = the member's `kept` value (d
    or h), and per side the largest exponent `top`. Three plain loops rather than one: only so does the exponential
    vectorise when the sides are as short as three members.
    """
    origin = bounds[2 * start]
    for side in range(2 * start, 2 * stop):
        sign = 1.0 - 2.0 * (side & 1)
        largest = -np.inf
        for member in range(bounds[side], bounds[side + 1]):
            p = members[member]
            x = sign * (d[p] + w * h[p])
            e[member - origin] = x
            g[member - origin] = kept[p]
            largest = max(largest, x)
        top[side - 2 * start] = largest
        for member in range(bounds[side], bounds[side + 1]):
            e[member - origin] -= largest
    for i in range(bounds[2 * stop] - origin):
        e[i] = _exp(e[i])


@_compile
def group_moments(d, h, w, members, bounds, log_omega, e, g, top, sums):
    """Mass and its derivatives, over all groups, at step w.

    A group's mass is omega N F, with N and F the sums of its sides; d/dw log(N F) = m = E_near[h] - E_far[h], and
    the second derivative is q = Var_near[h] + Var_far[h]. Writes sums = (shift, mass, mass-weighted m,
    mass-weighted m**2 + q). Scratch `e`, `g`, `top`: as long as the longest block.
    """
    n_groups = log_omega.size
    shift, s0, s1, s2 = -np.inf, 0.0, 0.0, 0.0
    start = 0
    while start < n_groups:
        stop = _block_end(bounds, start, n_groups)
        _exponentials(d, h, w, members, bounds, start, stop, h, e, g, top)
        origin = bounds[2 * start]
        for group in range(start, stop):
            mass, m, q = 1.0, 0.0, 0.0
            for side in range(2 * group, 2 * group + 2):
                a0, a1, a2 = 0.0, 0.0, 0.0
                for i in range(bounds[side] - origin, bounds[side + 1] - origin):
                    a0 += e[i]
                    a1 += e[i] * g[i]
                    a2 += e[i] * g[i] * g[i]
                mean = a1 / a0
                m += (1.0 - 2.0 * (side & 1)) * mean
                q += max(a2 / a0 - mean * mean, 0.0)
                mass *= a0
            largest = log_omega[group] + top[2 * (group - start)] + top[2 * (group - start) + 1]
            if largest > shift:
                rescale = _exp(shift - largest)
                s0, s1, s2, shift = s0 * rescale, s1 * rescale, s2 * rescale, largest
            mass *= _exp(largest - shift)
            s0 += mass
            s1 += mass * m
            s2 += mass * (m * m + q)
        start = stop
    sums[0], sums[1], sums[2], sums[3] = shift, s0, s1, s2


@_compile
def group_weights(d, members, bounds, log_omega, e, g, top, log_mass, side_sums, c, sums):
    """Pair coefficients c of all groups, relative to the shard's shift. Implements Eq. (6) of the paper for groups.

    c_p = sum over groups of -u e^(d_p) / N for near pairs and +u e^(-d_p) / F for far ones, u = omega N F being the
    group's mass. Writes sums = (shift, mass, mass-weighted margin far minus near, number of violated comparisons).
    Kept per member: `e`; per group: `log_mass` (without its sums) and two `side_sums`. Block scratch: `g`, `top`.
    """
    n_groups = log_omega.size
    shift, s0, margin, violated = -np.inf, 0.0, 0.0, 0.0
    start = 0
    while start < n_groups:
        stop = _block_end(bounds, start, n_groups)
        origin = bounds[2 * start]
        _exponentials(d, d, 0.0, members, bounds, start, stop, d, e[origin:], g, top)
        for group in range(start, stop):
            near, far, end = bounds[2 * group], bounds[2 * group + 1], bounds[2 * group + 2]
            n0, n1, f0, f1 = 0.0, 0.0, 0.0, 0.0
            for i in range(near, far):
                n0 += e[i]
                n1 += e[i] * g[i - origin]
            for i in range(far, end):
                f0 += e[i]
                f1 += e[i] * g[i - origin]
            longest = top[2 * (group - start)]
            largest = log_omega[group] + longest + top[2 * (group - start) + 1]
            if largest > shift:
                rescale = _exp(shift - largest)
                s0, margin, shift = s0 * rescale, margin * rescale, largest
            mass = n0 * f0 * _exp(largest - shift)
            s0 += mass
            margin += mass * (f1 / f0 - n1 / n0)
            # Only far pairs within reach of the longest near pair can be violated: few, once something is learned.
            for i in range(far, end):
                if g[i - origin] <= longest:
                    for k in range(near, far):
                        violated += g[k - origin] >= g[i - origin]
            log_mass[group] = largest
            side_sums[2 * group] = n0
            side_sums[2 * group + 1] = f0
        start = stop
    c[:] = 0.0
    for group in range(n_groups):
        u = _exp(log_mass[group] - shift)
        for i in range(bounds[2 * group], bounds[2 * group + 1]):
            c[members[i]] -= u * side_sums[2 * group + 1] * e[i]
        for i in range(bounds[2 * group + 1], bounds[2 * group + 2]):
            c[members[i]] += u * side_sums[2 * group] * e[i]
    sums[0], sums[1], sums[2], sums[3] = shift, s0, margin, violated


# --- single comparisons: one near pair, one far pair -----------------------------------------------------------------


@_compile
def single_moments(d, h, w, near, far, log_omega, e, g, sums):
    """As `group_moments`, for single comparisons: m = h_near - h_far, q = 0."""
    shift, s0, s1, s2 = -np.inf, 0.0, 0.0, 0.0
    for start in range(0, near.size, BLOCK):
        size = min(BLOCK, near.size - start)
        largest = -np.inf
        for i in range(size):
            p, q = near[start + i], far[start + i]
            g[i] = h[p] - h[q]
            e[i] = log_omega[start + i] + (d[p] - d[q]) + w * g[i]
            largest = max(largest, e[i])
        if largest > shift:
            rescale = _exp(shift - largest)
            s0, s1, s2, shift = s0 * rescale, s1 * rescale, s2 * rescale, largest
        for i in range(size):
            mass = _exp(e[i] - shift)
            s0 += mass
            s1 += mass * g[i]
            s2 += mass * g[i] * g[i]
    sums[0], sums[1], sums[2], sums[3] = shift, s0, s1, s2


@_compile
def single_weights(d, near, far, log_omega, u, c, sums):
    """As `group_weights`, for single comparisons; keeps the weights u for `single_histogram`."""
    shift, s0, margin, violated = -np.inf, 0.0, 0.0, 0.0
    for r in range(near.size):
        rho = d[far[r]] - d[near[r]]
        violated += rho <= 0.0
        u[r] = log_omega[r] - rho
        shift = max(shift, u[r])
    for r in range(near.size):
        rho = log_omega[r] - u[r]
        u[r] = _exp(u[r] - shift)
        s0 += u[r]
        margin += u[r] * rho
    c[:] = 0.0
    for r in range(near.size):
        c[near[r]] -= u[r]
        c[far[r]] += u[r]
    sums[0], sums[1], sums[2], sums[3] = shift, s0, margin, violated


@_compile
def single_histogram(h, near, far, u, half_width, table):
    """Weighted moments of m = h_near - h_far, bin by bin.

    Bin b is centred at (2 (b - HALF_BINS) + 1) half_width; table[b, k] receives the sum of u x**k with x the
    offset from the centre in half widths, -1 <= x <= 1.
    """
    table[:] = 0.0
    scale = 0.5 / half_width
    for r in range(near.size):
        position = (h[near[r]] - h[far[r]]) * scale
        b = min(max(math.floor(position), -HALF_BINS), HALF_BINS - 1)
        x = 2.0 * (position - b) - 1.0
        term = u[r]
        for k in range(N_MOMENTS):
            table[b + HALF_BINS, k] += term
            term *= x


# --- the direction ---------------------------------------------------------------------------------------------------


@_compile
def half_laplacian(first, second, c, points, degree, out):
    """out = (Deg / 2 - W) points, W holding each pair once, so that points' out + out' points = sum c (a - b)(a - b)'.

    Each pair costs one row of the points, half of what the full Laplacian needs. Pairs come sorted by `first`, which
    keeps the row being written in the cache.
    """
    degree[:] = 0.0
    out[:] = 0.0
    n_features = points.shape[1]
    for p in range(first.size):
        i, j, weight = first[p], second[p], c[p]
        degree[i] += weight
        degree[j] += weight
        for k in range(n_features):
            out[i, k] -= weight * points[j, k]
    for i in range(points.shape[0]):
        for k in range(n_features):
            out[i, k] += 0.5 * degree[i] * points[i, k]


@_compile
def laplacian_vector(first, second, c, z, out):
    """out = Lap(c) z, the signed graph Laplacian of the pairs times a vector."""
    out[:] = 0.0
    for p in range(first.size):
        flow = c[p] * (z[first[p]] - z[second[p]])
        out[first[p]] += flow
        out[second[p]] -= flow
