"""The builder of each kind of comparisons from rows of files."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import plural
from boostmetric.arrays.numbering import RowsError
from boostmetric.arrays.point_blocks import PointBlocks
from boostmetric.arrays.ragged import Ragged, run_starts
from boostmetric.arrays.types import IntArray
from boostmetric.arrays.validation import warn
from boostmetric.comparisons import Comparisons
from boostmetric.comparisons.examination import ClickModel
from boostmetric.comparisons.grouping import Contradictions
from boostmetric.comparisons.rankings import cuts_of
from boostmetric.tables.building import KINDS, ComparisonRows
from boostmetric.tables.complaints import NoComparisonsError, TableError

_FIX_WEIGHT = "Weights are at least 0: correct these rows. 0 leaves a row out."
_FIX_PROPENSITY = "A propensity is the chance that a result was looked at, above 0 and at most 1: correct these rows."
_MOST_WEIGHTS = 100  # of similar pairs times those of dissimilar ones, which are all combined


def compare(
    rows: ComparisonRows,
    kind: str,
    max_per_query: int | None,
    grouped: bool,
    points: NDArray[Any] | PointBlocks | None,
    click_model: ClickModel | None = None,
    contradictions: Contradictions = "weigh",
) -> Comparisons:
    """Build comparisons from rows; of all points, unless the rows are a worker's share of them."""
    table_set, weights = rows.table_set, rows.get("weight")
    if weights is not None:
        negative = np.flatnonzero(weights < 0)
        rows.refuse(negative, lambda row: f"the weight is {weights[row]:g}", _FIX_WEIGHT, rows.columns["weight"])
        if not weights.any():
            problem = "all weights are 0, which leaves out every row. Give a positive weight to some."
            raise table_set.error(problem, kind=NoComparisonsError)
    try:
        if kind == "pairs":
            return _from_pairs(rows, contradictions)
        if kind == "clicks":
            return _from_clicks(rows, max_per_query, points, click_model)
        if kind == "positives":
            return _from_positives(rows, points)
        if "query" in rows:
            return _from_rankings(rows, max_per_query, contradictions)
        return _from_single(rows, kind, grouped, contradictions)
    except TableError:
        raise
    except ValueError as error:
        raise table_set.error(str(error)) from error


def _from_single(rows: ComparisonRows, kind: str, grouped: bool, contradictions: Contradictions) -> Comparisons:
    """See `Comparisons.from_triplets` and `Comparisons.from_quadruplets`."""
    points = np.stack([rows[role] for role in KINDS[kind].roles], axis=1)
    build = Comparisons.from_triplets if kind == "triplets" else Comparisons.from_quadruplets
    answers = rows.get("answer")
    if answers is not None:
        n_other, n_ties = int(np.sum(answers == -1)), int(np.sum(answers == 0))
        rows.notes.append(f"answers: {n_other:,} the other way round, {plural(n_ties, 'tie')} left out")
        if n_ties == len(answers):
            problem = "all answers are ties, which say nothing about what is closer. Give some that are not."
            raise rows.table_set.error(problem, kind=NoComparisonsError)
    if contradictions == "refuse":
        _refuse_opposites(rows, points, answers)
    try:
        return build(points, rows.get("weight"), grouped=grouped, answers=answers)
    except RowsError as error:
        problem = "({}) are not three different points" if kind == "triplets" else f"in ({{}}) {error.reason}"
        rows.refuse(error.rows, lambda row: problem.format(rows.name(*points[row])))
        raise


