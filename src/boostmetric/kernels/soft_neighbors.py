"""Loops over all pairs of points, for learners of soft nearest neighbours.

Point i takes the value of point j with the probability exp(-d_ij) / sum_k exp(-d_ik). What is computed for a point
depends on its own row of the table of pairs only, so no more than some rows are in memory at once.

Points are stored by coordinates: row k of `z` has the k-th coordinate of every point, padded with zeros to a multiple
of `AT_ONCE`; `far` is 0 for each point, and infinite where there is none.
"""

import math

from boostmetric.kernels.lanes import (
    WIDTH,
    any_at_least,
    at_least,
    exp,
    kernel,
    largest,
    load,
    multiply_add,
    part_of_kernel,
    smaller,
    splat,
    store,
    total,
)

# Points are compared with so many others at once: four registers, so that their sums overlap.
AT_ONCE = 4 * WIDTH
# Where eight weights are below e^-50 times the largest of their row, they are 0: no sum of a row sees them. Later on,
# that is most of the table, whose exponentials and slopes are then left out.
_LEAST, _TINY = -50.0, 1e-200


@part_of_kernel
def _weigh(z, far, i, row, place):
    """Write exp(-d_ij), times the power that makes the largest 1, to row[place:], 0 for j = i; return their sum."""
    n_coordinates, width = z.shape
    far[i], nearest = math.inf, splat(math.inf)
    for j in range(0, width, AT_ONCE):
        a, b, c, d = load(far, j), load(far, j + WIDTH), load(far, j + 2 * WIDTH), load(far, j + 3 * WIDTH)
        for k in range(n_coordinates):
            own, other = splat(z[k, i]), k * width + j
            difference = own - load(z, other)
            a = multiply_add(difference, difference, a)
            difference = own - load(z, other + WIDTH)
            b = multiply_add(difference, difference, b)
            difference = own - load(z, other + 2 * WIDTH)
            c = multiply_add(difference, difference, c)
            difference = own - load(z, other + 3 * WIDTH)
            d = multiply_add(difference, difference, d)
        store(row, place + j, a)
        store(row, place + j + WIDTH, b)
        store(row, place + j + 2 * WIDTH, c)
        store(row, place + j + 3 * WIDTH, d)
        nearest = smaller(nearest, smaller(smaller(a, b), smaller(c, d)))
    far[i] = 0.0
    nearest, sums = splat(-largest(splat(0.0) - nearest)), splat(0.0)
    for j in range(0, width, WIDTH):
        exponent = nearest - load(row, place + j)
        if any_at_least(exponent, splat(_LEAST)):
            weight = exp(exponent)
            store(row, place + j, weight)
            sums = sums + weight
        else:
            store(row, place + j, splat(0.0))
    return total(sums)


@kernel
def regress(z, far, target, begin, end, slopes, degree, predicted):
    """Predict the target of points begin to end from all others.

    Writes to `slopes`, one row a point, the derivatives of the sum of the squared errors with respect to the squared
    distances, and adds their sums over both points of the pairs to `degree`.
    """
    width = z.shape[1]
    for i in range(begin, end):
        place = (i - begin) * width
        share, mean = 1.0 / _weigh(z, far, i, slopes, place), splat(0.0)
        for j in range(0, width, WIDTH):
            mean = multiply_add(load(slopes, place + j), load(target, j), mean)
        predicted[i] = share * total(mean)
        factor, middle, own = splat(2.0 * share * (target[i] - predicted[i])), splat(predicted[i]), splat(0.0)
        for j in range(0, width, WIDTH):
            weight = load(slopes, place + j)
            if any_at_least(weight, splat(_TINY)):
                slope = factor * weight * (load(target, j) - middle)
                store(slopes, place + j, slope)
                store(degree, j, load(degree, j) + slope)
                own = own + slope
        degree[i] += total(own)


@kernel
def classify(z, far, label, begin, end, slopes, degree, right):
    """Probability that points begin to end take the right label; slopes are those of minus their sum, as above."""
    width = z.shape[1]
    for i in range(begin, end):
        place, label_i = (i - begin) * width, splat(label[i])
        share, hits = 1.0 / _weigh(z, far, i, slopes, place), splat(0.0)
        for j in range(0, width, WIDTH):
            other = load(label, j)
            same = at_least(other, label_i) * at_least(label_i, other)
            hits = multiply_add(load(slopes, place + j), same, hits)
        right[i] = share * total(hits)
        factor, middle, own = splat(share), splat(right[i]), splat(0.0)
        for j in range(0, width, WIDTH):
            weight = load(slopes, place + j)
            if any_at_least(weight, splat(_TINY)):
                other = load(label, j)
                same = at_least(other, label_i) * at_least(label_i, other)
                slope = factor * weight * (same - middle)
                store(slopes, place + j, slope)
                store(degree, j, load(degree, j) + slope)
                own = own + slope
        degree[i] += total(own)
