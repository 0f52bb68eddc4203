"""Mine triplets from relevant pairs or from labels."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_consistent_length, column_or_1d

from boostmetric.arrays.errors import ParameterError, refusal
from boostmetric.arrays.numbering import as_array, check_rows, number_values, refuse_rows
from boostmetric.arrays.types import IntArray
from boostmetric.arrays.validation import check_count, check_number
from boostmetric.comparisons.labels import check_labels, known_labels
from boostmetric.mining.collect import Cap, Random, collect
from boostmetric.mining.guards import Guards, Limits, Margin
from boostmetric.mining.mined import Mined
from boostmetric.mining.space import Space
from boostmetric.mining.window import Listed, candidates, candidates_by_class
from boostmetric.neighbors import nearest

Choice = Literal["nearest", "random"]


def mine_triplets(
    queries: Any,
    documents: Any,
    positives: ArrayLike,
    *,
    metric: Any = None,
    ranks: tuple[int, int] = (1, 100),
    n_negatives: int | None = 5,
    per_query: int | None = None,
    choice: Choice = "nearest",
    relative_margin: Limits = 0.05,
    margin: Limits = None,
    near_duplicate: float | None = 0.1,
    groups: ArrayLike | None = None,
    excluded: ArrayLike | None = None,
    random_state: Random = None,
) -> Mined:
    """Find hard negatives: documents near a query that are not known to be relevant to it.

    The candidates of a query are the documents with the given ranks under the metric, among those not known to be
    relevant. Documents without a judgement may still be relevant, and the nearest are the most likely to be. Guards
    remove candidates that look relevant, and negatives are chosen from the rest.

    Parameters
    ----------
    queries : {array-like, sparse matrix} of shape (n_queries, n_features)
    documents : {array-like, sparse matrix} of shape (n_documents, n_features) or None
        None searches the other queries.
    positives : array-like of int of shape (n_positives, 2)
        Relevant pairs as rows (query, document): row numbers in both arrays, from 0. Repeated rows count once. Without
        documents, the two points of a row are relevant to each other, and the first is the anchor. Relevance is not
        transitive: if b is relevant to a and c to b, only `groups` or `excluded` keep c from being a negative of a.
    metric : fitted learner, MahalanobisMetric or None, default=None
        Metric for all distances; None means the Euclidean distance.
    ranks : tuple of int, default=(1, 100)
        First and last rank of candidates, from 1 for the nearest document that is not relevant. Ranks beyond the last
        document are empty.
    n_negatives : int or None, default=5
        Maximum number of negatives of each positive; None keeps all.
    per_query : int or None, default=None
        Maximum number of triplets of each query. They are assigned to its positives in turn, in the order given (with
        ``choice="random"``, in random order).
    choice : {"nearest", "random"}, default="nearest"
        Which candidates to choose, if more than `n_negatives` are left.
    relative_margin : float, tuple (least, most) or None, default=0.05
        How much farther than the positive a negative must be at least, and may be at most, as a share of the
        positive's distance. 0.05 skips candidates nearer than 105 % of it, -0.2 those nearer than 80 %, and
        ``(0, 0.2)`` keeps semi-hard negatives, from 100 to 120 %.
    margin : float, tuple (least, most) or None, default=None
        The same in units of the distance. If both are given, both must hold.
    near_duplicate : float or None, default=0.1
        A candidate is a copy of a positive of its query, and skipped, if their distance is at most this share of that
        positive's distance from the query. 0 skips only equal points.
    groups : array-like of shape (n_documents,), optional
        Group of each document, such as an article or a product. Candidates in the group of one of the query's positives
        are skipped.
    excluded : array-like of int of shape (n, 2), optional
        More rows (query, document) that are relevant or in doubt: used neither as positives nor as negatives, and not
        ranked.
    random_state : int, RandomState or None, default=None
        Random seed of ``choice="random"``.

    Returns
    -------
    Mined
        The triplets, and how many candidates each guard removed.

    Notes
    -----
    Guards are applied in the order `groups`, `near_duplicate`, too near, too far; the last two compare with each
    positive separately. Distances that differ by no more than the rounding of the coordinates count as equal.

    The guard that Moreira et al. found best [1]_ requires a negative to be less similar than a share (95 %) of the
    positive's similarity. Here it is expressed in distances: for vectors of length 1, 95 % of the similarity 0.7 is
    106 % of the distance. Semi-hard negatives are due to Schroff et al. [2]_.

    Cost: one exact search of the queries among the documents. Memory grows with the points and the triplets; queries
    are processed in parts.

    References
    ----------
    .. [1] G. de Souza P. Moreira et al., "NV-Retriever: Improving text embedding models with effective hard-negative
       mining", arXiv:2407.15831, 2024.
    .. [2] F. Schroff, D. Kalenichenko, J. Philbin, "FaceNet: A Unified Embedding for Face Recognition and Clustering",
       CVPR 2015.

    Examples
    --------
    Document 1 is nearer to the query than its positive: perhaps it is relevant, so it is skipped.

    >>> from boostmetric.mining import mine_triplets
    >>> mined = mine_triplets([[0.0]], [[2.0], [1.0], [3.0], [4.0]], positives=[[0, 0]])
    >>> mined.triplets.tolist()  # documents are numbered after the only query
    [[0, 1, 3], [0, 1, 4]]
    >>> mined.removed["too near"], mined.ranks.tolist()
    (1, [2, 3])
    """
    space = Space.of(queries, documents, metric)
    n_queries, n_documents = space.queries.shape[0], space.documents.shape[0]
    window = _check_ranks(ranks, n_documents - space.is_one_set)
    cap = Cap.of(n_negatives, per_query, choice, random_state)
    guards = _guards(space, relative_margin, margin, near_duplicate, groups)
    pairs = _check_pairs("positives", positives, space)
    relevant = [pairs]
    if excluded is not None and as_array("excluded", excluded).size:
        relevant.append(_check_pairs("excluded", excluded, space))
    if space.is_one_set:
        relevant += [rows[:, ::-1] for rows in relevant]
        relevant.append(np.repeat(np.arange(n_queries), 2).reshape(-1, 2))
    relevance = Listed(np.concatenate(relevant), n_queries, n_documents)
    asked, sizes = np.unique(pairs[:, 0], return_counts=True)
    found = candidates(space, asked, relevance, window, sizes)
    return collect(space, pairs, found, window, guards, cap)


def mine_from_labels(
    X: Any,
    y: ArrayLike,
    *,
    metric: Any = None,
    n_positives: int = 1,
    ranks: tuple[int, int] = (1, 100),
    n_negatives: int | None = 5,
    per_query: int | None = None,
    choice: Choice = "nearest",
    relative_margin: Limits = None,
    margin: Limits = None,
    near_duplicate: float | None = None,
    random_state: Random = None,
) -> Mined:
    """Find hard negatives of labelled points: the nearest points of other classes.

    Positives of a point are the nearest points of its class. Since every point is labelled, there are no guards against
    false negatives by default: a point of another class that is nearer than the positive is the error to learn from.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Class labels.
    metric : fitted learner, MahalanobisMetric or None, default=None
        Metric for all distances; None means the Euclidean distance.
    n_positives : int, default=1
        Number of positives of each point; fewer in smaller classes. A point alone in its class has none, and is listed
        in ``without_positive``.
    ranks : tuple of int, default=(1, 100)
        First and last rank of candidates, from 1 for the nearest point of another class.
    n_negatives, per_query, choice, relative_margin, margin, near_duplicate, random_state
        As in `mine_triplets`. If some labels are wrong, ``relative_margin=-0.2`` or so skips the worst.

    Returns
    -------
    Mined
        Triplets of row numbers of X.

    See Also
    --------
    boostmetric.Comparisons.from_labels : Nearest points of other classes, without window and guards, as groups.

    Notes
    -----
    Cost: one exact search of all points among themselves.

    Examples
    --------
    >>> from boostmetric import Comparisons
    >>> from boostmetric.mining import mine_from_labels
    >>> mined = mine_from_labels([[0.0], [1.0], [3.0], [4.0], [5.0]], list("aabbb"), ranks=(2, 2))
    >>> mined.triplets.tolist()
    [[0, 1, 3], [1, 0, 3], [2, 3, 0], [3, 2, 0], [4, 3, 0]]
    >>> Comparisons.from_triplets(mined.triplets)
    Comparisons(n_comparisons=5, n_pairs=7, n_groups=5)
    """
    check_count("n_positives", n_positives)
    space = Space.of(X, None, metric)
    labels = column_or_1d(known_labels(y)[0], warn=True)
    check_consistent_length(space.queries, labels)
    check_labels(labels)
    _, label, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    window = _check_ranks(ranks, len(labels) - int(sizes.min()), "points of other classes")
    cap = Cap.of(n_negatives, per_query, choice, random_state)
    guards = _guards(space, relative_margin, margin, near_duplicate, None)
    pairs = []
    for c in np.flatnonzero(sizes > 1):
        inside = np.flatnonzero(label == c)
        k = min(n_positives, len(inside) - 1)
        targets = inside[nearest(space.documents[inside], None, k, space.rounding)]
        pairs.append(np.stack([np.repeat(inside, k), targets.ravel()], axis=1))
    rows = np.concatenate(pairs)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    found = candidates_by_class(space, np.unique(rows[:, 0]), label, window, n_positives)
    return collect(space, rows, found, window, guards, cap)


def _check_ranks(ranks: Any, n_others: int, what: str = "documents that a query can find") -> tuple[int, int]:
    """Check ranks; return the first, and the last that exists."""
    try:
        first, last = ranks
    except (TypeError, ValueError):
        raise refusal("ranks", "must be a pair (first, last) of whole numbers", ranks) from None
    for rank in (first, last):
        check_count("ranks", rank, alternative=", for first and last")
    if first > last:
        raise ParameterError("{ranks}={value!r} is empty: the first rank must not be above the last.", value=ranks)
    if first > n_others:
        raise ParameterError(
            "{ranks}={value!r} begins at {first}, but there are only {n} {what}. Begin at a lower rank.",
            value=ranks,
            first=first,
            n=n_others,
            what=what,
        )
    return int(first), min(int(last), n_others)


def _guards(
    space: Space, relative_margin: Limits, margin: Limits, near_duplicate: float | None, groups: ArrayLike | None
) -> Guards:
    relative = Margin.of("relative_margin", relative_margin, smallest=-1.0)
    absolute = Margin.of("margin", margin)
    with np.errstate(over="ignore"):  # an infinite limit is no limit
        absolute = Margin(*(float(np.ldexp(limit, -space.exponent)) for limit in absolute))
    if near_duplicate is not None:
        check_number("near_duplicate", near_duplicate)
    if groups is None:
        return Guards(absolute, relative, near_duplicate, None)
    names = column_or_1d(groups)
    if len(names) != space.documents.shape[0]:
        n = space.documents.shape[0]
        raise refusal("groups", f"must name one group for each of {n} documents", len(names))
    return Guards(absolute, relative, near_duplicate, number_values("groups", names)[1])


def _check_pairs(name: str, rows: ArrayLike, space: Space) -> IntArray:
    """Check rows (query, document); return them without duplicates, sorted by query."""
    pairs = check_rows(name, rows, 2, "(query, document)")
    for column, what, n in ((0, "query", space.queries.shape[0]), (1, "document", space.documents.shape[0])):
        reason = f"there is no {what} {{}}; they are numbered from 0 to {n - 1}"
        beyond = pairs[:, column] >= n
        first = int(pairs[np.argmax(beyond), column])
        refuse_rows(name, pairs, beyond, reason.format(first), "Check that rows are (query, document).")
    if space.is_one_set:
        same = pairs[:, 0] == pairs[:, 1]
        refuse_rows(name, pairs, same, "a query is paired with itself", "Remove these rows.")
    _, once = np.unique(pairs[:, 0] * space.documents.shape[0] + pairs[:, 1], return_index=True)
    pairs = pairs[np.sort(once)]
    return np.asarray(pairs[np.argsort(pairs[:, 0], kind="stable")])
