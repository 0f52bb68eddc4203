"""Nearest neighbours by brute force: all distances, of which only the shortest are kept.

Points come in *panels*: sixteen of them, feature after feature, so that the products of eight queries with a panel are
one run of `add_products`. What is compared is |p|^2 / 2 - q'p, which orders the points as their distance from q does.
"""

import math

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
)

PANEL = 2 * WIDTH
# Queries, and panels, worked on at once: their products are taken while both are in the caches.
_STRIP, _PANELS = 8 * ROWS, 16


@kernel
def fill_panels(points, place, panels):
    """Write each point to its place: panel after panel, in each feature after feature."""
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
    """products = inner products of the next ROWS queries with the points of a panel."""
    n_features = queries.shape[1]
    for i in range(0, ROWS * PANEL, WIDTH):
        store(products, i, splat(0.0))
    begin, end = panel * n_features, (panel + 1) * n_features
    add_products(queries, q, n_features, features, begin, end, panels, PANEL, 0, products, 0, PANEL)


@kernel
def propose(queries, panels, features, half_norms, skipped, products, values, numbers):
    """Heaps of the smallest |p|^2 / 2 - q'p of each query, with the numbers of their points.

    The heaps come in full of infinities. `features` counts 0, 1, ... D - 1 for every panel; `half_norms` are infinite
    for places that hold no point; the queries are a multiple of ROWS. Left out are the panels from skipped[0] to before
    skipped[1]. Scratch: `products` of shape (ROWS, PANEL).
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


@kernel
def select(products, half_norms, label, own, values, numbers):
    """As `propose`, where the products are known; left out are the points of class own[q]."""
    for q in range(products.shape[0]):
        row = products[q]
        for p in range(row.size):
            value = half_norms[p] - row[p]
            if value < values[q, 0] and label[p] != own[q]:
                _sift_down(values[q], numbers[q], value, p)


@part_of_kernel
def _distance(a, b):
    """The distance of two points, to the same bits in all kernels."""
    square = 0.0
    for f in range(a.size):
        difference = a[f] - b[f]
        square += difference * difference
    return math.sqrt(square)


@kernel
def distances(points, queries, candidates, out):
    """out[q, c] = distance of query q and the point candidates[q, c]."""
    for q in range(candidates.shape[0]):
        for c in range(candidates.shape[1]):
            out[q, c] = _distance(queries[q], points[candidates[q, c]])


@kernel
def pick(distance, rounding, most_rounding, picked, reach):
    """Columns of the nearest, one after the other, and how far the last choice looked; `distance` is used up.

    The next is the first of those no farther than the nearest one left, up to the rounding, which is at most a fraction
    of that distance.
    """
    for q in range(distance.shape[0]):
        row = distance[q]
        for k in range(picked.shape[1]):
            shortest = math.inf
            for c in range(row.size):
                shortest = min(shortest, row[c])
            limit = shortest + min(rounding, most_rounding * shortest)
            column = 0
            while row[column] > limit:
                column += 1
            picked[q, k] = column
            row[column] = math.inf
            reach[q] = limit


@kernel
def within(queries, panels, features, half_norms, skipped, limits, products, numbers, counts):
    """Numbers of the points with |p|^2 / 2 - q'p of at most `limits`, and how many there are.

    A row of `numbers` holds as many as there is room for; `counts` may be larger. Else as `propose`.
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
    """Put a value into a heap of the smallest."""
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
    """Numbers of the points that may be among the nearest of their side, in ascending order, and how many there are.

    Sides are the class own[q], and the others. `limits`, of shape (n_queries, 2), are those of |p|^2 / 2 - q'p; they
    are lowered to the largest value in a heap of the smallest so far (`same` and `others`, that come in full of
    infinities) and a margin. A row of `numbers` holds as many as there is room for; `counts` may be larger.
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
    """out[i] = distance of query row[i] and the point numbers[i]."""
    for i in range(numbers.size):
        out[i] = _distance(queries[row[i]], points[numbers[i]])


@kernel
def keep_nearest(distance, bounds, rounding, most_rounding, smallest, kept, farthest):
    """Which points `pick` may yet choose as one of the nearest, when others with higher numbers may come.

    Points are in rows, in ascending order of their numbers. One that comes after as many that are no farther as are
    wanted, is never chosen; nor is one beyond the farthest of the wanted, and the rounding. `farthest` is infinite in
    rows with fewer than are wanted. Scratch: `smallest`, for as many as are wanted.
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
