"""What one tenant adds to the shared metric: a change of its queries.

Under the shared metric, query and document are z and d. A metric with further directions ``u_1, ..., u_r`` has the
squared distance ``|z - d|^2 + |U (z - d)|^2``. Up to what does not depend on the document, half of it is::

    |d|^2 / 2 - <z + U'U (z - c), d> + |U (d - c)|^2 / 2

for any centre c. Without the last term this is a distance between the unchanged document and the query
``z + U'U (z - c)``, which any index of the shared metric can search. With the mean of the documents as c the last term
is small, and what it would lower, the scores of documents far from the mean, is balanced by a smaller U.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from boostmetric.arrays.types import FloatArray


class TenantDirections(NamedTuple):
    """Directions along which the queries of a tenant move, and where they stay.

    Attributes
    ----------
    directions : ndarray of shape (n_directions, n_components)
    centre : ndarray of shape (n_directions,)
        Inner products of the directions with the point that stays where it is.
    """

    directions: FloatArray
    centre: FloatArray

    @classmethod
    def none(cls, n_components: int) -> Self:
        """No direction: the shared metric."""
        return cls(np.empty((0, n_components)), np.empty(0))

    def first(self, n_directions: int) -> Self:
        """The same with fewer directions."""
        return type(self)(self.directions[:n_directions], self.centre[:n_directions])

    def move(self, mapped: FloatArray) -> FloatArray:
        """Queries as the tenant asks them, from queries as the shared metric maps them."""
        along = mapped @ self.directions.T - self.centre
        return np.asarray(mapped + along @ self.directions)


@dataclass(frozen=True)
class TenantFit:
    """What cross-validation said about a tenant.

    Attributes
    ----------
    n_queries : int
        Number of queries with a relevant document.
    n_directions : int
        Number of directions the tenant got; 0 for the shared metric.
    score : str
        Name of the score.
    base, learned : float or None
        Score of the shared metric, and of the best number of directions, on queries that were not learned from. None
        with fewer than 20 queries, which are too few to choose by.
    low, high : float or None
        Bounds of the 95 % interval of the difference. The tenant gets directions if all of it is above 0.
    """

    n_queries: int
    n_directions: int
    score: str
    base: float | None = None
    learned: float | None = None
    low: float | None = None
    high: float | None = None
