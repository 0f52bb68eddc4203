"""Loops over groups whose far side is "all points of another class".

Rows are groups, one for each anchor; columns are the points, sorted by class. Row i of `d` holds the squared distances
of anchor i to all points, and row i of `e` their exponentials exp(lowest_i - d). Pairs with points of the anchor's own
class are left out: loops run over the columns before ``left[i]`` and from ``right[i]`` on. These bounds are rounded to
whole registers; columns of the own class inside them are `EMPTY`. Pairs are not listed and growths h are not stored:
they are computed from the coordinates z of the points along the direction, or along several directions with factors.

Near pairs are few. Each row has the same number of places for them, a multiple of eight, in `near_d` and `near_h`.
"""

import numpy as np

from boostmetric.kernels.chebyshev import N_BINS, N_NODES
from boostmetric.kernels.group_losses import EXPONENTIAL, group_loss
from boostmetric.kernels.groups import EMPTY, NOTHING, in_range, log_derivatives
from boostmetric.kernels.lanes import (
    ROWS,
    WIDTH,
    add_products,
    any_at_least,
    at_least,
    exp,
    kernel,
    larger,
    largest,
    load,
    multiply_add,
    part_of_kernel,
    smaller,
    splat,
    store,
    store_past_cache,
    total,
)

# Columns and rows per tile of a product: the columns of ROWS rows, and the values they are multiplied with, stay in the
# caches.
TILE, _STRIP = 512, 4 * ROWS
# The table is not used for a far side whose sum has fallen below this fraction of its value at step 0.
_LEAST_OF_TABLE = 1e-3


@part_of_kernel
def _growth(z, factors, own, k):
    """sum_f factors[f] (z[f, own] - z[f, k])**2 for eight columns k."""
    n_columns = z.shape[1]
    if factors.size == 1:
        difference = splat(z[0, own]) - load(z, k)
        return splat(factors[0]) * difference * difference
    h = splat(0.0)
    for f in range(factors.size):
        difference = splat(z[f, own]) - load(z, f * n_columns + k)
        h = multiply_add(splat(factors[f]) * difference, difference, h)
    return h


@part_of_kernel
def _part(i, part, left, right, n_columns):
    """First column, and the one after the last, of one of the two ranges of a row."""
    return (0, left[i]) if part == 0 else (right[i], n_columns)


@kernel
def block_grow(d, z, factors, step, own, left, right):
    """Compute d += step * h, to the same bits as in `block_weights`."""
    w = splat(step)
    n_columns = d.shape[1]
    for i in range(own.size):
        row = i * n_columns
        for part in range(2):
            begin, end = _part(i, part, left, right, n_columns)
            for k in range(begin, end, WIDTH):
                store(d, row + k, multiply_add(w, _growth(z, factors, own[i], k), load(d, row + k)))


@kernel
def block_extend(d, z, steps, own, left, right):
    """Compute d += steps[f] * h for one direction f after the other, to the same bits as `block_grow` for each."""
    n_columns = d.shape[1]
    for i in range(own.size):
        row = i * n_columns
        for part in range(2):
            begin, end = _part(i, part, left, right, n_columns)
            for k in range(begin, end, WIDTH):
                x = load(d, row + k)
                for f in range(steps.size):
                    difference = splat(z[f, own[i]]) - load(z, f * n_columns + k)
                    x = multiply_add(splat(steps[f]), difference * difference, x)
                store(d, row + k, x)


@part_of_kernel
def _least(x):
    """Smallest of the eight numbers, in all lanes."""
    return splat(-largest(splat(0.0) - x))


@part_of_kernel
def _exponentials_of_row(d, e, i, left, right):
    """Write e = exp(low - d), where low is the smallest d; return low and the sums of e and e d."""
    n_columns = d.shape[1]
    shortest, b0, b1 = splat(EMPTY), splat(0.0), splat(0.0)
    for part in range(2):
        begin, end = _part(i, part, left, right, n_columns)
        for k in range(begin, end, WIDTH):
            shortest = smaller(shortest, load(d, i * n_columns + k))
    low = _least(shortest)
    for part in range(2):
        begin, end = _part(i, part, left, right, n_columns)
        for k in range(begin, end, WIDTH):
            x = load(d, i * n_columns + k)
            exponential = exp(low - x)
            store(e, i * n_columns + k, exponential)
            b0, b1 = b0 + exponential, multiply_add(exponential, x, b1)
    return low, b0, b1