def _refuse_opposites(rows: ComparisonRows, points: IntArray, answers: NDArray[Any] | None) -> None:
    """Refuse rows that say the opposite of an earlier one: their near pair is its far pair, and the other way round."""
    pairs = np.stack([np.sort(points[:, :2]), np.sort(points[:, [0, 2]] if points.shape[1] == 3 else points[:, 2:])])
    number = np.unique(pairs.reshape(-1, 2), axis=0, return_inverse=True)[1].reshape(2, -1)
    if answers is not None:
        number = np.where(answers == -1, number[::-1], number)[:, answers != 0]
    row = np.arange(len(points)) if answers is None else np.flatnonzero(answers)
    said: dict[tuple[int, int], int] = {}
    for near, far, this in zip(*number.tolist(), row.tolist(), strict=True):
        said.setdefault((near, far), this)
    both = [(this, said[far, near]) for (near, far), this in said.items() if said.get((far, near), this) < this]
    one, other = (np.array(side, dtype=np.int64) for side in zip(*both, strict=True)) if both else (row[:0], row[:0])
    rows.refuse(
        one,
        lambda bad: f"({rows.name(*points[bad])}) says the opposite of",
        "Remove one of each.",
        others=other,
    )


def _from_pairs(rows: ComparisonRows, contradictions: Contradictions) -> Comparisons:
    """See `Comparisons.from_pairs`. The weight of a comparison is the product of the weights of its two pairs."""
    pairs, sign, weights = np.stack([rows["a"], rows["b"]], axis=1), rows["sign"], rows.get("weight")
    if np.isin([0, -1], sign).all():
        place = rows.table_set.location(int(np.argmax(sign == 0)), rows.columns["sign"])
        raise TableError(f"{place}: 0, but elsewhere dissimilar pairs are marked by -1. Use one of them for all.")
    rows.refuse(np.flatnonzero(pairs[:, 0] == pairs[:, 1]), lambda row: f"({rows.name(*pairs[row])}) is one point")
    sides = {"similar": sign == 1, "dissimilar": sign != 1}
    rows.notes.append(f"{plural(int(np.sum(sign == 1)), 'similar pair')}, {int(np.sum(sign != 1)):,} dissimilar")
    ordered = np.sort(pairs)
    order = np.lexsort((sign, ordered[:, 1], ordered[:, 0]))
    both = np.flatnonzero((np.diff(ordered[order], axis=0) == 0).all(axis=1) & (np.diff(sign[order]) != 0))

    def contradicts(row: int) -> str:
        here, there = sides if sign[row] == 1 else reversed(sides)
        return f"({rows.name(*pairs[row])}) is {here} here and {there} in"

    one, other = order[both], order[both + 1]
    if contradictions == "refuse":
        rows.refuse(np.maximum(one, other), contradicts, "Remove one of each.", others=np.minimum(one, other))
    elif len(both):
        number = "1 pair is" if len(both) == 1 else f"{len(both):,} pairs are"
        rows.notes.append(f"{number} both similar and dissimilar, which is weighed against each other")
        if weights is not None:
            weights = _balanced(ordered, sides["similar"], weights)
    for mark, side in sides.items():
        if not side.any():
            problem = f"no pair is {mark}. Similar pairs are compared with dissimilar ones: both are needed."
            raise rows.table_set.error(problem)
    if weights is None:
        return Comparisons.from_pairs(*(pairs[side] for side in sides.values()))
    near, far = (
        [(float(weight), pairs[side & (weights == weight)]) for weight in np.unique(weights[side & (weights > 0)])]
        for side in sides.values()
    )
    if len(near) * len(far) > _MOST_WEIGHTS:
        problem = f"{len(near)} different weights of similar pairs and {len(far)} of dissimilar ones. Each is combined"
        raise rows.table_set.error(f"{problem} with each, and {_MOST_WEIGHTS} combinations can be: round the weights.")
    if not near or not far:
        raise rows.table_set.error("the weights of all pairs of one kind are 0. Give a positive weight to some.")
    groups = zip(*((a, b, v * w) for v, a in near for w, b in far), strict=True)
    return Comparisons.from_groups(*map(list, groups))


