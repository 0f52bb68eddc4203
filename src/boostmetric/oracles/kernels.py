"""Compiled loops over the pairs and groups of one shard.

Every kernel works on arrays that the caller has checked and allocated: it is single-threaded, releases the GIL,
allocates nothing and raises nothing. Threads come from running several shards at once, never from inside a kernel, so
the bits of a result do not depend on the number of threads.

Letters as in the paper: `d` squared distances of the pairs, `h` their growth per unit of step along the direction xi,
`w` a step, `c` pair coefficients, `u` weights.

Sums over members are exact log-sum-exps: each side of a group is shifted by its own largest exponent, the groups of a
shard by the largest exponent among them, so nothing overflows however far X has grown. A *mass* is always returned as
the pair (shift, sum), meaning ``sum * exp(shift)``.

Three habits make these loops fast, and the same bits every time:

- Loops index views from 0, never ``array[offset + i]``: numba cannot know that such an index is not negative, and the
  test for it keeps the loop from being vectorised. Index arrays are unsigned for the same reason.
- A loop that stores is compiled without fast-math. LLVM guards it with a test whether its arrays overlap, which may by
  chance of addresses choose the scalar version of the loop; that one must not round differently.
- A loop that only sums may be reordered, so that it vectorises. It has no such guard and only one version.

The helpers stand in this file with the kernels that call them, though it grows long: numba's cache of machine code
looks at the file of a kernel only, and would go on using a helper that was changed in another file.
"""

import math

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

# Singles worked on at once: a few blocks of float64 scratch stay in the first-level cache.
BLOCK = 1024

# Groups side by side in a batch, and about how many members a batch may have.
LANES = 64
BATCH = 2048

# Features added at once in the Laplacian.
WIDTH = 8

# The histogram of single comparisons: bins on each side of zero, and weighted moments kept per bin.
HALF_BINS = 128
N_MOMENTS = 10


def _kernel(function):
    """Compile a kernel, and keep the machine code for the next process where there is a folder to write it to."""
    try:
        return njit(nogil=True, cache=True, error_model="numpy")(function)
    except RuntimeError:  # numba: "no locator available"
        return njit(nogil=True, error_model="numpy")(function)


_stores = njit(nogil=True, error_model="numpy", forceinline=True)
_sums_only = njit(nogil=True, error_model="numpy", forceinline=True, fastmath={"reassoc", "contract", "nnan", "nsz"})


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


@intrinsic
def _multiply_add(typing_context, a, b, c):
    """a * b + c, rounded once where the processor can; the same choice in vector and scalar code."""

    def codegen(context, builder, signature, args):
        double = ir.DoubleType()
        function = ir.FunctionType(double, [double] * 3)
        return builder.call(builder.module.declare_intrinsic("llvm.fmuladd", [double], function), args)

    return types.float64(types.float64, types.float64, types.float64), codegen


# Adding this constant to a float64 of modest size leaves its nearest integer in the low mantissa bits. `round` and
# int conversions do not vectorise before AVX-512; one addition and one subtraction do everywhere.
_ROUND = 6755399441055744.0  # 1.5 * 2**52
_ROUND_BITS = 0x4338000000000000
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238  # 32 leading bits of ln 2, so that n * _LN2_HIGH is exact
_LN2_LOW = 1.9082149292705877e-10
# Terms below e^-300 of the largest in their sum are 0: products of two of them could be subnormal numbers, with which
# `half_laplacian` takes nine times as long.
_SMALLEST = -300.0


@_stores
def _exp(x):
    """exp(x) for -300 <= x <= 700, vectorisable, relative error below 4e-16; 0 below.

    x = n ln 2 + r with abs(r) <= ln 2 / 2; exp(r) by its Chebyshev polynomial of degree 11 (error 3e-18), 2**n
    by its bits. `math.exp` is a call that LLVM does not vectorise: three times slower.
    """
    clipped = max(x, _SMALLEST)
    shifted: float = _multiply_add(clipped, _LOG2_E, _ROUND)  # type: ignore[call-arg]
    n = shifted - _ROUND
    r = (clipped - n * _LN2_HIGH) - n * _LN2_LOW
    p = _multiply_add(2.5110049204818658e-08, r, 2.763265472252779e-07)
    p = _multiply_add(p, r, 2.755724088722987e-06)
    p = _multiply_add(p, r, 2.4801485441561313e-05)
    p = _multiply_add(p, r, 0.00019841269890076403)
    p = _multiply_add(p, r, 0.0013888888952352863)
    p = _multiply_add(p, r, 0.008333333333319589)
    p = _multiply_add(p, r, 0.04166666666648795)
    p = _multiply_add(p, r, 0.1666666666666668)
    p = _multiply_add(p, r, 0.5000000000000019)
    p = _multiply_add(p, r, 1.0)
    p = _multiply_add(p, r, 1.0)
    scale: float = _bits_to_float((_float_to_bits(shifted) - _ROUND_BITS + 1023) << 52)
    return p * scale if x >= _SMALLEST else 0.0