@kernel
def block_weights(
    loss,
    d,
    e,
    z,
    factors,
    step,
    own,
    left,
    right,
    near_d,
    near_h,
    omega,
    log_omega,
    lowest,
    near_sum,
    far_sum,
    unit,
    sums,
):
    """Make a step, d += step * h; write e, and overwrite `near_h` with the exponentials of the near pairs.

    Also writes, for each row: `lowest`, the shift of e; the sums of both sides; and `unit`, the derivative u of the
    mass divided by these two sums, relative to the shift in `sums`. Sums are as in `group_masses`.

    The shift is the smallest of the first eight far distances, so that a single loop suffices; if it is too far from
    the smallest of all, a second loop corrects it. Either way it depends on the distances alone, so a fit resumed from
    a checkpoint rounds like one that was not interrupted.
    """
    w = splat(step)
    n_columns, n_near = d.shape[1], near_d.shape[1]
    margin, shift, s0, violated = 0.0, NOTHING, 0.0, 0.0
    for i in range(own.size):
        row, near_row = i * n_columns, i * n_near
        longest = splat(-EMPTY)
        for j in range(near_row, near_row + n_near, WIDTH):
            x = multiply_add(w, load(near_h, j), load(near_d, j))
            store(near_d, j, x)
            longest = larger(longest, x)
        longest = splat(largest(longest))
        a0, a1 = splat(0.0), splat(0.0)
        for j in range(near_row, near_row + n_near, WIDTH):
            x = load(near_d, j)
            exponential = exp(x - longest)
            store(near_h, j, exponential)
            a0, a1 = a0 + exponential, multiply_add(exponential, x, a1)
        first = 0 if left[i] > 0 else right[i]
        low = _least(multiply_add(w, _growth(z, factors, own[i], first), load(d, row + first)))
        b0, b1, count = splat(0.0), splat(0.0), splat(0.0)
        for part in range(2):
            begin, end = _part(i, part, left, right, n_columns)
            for k in range(begin, end, WIDTH):
                x = multiply_add(w, _growth(z, factors, own[i], k), load(d, row + k))
                store(d, row + k, x)
                exponential = exp(low - x)
                store_past_cache(e, row + k, exponential)
                b0, b1 = b0 + exponential, multiply_add(exponential, x, b1)
                if any_at_least(longest, x):
                    for j in range(n_near):
                        count = count + at_least(splat(near_d[i, j]), x)
        if not in_range(splat(total(b0))):
            low, b0, b1 = _exponentials_of_row(d, e, i, left, right)
        lowest[i] = largest(low)
        near_sum[i], far_sum[i] = total(a0), total(b0)
        violated += omega[i] * total(count)
        row_margin = total(b1) / far_sum[i] - total(a1) / near_sum[i]
        scale, product = largest(longest) - lowest[i], near_sum[i] * far_sum[i]
        if loss != EXPONENTIAL:
            value, derivative, _ = group_loss(loss, splat(scale + np.log(product)))
            u = omega[i] * largest(derivative)
            s0 += omega[i] * largest(value)
            margin += u * row_margin
            unit[i] = u / product
            continue
        unit[i] = log_omega[i] + scale  # its logarithm for now, since the common shift is not known yet
        new_shift = max(shift, unit[i])
        rescale, own_mass = np.exp(shift - new_shift), product * np.exp(unit[i] - new_shift)
        shift = new_shift
        s0 = s0 * rescale + own_mass
        margin = margin * rescale + own_mass * row_margin
    if loss == EXPONENTIAL:
        for i in range(own.size):
            unit[i] = np.exp(unit[i] - shift)
    sums[0], sums[1], sums[2], sums[3] = 0.0 if loss != EXPONENTIAL else shift, s0, margin, violated


@kernel
def block_near_coefficients(near_e, members, unit, far_sum, c):
    """Compute the coefficients of the near pairs from the output of `block_weights`."""
    c[:] = 0.0
    for i in range(len(members)):
        factor = unit[i] * far_sum[i]
        for j in range(near_e.shape[1]):
            c[members[i, j]] -= factor * near_e[i, j]


# --- products with the exponentials ---------------------------------------------------------------------------------


