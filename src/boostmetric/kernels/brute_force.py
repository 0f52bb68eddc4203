"""Nearest neighbours by brute force: compute all distances and keep the shortest.

Points are stored in *panels* of sixteen, feature by feature, so that the products of eight queries with a panel are one
call of `add_products`. Points are compared by |p|^2 / 2 - q'p, which orders them like their distance from q.
"""

import math

import numpy as np

from boostmetric.kernels.lanes import (
    ROWS,
    WIDTH,
    add_products,
    any_at_least,
    kernel,
    load,
    part_of_kernel,
    splat,
    store,
    store_columns,
)

PANEL = 2 * WIDTH
# Length of the scratch array of `distances`.
SCRATCH = WIDTH * WIDTH
# Queries and panels per tile, so that both stay in the caches while they are multiplied.
_STRIP, _PANELS = 8 * ROWS, 16


@kernel
def fill_panels(points, place, panels):
    """Write each point to its position: panel by panel, and feature by feature in each."""
    n_features = points.shape[1]
    for i in range(points.shape[0]):
        panel, lane = place[i] // PANEL, place[i] % PANEL
        for f in range(n_features):
            panels[panel * n_features + f, lane] = points[i, f]


@part_of_kernel
def _sift_down(values, numbers, value, number):
    """Replace the root of a heap whose parents are larger than their children."""
    parent, child = 0, 1
    while child < values.size:
        if child + 1 < values.size and values[child + 1] > values[child]:
            child += 1
        if values[child] <= value:
            break
        values[parent], numbers[parent] = values[child], numbers[child]
        parent, child = child, 2 * child + 1
    values[parent], numbers[parent] = value, number


@part_of_kernel
def _multiply(queries, q, panels, panel, features, products):
    """Write to `products` the inner products of the next ROWS queries with the points of a panel."""
    n_features = queries.shape[1]
    for i in range(0, ROWS * PANEL, WIDTH):
        store(products, i, splat(0.0))
    begin, end = panel * n_features, (panel + 1) * n_features
    add_products(queries, q, n_features, features, begin, end, panels, PANEL, 0, products, 0, PANEL)


@kernel
def propose(queries, panels, features, half_norms, skipped, products, values, numbers):
    """Fill heaps with the smallest |p|^2 / 2 - q'p of each query, and the numbers of their points.

    The heaps must be full of infinities. `features` counts 0, 1, ... D - 1 for every panel; `half_norms` is infinite at
    positions without a point; the number of queries is a multiple of ROWS. Panels from skipped[0] to before skipped[1]
    are left out. Scratch: `products` of shape (ROWS, PANEL).
    """
    n_queries, n_features = queries.shape
    n_panels = len(panels) // n_features
    for strip in range(0, n_queries, _STRIP):
        for first in range(0, n_panels, _PANELS):
            for q in range(strip, min(strip + _STRIP, n_queries), ROWS):
                for panel in range(first, min(first + _PANELS, n_panels)):
                    if skipped[0] <= panel < skipped[1]:
                        continue
                    _multiply(queries, q, panels, panel, features, products)
                    for r in range(ROWS):
                        longest = splat(values[q + r, 0])
                        for half in range(0, PANEL, WIDTH):
                            point = panel * PANEL + half
                            score = load(half_norms, point) - load(products, r * PANEL + half)
                            if any_at_least(longest, score):
                                store(products, r * PANEL + half, score)
                                for lane in range(WIDTH):
                                    value = products[r, half + lane]
                                    if value < values[q + r, 0]:
                                        _sift_down(values[q + r], numbers[q + r], value, point + lane)


@part_of_kernel
def _split_off(values, numbers, size, n):
    """Move the n smallest of the first `size` values to the front, with their numbers; return the largest of these.

    Quickselect: it takes the value in the middle, puts smaller ones before larger ones, and goes on in the part that
    the n-th lies in.
    """
    low, high = 0, size - 1
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                numbers[i], numbers[j] = numbers[j], numbers[i]
                i, j = i + 1, j - 1
        if n - 1 <= j:
            high = j
        elif n - 1 >= i:
            low = i
        else:
            break
    return values[n - 1]


@part_of_kernel
def _likely_limit(row, half_norms, label, own, n, values, places):
    """A value that probably a few more than n of the points fall below, from every eighth of them."""
    wanted = n // WIDTH + 2 * int(math.sqrt(n // WIDTH)) + 2
    heap, numbers = values[:wanted], places[:wanted]
    heap[:] = math.inf
    for p in range(0, row.size, WIDTH):
        value = np.float64(half_norms[p]) - np.float64(row[p])
        if value < heap[0] and label[p] != own:
            _sift_down(heap, numbers, value, p)
    return heap[0]


