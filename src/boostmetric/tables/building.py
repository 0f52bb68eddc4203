"""Comparisons from rows, checked so that what is wrong with a row is said with its line and not with a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.ragged import run_starts
from boostmetric.arrays.types import IntArray
from boostmetric.arrays.validation import warn
from boostmetric.comparisons import Comparisons
from boostmetric.tables.complaints import Complaints, NoComparisonsError, TableError, plural
from boostmetric.tables.lookup import ComparisonRows

_REMOVE = "Remove these rows."
# Each weight of similar pairs is combined with each of dissimilar ones.
_MOST_WEIGHTS = 100


def from_triplets(rows: ComparisonRows, grouped: bool) -> Comparisons:
    """See `Comparisons.from_triplets`."""
    t = np.stack([rows["anchor"], rows["near"], rows["far"]], axis=1)
    same = (t[:, 0] == t[:, 1]) | (t[:, 0] == t[:, 2]) | (t[:, 1] == t[:, 2])
    _refuse(rows, same, lambda row: f"{_named(rows, t[row])} are not three different points")
    return Comparisons.from_triplets(t, rows.weights, grouped=grouped)


def from_quadruplets(rows: ComparisonRows, grouped: bool) -> Comparisons:
    """See `Comparisons.from_quadruplets`."""
    q = np.stack([rows["a"], rows["b"], rows["c"], rows["d"]], axis=1)
    itself = (q[:, 0] == q[:, 1]) | (q[:, 2] == q[:, 3])
    _refuse(rows, itself, lambda row: f"in {_named(rows, q[row])} a point is paired with itself")
    same = (np.sort(q[:, :2]) == np.sort(q[:, 2:])).all(axis=1)
    _refuse(rows, same, lambda row: f"in {_named(rows, q[row])} a pair is compared with itself")
    return Comparisons.from_quadruplets(q, rows.weights, grouped=grouped)


def from_pairs(rows: ComparisonRows) -> Comparisons:
    """See `Comparisons.from_pairs`; with weights, one group for each two of them.

    A comparison of a similar with a dissimilar pair weighs the product of their weights, as if each pair were given as
    often as its weight says.
    """
    pairs, sign = np.stack([rows["a"], rows["b"]], axis=1), rows["sign"]
    if np.isin([0, -1], sign).all():
        place = rows.table_set.location(int(np.argmax(sign == 0)), rows.columns["sign"])
        raise TableError(f"{place}: 0, but elsewhere dissimilar pairs are marked by -1. Use one of them for all.")
    _refuse(rows, pairs[:, 0] == pairs[:, 1], lambda row: f"{_named(rows, pairs[row])} is one point")
    similar, marks = sign == 1, ("dissimilar", "similar")
    ordered = np.sort(pairs)
    order = np.lexsort((sign, ordered[:, 1], ordered[:, 0]))
    both = np.flatnonzero((np.diff(ordered[order], axis=0) == 0).all(axis=1) & (np.diff(sign[order]) != 0))

    def contradicts(row: int) -> str:
        return f"{_named(rows, pairs[row])} is {marks[int(similar[row])]} here and {marks[int(not similar[row])]}"

    _refuse_two(rows, order[both], order[both + 1], contradicts, "Remove one of each.")
    for mark, there in ((marks[1], similar), (marks[0], ~similar)):
        if not there.any():
            raise TableError(
                f"{rows.table_set}: no pair is {mark}. Similar pairs are compared with dissimilar ones: both are "
                "needed."
            )
    if rows.weights is None:
        return Comparisons.from_pairs(pairs[similar], pairs[~similar])
    near, far = (_by_weight(pairs[side], rows.weights[side]) for side in (similar, ~similar))
    if len(near) * len(far) > _MOST_WEIGHTS:
        raise TableError(
            f"{rows.table_set}: {len(near)} different weights of similar pairs and {len(far)} of dissimilar ones. Each "
            f"is combined with each, and {_MOST_WEIGHTS} combinations can be: round the weights."
        )
    if not near or not far:
        raise TableError(
            f"{rows.table_set}: the weights of all pairs of one kind are 0. Give a positive weight to some."
        )
    groups = zip(*((a, b, v * w) for v, a in near for w, b in far), strict=True)
    return Comparisons.from_groups(*map(list, groups))


def _by_weight(pairs: NDArray[Any], weights: NDArray[Any]) -> list[tuple[float, NDArray[Any]]]:
    return [(float(weight), pairs[weights == weight]) for weight in np.unique(weights[weights > 0])]


def from_rankings(rows: ComparisonRows, max_per_query: int | None, notes: list[str]) -> Comparisons:
    """See `Comparisons.from_rankings`: graded results, clicks, or results in order of position.

    Lists of which nothing follows are left out, which `notes` then say.
    """
    # Rows of one list, of a query and perhaps a session, follow each other in this order, from `first` on.
    keys = [rows[role] for role in ("query", "session") if role in rows]
    order = np.lexsort([*(rows[role] for role in ("position",) if role in rows), *reversed(keys)])
    first = run_starts(*(key[order] for key in keys))
    sizes = np.diff(np.append(first, len(order)))
    of_row = np.repeat(np.arange(len(first)), sizes)
    _check_lists(rows, order, of_row)
    useful = _useful(rows, order, first, sizes)
    notes.append(plural(len(np.unique(rows["query"])), "query", "queries") + f" in {plural(len(first), 'list')}")
    if not useful.all():
        _leave_out(rows, useful, order[first], sizes, notes)

    order, sizes = order[useful[of_row]], sizes[useful]
    first = np.cumsum(sizes) - sizes
    query = rows["query"][order]
    several = len(np.unique(query[first])) < len(first)  # lists of one query, which a flat table would make one

    def shaped(role: str) -> Any:
        if role not in rows:
            return None
        return np.split(rows[role][order], first[1:]) if several else rows[role][order]

    return Comparisons.from_rankings(
        query[first] if several else query,
        shaped("document"),
        shaped("grade"),
        clicks=shaped("clicked"),
        weights=shaped("weight"),
        max_per_query=max_per_query,
    )


def _check_lists(rows: ComparisonRows, order: IntArray, of_row: IntArray) -> None:
    """Refuse lists that hold the query itself, or anything twice."""
    document = rows["document"]
    _refuse(
        rows,
        document == rows["query"],
        lambda row: f"the result {rows.name(document[row])} is the query itself, whose distance is always 0",
    )
    remedy = "Keep one of each: remove the others."
    if "position" in rows and "session" not in rows:
        remedy = "If these are several occasions, add a column that tells them apart (session); else keep one of each."
    for role in ("position", "document"):
        if role not in rows:
            continue
        values = rows[role][order]
        again = np.lexsort((order, values, of_row))
        same = np.flatnonzero((np.diff(values[again]) == 0) & (np.diff(of_row[again]) == 0))

        def twice(row: int, role: str = role) -> str:
            value = rows.name(document[row]) if role == "document" else f"{rows[role][row]:g}"
            return f"query {rows.name(rows['query'][row])} has {role} {value} here and"

        _refuse_two(rows, order[again[same]], order[again[same + 1]], twice, remedy)


def _useful(rows: ComparisonRows, order: IntArray, first: IntArray, sizes: IntArray) -> NDArray[np.bool_]:
    """Whether anything follows from each list."""
    if "grade" in rows:
        grade = rows["grade"][order]
        return np.asarray(np.maximum.reduceat(grade, first) > np.minimum.reduceat(grade, first))
    if "clicked" not in rows:
        return sizes > 1
    clicked, place = rows["clicked"][order] == 1, np.arange(len(order))
    last_click = np.maximum.reduceat(np.where(clicked, place, -1), first)
    first_skipped = np.minimum.reduceat(np.where(clicked, len(order), place), first)
    return np.asarray(first_skipped < last_click)


def _leave_out(
    rows: ComparisonRows, useful: NDArray[np.bool_], row_of: IntArray, sizes: IntArray, notes: list[str]
) -> None:
    """Note which lists give no comparison; refuse them if none does."""
    row, size, clicks = int(row_of[np.argmin(useful)]), int(sizes[np.argmin(useful)]), "clicked" in rows
    reason = f"has {size} results of the same grade"
    if size == 1:
        reason = "has one result, and a comparison needs two"
    elif clicks:
        reason = f"has {size} results, but none that was passed over above a clicked one"
    first = f"query {rows.name(rows['query'][row])} ({rows.table_set.location(row)}) {reason}"
    if not useful.any():
        remedy = "Give all results that were shown, with their positions" if clicks else "Add results of other grades"
        raise NoComparisonsError(f"{rows.table_set}: no list gives a comparison. The first, of {first}. {remedy}.")
    n = int((~useful).sum())
    left_out = f"no comparison and {'is' if n == 1 else 'are'} left out; the first, of {first}"
    notes.append(f"{n:,} of {len(useful):,} lists {'gives' if n == 1 else 'give'} {left_out}")
    if not clicks:  # of clicks that is usual: the first result is clicked most
        warn(f"{rows.table_set}: {notes[-1]}.")


def _named(rows: ComparisonRows, points: NDArray[Any]) -> str:
    return f"({', '.join(rows.name(point) for point in points.tolist())})"


def _refuse(rows: ComparisonRows, bad: NDArray[np.bool_], problem: Callable[[int], str]) -> None:
    complaints, places = Complaints(rows.table_set.location), np.flatnonzero(bad)
    complaints.add(places, lambda i: problem(places[i]), _REMOVE)
    complaints.raise_if_any()


def _refuse_two(
    rows: ComparisonRows, one: IntArray, other: IntArray, problem: Callable[[int], str], remedy: str
) -> None:
    """Refuse rows that contradict or repeat another one."""
    first, again = np.minimum(one, other), np.maximum(one, other)
    complaints = Complaints(rows.table_set.location)
    complaints.add(again, lambda i: f"{problem(again[i])} in {rows.table_set.location(int(first[i]))}", remedy)
    complaints.raise_if_any()
