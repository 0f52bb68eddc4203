"""Lanczos iteration for an explicit symmetric matrix."""

import math

from boostmetric.kernels.lanes import WIDTH, kernel, load, multiply_add, part_of_kernel, splat, store, total


@part_of_kernel
def _dot(a, i, b, j, n):
    """Sum of a[i + k] b[j + k], k < n; n is a multiple of WIDTH."""
    even, odd = splat(0.0), splat(0.0)
    for k in range(0, n - WIDTH, 2 * WIDTH):
        even = multiply_add(load(a, i + k), load(b, j + k), even)
        odd = multiply_add(load(a, i + k + WIDTH), load(b, j + k + WIDTH), odd)
    if n % (2 * WIDTH):
        even = multiply_add(load(a, i + n - WIDTH), load(b, j + n - WIDTH), even)
    return total(even + odd)


@part_of_kernel
def _add(factor, a, i, b, j, n):
    """b[j + k] += factor a[i + k], k < n."""
    f = splat(factor)
    for k in range(0, n, WIDTH):
        store(b, j + k, multiply_add(f, load(a, i + k), load(b, j + k)))


@kernel
def take_half(matrix, scale, half):
    """Write to `half` the lower triangle of a symmetric matrix times a factor, with half of its diagonal.

    The registers that contain the diagonal are padded with zeros; entries to the right of them are never read.
    """
    for i in range(len(matrix)):
        for k in range(i):
            half[i, k] = scale * matrix[i, k]
        half[i, i] = 0.5 * scale * matrix[i, i]
        for k in range(i + 1, i - i % WIDTH + WIDTH):
            half[i, k] = 0.0


@part_of_kernel
def _times_symmetric(half, x, j, y, new):
    """Compute y[new:] = (H + H') x[j:], where H is a lower triangle; each of its entries is read once."""
    n, width = half.shape
    for k in range(0, width, WIDTH):
        store(y, new + k, splat(0.0))
    for i in range(n):
        row, x_i, product = i * width, x[j // width, i], splat(0.0)
        factor = splat(x_i)
        for k in range(0, i + 1, WIDTH):
            h = load(half, row + k)
            product = multiply_add(h, load(x, j + k), product)
            store(y, new + k, multiply_add(h, factor, load(y, new + k)))
        y[new // width, i] += total(product)


@kernel
def lanczos_steps(half, basis, diagonal, beside, first, last):
    """Run steps `first` to `last` of the Lanczos iteration; each vector is orthogonalised to all earlier ones, twice.

    `half` comes from `take_half`. Rows of the basis are padded with zeros to a multiple of WIDTH; the first must be a
    unit vector. Writes the tridiagonal matrix (`diagonal`, `beside`) that represents the matrix in the basis. Returns
    the number of steps made, which is lower if the matrix maps the span of the basis to itself.
    """
    n, width = half.shape
    for j in range(first, last):
        new = (j + 1) * width
        _times_symmetric(half, basis, j * width, basis, new)
        size = math.sqrt(_dot(basis, new, basis, new, width))
        diagonal[j] = _dot(basis, j * width, basis, new, width)
        for _ in range(2):
            for i in range(j + 1):
                overlap = _dot(basis, i * width, basis, new, width)
                _add(-overlap, basis, i * width, basis, new, width)
        beside[j] = math.sqrt(_dot(basis, new, basis, new, width))
        if beside[j] <= 1e-15 * size:
            beside[j] = 0.0
            return j + 1
        for i in range(n):
            basis[j + 1, i] /= beside[j]
    return last
