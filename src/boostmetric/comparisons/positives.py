"""Groups from positives alone: documents known to be relevant to a query, against others that are not known to be.

"This document answers this query" says nothing about the others. Nearly all of them do not, but the nearest, from which
there is most to learn, are the most likely to do so. What looks relevant is therefore left out:

- Documents that are connected with a positive through other queries. Where a query and its positives are joined by
  lines, queries that share documents, directly or through others, form a *component*. If there are many components, the
  documents of one belong together, like those of a class. If one component holds much of the documents, only those are
  left out that share a query with a positive.
- Copies of a positive: documents that are much closer to it than it is to the query.

The nearest documents in one metric are not the nearest in another. A `FarSearch` keeps what is needed to find them
again: for any of the groups, since a group says itself what is near to its query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.utils import check_array, check_random_state

from boostmetric.arrays.frame import Given
from boostmetric.arrays.numbering import check_in_range, check_numbers, check_weights
from boostmetric.arrays.ragged import Ragged, run_starts
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.arrays.validation import check_count, check_number, checked
from boostmetric.comparisons.rankings import Groups
from boostmetric.neighbors import nearest, rounding_of_distances

# A component with a larger fraction of the relevant documents says nothing about what belongs together.
_LARGEST_COMPONENT = 0.25
# At most this many candidates are searched beyond those wanted, to make up for those that are left out.
_MOST_SPARE = 500


def groups_from_positives(
    queries: ArrayLike,
    documents: ArrayLike,
    points: ArrayLike,
    *,
    weights: ArrayLike | None,
    corpus: ArrayLike | None,
    n_nearest: int,
    n_random: int,
    near_duplicate: float,
    random_state: int | np.random.RandomState | None,
) -> FoundGroups:
    """Build the groups of `boostmetric.Comparisons.from_positives`."""
    for name, value in {"n_nearest": n_nearest, "n_random": n_random}.items():
        if value != 0:
            check_count(name, value, alternative=", or 0")
    if not n_nearest and not n_random:
        raise ValueError("n_nearest and n_random are both 0, so nothing would be far. Raise one of them.")
    check_number("near_duplicate", near_duplicate)
    query, document, weight = _check_pairs(queries, documents, weights)
    samples = checked(check_array, points, accept_sparse="csr", dtype=[np.float64, np.float32])
    others = np.unique(document if corpus is None else check_numbers("corpus", corpus))
    if not len(others):
        raise ValueError("corpus is empty. Give the documents that there are, or leave it out.")
    check_in_range(int(max(query.max(), document.max(), others.max())), samples.shape[0])

    asked, first = np.unique(query, return_index=True)
    positives = Ragged.from_starts(document, first)
    drawn = _random(others, len(asked), n_random, check_random_state(random_state))
    search = FarSearch(asked, positives, _related(positives), others, drawn, n_nearest, near_duplicate)
    far = search.far(samples, samples)
    if not far.sizes.any():
        raise ValueError(
            "No document is left that a query could be far from: all others may be relevant too. Give more documents "
            "(corpus)."
        )
    return FoundGroups(_groups(asked, positives, weight, far), search)


class FoundGroups(NamedTuple):
    """Groups, and the search that finds their far sides under other metrics."""

    groups: Groups
    search: FarSearch


@dataclass(frozen=True, eq=False)
class FarSearch:
    """Search for the documents that queries with known positives should be far from.

    Attributes
    ----------
    query : ndarray of shape (n_queries,)
        Point numbers, in ascending order.
    positives : Ragged with n_queries rows
        What is known to be relevant to each query.
    related : Ragged with n_queries rows
        What is or may be relevant, by other queries.
    corpus : ndarray
        The documents that there are.
    drawn : ndarray of shape (n_queries, n_random)
        Random documents, the same under every metric.
    n_nearest : int
    near_duplicate : float
    """

    query: IntArray
    positives: Ragged
    related: Ragged
    corpus: IntArray
    drawn: IntArray
    n_nearest: int
    near_duplicate: float

    def far(self, points: Given, mapped: Given) -> Ragged:
        """The documents of each query that are nearest to it, and the random ones, without what may be relevant.

        Parameters
        ----------
        points : {ndarray, csr_array} of shape (n_points, n_features)
            The points as given, in which copies are copies.
        mapped : {ndarray, csr_array} of shape (n_points, n_dimensions)
            The points as the metric maps them.
        """
        candidates = [self.drawn]
        if self.n_nearest:
            candidates.append(_nearest(mapped, self.query, self.corpus, self.related, self.n_nearest))
        far = _without(np.concatenate(candidates, axis=1), self.query, self.related)
        return _without_copies(points, self.query, self.positives, far, self.near_duplicate)

    def of(self, queries: IntArray) -> FarSearch:
        """The same for some of the queries, given in ascending order."""
        rows = np.searchsorted(self.query, queries)
        return replace(
            self,
            query=queries,
            positives=self.positives.take(rows),
            related=self.related.take(rows),
            drawn=self.drawn[rows],
        )

    def again(self, groups: Groups, points: Given, mapped: Given) -> Groups:
        """Groups of these queries with the far sides found under a metric, see `far`.

        A group keeps its far side where nothing is found, so that the groups are the same under every metric.
        """
        asked, number = np.unique(groups.anchors, return_inverse=True)
        found = self.of(asked).far(points, mapped).take(number)
        n_groups, is_empty = len(number), found.sizes == 0
        return groups._replace(far=Ragged.stack([found, groups.far]).take(np.arange(n_groups) + n_groups * is_empty))


def _check_pairs(
    queries: ArrayLike, documents: ArrayLike, weights: ArrayLike | None
) -> tuple[IntArray, IntArray, FloatArray]:
    """Check the columns; sort the pairs, merge equal ones and add up their weights."""
    query, document = check_numbers("queries", queries), check_numbers("documents", documents)
    if query.ndim != 1 or query.shape != document.shape or not len(query):
        raise ValueError(
            f"queries and documents must hold one point number for each pair of a query and a relevant document. Got "
            f"shapes {query.shape} and {document.shape}."
        )
    weight = check_weights("weights", weights, len(query), "pair")
    itself = query == document
    if itself.any():
        bad = int(query[itself][0])
        raise ValueError(
            f"The documents of query {bad} contain the query itself, whose distance is always 0. Remove it."
        )
    order = np.lexsort((document, query))
    query, document, weight = query[order], document[order], weight[order]
    first = run_starts(query, document)
    return query[first], document[first], np.asarray(np.add.reduceat(weight, first))


def _related(positives: Ragged) -> Ragged:
    """Documents that are or may be relevant to each query, see the module's text."""
    distinct, number = np.unique(positives.values, return_inverse=True)
    shape = len(positives), len(distinct)
    relevant = sparse.csr_array((np.ones(len(number), dtype=np.int64), number, positives.bounds), shape=shape)
    joined = sparse.block_array([[None, relevant], [relevant.T, None]])
    _, component = connected_components(joined, directed=False)
    of_query, of_document = component[: shape[0]], component[shape[0] :]
    if np.bincount(of_document).max() <= _LARGEST_COMPONENT * len(distinct):
        order = np.argsort(of_document, kind="stable")
        sizes = np.bincount(of_document)
        return Ragged.from_sizes(distinct[order], sizes).take(of_query)
    together = sparse.csr_array(relevant @ (relevant.T @ relevant))
    return Ragged(distinct[together.indices], together.indptr.astype(np.int64))


