"""Result of mining: triplets, and counts of the candidates removed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import ParameterError
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.evaluation.task import text_of
from boostmetric.retrieval.ids import as_array, as_ids


@dataclass(frozen=True, eq=False, repr=False)
class Mined:
    """Triplets of a query, a positive and a negative, sorted by query, then by positive as given, then by rank.

    Attributes
    ----------
    triplets : ndarray of shape (n_triplets, 3)
        Rows (query, positive, negative) of point numbers, for `boostmetric.Comparisons.from_triplets`. With queries and
        documents, query i is point i, and document j is point ``n_queries + j``: rows of
        ``numpy.vstack([queries, documents])``.
    distances : ndarray of shape (n_triplets, 2)
        Distances of the query from the positive and from the negative, under the metric.
    ranks : ndarray of shape (n_triplets,)
        Rank of the negative among the documents that are not relevant to the query, from 1.
    n_queries : int
    n_documents : int or None
        None if the documents are the queries.
    n_positives : int
        Number of pairs of a query and a positive.
    n_candidates : int
        Number of documents in the window of ranks, counted once for each of these pairs.
    removed : dict of str to int
        Number of candidates removed for each reason: "same group", "near-duplicate", "too near", "too far", or "over
        the cap". Each candidate counts once, for the first reason that applies.
    without_positive, without_negative : ndarray of int
        Numbers of the queries that have no positive, and of those that have one, but no negative.

    Examples
    --------
    >>> from boostmetric.mining import mine_from_labels
    >>> mined = mine_from_labels([[0.0], [1.0], [3.0], [4.0]], ["a", "a", "b", "b"], n_negatives=1)
    >>> mined.triplets.tolist()
    [[0, 1, 2], [1, 0, 2], [2, 3, 1], [3, 2, 1]]
    >>> print(mined.describe())
    4 triplets for 4 of 4 queries, from 4 positives with 8 candidates.
    Not taken: 4 over the cap.
    Mean distance: positive 1, negative 2.5; 0.0 % of the negatives are nearer than their positive.
    """

    triplets: IntArray
    distances: FloatArray
    ranks: IntArray
    n_queries: int
    n_documents: int | None
    n_positives: int
    n_candidates: int
    removed: dict[str, int]
    without_positive: IntArray
    without_negative: IntArray

    def __len__(self) -> int:
        return len(self.triplets)

    def columns(
        self, ids: Iterable[Hashable] | None = None, document_ids: Iterable[Hashable] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Table of the triplets by id, ready for ``pandas.DataFrame`` or ``pyarrow.table``.

        Parameters
        ----------
        ids : iterable of n_queries values, optional
            Ids of the queries (of the points, if the documents are the queries); by default their row numbers.
        document_ids : iterable of n_documents values, optional
            Ids of the documents, if they are not the queries; by default their row numbers, from 0.

        Returns
        -------
        dict of str to ndarray of shape (n_triplets,)
            "anchor", "positive" and "negative" (dtype int64 if all ids are integers, else object), "rank",
            "positive_distance" and "negative_distance".

        Examples
        --------
        >>> from boostmetric.mining import mine_triplets
        >>> mined = mine_triplets([[0.0]], [[1.0], [2.0]], positives=[[0, 0]])
        >>> {name: column.tolist()[0] for name, column in mined.columns(["q"], ["a", "b"]).items()}
        {'anchor': 'q', 'positive': 'a', 'negative': 'b', 'rank': 1, 'positive_distance': 1.0, 'negative_distance': 2.0}
        """
        if self.n_documents is None:
            if document_ids is not None:
                raise ParameterError("The documents are the queries: give {ids} only, and no {document_ids}.")
            of_queries = of_documents = _ids("ids", ids, self.n_queries, "points")
            first = 0
        else:
            of_queries = _ids("ids", ids, self.n_queries, "queries")
            of_documents = _ids("document_ids", document_ids, self.n_documents, "documents")
            first = self.n_queries
        return {
            "anchor": of_queries[self.triplets[:, 0]],
            "positive": of_documents[self.triplets[:, 1] - first],
            "negative": of_documents[self.triplets[:, 2] - first],
            "rank": self.ranks,
            "positive_distance": self.distances[:, 0],
            "negative_distance": self.distances[:, 1],
        }

    def describe(self) -> str:
        """Summary of the triplets and of the candidates removed, in a few lines."""
        n_served = self.n_queries - len(self.without_positive) - len(self.without_negative)
        lines = [
            f"{text_of(len(self), 'triplets')} for {n_served:,} of {text_of(self.n_queries, 'queries')}, from "
            f"{text_of(self.n_positives, 'positives')} with {text_of(self.n_candidates, 'candidates')}."
        ]
        reasons = [f"{count:,} {reason}" for reason, count in self.removed.items() if count]
        if reasons:
            lines.append(f"Not taken: {', '.join(reasons)}.")
        for queries, missing in ((self.without_positive, "positive"), (self.without_negative, "negative")):
            if len(queries):
                lines.append(f"Without a {missing}: {text_of(len(queries), 'queries')}; the first is {queries[0]}.")
        if len(self):
            positive, negative = (self.distances / len(self)).sum(axis=0)  # divided first, since the sum may overflow
            lines.append(
                f"Mean distance: positive {positive:.3g}, negative {negative:.3g}; {self.share_violated:.1%} of the "
                "negatives are nearer than their positive.".replace("%", " %")
            )
        return "\n".join(lines)

    @property
    def share_violated(self) -> float:
        """Share of the triplets whose negative is nearer than the positive; 0 if there are none."""
        return float(np.mean(self.distances[:, 1] < self.distances[:, 0])) if len(self) else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Counts as JSON types."""
        return {
            "n_triplets": len(self),
            "n_queries": self.n_queries,
            "n_documents": self.n_documents,
            "n_positives": self.n_positives,
            "n_candidates": self.n_candidates,
            "removed": dict(self.removed),
            "n_without_positive": len(self.without_positive),
            "n_without_negative": len(self.without_negative),
            "share_violated": self.share_violated,
        }

    def __repr__(self) -> str:
        return f"Mined({text_of(len(self), 'triplets')}, {text_of(self.n_queries, 'queries')})"


def _ids(name: str, ids: Iterable[Hashable] | None, n: int, what: str) -> NDArray[Any]:
    if ids is None:
        return np.arange(n)
    names = as_ids(ids)
    if len(names) != n:
        raise ParameterError(f"There are {n} {what} and {len(names)} {{{name}}}. Give one id for each.")
    return as_array(names)
