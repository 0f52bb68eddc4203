"""The hinge loss over groups of near and far pairs."""

from boostmetric.kernels.lanes import kernel


@kernel
def hinge(d, members, bounds, omega, width, far, c, sums):
    """Sum omega * ramp(t) over all comparisons, with t = 1 + d_near - d_far; c is its derivative by each distance.

    The ramp is the hinge max(0, t) with its corner rounded off: t**2 / (2 width) for 0 < t < width, and t - width / 2
    beyond. Writes sums = (this loss, the loss of the exact hinge, sum of the derivatives u by t, weight of violated
    comparisons). Scratch: `far`, as long as the longest far side.
    """
    c[:] = 0.0
    loss, exact, slopes, violated = 0.0, 0.0, 0.0, 0.0
    for g in range(omega.size):
        begin, middle, end = bounds[2 * g], bounds[2 * g + 1], bounds[2 * g + 2]
        far_pairs = members[middle:end]
        for q in range(far_pairs.size):
            far[q] = d[far_pairs[q]]
        for p in range(begin, middle):
            reach = 1.0 + d[members[p]]
            pulls = 0.0
            for q in range(far_pairs.size):
                t = reach - far[q]
                if t > 0.0:
                    u = omega[g]
                    exact += u * t
                    if t >= 1.0:
                        violated += u
                    if t < width:
                        u *= t / width
                        loss += 0.5 * u * t
                    else:
                        loss += u * (t - 0.5 * width)
                    c[far_pairs[q]] -= u
                    pulls += u
            c[members[p]] += pulls
            slopes += pulls
    sums[0], sums[1], sums[2], sums[3] = loss, exact, slopes, violated