@part_of_kernel
def _list_below(row, start, products, half_norms, label, own, n, limit, values, places):
    """List the points whose value is below a limit; drop all but n when there are twice as many. Return their number.

    `row` is a row of `products`, which begins at its element `start`.
    """
    size = 0
    for begin in range(0, row.size, WIDTH):
        if begin + WIDTH <= row.size:
            score = load(half_norms, begin) - load(products, start + begin)
            if not any_at_least(splat(limit), score):
                continue
        for p in range(begin, min(begin + WIDTH, row.size)):
            value = np.float64(half_norms[p]) - np.float64(row[p])
            if value < limit and label[p] != own:
                values[size], places[size] = value, p
                size += 1
                if size == 2 * n:
                    limit, size = _split_off(values, places, size, n), n
    return size


@kernel
def select(products, half_norms, label, own, values, places, numbers, limits):
    """Find the smallest |p|^2 / 2 - q'p of each query, in any order, given the products; leave out class own[q].

    Writes the numbers of the points, and the largest of these values: infinity if there are too few points. A pass
    lists all points below a limit that a sample suggests; if these are too few, another pass begins without a limit.
    Scratch: `values` and `places`, twice as long as a row of `numbers` and at least of length 8.
    """
    n_points, n = products.shape[1], numbers.shape[1]
    for q in range(products.shape[0]):
        row, start = products[q], q * n_points
        limit = _likely_limit(row, half_norms, label, own[q], n, values, places)
        size = _list_below(row, start, products, half_norms, label, own[q], n, limit, values, places)
        if size < n and limit < math.inf:
            size = _list_below(row, start, products, half_norms, label, own[q], n, math.inf, values, places)
        limits[q] = _split_off(values, places, size, n) if size >= n else math.inf
        for i in range(n):
            numbers[q, i] = places[i] if i < size else 0


@part_of_kernel
def _distance(a, b):
    """Distance between two points, to the same bits in all kernels."""
    square = 0.0
    for f in range(a.size):
        difference = np.float64(a[f]) - np.float64(b[f])
        square += difference * difference
    return math.sqrt(square)


@part_of_kernel
def _distances_to(points, query, numbers, columns, out):
    """Compute out[c], the distance between the query and the point numbers[c], as in `distances`."""
    n_features = points.shape[1]
    whole = n_features - n_features % WIDTH
    for c in range(0, numbers.size, WIDTH):
        n = min(WIDTH, numbers.size - c)
        square = splat(0.0)
        for first in range(0, whole, WIDTH):
            store_columns(points, numbers, c, n, n_features, first, columns)
            for f in range(WIDTH):
                difference = splat(np.float64(query[first + f])) - load(columns, f * WIDTH)
                square = square + difference * difference
        for f in range(whole, n_features):
            for lane in range(n):
                columns[lane] = points[numbers[c + lane], f]
            difference = splat(np.float64(query[f])) - load(columns, 0)
            square = square + difference * difference
        store(columns, 0, square)
        for lane in range(n):
            out[c + lane] = math.sqrt(columns[lane])


@kernel
def distances(points, queries, candidates, columns, out):
    """Compute out[q, c], the distance between query q and the point candidates[q, c].

    To the same bits as `_distance`, for eight candidates at a time. Scratch: `columns`, of length SCRATCH.
    """
    for q in range(candidates.shape[0]):
        _distances_to(points, queries[q], candidates[q], columns, out[q])


@part_of_kernel
def _with_rounding(shortest, rounding, most_rounding):
    """Largest distance that counts as no longer than the shortest one."""
    return shortest + min(rounding, most_rounding * shortest)


@part_of_kernel
def _pick(row, n, rounding, most_rounding, values, places, picked):
    """Pick the columns of the n nearest points of a row, as in `pick`, and return the limit of the last choice."""
    # Only these can be picked, since before each choice one of the n nearest remains.
    values[: row.size] = row
    farthest = _with_rounding(_split_off(values, places, row.size, n), rounding, most_rounding)
    size, limit = 0, 0.0
    for c in range(row.size):
        if row[c] <= farthest:
            values[size], places[size] = row[c], c
            size += 1
    for k in range(n):
        shortest = math.inf
        for i in range(size):
            shortest = min(shortest, values[i])
        limit = _with_rounding(shortest, rounding, most_rounding)
        i = 0
        while values[i] > limit:
            i += 1
        picked[k] = places[i]
        values[i] = math.inf
    return limit


@kernel
def pick(distance, rounding, most_rounding, values, places, picked, reach):
    """Pick the columns of the nearest points in order, and the limit of the last choice.

    The next point is the first one that is no farther than the nearest remaining one, up to the rounding, which is at
    most a fraction of that distance. Scratch: `values` and `places`, as long as a row of `distance`.
    """
    for q in range(distance.shape[0]):
        reach[q] = _pick(distance[q], picked.shape[1], rounding, most_rounding, values, places, picked[q])


