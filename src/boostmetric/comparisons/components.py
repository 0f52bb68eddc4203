"""Groups that share points on their near sides, which belong on one side of a split.

Two queries with a relevant document in common are no independent tests: a metric that remembers the document from one
of them does well on the other. So a split keeps together what is connected: the connected components of the graph of
groups and the points of their near pairs. Far sides are not followed, since most documents are on the far side of most
queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from boostmetric.arrays.types import IntArray

if TYPE_CHECKING:
    from boostmetric.comparisons.comparisons import Comparisons


def components(items: IntArray, points: IntArray, n_items: int) -> IntArray:
    """Component of each item, where items with a point in common are connected.

    Parameters
    ----------
    items, points : ndarray of shape (n,)
        An item and one of its points, in each place.
    n_items : int

    Returns
    -------
    ndarray of shape (n_items,)
        Component numbers from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric.comparisons.components import components
    >>> components(np.array([0, 1, 1, 2]), np.array([7, 7, 8, 9]), 3)
    array([0, 0, 1], dtype=int32)
    """
    distinct, number = np.unique(points, return_inverse=True)
    n = n_items + len(distinct)
    edges = sparse.coo_array((np.ones(len(items), dtype=np.int8), (items, n_items + number)), shape=(n, n))
    _, component = connected_components(edges, directed=False)
    return np.asarray(np.unique(component[:n_items], return_inverse=True)[1].astype(np.int32))


def near_points(comparisons: Comparisons) -> tuple[IntArray, IntArray]:
    """Group and point, for both points of every near pair."""
    side = comparisons._sides.row
    is_near = side % 2 == 0
    pairs = comparisons.pairs[comparisons.members[is_near]]
    return np.repeat(side[is_near] // 2, 2), pairs.ravel().astype(np.int64)


def group_components(comparisons: Comparisons) -> IntArray:
    """Component of each group, see the module."""
    return components(*near_points(comparisons), comparisons.n_groups)


def drawn_together(
    component: NDArray[np.integer[Any]], share: float, rng: np.random.RandomState
) -> NDArray[np.bool_] | None:
    """Select about the given share of the items in whole components; None if the components are too large for that.

    Parameters
    ----------
    component : ndarray of shape (n_items,)
    share : float
    rng : RandomState

    Returns
    -------
    ndarray of shape (n_items,) or None
        None if all items are in one component, or those outside the largest are less than half of what is wanted.
    """
    sizes = np.bincount(component)
    wanted = max(1, round(share * len(component)))
    taken = np.zeros(len(sizes), dtype=bool)
    total = 0
    for number in rng.permutation(len(sizes)).tolist():
        # With a few large components, one of twice the size is better than none.
        if total + sizes[number] <= (wanted if total else 2 * wanted):
            taken[number] = True
            total += int(sizes[number])
        if total >= wanted:
            break
    return None if total < wanted / 2 or total == len(component) else taken[component]


def share_of_seen(train: Comparisons, held_out: Comparisons) -> float:
    """Fraction of the held-out groups that have a near point in common with the training groups.

    0 means that none of them can be answered by remembering.

    Examples
    --------
    >>> from boostmetric import Comparisons
    >>> from boostmetric.comparisons.components import share_of_seen
    >>> train = Comparisons.from_triplets([[0, 5, 9]])
    >>> share_of_seen(train, Comparisons.from_triplets([[1, 5, 9], [2, 6, 9]]))
    0.5
    """
    group, point = near_points(held_out)
    seen = np.isin(point, np.unique(near_points(train)[1]))
    return float(np.bincount(group[seen], minlength=held_out.n_groups).astype(bool).mean())
