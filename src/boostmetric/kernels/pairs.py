"""Loops over the distinct pairs of a shard, for the direction.

Pairs are sorted: those whose first point is i have the numbers ``starts[i]`` to ``starts[i + 1]``, and `second` holds
their other points, all larger than i. Loops that go from point `begin` to point `end` can be shared among threads.
"""

from boostmetric.kernels.lanes import (
    WIDTH,
    kernel,
    load,
    multiply_add,
    part_of_kernel,
    products_of_eight,
    splat,
    store,
    store_columns,
    total,
)

# Number of rows of the points read at the same time: about as many as a processor can prefetch at once.
_AT_ONCE = 16


@part_of_kernel
def _product(points, i, width, x, k):
    """Inner product of a row, which begins at element i, with x[k:k + width], to the bits of `products_of_eight`."""
    product = splat(0.0)
    for j in range(0, width, WIDTH):
        product = multiply_add(load(points, i + j), load(x, k + j), product)
    return total(product)


@kernel
def times_each(points, directions, begin, end, out):
    """Compute out[d] = points directions[d] so that each result depends only on its row and direction.

    BLAS may round equal rows differently. Rows, and directions, are padded with zeros to a multiple of WIDTH.
    """
    n_points, width = points.shape
    whole = end - (end - begin) % WIDTH
    for i in range(begin, whole, WIDTH):
        for d in range(directions.shape[0]):
            store(out, d * n_points + i, products_of_eight(points, i * width, width, directions, d * width))
    for i in range(whole, end):
        for d in range(directions.shape[0]):
            out[d, i] = _product(points, i * width, width, directions, d * width)


@kernel
def transposed_times(points, y, out):
    """Add points' y to `out`; rows, and `out`, are padded to a multiple of WIDTH."""
    n_points, width = points.shape
    for i in range(n_points):
        factor = splat(y[i])
        for k in range(0, width, WIDTH):
            store(out, k, multiply_add(factor, load(points, i * width + k), load(out, k)))


@kernel
def squared_differences(z, starts, second, begin, end, out):
    """Compute out = (z[i] - z[j])**2 for every pair i, j, where z is the points along a direction."""
    for i in range(begin, end):
        a, others, growths = z[i], second[starts[i] : starts[i + 1]], out[starts[i] : starts[i + 1]]
        for p in range(others.size):
            difference = a - z[others[p]]
            growths[p] = difference * difference


@kernel
def add_squared_distances(z, starts, second, begin, end, out):
    """Add |z[i] - z[j]|**2 to `out` for every pair i, j; rows of z are padded with zeros to a multiple of WIDTH."""
    width = z.shape[1]
    for i in range(begin, end):
        others, distances = second[starts[i] : starts[i + 1]], out[starts[i] : starts[i + 1]]
        for p in range(others.size):
            other = others[p] * width
            square = splat(0.0)
            for k in range(0, width, WIDTH):
                difference = load(z, i * width + k) - load(z, other + k)
                square = multiply_add(difference, difference, square)
            distances[p] += total(square)


@kernel
def add_squared_differences(z, factors, fused, starts, second, begin, end, eight, out):
    """Add factors[k] (z[i, k] - z[j, k])**2 to `out` for every pair i, j; z is the points along directions k.

    One direction is added after the other; `fused` rounds as `groups.grow` does, to the same bits. Eight pairs are
    summed at a time, for eight directions and then for the next; scratch: `eight`, with eight times WIDTH numbers and
    WIDTH more.
    """
    n, last = factors.size, WIDTH * WIDTH
    whole = n - n % WIDTH
    for i in range(begin, end):
        for p in range(starts[i], starts[i + 1], WIDTH):
            n_lanes = min(WIDTH, starts[i + 1] - p)
            for lane in range(n_lanes):
                eight[last + lane] = out[p + lane]
            growth = load(eight, last)
            for first in range(0, n, WIDTH):
                if first < whole:
                    store_columns(z, second, p, n_lanes, n, first, eight)
                else:
                    for lane in range(n_lanes):
                        for k in range(whole, n):
                            eight[(k - whole) * WIDTH + lane] = z[second[p + lane], k]
                for k in range(min(WIDTH, n - first)):
                    difference = splat(z[i, first + k]) - load(eight, k * WIDTH)
                    factor, square = splat(factors[first + k]), difference * difference
                    growth = multiply_add(factor, square, growth) if fused else growth + factor * square
            store(eight, last, growth)
            for lane in range(n_lanes):
                out[p + lane] = eight[last + lane]


