"""Documents that are relevant to the queries of a click log, by the clicks of all queries that are alike.

Most queries are asked a few times, and users may leave after a click, so that the clicks of one query say little.
Queries that were clicked on the same document are alike: what was shown for one of them, and clicked or not, counts for
the others too, as far as a random walk on the *click graph* leads to them, from a query to a document that is likely to
be relevant to it and from there to a query (Craswell and Szummer, SIGIR 2007). The walk makes up to two such steps.

What speaks for or against a document is added up: the evidence of the query's own clicks, see
`boostmetric.comparisons.click_evidence`, and its mean over where the walk leads in one step, and in two.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from boostmetric.arrays.ragged import Ragged
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.comparisons.click_evidence import evidence
from boostmetric.comparisons.examination import ClickLog

# Evidence for a document to be near, and against it to be far. A click in one look suffices, see `click_evidence`.
_FOR, _AGAINST = 1.0, 0.3
# A link of the graph is a document with at least this probability to be relevant.
_LINK = 0.5
# Most documents of a query on each side, and most queries of a document: those with the most evidence, since popular
# documents connect many queries.
_MOST_NEAR, _MOST_FAR = 30, 60
_QUERIES_AT_ONCE = 2000


class NearAndFar(NamedTuple):
    """What is relevant to each anchor, and what is not; anchors are in ascending order."""

    anchor: IntArray
    near: Ragged
    far: Ragged


class ClickRelevance(NamedTuple):
    """Documents of queries, and queries of documents."""

    of_queries: NearAndFar
    of_documents: NearAndFar


def relevance(log: ClickLog, looks: FloatArray, weight: FloatArray) -> ClickRelevance:
    """Say which documents of a log are relevant to each query, and which are not.

    Parameters
    ----------
    log : ClickLog
    looks : ndarray of shape (n_rows,)
        Chance that each row was looked at, above 0.
    weight : ndarray of shape (n_rows,)
        Weight of each row.

    Notes
    -----
    Cost: the sum, over the documents that a walk passes, of the results shown for the queries that were clicked on
    each.
    """
    query, row = np.unique(log.query, return_inverse=True)
    document, column = np.unique(log.documents.values, return_inverse=True)
    shape = len(query), len(document)
    _, first = np.unique(log.result, return_index=True)  # in ascending order of query and document
    bounds = np.concatenate([[0], np.cumsum(np.bincount(row[log.documents.row][first], minlength=len(query)))])
    found = evidence(log, looks, weight)
    own = sparse.csr_array((found.evidence, column[first], bounds), shape=shape)
    likely = sparse.csr_array((found.relevant, own.indices, own.indptr), shape=shape)
    links = _where(likely, (found.evidence > 0) & (found.relevant >= _LINK))
    to_document, to_query = _shares(links), _shares(links.T.tocsr())
    of_document, onward = to_query @ own, to_query @ to_document
    near, far = [], []
    for begin in range(0, len(query), _QUERIES_AT_ONCE):
        some = slice(begin, begin + _QUERIES_AT_ONCE)
        reached = to_document[some]
        total = (own[some] + (reached + reached @ onward) @ of_document).tocsr()
        near.append(_where(total, total.data >= _FOR))
        far.append(_where(-total, total.data <= -_AGAINST))
    sides = [sparse.vstack(parts).tocsr() for parts in (near, far)]
    return ClickRelevance(
        NearAndFar(query, *_most(sides, document)),
        NearAndFar(document, *_most([side.T.tocsr() for side in sides], query)),
    )


def _shares(links: sparse.csr_array) -> sparse.csr_array:
    """Divide each row by its sum, if that is more than 1."""
    return sparse.diags_array(1.0 / np.maximum(links.sum(axis=1), 1.0)) @ links


def _where(values: sparse.csr_array, kept: NDArray[np.bool_]) -> sparse.csr_array:
    """Drop the entries that are not kept."""
    row = np.repeat(np.arange(values.shape[0]), np.diff(values.indptr))[kept]
    return sparse.coo_array((values.data[kept], (row, values.indices[kept])), shape=values.shape).tocsr()


def _most(sides: list[sparse.csr_array], others: IntArray) -> list[Ragged]:
    """The points near to and far from each anchor, in ascending order: the ones with the most evidence."""
    found = []
    for side, most in zip(sides, (_MOST_NEAR, _MOST_FAR), strict=True):
        row = np.repeat(np.arange(side.shape[0]), np.diff(side.indptr))
        column = side.indices.astype(np.int64)
        order = np.lexsort((column, -side.data.round(9), row))
        row, column = row[order], column[order]
        sizes = np.diff(side.indptr)
        rank = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        row, column = row[rank < most], column[rank < most]
        found.append(Ragged.from_sizes(others[column[np.lexsort((column, row))]], np.minimum(sizes, most)))
    return found