# --- pairs ----------------------------------------------------------------------------------------------------------


@_kernel
def squared_differences(z, factors, first, second, out):
    """out = sum_k factors[k] (z[first, k] - z[second, k])**2 for every pair, z being the points along directions k."""
    for p in range(first.size):
        a, b = z[first[p]], z[second[p]]
        total = 0.0
        for k in range(factors.size):
            difference = a[k] - b[k]
            total += factors[k] * (difference * difference)
        out[p] = total


@_kernel
def gather(values, numbers, out):
    """out = values[numbers]; NumPy's `take` converts the numbers first, and takes several times as long."""
    for i in range(numbers.size):
        out[i] = values[numbers[i]]


# --- groups ---------------------------------------------------------------------------------------------------------
#
# Groups come in batches of one shape (near pairs x far pairs), laid out so that the loops run across the groups of a
# batch, its *lanes*: member `position` of lane `lane` is number ``offset + position * lanes + lane``. Groups of three
# targets and three impostors are too short to vectorise by themselves; 64 of them side by side are not. A batch is a
# row of `batches`: first group, lanes, near pairs, far pairs, offset. Long groups make batches of one lane, whose loops
# run along the members instead. Distances d and growths h are stored for every member, in this order: a pair that
# several groups share is stored several times, but the evaluations of a step then read memory in sequence.


@_sums_only
def _largest(x, sign):
    """sign * largest of sign * x."""
    largest = -np.inf
    for i in range(x.size):
        largest = max(largest, sign * x[i])
    return sign * largest


@_stores
def _exponentials(x, lanes, sign, top):
    """x = exp(sign * (x - top)) over one side of a batch; writes also top[lane] = sign * largest of sign * x."""
    if lanes == 1:
        top[0] = _largest(x, sign)
        extreme = top[0]
        for i in range(x.size):
            x[i] = _exp(sign * (x[i] - extreme))
        return
    for lane in range(lanes):
        top[lane] = x[lane]
    for start in range(lanes, x.size, lanes):
        row = x[start : start + lanes]
        for lane in range(lanes):
            top[lane] = sign * max(sign * top[lane], sign * row[lane])
    for start in range(0, x.size, lanes):
        row = x[start : start + lanes]
        for lane in range(lanes):
            row[lane] = _exp(sign * (row[lane] - top[lane]))


@_sums_only
def _weighted_sums(e, g):
    """Sums of e, e g and e g**2."""
    a0, a1, a2 = 0.0, 0.0, 0.0
    for i in range(e.size):
        a0 += e[i]
        a1 += e[i] * g[i]
        a2 += e[i] * g[i] * g[i]
    return a0, a1, a2


@_stores
def _side_sums(e, g, lanes, a):
    """a[k, lane] = sum of e g**k over one side of a batch, k = 0, 1, 2."""
    if lanes == 1:
        a[0, 0], a[1, 0], a[2, 0] = _weighted_sums(e, g)
        return
    a[:, :lanes] = 0.0
    for start in range(0, e.size, lanes):
        e_row, g_row = e[start : start + lanes], g[start : start + lanes]
        for lane in range(lanes):
            product = e_row[lane] * g_row[lane]
            a[0, lane] += e_row[lane]
            a[1, lane] += product
            a[2, lane] += product * g_row[lane]


@_stores
def _log_scales(log_omega, near_top, far_top, log_scale):
    """log_scale = logarithm of the masses of groups without their sums; returns the largest."""
    largest = -np.inf
    for lane in range(log_omega.size):
        log_scale[lane] = log_omega[lane] + near_top[lane] - far_top[lane]
        largest = max(largest, log_scale[lane])
    return largest


@_sums_only
def _lane_moments(near, far, log_scale, shift):
    """Sums over lanes of mass, mass * m and mass * (m**2 + q), see `group_moments`."""
    s0, s1, s2 = 0.0, 0.0, 0.0
    for lane in range(log_scale.size):
        per_near, per_far = 1.0 / near[0, lane], 1.0 / far[0, lane]
        near_mean, far_mean = near[1, lane] * per_near, far[1, lane] * per_far
        m = near_mean - far_mean
        q = (near[2, lane] * per_near - near_mean * near_mean) + (far[2, lane] * per_far - far_mean * far_mean)
        mass = near[0, lane] * far[0, lane] * _exp(log_scale[lane] - shift)
        s0 += mass
        s1 += mass * m
        s2 += mass * (m * m + max(q, 0.0))
    return s0, s1, s2


