"""Loops over groups: near pairs against far pairs.

Groups are processed eight at a time: a *batch* has eight lanes, one for each group, and the same number of near places
and of far places in every lane. Place p of lane l is element ``offset + 8 p + l`` of the arrays `d`, `h` and `members`,
near places before far ones. A group with fewer pairs than its batch has places leaves some empty, and a batch may have
empty lanes; in an empty place d is `EMPTY` (far) or minus that (near), so it adds nothing, and h is 0. A group whose
size is unlike the others is a batch by itself, with its pairs spread over all lanes: its lanes are *joined*, their sums
are added up, and only the first lane has a weight.

A batch is a row of `batches`: near places, far places, offset, joined or not. Per-group arrays have one number for each
lane of each batch.

Distances d and growths h are stored for every place: a pair that several groups share is stored several times, but the
evaluations of a step then read memory sequentially.

The *mass* of a group with sums N and F and weight omega is omega N F for the exponential loss, which is the logarithm
of the sum over all groups. For the other losses (see `group_losses`) it is omega phi(l) with l = log(N F), and the loss
is the mean over all groups. The derivative of the mass by l is omega N F, or omega phi'(l).
"""

from boostmetric.kernels.group_losses import EXPONENTIAL, group_loss
from boostmetric.kernels.lanes import (
    WIDTH,
    any_at_least,
    at_least,
    exp,
    kernel,
    larger,
    largest,
    load,
    log,
    multiply_add,
    part_of_kernel,
    smaller,
    splat,
    store,
    total,
)

# The distance in an empty place: larger than all others, but sums of it do not overflow.
EMPTY = 1e300
# Sums of exponentials in this range are not affected by the limits of `exp`.
_LEAST_SUM, _MOST_SUM = 1e-100, 1e100
NOTHING = -1e308  # a shift below all others

# Comparisons are counted one by one if there are at most this many per member, else by sorting.
_FEW_PER_MEMBER = 16


@kernel
def grow(d, h, step):
    """Compute d += step * h, to the same bits as in `group_masses`."""
    w = splat(step)
    for i in range(0, d.size, WIDTH):
        store(d, i, multiply_add(w, load(h, i), load(d, i)))


@part_of_kernel
def _over_lanes(joined, lanes):
    """Sums of a batch: per lane, or over all lanes if they are joined."""
    return splat(total(lanes)) if joined else lanes


@part_of_kernel
def _longest(d, h, w, begin, end, joined):
    """Largest d + w h over near places."""
    top = splat(-EMPTY)
    for i in range(begin, end, WIDTH):
        top = larger(top, multiply_add(w, load(h, i), load(d, i)))
    return splat(largest(top)) if joined else top


@part_of_kernel
def _shortest(d, h, w, begin, end, joined):
    """Smallest d + w h over far places."""
    low = splat(EMPTY)
    for i in range(begin, end, WIDTH):
        low = smaller(low, multiply_add(w, load(h, i), load(d, i)))
    return splat(-largest(splat(0.0) - low)) if joined else low


@part_of_kernel
def _near_sums(d, h, w, begin, end, top, joined):
    """Sums of e, e h and e h**2 over near places, with e = exp(d + w h - top)."""
    a0, a1, a2 = splat(0.0), splat(0.0), splat(0.0)
    for i in range(begin, end, WIDTH):
        g = load(h, i)
        e = exp(multiply_add(w, g, load(d, i)) - top)
        eg = e * g
        a0, a1, a2 = a0 + e, a1 + eg, multiply_add(eg, g, a2)
    return _over_lanes(joined, a0), _over_lanes(joined, a1), _over_lanes(joined, a2)


@part_of_kernel
def _far_sums(d, h, w, begin, end, low, joined):
    """Sums of e, e h and e h**2 over far places, with e = exp(low - d - w h)."""
    a0, a1, a2 = splat(0.0), splat(0.0), splat(0.0)
    for i in range(begin, end, WIDTH):
        g = load(h, i)
        e = exp(low - multiply_add(w, g, load(d, i)))
        eg = e * g
        a0, a1, a2 = a0 + e, a1 + eg, multiply_add(eg, g, a2)
    return _over_lanes(joined, a0), _over_lanes(joined, a1), _over_lanes(joined, a2)


@part_of_kernel
def in_range(sums):
    """Whether sums of exponentials are accurate: the shift was close enough to the largest exponent."""
    return not (any_at_least(splat(_LEAST_SUM), sums) or any_at_least(sums, splat(_MOST_SUM)))