@kernel
def block_products(e, left, right, columns, values, factor, out, column_sums):
    """Compute out = e values and column_sums = e' factor; `columns` is 0, 1, ...; rows of `values` are padded to 16."""
    n_rows, n_columns = e.shape
    width = values.shape[1]
    out[:] = 0.0
    column_sums[:] = 0.0
    for strip in range(0, n_rows, _STRIP):
        for tile in range(0, n_columns, TILE):
            end = min(tile + TILE, n_columns)
            for i in range(strip, min(strip + _STRIP, n_rows), ROWS):
                if left[i] <= tile and end <= right[i]:
                    continue
                for first in range(0, width, 2 * WIDTH):
                    place = i * width + first
                    add_products(e, i, n_columns, columns, tile, end, values, width, first, out, place, width)
                for k in range(tile, end, WIDTH):
                    column_sum = load(column_sums, k)
                    for r in range(ROWS):
                        column_sum = multiply_add(splat(factor[i + r]), load(e, (i + r) * n_columns + k), column_sum)
                    store(column_sums, k, column_sum)


@kernel
def block_tile(e, left, right, row, column, factor, out, column_sums):
    """Copy a tile of e, its rows multiplied by their factors, in the precision of `out`; add its sums to column_sums.

    The tile begins at a row and a column. What lies outside the two ranges of a row is 0. An exponential alone may be
    beyond the range of single precision; with its factor it is not.
    """
    n_columns = e.shape[1]
    n_rows, width = out.shape
    for r in range(n_rows):
        i = row + r
        f = splat(factor[i])
        for k in range(0, width, WIDTH):
            place = column + k
            if left[i] <= place < right[i]:
                store(out, r * width + k, splat(0.0))
                continue
            weight = f * load(e, i * n_columns + place)
            store(out, r * width + k, weight)
            store(column_sums, place, weight + load(column_sums, place))


@kernel
def block_flow(e, left, right, factor, value, column_value, out, column_sums):
    """Compute out = e column_value, and two rows of column_sums: e' factor and e' (factor * value)."""
    n_rows, n_columns = e.shape
    column_sums[:] = 0.0
    for i in range(n_rows):
        f, fv, flow = splat(factor[i]), splat(factor[i] * value[i]), splat(0.0)
        for part in range(2):
            begin, end = _part(i, part, left, right, n_columns)
            for k in range(begin, end, WIDTH):
                exponential = load(e, i * n_columns + k)
                flow = multiply_add(exponential, load(column_value, k), flow)
                store(column_sums, k, multiply_add(f, exponential, load(column_sums, k)))
                store(column_sums, n_columns + k, multiply_add(fv, exponential, load(column_sums, n_columns + k)))
        out[i] = total(flow)


@kernel
def block_table(e, left, right, columns, starts, basis, table):
    """Tabulate the far sides along a direction, for all steps at once.

    The growth of a pair is a function of two coordinates, (z_i - z_k)**2, and so is its exponential at any step. In a
    short interval of z_k that function is a polynomial, and its sum over the points in the interval is a sum over a few
    nodes, with weights that do not depend on the step: table[i, b] is the sum, over the columns k in bin b, of e[i, k]
    times the polynomials that are 1 at one node and 0 at the others. Within each tile, `columns` and `basis` are sorted
    by bin; those in bin b of tile t begin at ``starts[t * N_BINS + b]``.
    """
    n_rows, n_columns = e.shape
    row_length = N_BINS * N_NODES
    table[:] = 0.0
    for strip in range(0, n_rows, _STRIP):
        for tile in range(0, n_columns, TILE):
            for i in range(strip, min(strip + _STRIP, n_rows), ROWS):
                if left[i] <= tile and tile + TILE <= right[i]:
                    continue
                for b in range(N_BINS):
                    run, place = tile // TILE * N_BINS + b, i * row_length + b * N_NODES
                    first, end = starts[run], starts[run + 1]
                    add_products(e, i, n_columns, columns, first, end, basis, N_NODES, 0, table, place, row_length)