@_kernel
def group_moments(d, h, w, batches, log_omega, e, lane, sums):
    """Mass and its derivatives, over all groups, at step w.

    A group's mass is omega N F, with N and F the sums of its sides; d/dw log(N F) = m = E_near[h] - E_far[h], and
    the second derivative is q = Var_near[h] + Var_far[h]. Writes sums = (shift, mass, mass-weighted m,
    mass-weighted m**2 + q). Scratch: `e` as long as the largest batch, `lane` of shape (9, LANES).
    """
    near_top, far_top, near, far = lane[0], lane[1], lane[2:5], lane[5:8]
    shift, s0, s1, s2 = -np.inf, 0.0, 0.0, 0.0
    for b in range(len(batches)):
        start, lanes, n_near, n_far, offset = batches[b]
        middle, end = n_near * lanes, (n_near + n_far) * lanes
        x, d_batch, g = e[:end], d[offset : offset + end], h[offset : offset + end]
        for i in range(x.size):
            x[i] = d_batch[i] + w * g[i]
        _exponentials(x[:middle], lanes, 1.0, near_top)
        _exponentials(x[middle:], lanes, -1.0, far_top)
        _side_sums(x[:middle], g[:middle], lanes, near)
        _side_sums(x[middle:], g[middle:], lanes, far)
        log_scale = lane[8, :lanes]
        largest = _log_scales(log_omega[start : start + lanes], near_top, far_top, log_scale)
        if largest > shift:
            rescale = _exp(shift - largest)
            s0, s1, s2, shift = s0 * rescale, s1 * rescale, s2 * rescale, largest
        mass, first, second = _lane_moments(near, far, log_scale, shift)
        s0 += mass
        s1 += first
        s2 += second
    sums[0], sums[1], sums[2], sums[3] = shift, s0, s1, s2


@_stores
def _sort(x):
    """Shell's sort: numba's own takes seconds to compile."""
    gap = x.size // 2
    while gap > 0:
        for i in range(gap, x.size):
            value, j = x[i], i
            while j >= gap and x[j - gap] > value:
                x[j] = x[j - gap]
                j -= gap
            x[j] = value
        gap = 1 if gap == 2 else gap * 5 // 11


