"""Comparisons from the rows of files, with points looked up by id and errors located by line."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import listed, literal, plural, shown
from boostmetric.arrays.identifiers import as_texts
from boostmetric.arrays.numbering import RowsError
from boostmetric.arrays.ragged import run_starts
from boostmetric.arrays.types import IntArray
from boostmetric.arrays.validation import warn
from boostmetric.comparisons import Comparisons
from boostmetric.tables.complaints import Complaints, NoComparisonsError, TableError, refuse
from boostmetric.tables.kinds import KINDS, Kind
from boostmetric.tables.point_table import PointTable
from boostmetric.tables.reading import Table, TableSet, Wanted
from boostmetric.tables.values import Chunk

_TRUTH = {"1": 1, "true": 1, "0": 0, "false": 0}
_FIX_SIGN = "Similar pairs are marked by 1, true or similar, dissimilar ones by -1, 0, false or dissimilar."
_FIX_CLICK = "What was clicked is marked by 1 or true, what was not by 0 or false."
_MARKS = {
    "sign": (_TRUTH | {"similar": 1, "dissimilar": 0, "-1": -1}, _FIX_SIGN),
    "clicked": (_TRUTH, _FIX_CLICK),
}
_FIX_WEIGHT = "Weights are at least 0: correct these rows. 0 leaves a row out."
_FIX_ROW = "Points without ids go by row, counted from 0. If these are ids, name the points' column of ids ({id})."
_NUMBERS = ("weight", "grade", "position")
_MOST_NAMED = 5
# Each weight of similar pairs is combined with each of dissimilar ones.
_MOST_WEIGHTS = 100


class ComparisonRows(dict[str, NDArray[Any]]):
    """Values of each role, one a row. Points of both tables are numbered together, queries first.

    Points are looked up by id, or by row number where there are no ids.
    """

    def __init__(
        self,
        table_set: TableSet[Table],
        kind: Kind,
        columns: Mapping[str, str],
        points: PointTable,
        queries: PointTable | None,
    ) -> None:
        self.table_set, self.columns, self.points, self.queries = table_set, columns, points, queries
        self.n_queries = 0 if queries is None else len(queries)
        self.notes = list[str]()  # lines for the description
        self.refuse = partial(refuse, table_set.location)
        tables = {role: points if queries is None or role not in kind.queries else queries for role in kind.points}
        unknown = {role: (list[int](), list[str | int]()) for role in tables}
        sessions: dict[str, int] = {}

        def values(chunk: Chunk, role: str, column: str) -> NDArray[Any]:
            if role in tables:
                ids = chunk.ids(column)
                numbers = tables[role].identifiers.find(ids)
                missing = np.flatnonzero(numbers < 0)
                unknown[role][0].extend(chunk.rows[missing].tolist())
                unknown[role][1].extend(ids[missing[:_MOST_NAMED]].tolist())
                return numbers if role in kind.queries else numbers + self.n_queries
            if role in _MARKS:
                return chunk.marks(column, *_MARKS[role])
            if role == "session":
                return np.array([sessions.setdefault(text, len(sessions)) for text in as_texts(chunk.ids(column))])
            return chunk.numbers(column)

        numbers = [column for role, column in columns.items() if role in _NUMBERS]
        names = [column for role, column in columns.items() if role not in _NUMBERS]
        parts = [
            {role: values(chunk, role, column) for role, column in columns.items()}
            for chunk in table_set.chunks(Wanted(names, numbers))
        ]
        super().__init__({role: np.concatenate([part[role] for part in parts]) for role in columns})
        complaints = Complaints(table_set.location)
        for role, (rows, ids) in unknown.items():
            alone = queries is None and role in kind.queries
            elsewhere = "; queries may have a file of their own ({queries})" if alone else ""
            none_is_known = len(rows) == len(self[role])
            _complain_of_unknown(
                complaints, rows, ids, tables[role], columns[role], elsewhere if none_is_known else None
            )
        complaints.raise_if_any()

    def name(self, *points: Any) -> str:
        """Names of points in their files, for a message."""
        names = []
        for point in points:
            table, row = self.points, point - self.n_queries
            if row < 0 and self.queries is not None:
                table, row = self.queries, point
            names.append(f"row {row}" if table.ids is None else shown(table.ids[[row]].tolist()[0]))
        return ", ".join(names)


def _complain_of_unknown(
    complaints: Complaints, rows: list[int], ids: list[str | int], table: PointTable, column: str, elsewhere: str | None
) -> None:
    """Complain of rows with ids that are not in a table; `elsewhere` is where they may be, if none is in the table."""
    source, known = literal(table.source), table.ids
    is_named = known is not None and (table.origin is None or table.origin.id is not None)
    problem, remedy = f"is not an id of {table.source}", f"Add these points to {source}, or remove these rows."
    if not is_named:
        # Of points that were chosen by their rows, it is not known how many there are.
        range_of_rows = f", which has rows 0 to {len(table) - 1:,}" if known is None else ""
        problem, remedy = f"is not a row of {table.source}{range_of_rows}", _FIX_ROW
    elif known is not None and elsewhere is not None:
        such = f"{'text' if known.dtype == object else 'whole numbers'}, such as {listed(known[:3].tolist())}"
        remedy = literal(f"None of column {column!r} is. The ids of {table.source} are {such}.")
        remedy += f" Check that the files belong together, and the names of the columns{elsewhere}."

    def told(i: int) -> str:
        close = table.identifiers.closest(str(ids[i])) if is_named else None
        return f"{shown(ids[i])} {problem}" + (f" (is {shown(close)} meant?)" if close is not None else "")

    complaints.add(rows, told, remedy, column)


def compare(rows: ComparisonRows, kind: str, max_per_query: int | None, grouped: bool) -> Comparisons:
    """Build comparisons from rows."""
    table_set, weights = rows.table_set, rows.get("weight")
    if weights is not None:
        negative = np.flatnonzero(weights < 0)
        rows.refuse(negative, lambda row: f"the weight is {weights[row]:g}", _FIX_WEIGHT, rows.columns["weight"])
        if not weights.any():
            problem = "all weights are 0, which leaves out every row. Give a positive weight to some."
            raise table_set.error(problem, kind=NoComparisonsError)
    try:
        if kind == "pairs":
            return _from_pairs(rows)
        if "query" in rows:
            return _from_rankings(rows, max_per_query)
        return _from_single(rows, kind, grouped)
    except TableError:
        raise
    except ValueError as error:
        raise table_set.error(str(error)) from error


def _from_single(rows: ComparisonRows, kind: str, grouped: bool) -> Comparisons:
    """See `Comparisons.from_triplets` and `Comparisons.from_quadruplets`."""
    points = np.stack([rows[role] for role in KINDS[kind].roles], axis=1)
    build = Comparisons.from_triplets if kind == "triplets" else Comparisons.from_quadruplets
    try:
        return build(points, rows.get("weight"), grouped=grouped)
    except RowsError as error:
        problem = "({}) are not three different points" if kind == "triplets" else f"in ({{}}) {error.reason}"
        rows.refuse(error.rows, lambda row: problem.format(rows.name(*points[row])))
        raise


def _from_pairs(rows: ComparisonRows) -> Comparisons:
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
    rows.refuse(np.maximum(one, other), contradicts, "Remove one of each.", others=np.minimum(one, other))
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


def _from_rankings(rows: ComparisonRows, max_per_query: int | None) -> Comparisons:
    """See `Comparisons.from_rankings`. Lists that give no comparison are left out, with a note."""
    # Rows of one list, of a query and perhaps a session, follow each other in this order, from `first` on.
    keys = [rows[role] for role in ("query", "session") if role in rows]
    order = np.lexsort([*(rows[role] for role in ("position",) if role in rows), *reversed(keys)])
    first = run_starts(*(key[order] for key in keys))
    sizes = np.diff(np.append(first, len(order)))
    of_row = np.repeat(np.arange(len(first)), sizes)
    _check_lists(rows, order, of_row)
    useful = _useful(rows, order, first, sizes)
    rows.notes.append(plural(len(np.unique(rows["query"])), "query", "queries") + f" in {plural(len(first), 'list')}")
    if not useful.all():
        _leave_out(rows, useful, order[first], sizes)

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
    """Refuse lists with the query itself or with duplicates."""
    query, document = rows["query"], rows["document"]
    rows.refuse(
        np.flatnonzero(document == query),
        lambda row: f"the result {rows.name(document[row])} is the query itself, whose distance is always 0",
    )
    remedy = "Keep one of each: remove the others."
    if "position" in rows and "session" not in rows:
        remedy = "If these are several occasions, add a column that tells them apart (session); else keep one of each."
    for role in [role for role in ("position", "document") if role in rows]:
        values = rows[role][order]
        again = np.lexsort((order, values, of_row))
        same = np.flatnonzero((np.diff(values[again]) == 0) & (np.diff(of_row[again]) == 0))

        def twice(row: int, role: str = role) -> str:
            value = rows.name(document[row]) if role == "document" else f"{rows[role][row]:g}"
            return f"query {rows.name(query[row])} has {role} {value} here and in"

        rows.refuse(order[again[same + 1]], twice, remedy, others=order[again[same]])


def _useful(rows: ComparisonRows, order: IntArray, first: IntArray, sizes: IntArray) -> NDArray[np.bool_]:
    """Whether each list gives a comparison."""
    if "grade" in rows:
        grade = rows["grade"][order]
        return np.asarray(np.maximum.reduceat(grade, first) > np.minimum.reduceat(grade, first))
    if "clicked" not in rows:
        return sizes > 1
    clicked, place = rows["clicked"][order] == 1, np.arange(len(order))
    last_click = np.maximum.reduceat(np.where(clicked, place, -1), first)
    first_skipped = np.minimum.reduceat(np.where(clicked, len(order), place), first)
    return np.asarray(first_skipped < last_click)


def _leave_out(rows: ComparisonRows, useful: NDArray[np.bool_], row_of: IntArray, sizes: IntArray) -> None:
    """Add a note on lists without comparisons, or raise an error if no list has any."""
    row, size, clicks = int(row_of[np.argmin(useful)]), int(sizes[np.argmin(useful)]), "clicked" in rows
    reason = f"has {size} results of the same grade"
    if size == 1:
        reason = "has one result, and a comparison needs two"
    elif clicks:
        reason = f"has {size} results, but none that was passed over above a clicked one"
    first = f"query {rows.name(rows['query'][row])} ({rows.table_set.location(row)}) {reason}"
    if not useful.any():
        remedy = "Give all results that were shown, with their positions" if clicks else "Add results of other grades"
        problem = f"no list gives a comparison. The first, of {first}. {remedy}."
        raise rows.table_set.error(problem, kind=NoComparisonsError)
    n = int((~useful).sum())
    left_out = f"no comparison and {'is' if n == 1 else 'are'} left out; the first, of {first}"
    rows.notes.append(f"{n:,} of {len(useful):,} lists {'gives' if n == 1 else 'give'} {left_out}")
    if not clicks:  # of clicks that is usual: the first result is clicked most
        warn(f"{rows.table_set}: {rows.notes[-1]}.")