@kernel
def sum_squared_differences(z, c, starts, second, begin, end, out):
    """Add c (z[i, k] - z[j, k])**2, summed over the pairs i, j, to out[k]."""
    n = out.size
    whole = n - n % WIDTH
    for i in range(begin, end):
        for first in range(0, whole, WIDTH):
            a, sums = load(z, i * n + first), load(out, first)
            for p in range(starts[i], starts[i + 1]):
                difference = a - load(z, second[p] * n + first)
                sums = sums + splat(c[p]) * (difference * difference)
            store(out, first, sums)
        for k in range(whole, n):
            for p in range(starts[i], starts[i + 1]):
                difference = z[i, k] - z[second[p], k]
                out[k] += c[p] * (difference * difference)


@kernel
def gather(values, numbers, out):
    """Compute out = values[numbers]; NumPy's `take` is several times slower, because it converts the numbers first."""
    for i in range(numbers.size):
        out[i] = values[numbers[i]]


@kernel
def spread(values, numbers, out):
    """Compute out[numbers] = values; of several values with the same number, the last one counts."""
    for i in range(numbers.size):
        out[numbers[i]] = values[i]


@kernel
def degrees(starts, second, c, out):
    """Add to `out` the sum of c over the pairs of each point, to the same bits as `half_laplacian`."""
    for i in range(starts.size - 1):
        own = 0.0
        for p in range(starts[i], starts[i + 1]):
            out[second[p]] += c[p]
            own += c[p]
        out[i] += own


@kernel
def half_laplacian(starts, second, c, scale, degree, is_known, points, begin, end, out):
    """Compute rows begin to end of (Deg / 2 - W) points, where W holds each pair once, times a power of two.

    With all rows R, points' R + R' points = sum c (a - b)(a - b)'. Each pair costs one row of the points, half of what
    the full Laplacian needs. Unless the degrees are known, `degree` must be zeros and all rows be computed: it is
    filled on the way, and the degree of a point is complete once its row has been summed, because the first point of a
    pair is the smaller one.

    The columns, a multiple of WIDTH, are summed two registers at a time; if the number of registers is odd, the last
    one is summed twice. All columns are summed for some pairs before the next pairs.
    """
    n_columns = points.shape[1]
    for i in range(begin, end):
        row, place, first, last, own = i * n_columns, (i - begin) * n_columns, starts[i], starts[i + 1], 0.0
        for p_begin in range(first, max(last, first + 1), _AT_ONCE):
            p_end = min(p_begin + _AT_ONCE, last)
            others, coefficients = second[p_begin:p_end], c[p_begin:p_end]
            for left in range(0, n_columns, 2 * WIDTH):
                right = min(left + WIDTH, n_columns - WIDTH)
                left_sum, right_sum = splat(0.0), splat(0.0)
                if p_begin > first:
                    left_sum, right_sum = load(out, place + left), load(out, place + right)
                sums_degrees = left == 0 and not is_known
                for p in range(others.size):
                    coefficient, other = splat(scale * coefficients[p]), others[p] * n_columns
                    left_sum = multiply_add(coefficient, load(points, other + left), left_sum)
                    right_sum = multiply_add(coefficient, load(points, other + right), right_sum)
                    if sums_degrees:
                        degree[others[p]] += coefficients[p]
                        own += coefficients[p]
                if p_end == last:
                    if sums_degrees:
                        degree[i] += own
                    half = splat(0.5 * scale * degree[i])
                    left_sum = half * load(points, row + left) - left_sum
                    right_sum = half * load(points, row + right) - right_sum
                store(out, place + left, left_sum)
                store(out, place + right, right_sum)


@kernel
def laplacian_vector(starts, second, c, z, out):
    """Compute out = Lap(c) z, the signed graph Laplacian of the pairs times a vector."""
    out[:] = 0.0
    for i in range(starts.size - 1):
        for p in range(starts[i], starts[i + 1]):
            flow = c[p] * (z[i] - z[second[p]])
            out[i] += flow
            out[second[p]] -= flow