@_stores
def _count_below(x, value):
    """How many of the sorted x are below a value."""
    low, high = 0, x.size
    while low < high:
        middle = (low + high) // 2
        if x[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@_stores
def _count_violated(d, n_near, lanes, sorted_near, count):
    """count[lane] = comparisons of a batch whose far pair is no longer than their near pair."""
    n_far = d.size // lanes - n_near
    count[:lanes] = 0.0
    if n_near * n_far <= 16 * (n_near + n_far):
        for near in range(n_near):
            near_row = d[near * lanes : (near + 1) * lanes]
            for far in range(n_near, n_near + n_far):
                far_row = d[far * lanes : (far + 1) * lanes]
                for lane in range(lanes):
                    count[lane] += near_row[lane] >= far_row[lane]
        return
    # Many near pairs against many far pairs: sorting keeps the cost at the number of members.
    for lane in range(lanes):
        for near in range(n_near):
            sorted_near[near] = d[near * lanes + lane]
        _sort(sorted_near[:n_near])
        for far in range(n_near, n_near + n_far):
            count[lane] += n_near - _count_below(sorted_near[:n_near], d[far * lanes + lane])


@_stores
def _scatter(members, e, factor, c):
    """c[member] += factor[lane] * e over one side of a batch."""
    lanes = factor.size
    for start in range(0, e.size, lanes):
        member_row, e_row = members[start : start + lanes], e[start : start + lanes]
        for lane in range(lanes):
            c[member_row[lane]] += factor[lane] * e_row[lane]


@_kernel
def group_weights(d, h, step, members, batches, omega, log_omega, lane, log_scale, side_sums, sorted_near, c, sums):
    """Let d grow by step * h, and write the pair coefficients c. Implements Eq. (6) and (9) of the paper for groups.

    c_p = sum over groups of -u e^(d_p) / N for near pairs and +u e^(-d_p) / F for far ones, u = omega N F being the
    group's mass. Writes sums = (shift, mass, mass-weighted margin far minus near, weight of violated comparisons); c is
    relative to the shift, as the mass is. `members` are the pair numbers. Kept per member: the exponentials, in place
    of `h`, which is used up; per group: `log_scale` (log mass without its sums) and two `side_sums`. Scratch: `lane` as
    in `group_moments`, `sorted_near` as long as the largest near side.
    """
    near_top, far_top, near, far, count = lane[0], lane[1], lane[2:5], lane[5:8], lane[8]
    shift, s0, margin, violated = -np.inf, 0.0, 0.0, 0.0
    for b in range(len(batches)):
        start, lanes, n_near, n_far, offset = batches[b]
        middle, end = n_near * lanes, (n_near + n_far) * lanes
        x, g = h[offset : offset + end], d[offset : offset + end]
        for i in range(x.size):
            g[i] += step * x[i]
            x[i] = g[i]
        _exponentials(x[:middle], lanes, 1.0, near_top)
        _exponentials(x[middle:], lanes, -1.0, far_top)
        _side_sums(x[:middle], g[:middle], lanes, near)
        _side_sums(x[middle:], g[middle:], lanes, far)
        scale = log_scale[start : start + lanes]
        largest = _log_scales(log_omega[start : start + lanes], near_top, far_top, scale)
        if largest > shift:
            rescale = _exp(shift - largest)
            s0, margin, shift = s0 * rescale, margin * rescale, largest
        # With distances in place of growths, m is E_near[d] - E_far[d]: minus the margin.
        mass, m, _ = _lane_moments(near, far, scale, shift)
        s0 += mass
        margin -= m
        near_sum, far_sum = side_sums[0, start : start + lanes], side_sums[1, start : start + lanes]
        for i in range(lanes):
            near_sum[i] = near[0, i]
            far_sum[i] = far[0, i]
        _count_violated(g, n_near, lanes, sorted_near, count)
        for i in range(lanes):
            violated += omega[start + i] * count[i]
    c[:] = 0.0
    for b in range(len(batches)):
        start, lanes, n_near, n_far, offset = batches[b]
        middle, end = n_near * lanes, (n_near + n_far) * lanes
        near_factor, far_factor = lane[0, :lanes], lane[1, :lanes]
        near_sum, far_sum = side_sums[0, start : start + lanes], side_sums[1, start : start + lanes]
        scale = log_scale[start : start + lanes]
        for i in range(lanes):
            u = _exp(scale[i] - shift)
            near_factor[i] = -u * far_sum[i]
            far_factor[i] = u * near_sum[i]
        batch, x = members[offset : offset + end], h[offset : offset + end]
        _scatter(batch[:middle], x[:middle], near_factor, c)
        _scatter(batch[middle:], x[middle:], far_factor, c)
    sums[0], sums[1], sums[2], sums[3] = shift, s0, margin, violated


# --- single comparisons: one near pair, one far pair ----------------------------------------------------------------


@_sums_only
def _single_sums(x, m, shift):
    """Sums over single comparisons of mass, mass * m and mass * m**2."""
    s0, s1, s2 = 0.0, 0.0, 0.0
    for i in range(x.size):
        mass = _exp(x[i] - shift)
        s0 += mass
        s1 += mass * m[i]
        s2 += mass * m[i] * m[i]
    return s0, s1, s2


@_sums_only
def _weight_not_positive(rho, omega):
    """Weight of the comparisons whose margin is not positive."""
    weight = 0.0
    for r in range(rho.size):
        weight += omega[r] if rho[r] <= 0.0 else 0.0
    return weight


@_kernel
def single_moments(rho, m, w, log_omega, e, sums):
    """As `group_moments`, for single comparisons with margins rho = d_far - d_near and m = h_near - h_far."""
    shift, s0, s1, s2 = -np.inf, 0.0, 0.0, 0.0
    for start in range(0, rho.size, BLOCK):
        rho_block, g, scale = rho[start : start + BLOCK], m[start : start + BLOCK], log_omega[start : start + BLOCK]
        x = e[: g.size]
        for i in range(x.size):
            x[i] = scale[i] - rho_block[i] + w * g[i]
        largest = _largest(x, 1.0)
        if largest > shift:
            rescale = _exp(shift - largest)
            s0, s1, s2, shift = s0 * rescale, s1 * rescale, s2 * rescale, largest
        mass, first, second = _single_sums(x, g, shift)
        s0 += mass
        s1 += first
        s2 += second
    sums[0], sums[1], sums[2], sums[3] = shift, s0, s1, s2


@_kernel
def single_weights(rho, m, step, near, far, omega, log_omega, u, c, sums):
    """As `group_weights`, for single comparisons; keeps the weights u for `single_histogram`."""
    for r in range(rho.size):
        rho[r] -= step * m[r]
        u[r] = log_omega[r] - rho[r]
    shift = _largest(u, 1.0)
    for r in range(rho.size):
        u[r] = _exp(u[r] - shift)
    c[:] = 0.0
    for r in range(rho.size):
        c[near[r]] -= u[r]
        c[far[r]] += u[r]
    mass, margin, _ = _weighted_sums(u, rho)
    sums[0], sums[1], sums[2], sums[3] = shift, mass, margin, _weight_not_positive(rho, omega)


@_kernel
def single_histogram(m, u, half_width, table):
    """Weighted moments of m, bin by bin.

    Bin b is centred at (2 (b - HALF_BINS) + 1) half_width; table[b, k] receives the sum of u x**k with x the
    offset from the centre in half widths, -1 <= x <= 1.
    """
    table[:] = 0.0
    scale = 0.5 / half_width
    for r in range(m.size):
        position = m[r] * scale
        b = min(max(math.floor(position), -HALF_BINS), HALF_BINS - 1)
        x = 2.0 * (position - b) - 1.0
        term = u[r]
        row = table[b + HALF_BINS]
        for k in range(N_MOMENTS):
            row[k] += term
            term *= x


# --- the direction --------------------------------------------------------------------------------------------------


@intrinsic
def _write_row(typing_context, out, i, weight, points, second, c, begin, end, k):
    """out[i] = weight * points[i] - sum of c[p] points[second[p]] over begin <= p < end, in WIDTH columns from k on.

    Written in LLVM's vector instructions because a loop over a few features spends most of its time deciding whether it
    may be vectorised. The sum stays in a register: a row in memory would be loaded and stored again for every pair.
    """

    def codegen(context, builder, signature, args):
        out, i, weight, points, second, c, begin, end, k = args
        vector = ir.VectorType(ir.DoubleType(), WIDTH)
        undefined = ir.Constant(vector, ir.Undefined)
        to_first = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)

        def array(number, value):
            return context.make_array(signature.args[number])(context, builder, value)

        def address(struct, row):
            offset = builder.add(builder.mul(row, builder.extract_value(struct.shape, 1)), k)
            return builder.bitcast(builder.gep(struct.data, [offset]), vector.as_pointer())

        def times_row(factor, row):
            factors = builder.insert_element(undefined, factor, ir.Constant(ir.IntType(32), 0))
            factors = builder.shuffle_vector(factors, undefined, to_first)
            return builder.fmul(factors, builder.load(address(rows, row), align=8))

        rows, numbers, coefficients = array(3, points), array(4, second).data, array(5, c).data
        total = cgutils.alloca_once_value(builder, times_row(weight, i))
        with cgutils.for_range_slice(builder, begin, end, ir.Constant(begin.type, 1)) as (p, _):
            j = builder.zext(builder.load(builder.gep(numbers, [p])), begin.type)
            term = times_row(builder.load(builder.gep(coefficients, [p])), j)
            builder.store(builder.fsub(builder.load(total), term), total)
        builder.store(builder.load(total), address(array(0, out), i), align=8)
        return context.get_dummy_value()

    index = types.int64
    return types.void(out, index, types.float64, points, second, c, index, index, index), codegen


@_kernel
def half_laplacian(first, second, c, points, degree, out):
    """out = (Deg / 2 - W) points, W holding each pair once, so that points' out + out' points = sum c (a - b)(a - b)'.

    Each pair costs one row of the points, half of what the full Laplacian needs. Pairs come sorted by `first`, so that
    every row of `out` is written once. The number of columns is a multiple of WIDTH.
    """
    degree[:] = 0.0
    for p in range(first.size):
        degree[first[p]] += c[p]
        degree[second[p]] += c[p]
    n_points, n_columns = points.shape
    end = 0
    for i in range(n_points):
        begin = end
        while end < first.size and first[end] == i:
            end += 1
        for k in range(0, n_columns, WIDTH):
            _write_row(out, i, 0.5 * degree[i], points, second, c, begin, end, k)  # type: ignore[call-arg]


@_kernel
def laplacian_vector(first, second, c, z, out):
    """out = Lap(c) z, the signed graph Laplacian of the pairs times a vector."""
    out[:] = 0.0
    for p in range(first.size):
        flow = c[p] * (z[first[p]] - z[second[p]])
        out[first[p]] += flow
        out[second[p]] -= flow
