"""Grades of documents for queries, from the rows of any kind of comparisons that has queries and documents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.ragged import run_starts
from boostmetric.comparisons.clicks import judged_by_clicks
from boostmetric.comparisons.examination import ClickModel
from boostmetric.tables.building import ComparisonRows


def judgements_of(rows: ComparisonRows, model: ClickModel | None = None) -> NDArray[np.float64] | None:
    """Judge the documents of queries: by their grade, what clicks say of them, or their place in a ranking.

    Parameters
    ----------
    rows : ComparisonRows
    model : str, optional
        How to estimate what was looked at in a click log without propensities.

    Returns
    -------
    ndarray of shape (n_judgements, 3) or None
        Point numbers of query and document, and the grade, at least 0; the largest if a document was judged several
        times for a query. Rows of weight 0 are left out. None if there are no queries and documents, as in triplets.
    """
    if "query" not in rows or "document" not in rows:
        return None
    query, document = rows["query"], rows["document"]
    if "clicked" in rows:
        return judged_by_clicks(
            *(rows[role] for role in ("query", "document", "position", "clicked")),
            sessions=rows.get("session"),
            propensities=rows.get("propensity"),
            model=model,
            weights=rows.get("weight"),
        )
    if "grade" in rows:
        grade = np.maximum(rows["grade"], 0.0)
    elif "position" in rows:
        grade = rows["position"].max(initial=0) - rows["position"]
    else:
        grade = np.ones(len(query))
    kept = rows["weight"] > 0 if "weight" in rows else np.ones(len(query), dtype=bool)
    judged = np.stack([query[kept], document[kept], grade[kept]], axis=1, dtype=np.float64)
    judged = judged[np.lexsort((-judged[:, 2], judged[:, 1], judged[:, 0]))]
    return np.asarray(judged[run_starts(judged[:, 0], judged[:, 1])])
