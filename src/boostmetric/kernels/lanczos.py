"""Lanczos' iteration for a symmetric matrix that is formed."""

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
def lanczos_steps(matrix, basis, diagonal, beside, first, last):
    """Steps `first` to `last` of Lanczos' iteration, every vector made orthogonal to all before it, twice.

    Rows of the matrix and of the basis, of which the first must be a unit vector, are padded with zeros to a multiple
    of WIDTH. Writes the tridiagonal matrix (`diagonal`, `beside`) that the matrix is on the basis. Returns how many
    steps were made: fewer if the matrix maps the space of the basis to itself.
    """
    n, width = matrix.shape
    for j in range(first, last):
        new = (j + 1) * width
        for i in range(n):
            basis[j + 1, i] = _dot(matrix, i * width, basis, j * width, width)
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
