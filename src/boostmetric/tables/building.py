"""Comparisons from rows, checked so that what is wrong with a row is said with its line and not with a number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
_KEEP_ONE = "Keep one of each: remove the others."
# Each weight of similar pairs is combined with each of dissimilar ones.
_MOST_WEIGHTS = 100


def from_triplets(rows: ComparisonRows, grouped: bool) -> Comparisons:
    """See `Comparisons.from_triplets`."""
    t = np.stack([rows["anchor"], rows["near"], rows["far"]], axis=1)
    same = (t[:, 0] == t[:, 1]) | (t[:, 0] == t[:, 2]) | (t[:, 1] == t[:, 2])
    _refuse(rows, same, lambda row: f"{_named(rows, t[row])} are not three different points", _REMOVE)
    return Comparisons.from_triplets(t, rows.weights, grouped=grouped)


def from_quadruplets(rows: ComparisonRows, grouped: bool) -> Comparisons:
    """See `Comparisons.from_quadruplets`."""
    q = np.stack([rows["a"], rows["b"], rows["c"], rows["d"]], axis=1)
    itself = (q[:, 0] == q[:, 1]) | (q[:, 2] == q[:, 3])
    _refuse(rows, itself, lambda row: f"in {_named(rows, q[row])} a point is paired with itself", _REMOVE)
    same = (np.sort(q[:, :2]) == np.sort(q[:, 2:])).all(axis=1)
    _refuse(rows, same, lambda row: f"in {_named(rows, q[row])} a pair is compared with itself", _REMOVE)
    return Comparisons.from_quadruplets(q, rows.weights, grouped=grouped)


def from_pairs(rows: ComparisonRows) -> Comparisons:
    """See `Comparisons.from_pairs`; with weights, one group for each two of them.

    A comparison of a similar with a dissimilar pair weighs the product of their weights, as if each pair were given as
    often as its weight says.
    """
    pairs, sign = np.stack([rows["a"], rows["b"]], axis=1), rows["sign"]
    if (sign == 0).any() and (sign == -1).any():
        place = rows.table_set.location(int(np.argmax(sign == 0)), rows.columns["sign"])
        raise TableError(f"{place}: 0, but elsewhere dissimilar pairs are marked by -1. Use one of them for all.")
    _refuse(rows, pairs[:, 0] == pairs[:, 1], lambda row: f"{_named(rows, pairs[row])} is one point", _REMOVE)
    similar, marks = sign == 1, {True: "similar", False: "dissimilar"}
    ordered = np.sort(pairs)
    order = np.lexsort((sign, ordered[:, 1], ordered[:, 0]))
    both = (np.diff(ordered[order], axis=0) == 0).all(axis=1) & (np.diff(sign[order]) != 0)
    _refuse_two(
        rows,
        [(order[i], order[i + 1]) for i in np.flatnonzero(both)],
        lambda row: f"{_named(rows, pairs[row])} is {marks[similar[row]]} here and {marks[not similar[row]]}",
        "Remove one of each.",
    )
    for mark, there in (("similar", similar), ("dissimilar", ~similar)):
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
    combined = [(a, b, v * w) for v, a in near for w, b in far]
    return Comparisons.from_groups(
        [a for a, _, _ in combined], [b for _, b, _ in combined], [w for _, _, w in combined]
    )


def _by_weight(pairs: NDArray[Any], weights: NDArray[Any]) -> list[tuple[float, NDArray[Any]]]:
    return [(float(weight), pairs[weights == weight]) for weight in np.unique(weights[weights > 0])]


@dataclass(frozen=True)
class _Lists:
    """ComparisonRows in lists: those of one query (and session) follow each other in `order`, from `first` on."""

    order: IntArray
    first: IntArray

    @property
    def of_row(self) -> IntArray:
        """The list of each row in order."""
        return np.repeat(np.arange(len(self.first)), self.sizes)

    @property
    def sizes(self) -> IntArray:
        return np.diff(np.append(self.first, len(self.order)))


def from_rankings(rows: ComparisonRows, max_per_query: int | None, notes: list[str]) -> Comparisons:
    """See `Comparisons.from_rankings`: graded results, clicks, or results in order of position.

    Lists of which nothing follows are left out, which `notes` then say.
    """
    lists = _lists(rows)
    _check_lists(rows, lists)
    value = rows.values.get("grade", rows.values.get("clicked"))
    useful = _useful(lists, None if value is None else value[lists.order], clicks="clicked" in rows.values)
    _leave_out(rows, lists, useful, notes)

    chosen = useful[lists.of_row]
    order, sizes = lists.order[chosen], lists.sizes[useful]
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    query = rows["query"][order]
    several = len(np.unique(query[first])) < len(first)  # lists of one query, which a flat table would make one

    def shaped(role: str) -> Any:
        if role not in rows.values:
            return None
        flat = rows[role][order]
        return np.split(flat, first[1:]) if several else flat

    notes.insert(
        0, plural(len(np.unique(rows["query"])), "query", "queries") + f" in {plural(len(lists.first), 'list')}"
    )
    return Comparisons.from_rankings(
        query[first] if several else query,
        shaped("document"),
        shaped("grade"),
        clicks=shaped("clicked"),
        weights=shaped("weight"),
        max_per_query=max_per_query,
    )


def _lists(rows: ComparisonRows) -> _Lists:
    keys = [rows["query"], *(rows[role] for role in ("session",) if role in rows.values)]
    within = [rows["position"]] if "position" in rows.values else []
    order = np.lexsort([*within, *reversed(keys)])
    return _Lists(order, run_starts(*(key[order] for key in keys)))


def _check_lists(rows: ComparisonRows, lists: _Lists) -> None:
    document, of_row = rows["document"], lists.of_row
    _refuse(
        rows,
        document == rows["query"],
        lambda row: f"the result {rows.name(document[row])} is the query itself, whose distance is always 0",
        _REMOVE,
    )
    session = "session" in rows.values
    occasions = _KEEP_ONE
    if "position" in rows.values and not session:
        occasions = (
            "If these are several occasions, add a column that tells them apart (session); else keep one of each."
        )
    for role in ("position", "document"):
        if role not in rows.values:
            continue
        values = rows[role][lists.order]
        again = np.lexsort((lists.order, values, of_row))
        same = (np.diff(values[again]) == 0) & (np.diff(of_row[again]) == 0)
        twice = [(lists.order[again[i]], lists.order[again[i + 1]]) for i in np.flatnonzero(same)]

        def problem(row: int, role: str = role) -> str:
            value = rows.name(document[row]) if role == "document" else f"{rows[role][row]:g}"
            return f"query {rows.name(rows['query'][row])} has {role} {value} here and"

        _refuse_two(rows, twice, problem, occasions)


def _useful(lists: _Lists, value: NDArray[Any] | None, *, clicks: bool) -> NDArray[np.bool_]:
    """Whether anything follows from each list; `value` is in the order of the lists."""
    if value is None:
        return lists.sizes > 1
    if not clicks:
        return np.asarray(np.maximum.reduceat(value, lists.first) > np.minimum.reduceat(value, lists.first))
    place = np.arange(len(value))
    last_click = np.maximum.reduceat(np.where(value == 1, place, -1), lists.first)
    first_skipped = np.minimum.reduceat(np.where(value == 1, len(value), place), lists.first)
    return np.asarray(first_skipped < last_click)


def _leave_out(rows: ComparisonRows, lists: _Lists, useful: NDArray[np.bool_], notes: list[str]) -> None:
    if useful.all():
        return
    row = int(lists.order[lists.first[np.argmin(useful)]])
    size = int(lists.sizes[np.argmin(useful)])
    clicks = "clicked" in rows.values
    if size == 1:
        reason = "has one result, and a comparison needs two"
    elif clicks:
        reason = f"has {size} results, but none that was passed over above a clicked one"
    else:
        reason = f"has {size} results of the same grade"
    first = f"query {rows.name(rows['query'][row])} ({rows.table_set.location(row)}) {reason}"
    if not useful.any():
        remedy = "Give all results that were shown, with their positions" if clicks else "Add results of other grades"
        raise NoComparisonsError(f"{rows.table_set}: no list gives a comparison. The first, of {first}. {remedy}.")
    gives, are = ("gives", "is") if (~useful).sum() == 1 else ("give", "are")
    left_out = f"{int((~useful).sum()):,} of {len(useful):,} lists {gives} no comparison and {are} left out"
    note = f"{left_out}; the first, of {first}"
    notes.append(note)
    if not clicks:  # of clicks that is usual: the first result is clicked most
        warn(f"{rows.table_set}: {note}.")


def _named(rows: ComparisonRows, points: NDArray[Any]) -> str:
    return f"({', '.join(rows.name(point) for point in points.tolist())})"


def _refuse(rows: ComparisonRows, bad: NDArray[np.bool_], problem: Callable[[int], str], remedy: str) -> None:
    complaints = Complaints()
    for row in np.flatnonzero(bad).tolist():
        complaints.add(partial(rows.table_set.location, row), partial(problem, row), remedy)
    complaints.raise_if_any()


def _refuse_two(rows: ComparisonRows, places: list[Any], problem: Callable[[int], str], remedy: str) -> None:
    """Refuse rows that contradict or repeat another one."""

    def both(first: int, again: int) -> str:
        return f"{problem(again)} in {rows.table_set.location(first)}"

    complaints = Complaints()
    for one, other in places:
        first, again = sorted((int(one), int(other)))
        complaints.add(partial(rows.table_set.location, again), partial(both, first, again), remedy)
    complaints.raise_if_any()