@part_of_kernel
def log_derivatives(near, far):
    """m = E_near[h] - E_far[h] and m**2 + q with q = Var_near[h] + Var_far[h], from sums of e h**k."""
    near_mean, far_mean = near[1] / near[0], far[1] / far[0]
    m = near_mean - far_mean
    q = (near[2] / near[0] - near_mean * near_mean) + (far[2] / far[0] - far_mean * far_mean)
    return m, multiply_add(m, m, larger(q, splat(0.0)))


@kernel
def group_moments(loss, d, h, step, batches, omega, log_omega, lowest, sums):
    """Compute the mass of all groups, and its derivatives by the step, at a given step.

    d/dw log(N F) = m = E_near[h] - E_far[h], and the second derivative is q = Var_near[h] + Var_far[h]. Writes
    sums = (shift, mass, first derivative, second derivative), the last three relative to exp(shift). `lowest` holds the
    shortest far distances at step 0. Growths are rarely negative, so these are a good shift at any step; if not, the
    shortest distance at that step is used.
    """
    w = splat(step)
    shift, s0, s1, s2 = splat(NOTHING), splat(0.0), splat(0.0), splat(0.0)
    for b in range(len(batches)):
        n_near, n_far, begin, joined = batches[b]
        middle, end = begin + WIDTH * n_near, begin + WIDTH * (n_near + n_far)
        top = _longest(d, h, w, begin, middle, joined)
        near = _near_sums(d, h, w, begin, middle, top, joined)
        low = load(lowest, WIDTH * b)
        far = _far_sums(d, h, w, middle, end, low, joined)
        if not in_range(far[0]):
            low = _shortest(d, h, w, middle, end, joined)
            far = _far_sums(d, h, w, middle, end, low, joined)
        m, second = log_derivatives(near, far)
        if loss != EXPONENTIAL:
            value, derivative, bend = group_loss(loss, top - low + log(near[0] * far[0]))
            u = load(omega, WIDTH * b) * derivative
            s0 = multiply_add(load(omega, WIDTH * b), value, s0)
            s1 = multiply_add(u, m, s1)
            s2 = multiply_add(u, second - bend * m * m, s2)
            continue
        scale = load(log_omega, WIDTH * b) + (top - low)
        new_shift = larger(shift, scale)
        rescale, mass = exp(shift - new_shift), near[0] * far[0] * exp(scale - new_shift)
        shift = new_shift
        s0 = multiply_add(s0, rescale, mass)
        s1 = multiply_add(s1, rescale, mass * m)
        s2 = multiply_add(s2, rescale, mass * second)
    top_shift = 0.0 if loss != EXPONENTIAL else largest(shift)
    rescale = splat(1.0) if loss != EXPONENTIAL else exp(shift - splat(top_shift))
    sums[0], sums[1], sums[2], sums[3] = top_shift, total(s0 * rescale), total(s1 * rescale), total(s2 * rescale)


@part_of_kernel
def _sort(x):
    """Shellsort, because numba's own sort takes seconds to compile."""
    gap = x.size // 2
    while gap > 0:
        for i in range(gap, x.size):
            value, j = x[i], i
            while j >= gap and x[j - gap] > value:
                x[j] = x[j - gap]
                j -= gap
            x[j] = value
        gap = 1 if gap == 2 else gap * 5 // 11


