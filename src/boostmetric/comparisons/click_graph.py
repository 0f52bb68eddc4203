"""Documents that are relevant to the queries of a click log, by the clicks of all queries that are alike.

Most queries are asked a few times, and users may leave after a click, so that the clicks of one query say little.
Queries that were clicked on the same document are alike: what was shown for one of them, and clicked or not, counts for
the others too, as far as one step of a random walk on the *click graph* leads to them, from a query to a document that
it was clicked on and from there to a query (Craswell and Szummer, SIGIR 2007). Longer walks leave what is relevant.

A document has clicks, and looks: the chances that its places were looked at. Its *evidence* is how many clicks it has
beyond those of an average result with as many looks (compare "clicks over expected clicks", Zhang and Jones, WWW 2007).
Clicks per look are the estimate of relevance by inverse propensities, divided by the sum of its weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from boostmetric.arrays.ragged import Ragged
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.comparisons.examination import ClickLog

# Looks without a click that each document is given: few, since many were looked at only once.
_PRIOR_LOOKS = 0.2
# Most documents of a query on each side, those with the most evidence, since popular documents connect many queries.
_MOST_NEAR, _MOST_FAR = 30, 60
_QUERIES_AT_ONCE = 2000
_ROUNDING = 1e-9


class RelevantDocuments(NamedTuple):
    """Documents that are relevant to each query, and documents that are not; queries are in ascending order."""

    query: IntArray
    near: Ragged
    far: Ragged


def relevance(log: ClickLog, looks: FloatArray, weight: FloatArray) -> RelevantDocuments:
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
    Cost: the sum, over clicked documents, of the results shown for the queries that were clicked on each.
    """
    query, row = np.unique(log.query, return_inverse=True)
    document, column = np.unique(log.documents.values, return_inverse=True)
    cells, shape = (row[log.documents.row], column), (len(query), len(document))
    # Stored zeros are kept, so both have the same cells.
    clicks = sparse.coo_array((weight * log.clicked, cells), shape=shape).tocsr()
    looked = sparse.coo_array((weight * looks, cells), shape=shape).tocsr()
    average = clicks.sum() / (looked + _PRIOR_LOOKS * (looked > 0)).sum()
    evidence = clicks.data - average * looked.data
    own = sparse.csr_array((evidence, looked.indices, looked.indptr), shape=shape)
    good = (clicks.data > 0) & (evidence > -_ROUNDING)
    links = sparse.csr_array((good.astype(np.float64), looked.indices, looked.indptr), shape=shape)
    to_document = _shares(links)
    of_document = _shares(links.T.tocsr()) @ own
    near, far = [], []
    for begin in range(0, len(query), _QUERIES_AT_ONCE):
        some = slice(begin, begin + _QUERIES_AT_ONCE)
        total = (own[some] + to_document[some] @ of_document).tocsr()
        near.append(_most(total, total.data > average * _PRIOR_LOOKS - _ROUNDING, _MOST_NEAR))
        far.append(_most(total, total.data < -_ROUNDING, _MOST_FAR))
    sides = [Ragged.stack(rows) for rows in (near, far)]
    return RelevantDocuments(query, *(Ragged(document[side.values], side.bounds) for side in sides))


def _shares(links: sparse.csr_array) -> sparse.csr_array:
    """Divide each row by its sum."""
    return sparse.diags_array(1.0 / np.maximum(links.sum(axis=1), 1.0)) @ links


def _most(evidence: sparse.csr_array, kept: NDArray[np.bool_], most: int) -> Ragged:
    """Columns that are kept in each row, in ascending order, and at most so many: those with the largest values."""
    row = np.repeat(np.arange(evidence.shape[0]), np.diff(evidence.indptr))[kept]
    column, size = evidence.indices[kept].astype(np.int64), np.abs(evidence.data[kept])
    order = np.lexsort((column, -size, row))
    row, column = row[order], column[order]
    sizes = np.bincount(row, minlength=evidence.shape[0])
    rank = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    row, column = row[rank < most], column[rank < most]
    return Ragged.from_sizes(column[np.lexsort((column, row))], np.minimum(sizes, most))
