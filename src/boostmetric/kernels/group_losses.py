"""Losses of a group for the kernels, as functions of l = log(N F).

The exponential loss has no function here: it is the logarithm of a sum over all groups, so the kernels keep track of a
shift. Every other loss is a weighted sum of phi(l) over the groups. To add one, write phi, name it in `CODES`, and call
it in `group_loss`.
"""

from boostmetric.kernels.lanes import at_least, exp, larger, log, part_of_kernel, smaller, splat

EXPONENTIAL, LOGISTIC, SMOOTH_HINGE = range(3)
CODES = {"exponential": EXPONENTIAL, "logistic": LOGISTIC, "smooth-hinge": SMOOTH_HINGE}


@part_of_kernel
def group_loss(loss, x):
    """phi(x), phi'(x) and 1 - phi''(x) / phi'(x) of a loss other than the exponential one."""
    if loss == LOGISTIC:
        return _softplus(x)
    return _smooth_hinge(x)


@part_of_kernel
def _softplus(x):
    """log(1 + exp(x)); its derivative is s = 1 / (1 + exp(-x)), and the second is s (1 - s)."""
    zero, one = splat(0.0), splat(1.0)
    e = exp(smaller(x, zero - x))
    sum_ = one + e
    log_sum = log(sum_) + (e - (sum_ - one)) / sum_
    s = larger(e, at_least(x, zero)) / sum_
    return larger(x, zero) + log_sum, s, s


@part_of_kernel
def _smooth_hinge(x):
    """0 up to x = -1, (1 + x)**2 / 2 up to 0, then x + 1/2; its derivative is 1 + x, clipped to [0, 1]."""
    zero, one = splat(0.0), splat(1.0)
    slope = smaller(larger(one + x, zero), one)
    bend = at_least(x, zero) + (slope - one) / larger(slope, splat(1e-100))
    return slope * (x + one - splat(0.5) * slope), slope, bend
