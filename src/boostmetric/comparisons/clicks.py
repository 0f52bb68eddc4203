"""Groups from a click log: what was clicked against all else that was shown, and against what never was.

Clicks come from the ranking that is to be improved. "Clicked over skipped above" (Joachims, KDD 2002) has only pairs
that contradict that ranking, so that its distance satisfies none of them, and learning from them destroys it. Here what
is near is compared with all else that was shown, above and below, and each look counts by its *propensity*, the chance
that it happened. With the logistic loss, a near document and the others are one group, whose loss is the cross-entropy
of a softmax over the list. There are two ways to say what is near:

- *Pooled*: documents that are relevant by the clicks of all queries that are alike, see
  `boostmetric.comparisons.click_graph`. They are compared both ways: a document that is relevant to a query should be
  nearer to it than other documents are, and nearer than the document is to other queries.
- List by list: each clicked document, with the inverse of its propensity as the weight (Joachims, Swaminathan and
  Schnabel, WSDM 2017). Over many clicks, two documents that are equally relevant then weigh the same both ways. This
  needs no other part of the log.

Results that were hardly ever looked at are left out on both sides, since their few clicks would have huge weights. A
limit on the weights alone would favour what stands above them.

Lists hold documents that the ranking put near, so they say nothing about the rest. Therefore what is near is also
compared with some documents drawn at random from those that were never shown for its query; and, pooled, with some
queries that a document was never shown for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boostmetric.arrays.numbering import check_numbers, check_weights, number_values
from boostmetric.arrays.ragged import Ragged, run_starts
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.arrays.validation import as_numbers, check_choice, check_count, check_number
from boostmetric.comparisons.click_evidence import evidence
from boostmetric.comparisons.click_graph import NearAndFar, relevance
from boostmetric.comparisons.examination import LOOKS, PROPENSITIES, ClickLog, ClickModel
from boostmetric.comparisons.rankings import Groups

# What was looked at with a smaller chance is left out, if nothing else is said.
LEAST_PROPENSITY = 0.1


class Drawn(NamedTuple):
    """Points drawn for each anchor; anchors are in ascending order."""

    anchor: IntArray
    points: Ragged


def groups_from_clicks(
    queries: ArrayLike,
    documents: ArrayLike,
    positions: ArrayLike,
    clicked: ArrayLike,
    *,
    sessions: ArrayLike | None,
    propensities: ArrayLike | None,
    model: ClickModel | None,
    min_propensity: float,
    weights: ArrayLike | None,
    max_per_query: int | None,
    n_unseen: int,
    corpus: ArrayLike | None,
    pooled: bool,
    random_state: int | np.random.RandomState | None,
) -> Groups:
    """Build the groups of `boostmetric.Comparisons.from_clicks`."""
    from sklearn.utils import check_random_state

    check_number("min_propensity", min_propensity, above=0.0, at_most=1.0)
    if max_per_query is not None:
        check_count("max_per_query", max_per_query, alternative=", or None")
    if n_unseen != 0:
        check_count("n_unseen", n_unseen, alternative=", or 0")
    order, log = _log(queries, documents, positions, clicked, sessions)
    if not log.clicked.any():
        raise ValueError("Nothing was clicked, so there is nothing that should be near. Give a log with clicks.")
    row_weight = check_weights("weights", weights, len(order), "row")[order]
    chance = _chances(log, order, propensities, model, LOOKS if pooled else PROPENSITIES)
    weight = row_weight if pooled else np.where(log.clicked, row_weight / chance, 0.0)
    if max_per_query is not None:
        weight = _limited(log, weight, max_per_query)
    others = np.unique(log.documents.values if corpus is None else check_numbers("corpus", corpus))
    rng = check_random_state(random_state)
    asked, shown = log.query[log.documents.row], log.documents.values
    unseen = _never_together(asked, shown, others, n_unseen, rng)
    looked_at = chance >= min_propensity
    log, weight = _where(log, weight, looked_at)
    if not weight[log.clicked].any():
        raise ValueError(
            f"No click has a propensity of at least {min_propensity:g} and a positive weight. Lower min_propensity, or "
            "give clicks a positive weight."
        )
    if pooled:
        found = relevance(log, chance[looked_at], weight)
        not_for = _never_together(shown, asked, np.unique(asked), n_unseen, rng)
        return _by_relevance([(found.of_queries, unseen), (found.of_documents, not_for)])
    return _by_list(log, weight, unseen)


def judged_by_clicks(
    queries: ArrayLike,
    documents: ArrayLike,
    positions: ArrayLike,
    clicked: ArrayLike,
    *,
    sessions: ArrayLike | None,
    propensities: ArrayLike | None,
    model: ClickModel | None,
    weights: ArrayLike | None,
) -> FloatArray:
    """Grade documents for each query that they were shown for, by the evidence of its own clicks.

    Returns
    -------
    ndarray of shape (n_results, 3)
        Query, document, and grade: the probability that the document is relevant, if it is at least 0.5, else 0. What
        was hardly ever looked at is left out.
    """
    order, log = _log(queries, documents, positions, clicked, sessions)
    weight = check_weights("weights", weights, len(order), "row")[order]
    chance = _chances(log, order, propensities, model, LOOKS)
    known = (chance >= LEAST_PROPENSITY) & (weight > 0)
    log, weight = _where(log, weight, known)
    relevant = evidence(log, chance[known], weight).relevant
    _, first = np.unique(log.result, return_index=True)
    asked, shown = log.query[log.documents.row][first], log.documents.values[first]
    return np.stack([asked, shown, np.where(relevant >= 0.5, relevant, 0.0)], axis=1, dtype=np.float64)


def _chances(
    log: ClickLog,
    order: IntArray,
    propensities: ArrayLike | None,
    model: ClickModel | None,
    estimates: Mapping[str, Callable[[ClickLog], FloatArray]],
) -> FloatArray:
    """Chance that each row of a log was looked at: as given, or as estimated."""
    if model is not None:
        check_choice("model", model, PROPENSITIES)
    if propensities is None:
        return estimates[model or "position"](log)
    if model is not None:
        raise ValueError(f"Both propensities and model={model!r}, which estimates them, are given. Leave one out.")
    return _check_propensities(propensities, len(order))[order]


def _log(
    queries: ArrayLike, documents: ArrayLike, positions: ArrayLike, clicked: ArrayLike, sessions: ArrayLike | None
) -> tuple[IntArray, ClickLog]:
    """Check the columns; return the order that sorts their rows into lists from the top, and the lists."""
    query, document = check_numbers("queries", queries), check_numbers("documents", documents)
    if query.ndim != 1 or not len(query):
        raise ValueError(f"queries must hold one point number for each row of the log. Got shape {query.shape}.")
    position, click = as_numbers("positions", positions), as_numbers("clicked", clicked)
    session = np.zeros(len(query)) if sessions is None else np.asarray(sessions)
    columns = {"documents": document, "positions": position, "clicked": click, "sessions": session}
    for name, column in columns.items():
        if column.shape != query.shape:
            raise ValueError(f"{name} must hold one value for each of the {len(query)} rows. Got shape {column.shape}.")
    if not np.isfinite(position).all():
        raise ValueError(f"positions must be finite numbers. Got {position[~np.isfinite(position)][0]}.")
    if not np.isin(click, (0, 1)).all():
        raise ValueError(f"clicked must be True or False, or 1 or 0. Got {click[~np.isin(click, (0, 1))][0]:g}.")
    itself = query == document
    if itself.any():
        bad = int(query[itself][0])
        raise ValueError(f"The results of query {bad} contain the query itself, whose distance is always 0. Remove it.")
    _, session = number_values("sessions", session)
    order = np.lexsort((position, session, query))
    first = run_starts(query[order], session[order])
    lists = Ragged.from_starts(document[order], first)
    hint = (
        "If the query was asked several times, give sessions that tell them apart" if sessions is None else "Keep one"
    )
    for name, column in {"position": position, "document": document}.items():
        again = np.lexsort((column[order], lists.row))
        same = (np.diff(column[order][again]) == 0) & (np.diff(lists.row[again]) == 0)
        if same.any():
            row = order[again[np.flatnonzero(same)[0]]]
            raise ValueError(f"Query {query[row]} has {name} {column[row]:g} twice in a list. {hint}.")
    return order, ClickLog(query[order][first], lists, position[order], click[order] == 1)


def _check_propensities(propensities: ArrayLike, n_rows: int) -> FloatArray:
    values = as_numbers("propensities", propensities)
    if values.shape != (n_rows,):
        raise ValueError(f"propensities must hold one number for each of the {n_rows} rows. Got shape {values.shape}.")
    bad = ~((values > 0) & (values <= 1))
    if bad.any():
        first = int(np.argmax(bad))
        raise ValueError(
            f"propensities[{first}] is {values[first]:g}: the chance that a result was looked at is above 0 and at "
            "most 1. Give the chance, not its inverse."
        )
    return values


def _where(log: ClickLog, weight: FloatArray, kept: NDArray[np.bool_]) -> tuple[ClickLog, FloatArray]:
    """Keep some of the results."""
    documents = log.documents.where(kept)
    some = documents.sizes > 0
    lists = Ragged.from_sizes(documents.values, documents.sizes[some])
    return ClickLog(log.query[some], lists, log.position[kept], log.clicked[kept]), weight[kept]


def _limited(log: ClickLog, weight: FloatArray, most: int) -> FloatArray:
    """Scale down the weights of queries with more clicks than `most`."""
    _, query = np.unique(log.query, return_inverse=True)
    n_clicks = np.bincount(query[log.documents.row], log.clicked)
    return np.asarray(weight * np.minimum(1.0, most / np.maximum(n_clicks, 1.0))[query[log.documents.row]])


def _by_relevance(both: list[tuple[NearAndFar, Drawn]]) -> Groups:
    """One group for each query and relevant document, and one for each document and query that it is relevant to."""
    parts = [_compared(found, unseen) for found, unseen in both]
    anchors = np.concatenate([anchor for anchor, _, _ in parts])
    near, others = Ragged.stack([near for _, near, _ in parts]), Ragged.stack([others for _, _, others in parts])
    return _over_others(anchors, others, near.row, near.values, np.ones(len(near.values)))


def _compared(found: NearAndFar, unseen: Drawn) -> tuple[IntArray, Ragged, Ragged]:
    """Anchors, what is near to each, and all that is compared; lists of queries alike may contain the anchor."""
    near = found.near.where(found.near.values != found.anchor[found.near.row])
    drawn = unseen.points.take(np.searchsorted(unseen.anchor, found.anchor))
    sides = Ragged.stack([near, found.far, drawn])
    row, span = sides.row % len(found.anchor), int(sides.values.max(initial=0)) + 1
    keys = np.unique((row * span + sides.values)[sides.values != found.anchor[row]])
    others = Ragged.from_sizes(keys % span, np.bincount(keys // span, minlength=len(found.anchor)))
    return found.anchor, near, others


def _by_list(log: ClickLog, weight: FloatArray, unseen: Drawn) -> Groups:
    """One group for each query, set of documents shown together, and clicked document; with its weights added up."""
    query, shown, weight = _distinct_lists(log, weight)
    drawn = unseen.points.take(np.searchsorted(unseen.anchor, query))
    sides = Ragged.stack([shown, drawn]).take(np.arange(2 * len(shown)).reshape(2, -1).T.ravel())
    others = Ragged(sides.values, sides.bounds[::2])  # each list, and what was drawn for its query
    chosen = np.flatnonzero(weight > 0)
    return _over_others(query, others, shown.row[chosen], shown.values[chosen], weight[chosen])


def _over_others(query: IntArray, others: Ragged, of_list: IntArray, near: IntArray, weight: FloatArray) -> Groups:
    """One group for each near document, against all others of its list."""
    far = others.take(of_list)
    far = far.where(far.values != near[far.row])
    useful = far.sizes > 0
    if not useful.any():
        raise ValueError(
            "No click can be compared: each list has one result, and no other documents are known. Give all results "
            "that were shown, or documents to compare with (corpus)."
        )
    kept = np.flatnonzero(useful)
    return Groups(
        anchors=query[of_list[kept]],
        near=Ragged.from_sizes(near[kept], np.ones(len(kept), dtype=np.int64)),
        far=far.take(kept),
        weights=weight[kept],
    )


def _distinct_lists(log: ClickLog, weight: FloatArray) -> tuple[IntArray, Ragged, FloatArray]:
    """Merge lists of the same query and documents, in whatever order; weights of a document are added up."""
    row = log.documents.row
    order = np.lexsort((log.documents.values, row))
    lists = Ragged(log.documents.values[order], log.documents.bounds)
    numbers: dict[tuple[int, bytes], int] = {}
    kept: list[int] = []
    target = np.empty(len(lists), dtype=np.int64)
    for i, (query, begin, end) in enumerate(
        zip(log.query.tolist(), lists.bounds[:-1].tolist(), lists.bounds[1:].tolist(), strict=True)
    ):
        number = numbers.setdefault((query, lists.values[begin:end].tobytes()), len(kept))
        if number == len(kept):
            kept.append(i)
        target[i] = number
    shown = lists.take(np.array(kept))
    place = np.arange(len(row)) - lists.bounds[lists.row]
    total = np.bincount(shown.bounds[target[lists.row]] + place, weight[order], minlength=len(shown.values))
    return log.query[kept], shown, np.asarray(total, dtype=np.float64)


def _never_together(
    anchors: IntArray, points: IntArray, pool: IntArray, n: int, random: np.random.RandomState
) -> Drawn:
    """Draw up to n points of the pool for each anchor, none of which was ever shown with it."""
    distinct, number = np.unique(anchors, return_inverse=True)
    rows = np.repeat(np.arange(len(distinct)), min(n, len(pool)))
    # With replacement: what is drawn twice, or was shown, is dropped, so a few less are left.
    some = n < len(pool)
    drawn = pool[random.randint(len(pool), size=len(rows))] if some else np.tile(pool, len(distinct))
    span = int(max(pool.max(initial=0), points.max(), distinct.max())) + 1
    keys = np.setdiff1d(rows * span + drawn, number * span + points)
    keys = keys[keys % span != distinct[keys // span]]
    return Drawn(distinct, Ragged.from_sizes(keys % span, np.bincount(keys // span, minlength=len(distinct))))