def _balanced(pairs: NDArray[Any], similar: NDArray[np.bool_], weights: NDArray[Any]) -> NDArray[Any]:
    """Weights of the rows after those of each pair on its lighter side have been taken from its heavier side."""
    _, number = np.unique(pairs, axis=0, return_inverse=True)
    sums = [np.bincount(number, np.where(side, weights, 0.0)) for side in (similar, ~similar)]
    own = np.where(similar, *(total[number] for total in sums))
    other = np.where(similar, *(total[number] for total in reversed(sums)))
    return np.asarray(weights * np.maximum(own - other, 0.0) / np.where(own > 0, own, 1.0))


def _from_clicks(
    rows: ComparisonRows, max_per_query: int | None, points: NDArray[Any] | PointBlocks | None, model: ClickModel | None
) -> Comparisons:
    """See `Comparisons.from_clicks`. Workers have shares of a log: they neither pool clicks nor draw documents."""
    chance = rows.get("propensity")
    if chance is not None:
        bad = np.flatnonzero(~((chance > 0) & (chance <= 1)))
        rows.refuse(bad, lambda row: f"the propensity is {chance[row]:g}", _FIX_PROPENSITY, rows.columns["propensity"])
    order, first = _lists(rows)
    if not rows["clicked"].any():
        problem = "nothing was clicked. Give rows that were clicked beside those that were not."
        raise rows.table_set.error(problem, kind=NoComparisonsError)
    n_clicks, n_without = int(rows["clicked"].sum()), int(np.sum(np.add.reduceat(rows["clicked"][order], first) == 0))
    rows.notes.append(plural(n_clicks, "click") + (f", {plural(n_without, 'list')} without one" if n_without else ""))
    clicks = Comparisons.from_clicks(
        *(rows[role] for role in ("query", "document", "position", "clicked")),
        sessions=rows.get("session"),
        propensities=chance,
        model=model,
        weights=rows.get("weight"),
        max_per_query=max_per_query,
        corpus=None if points is None else _corpus(rows, len(points)),
        pooled=points is not None,
        **({"n_unseen": 0} if points is None else {}),
    )
    rows.notes.append("propensities: " + (f"by the {model or 'position'} model" if chance is None else "given"))
    return clicks


def _from_positives(rows: ComparisonRows, points: NDArray[Any] | PointBlocks | None) -> Comparisons:
    """See `Comparisons.from_positives`."""
    assert points is not None  # workers refuse positives
    if isinstance(points, PointBlocks):
        points = points.in_memory()  # the nearest of all are wanted
    itself = "the document {} is the query itself, whose distance is always 0"
    same = np.flatnonzero(rows["query"] == rows["document"])
    rows.refuse(same, lambda row: itself.format(rows.name(rows["document"][row])))
    corpus = _corpus(rows, len(points))
    rows.notes.append(
        f"{plural(len(np.unique(rows['query'])), 'query', 'queries')}, {plural(len(corpus), 'document')} to search"
    )
    return Comparisons.from_positives(
        rows["query"], rows["document"], points=points, weights=rows.get("weight"), corpus=corpus
    )


def _corpus(rows: ComparisonRows, n_points: int) -> IntArray:
    """All documents: where queries have no table of their own, all points that are no query, or a document too."""
    is_document = np.ones(n_points, dtype=bool)
    is_document[: rows.n_queries] = False
    if rows.queries is None:
        is_document[rows["query"]] = False
    is_document[rows["document"]] = True
    return np.flatnonzero(is_document)


def _from_rankings(rows: ComparisonRows, max_per_query: int | None, contradictions: Contradictions) -> Comparisons:
    """See `Comparisons.from_rankings`. Lists that give no comparison are left out, with a note."""
    order, first = _lists(rows, merges="grade" in rows and contradictions == "weigh")
    sizes = np.diff(np.append(first, len(order)))
    of_row = np.repeat(np.arange(len(first)), sizes)
    useful = _useful(rows, order, first, sizes)
    order, sizes = order[useful[of_row]], sizes[useful]
    first = np.cumsum(sizes) - sizes
    query = rows["query"][order]
    several = len(np.unique(query[first])) < len(first)  # lists of one query, which a flat table would make one

    def shaped(role: str) -> Any:
        if role not in rows:
            return None
        return np.split(rows[role][order], first[1:]) if several else rows[role][order]

    queries = query[first] if several else query
    document, grade, weights = map(shaped, ("document", "grade", "weight"))
    return Comparisons.from_rankings(
        queries, document, grade, weights=weights, max_per_query=max_per_query, contradictions=contradictions
    )