@part_of_kernel
def _sums_from_table(table, i, nodes, own, w):
    """Sums of e exp(-w h), and of the same times h and h**2, over the far side of a row."""
    a0, a1, a2 = splat(0.0), splat(0.0), splat(0.0)
    for node in range(0, nodes.size, WIDTH):
        difference = splat(own) - load(nodes, node)
        h = difference * difference
        weight = load(table, i * nodes.size + node) * exp(splat(0.0) - w * h)
        a0, a1, a2 = a0 + weight, multiply_add(weight, h, a1), multiply_add(weight * h, h, a2)
    return splat(total(a0)), splat(total(a1)), splat(total(a2))


@part_of_kernel
def _far_sums(d, i, z, factors, w, own, left, right, low):
    """Same as `_sums_from_table`, but from the distances."""
    n_columns = d.shape[1]
    a0, a1, a2 = splat(0.0), splat(0.0), splat(0.0)
    for part in range(2):
        begin, end = _part(i, part, left, right, n_columns)
        for k in range(begin, end, WIDTH):
            h = _growth(z, factors, own[i], k)
            exponential = exp(low - multiply_add(w, h, load(d, i * n_columns + k)))
            weight = exponential * h
            a0, a1, a2 = a0 + exponential, a1 + weight, multiply_add(weight, h, a2)
    return splat(total(a0)), splat(total(a1)), splat(total(a2))


@part_of_kernel
def _shortest(d, i, z, factors, w, own, left, right):
    """The smallest d + w h of a row."""
    n_columns = d.shape[1]
    low = splat(EMPTY)
    for part in range(2):
        begin, end = _part(i, part, left, right, n_columns)
        for k in range(begin, end, WIDTH):
            low = smaller(low, multiply_add(w, _growth(z, factors, own[i], k), load(d, i * n_columns + k)))
    return _least(low)


@kernel
def block_moments(
    loss,
    d,
    z,
    factors,
    step,
    own,
    left,
    right,
    near_d,
    near_h,
    omega,
    log_omega,
    lowest,
    far_sum,
    with_table,
    table,
    nodes,
    least_growth,
    sums,
):
    """Same as `group_moments`; far sides come from the table if it covers this step and is accurate enough."""
    w = splat(step)
    n_near = near_d.shape[1]
    shift, s0, s1, s2 = NOTHING, 0.0, 0.0, 0.0
    for i in range(own.size):
        near_row = i * n_near
        top = splat(-EMPTY)
        for j in range(near_row, near_row + n_near, WIDTH):
            top = larger(top, multiply_add(w, load(near_h, j), load(near_d, j)))
        top = splat(largest(top))
        a0, a1, a2 = splat(0.0), splat(0.0), splat(0.0)
        for j in range(near_row, near_row + n_near, WIDTH):
            h = load(near_h, j)
            exponential = exp(multiply_add(w, h, load(near_d, j)) - top)
            weight = exponential * h
            a0, a1, a2 = a0 + exponential, a1 + weight, multiply_add(weight, h, a2)
        near = splat(total(a0)), splat(total(a1)), splat(total(a2))
        low = splat(lowest[i])
        exact = not with_table
        far = near
        if with_table:
            far = _sums_from_table(table, i, nodes, z[0, own[i]], w)
            exact = not (
                largest(far[0]) >= _LEAST_OF_TABLE * far_sum[i] and largest(far[1]) >= least_growth * largest(far[0])
            )
        if exact:
            far = _far_sums(d, i, z, factors, w, own, left, right, low)
            if not in_range(far[0]):
                low = _shortest(d, i, z, factors, w, own, left, right)
                far = _far_sums(d, i, z, factors, w, own, left, right, low)
        m, second = log_derivatives(near, far)
        scale = largest(top) - largest(low)
        if loss != EXPONENTIAL:
            value, derivative, bend = group_loss(loss, splat(scale + np.log(largest(near[0] * far[0]))))
            u = omega[i] * largest(derivative)
            s0 += omega[i] * largest(value)
            s1 += u * largest(m)
            s2 += u * largest(second - bend * m * m)
            continue
        scale += log_omega[i]
        new_shift = max(shift, scale)
        rescale, mass = np.exp(shift - new_shift), largest(near[0] * far[0]) * np.exp(scale - new_shift)
        shift = new_shift
        s0 = s0 * rescale + mass
        s1 = s1 * rescale + mass * largest(m)
        s2 = s2 * rescale + mass * largest(second)
    sums[0], sums[1], sums[2], sums[3] = 0.0 if loss != EXPONENTIAL else shift, s0, s1, s2