@kernel
def pick_alike(points, order, bounds, is_asked, rounding, most_rounding, columns, row, values, places, picked):
    """Pick the nearest points of the same class for the points asked about, as `pick` among all distances.

    Class c has the points ``order[bounds[c]:bounds[c + 1]]``, in ascending order. Row i of `picked` is for the point
    order[i]; in small classes it is not filled. Scratch: `columns`, of length SCRATCH; the others, as long as the
    largest class.
    """
    for c in range(bounds.size - 1):
        inside, n = order[bounds[c] : bounds[c + 1]], min(picked.shape[1], bounds[c + 1] - bounds[c] - 1)
        distance = row[: inside.size]
        for i in range(inside.size):
            if n > 0 and is_asked[inside[i]]:
                found = picked[bounds[c] + i]
                _distances_to(points, points[inside[i]], inside, columns, distance)
                distance[i] = math.inf
                _pick(distance, n, rounding, most_rounding, values, places, found)
                for k in range(n):
                    found[k] = inside[found[k]]


@kernel
def within(queries, panels, features, half_norms, skipped, limits, products, numbers, counts):
    """List the points with |p|^2 / 2 - q'p of at most `limits`, and count them.

    A row of `numbers` holds as many as fit; `counts` may be larger. Otherwise as `propose`.
    """
    n_queries, n_features = queries.shape
    n_panels = len(panels) // n_features
    for strip in range(0, n_queries, _STRIP):
        for first in range(0, n_panels, _PANELS):
            for q in range(strip, min(strip + _STRIP, n_queries), ROWS):
                for panel in range(first, min(first + _PANELS, n_panels)):
                    if skipped[0] <= panel < skipped[1]:
                        continue
                    _multiply(queries, q, panels, panel, features, products)
                    for r in range(ROWS):
                        limit = splat(limits[q + r])
                        for half in range(0, PANEL, WIDTH):
                            point = panel * PANEL + half
                            score = load(half_norms, point) - load(products, r * PANEL + half)
                            if any_at_least(limit, score):
                                store(products, r * PANEL + half, score)
                                for lane in range(WIDTH):
                                    if products[r, half + lane] <= limits[q + r]:
                                        if counts[q + r] < numbers.shape[1]:
                                            numbers[q + r, counts[q + r]] = point + lane
                                        counts[q + r] += 1


@part_of_kernel
def _lower(values, value):
    """Replace the root of a heap of the smallest values."""
    parent, child = 0, 1
    while child < values.size:
        if child + 1 < values.size and values[child + 1] > values[child]:
            child += 1
        if values[child] <= value:
            break
        values[parent] = values[child]
        parent, child = child, 2 * child + 1
    values[parent] = value


@kernel
def list_nearest(products, half_norms, label, own, margin, limits, same, others, numbers, counts):
    """List the points that may be among the nearest of their side, in ascending order, and count them.

    The sides are the class own[q], and all other classes. `limits`, of shape (n_queries, 2), bounds |p|^2 / 2 - q'p; it
    is lowered to the largest value in a heap of the smallest so far (`same` and `others`, which must be full of
    infinities) plus a margin. A row of `numbers` holds as many as fit; `counts` may be larger.
    """
    for q in range(products.shape[0]):
        row = products[q]
        loosest = max(limits[q, 0], limits[q, 1])
        for p in range(row.size):
            value = half_norms[p] - row[p]
            if value > loosest:
                continue
            side = 0 if label[p] == own[q] else 1
            if value > limits[q, side]:
                continue
            if counts[q] < numbers.shape[1]:
                numbers[q, counts[q]] = p
            counts[q] += 1
            heap = same[q] if side == 0 else others[q]
            if value < heap[0]:
                _lower(heap, value)
                limits[q, side] = min(limits[q, side], heap[0] + margin)
                loosest = max(limits[q, 0], limits[q, 1])


@kernel
def listed_distances(points, queries, row, numbers, out):
    """Compute out[i], the distance between query row[i] and the point numbers[i]."""
    for i in range(numbers.size):
        out[i] = _distance(queries[row[i]], points[numbers[i]])


@kernel
def keep_nearest(distance, bounds, rounding, most_rounding, smallest, kept, farthest):
    """Mark the points that `pick` may still choose if points with higher numbers follow.

    Points are in rows, in ascending order of their numbers. With k points wanted, a point is never chosen if k earlier
    ones are no farther, or if it is farther than the k-th nearest plus the rounding. `farthest` is infinite in rows
    with fewer than k points. Scratch: `smallest`, of length k.
    """
    wanted = smallest.size
    for r in range(bounds.size - 1):
        n = 0
        for i in range(bounds[r], bounds[r + 1]):
            kept[i] = n < wanted or distance[i] < smallest[wanted - 1]
            if kept[i]:
                place = min(n, wanted - 1)
                while place > 0 and smallest[place - 1] > distance[i]:
                    smallest[place] = smallest[place - 1]
                    place -= 1
                smallest[place] = distance[i]
                n += 1
        farthest[r] = smallest[wanted - 1] if n >= wanted else math.inf
        limit = farthest[r] + min(rounding, most_rounding * farthest[r])
        for i in range(bounds[r], bounds[r + 1]):
            kept[i] = kept[i] and distance[i] <= limit