@part_of_kernel
def _count_below(x, value):
    """Number of elements of the sorted x that are below a value."""
    low, high = 0, x.size
    while low < high:
        middle = (low + high) // 2
        if x[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@part_of_kernel
def _count_by_sorting(d, begin, middle, end, apart, near):
    """Number of comparisons whose far pair is no longer than their near pair, over places with stride `apart`."""
    n_near = (middle - begin + apart - 1) // apart
    for i in range(n_near):
        near[i] = d[begin + i * apart]
    _sort(near[:n_near])
    count = 0
    for i in range(middle, end, apart):
        if d[i] <= near[n_near - 1]:
            count += n_near - _count_below(near[:n_near], d[i])
    return float(count)


@part_of_kernel
def _violated(d, begin, middle, end, joined, omega, near):
    """Weight of the comparisons of a batch whose far pair is no longer than their near pair; `omega` is per lane."""
    n_near, n_far = (middle - begin) // WIDTH, (end - middle) // WIDTH
    if joined:
        return omega[0] * _count_by_sorting(d, begin, middle, end, 1, near)
    if n_near * n_far <= _FEW_PER_MEMBER * (n_near + n_far):
        count = splat(0.0)
        for i in range(begin, middle, WIDTH):
            near_pair = load(d, i)
            for j in range(middle, end, WIDTH):
                count = count + at_least(near_pair, load(d, j))
        return total(count * load(omega, 0))
    weight = 0.0
    for lane in range(WIDTH):
        if omega[lane] > 0.0:
            count = _count_by_sorting(d, begin + lane, middle + lane, end + lane, WIDTH, near)
            weight += omega[lane] * count
    return weight


@kernel
def group_masses(loss, d, h, step, batches, omega, log_omega, lowest, unit, near_sum, far_sum, near, sums):
    """Make a step, d += step * h; compute the mass of all groups, and what `group_coefficients` needs.

    Writes sums = (shift, mass, u-weighted margin, weight of violated comparisons), where u is the derivative of the
    mass of a group by log(N F), and `lowest` for the next `group_moments`. Overwrites the growths h by exponentials.
    Scratch: `near`, as long as the largest near side.
    """
    w, zero = splat(step), splat(0.0)
    shift, s0, margin, violated = splat(NOTHING), splat(0.0), splat(0.0), 0.0
    for b in range(len(batches)):
        n_near, n_far, begin, joined = batches[b]
        middle, end = begin + WIDTH * n_near, begin + WIDTH * (n_near + n_far)
        for i in range(begin, end, WIDTH):
            store(d, i, multiply_add(w, load(h, i), load(d, i)))
        top = _longest(d, d, zero, begin, middle, joined)
        low = _shortest(d, d, zero, middle, end, joined)
        a0, a1 = zero, zero
        for i in range(begin, middle, WIDTH):
            x = load(d, i)
            e = exp(x - top)
            store(h, i, e)
            a0, a1 = a0 + e, multiply_add(e, x, a1)
        a0, a1 = _over_lanes(joined, a0), _over_lanes(joined, a1)
        b0, b1 = zero, zero
        for i in range(middle, end, WIDTH):
            x = load(d, i)
            e = exp(low - x)
            store(h, i, e)
            b0, b1 = b0 + e, multiply_add(e, x, b1)
        b0, b1 = _over_lanes(joined, b0), _over_lanes(joined, b1)
        if loss != EXPONENTIAL:
            value, derivative, _ = group_loss(loss, top - low + log(a0 * b0))
            u = load(omega, WIDTH * b) * derivative
            s0 = multiply_add(load(omega, WIDTH * b), value, s0)
            margin = multiply_add(u, b1 / b0 - a1 / a0, margin)
            store(unit, WIDTH * b, u / (a0 * b0))
        else:
            scale = load(log_omega, WIDTH * b) + (top - low)
            new_shift = larger(shift, scale)
            rescale, mass = exp(shift - new_shift), a0 * b0 * exp(scale - new_shift)
            shift = new_shift
            s0 = multiply_add(s0, rescale, mass)
            margin = multiply_add(margin, rescale, mass * (b1 / b0 - a1 / a0))
            store(unit, WIDTH * b, scale)  # its logarithm for now, since the common shift is not known yet
        store(lowest, WIDTH * b, low)
        store(near_sum, WIDTH * b, a0)
        store(far_sum, WIDTH * b, b0)
        violated += _violated(d, begin, middle, end, joined, omega[WIDTH * b : WIDTH * (b + 1)], near)
    top_shift = 0.0 if loss != EXPONENTIAL else largest(shift)
    rescale = splat(1.0) if loss != EXPONENTIAL else exp(shift - splat(top_shift))
    sums[0], sums[1], sums[2], sums[3] = top_shift, total(s0 * rescale), total(margin * rescale), violated


@kernel
def group_coefficients(loss, shift, h, batches, unit, near_sum, far_sum):
    """Turn the exponentials h of `group_masses` into coefficients of all places, relative to the common shift.

    They are -u_g e^{d_p} / N_g for near pairs and +u_g e^{-d_q} / F_g for far pairs.
    """
    for b in range(len(batches)):
        n_near, n_far, begin, joined = batches[b]
        middle, end = begin + WIDTH * n_near, begin + WIDTH * (n_near + n_far)
        u = load(unit, WIDTH * b)
        u = _over_lanes(joined, u if loss != EXPONENTIAL else exp(u - splat(shift)))
        near_factor, far_factor = splat(0.0) - u * load(far_sum, WIDTH * b), u * load(near_sum, WIDTH * b)
        for i in range(begin, end, WIDTH):
            store(h, i, load(h, i) * (near_factor if i < middle else far_factor))


@kernel
def add_up(h, members, c):
    """Compute the coefficients c of the pairs, added up over the groups that share a pair."""
    c[:] = 0.0
    for i in range(members.size):
        c[members[i]] += h[i]