def _nearest(samples: Given, asked: IntArray, others: IntArray, related: Ragged, n: int) -> IntArray:
    """The documents nearest to each query, with some to spare for those that will be left out."""
    spare = min(int(related.sizes.max()), _MOST_SPARE) + 1
    rounding = rounding_of_distances(samples)
    found = nearest(samples[others], samples[asked], min(n + spare, len(others)), rounding)
    rows = others[found]
    # Of those that may stay, the first n.
    left = ~_contains(related, rows) & (rows != asked[:, None])
    return np.where(left & (np.cumsum(left, axis=1) <= n), rows, -1)


def _random(others: IntArray, n_queries: int, n: int, random: np.random.RandomState) -> IntArray:
    if n >= len(others):
        return np.tile(others, (n_queries, 1))
    return np.asarray(others[random.randint(len(others), size=(n_queries, n))])


def _contains(lists: Ragged, rows: IntArray) -> NDArray[np.bool_]:
    """Whether each number in row r is in list r."""
    span = int(max(rows.max(initial=0), lists.values.max(initial=0))) + 1
    keys = np.arange(len(rows))[:, None] * span + np.maximum(rows, 0)
    return np.isin(keys, lists.row * span + lists.values)


def _without(candidates: IntArray, asked: IntArray, related: Ragged) -> Ragged:
    """Distinct candidates of each query, without itself and what is or may be relevant."""
    kept = (candidates >= 0) & (candidates != asked[:, None]) & ~_contains(related, candidates)
    span = int(candidates.max(initial=0)) + 1
    row, column = np.nonzero(kept)
    keys = np.unique(row * span + candidates[row, column])
    return Ragged.from_sizes(keys % span, np.bincount(keys // span, minlength=len(asked)))


def _without_copies(samples: Given, asked: IntArray, positives: Ragged, far: Ragged, share: float) -> Ragged:
    """Drop documents whose distance from a positive is at most a share of that positive's distance from the query."""
    copies = []
    for query, near, others in zip(asked.tolist(), _rows(positives), _rows(far), strict=True):
        reach = share**2 * _squares(samples, np.array([query]), near)
        copies.append((_squares(samples, others, near) <= reach).any(axis=1))
    return far.where(~np.concatenate(copies))


def _rows(lists: Ragged) -> list[IntArray]:
    return np.split(lists.values, lists.bounds[1:-1])


def _squares(samples: Given, rows: IntArray, columns: IntArray) -> FloatArray:
    """Squared distances between points, of shape (n_rows, n_columns), exactly 0 for equal ones."""
    from sklearn.metrics.pairwise import euclidean_distances

    a, b = samples[rows].astype(np.float64), samples[columns].astype(np.float64)  # squares may leave single precision
    if sparse.issparse(a):
        return np.asarray(euclidean_distances(a, b, squared=True))
    return np.asarray(np.square(a[:, None] - b[None]).sum(axis=2))


def _groups(asked: IntArray, positives: Ragged, weight: FloatArray, far: Ragged) -> Groups:
    """One group for each query and weight of its positives."""
    useful = (weight > 0) & (far.sizes > 0)[positives.row]
    row, near, weight = positives.row[useful], positives.values[useful], weight[useful]
    order = np.lexsort((weight, row))
    row, near, weight = row[order], near[order], weight[order]
    first = run_starts(row, weight)
    return Groups(asked[row[first]], Ragged.from_starts(near, first), far.take(row[first]), weight[first])
