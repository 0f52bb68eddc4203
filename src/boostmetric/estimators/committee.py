"""A committee of metrics, which disagree where the comparisons leave a question open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state

from boostmetric.arrays.tensors import as_numpy
from boostmetric.arrays.types import IntArray
from boostmetric.arrays.validation import check_count
from boostmetric.comparisons import Comparisons, Points
from boostmetric.comparisons.forms import as_rows
from boostmetric.metric import MahalanobisMetric

if TYPE_CHECKING:
    from boostmetric.estimators.comparison_boost_metric import ComparisonBoostMetric


def committee(
    estimator: ComparisonBoostMetric,
    comparisons: ArrayLike | Comparisons,
    *,
    points: Any,
    n_members: int = 8,
    random_state: int | np.random.RandomState | None = None,
) -> list[MahalanobisMetric]:
    """Learn several metrics, each from the same comparisons with other random weights.

    This is the Bayesian bootstrap (Rubin, 1981): weights are drawn from the exponential distribution, so each member is
    a draw from what the comparisons leave possible. Where members disagree about a comparison, its answer teaches most:
    query by committee (Seung, Opper and Sompolinsky, 1992).

    Parameters
    ----------
    estimator : ComparisonBoostMetric
        Its clones learn; it is not fitted. A few iterations are enough, such as
        ``ComparisonBoostMetric(loss="logistic", init="identity", learning_rate=0.3, max_iter=20)``.
    comparisons : array-like of int of shape (n, 3) or (n, 4), or Comparisons
        One weight is drawn for each row, or for each group.
    points : {array-like, sparse matrix} of shape (n_points, n_features)
    n_members : int, default=8
    random_state : int, RandomState or None, default=None
        Random seed of the weights.

    Returns
    -------
    list of MahalanobisMetric

    Notes
    -----
    Cost: `n_members` fits.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric import ComparisonBoostMetric
    >>> from boostmetric.estimators import committee
    >>> points = np.random.RandomState(0).standard_normal((20, 3))
    >>> triplets = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    >>> learner = ComparisonBoostMetric(loss="logistic", init="identity", max_iter=5)
    >>> members = committee(learner, triplets, points=points, n_members=4, random_state=0)
    >>> votes = [member.distance(points[0], points[12]) < member.distance(points[0], points[13]) for member in members]
    >>> len(votes)
    4
    """
    check_count("n_members", n_members)
    rng = check_random_state(random_state)
    rows, _ = as_rows(as_numpy(comparisons), points)
    groups = rows if isinstance(rows, Comparisons) else _one_by_one(rows)
    whole = points if isinstance(points, Points) else Points(points)  # for clones, which take nothing else
    members = []
    for _ in range(n_members):
        member = clone(estimator)
        weights = rng.standard_exponential(groups.n_groups)
        members.append(member.fit(groups, points=whole, sample_weight=weights).get_metric())
    return members


def _one_by_one(rows: IntArray) -> Comparisons:
    """A comparison for each row, also where rows would form groups."""
    if rows.shape[1] == 2:
        raise ValueError("comparisons are pairs, whose weights cannot be drawn. Give rows (i, j, k) or (i, j, k, l).")
    build = Comparisons.from_triplets if rows.shape[1] == 3 else Comparisons.from_quadruplets
    return build(rows, grouped=False)