def _lists(rows: ComparisonRows, *, merges: bool = False) -> tuple[IntArray, IntArray]:
    """Order of the rows by list, of a query and perhaps a session, and position; and where each list begins in it.

    A document may be twice in a list if `merges`, or if its grades are the same.
    """
    keys = [rows[role] for role in ("query", "session") if role in rows]
    order = np.lexsort([*(rows[role] for role in ("position",) if role in rows), *reversed(keys)])
    first = run_starts(*(key[order] for key in keys))
    of_row = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(order))))
    _check_lists(rows, order, of_row, merges=merges)
    rows.notes.append(plural(len(np.unique(rows["query"])), "query", "queries") + f" in {plural(len(first), 'list')}")
    return order, first


def _check_lists(rows: ComparisonRows, order: IntArray, of_row: IntArray, *, merges: bool) -> None:
    """Refuse lists with the query itself or with duplicates; those of grades may be merged, which is noted."""
    query, document = rows["query"], rows["document"]
    itself = "the result {} is the query itself, whose distance is always 0"
    rows.refuse(np.flatnonzero(document == query), lambda row: itself.format(rows.name(document[row])))
    remedy = "Keep one of each: remove the others."
    if "position" in rows and "session" not in rows:
        remedy = "If these are several occasions, add a column that tells them apart (session); else keep one of each."
    for role in [role for role in ("position", "document") if role in rows]:
        values = rows[role][order]
        again = np.lexsort((order, values, of_row))
        same = np.flatnonzero((np.diff(values[again]) == 0) & (np.diff(of_row[again]) == 0))
        if "grade" in rows:
            grade = rows["grade"][order[again]]
            differ = grade[same] != grade[same + 1]
            if len(same) and (merges or not differ.any()):
                rows.notes.append(f"{plural(len(same), 'row')} about a document that its query has already, merged")
                continue
            same = same[differ]

        def twice(row: int, role: str = role) -> str:
            value = rows.name(document[row]) if role == "document" else f"{rows[role][row]:g}"
            return f"query {rows.name(query[row])} has {role} {value} here and in"

        rows.refuse(order[again[same + 1]], twice, remedy, others=order[again[same]])


def _useful(rows: ComparisonRows, order: IntArray, first: IntArray, sizes: IntArray) -> NDArray[np.bool_]:
    """Whether each list gives a comparison; if some give none, add a note, and if all, raise an error."""
    grade = rows["grade"][order] if "grade" in rows else None
    cuts = cuts_of(Ragged.from_starts(order, first), grade, None)
    useful = np.isin(np.arange(len(first)), cuts.of_list)
    if useful.all():
        return useful
    n, row, size = int(np.sum(~useful)), int(order[first[np.argmin(useful)]]), int(sizes[np.argmin(useful)])
    reason = f"has {size} results of the same grade"
    if size == 1:
        reason = "has one result, and a comparison needs two"
    where = f"query {rows.name(rows['query'][row])} ({rows.table_set.location(row)}) {reason}"
    if n == len(useful):
        problem = f"no list gives a comparison. The first, of {where}. Add results of other grades."
        raise rows.table_set.error(problem, kind=NoComparisonsError)
    give, are = ("gives", "is") if n == 1 else ("give", "are")
    note = f"{n:,} of {len(useful):,} lists {give} no comparison and {are} left out; the first, of {where}"
    rows.notes.append(note)
    warn(f"{rows.table_set}: {note}.")
    return useful
