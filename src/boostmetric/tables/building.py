"""Comparisons from the rows of files, with points looked up by id and errors located by line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import listed, literal, plural, shown
from boostmetric.arrays.identifiers import Identifiers, Ids, as_texts
from boostmetric.arrays.ragged import run_starts
from boostmetric.arrays.types import IntArray
from boostmetric.arrays.validation import warn
from boostmetric.comparisons import Comparisons
from boostmetric.tables.complaints import Complaints, NoComparisonsError, TableError
from boostmetric.tables.kinds import KINDS, Kind
from boostmetric.tables.point_table import PointTable
from boostmetric.tables.reading import Table, TableSet, Wanted
from boostmetric.tables.values import Chunk

_SIGNS = {"1": 1, "true": 1, "similar": 1, "-1": -1, "0": 0, "false": 0, "dissimilar": 0}
_CLICKS = {"1": 1, "true": 1, "0": 0, "false": 0}
_FIX_SIGN = "Similar pairs are marked by 1, true or similar, dissimilar ones by -1, 0, false or dissimilar."
_FIX_CLICK = "What was clicked is marked by 1 or true, what was not by 0 or false."
_FIX_WEIGHT = "Weights are at least 0: correct these rows. 0 leaves a row out."
_NUMBERS = ("weight", "grade", "position")
_MOST_NAMED = 5
# Each weight of similar pairs is combined with each of dissimilar ones.
_MOST_WEIGHTS = 100


@dataclass(frozen=True, eq=False)
class ComparisonRows:
    """Rows of comparisons: the column of each role, and its values, of shape (n_rows,).

    Points of both tables are numbered together, queries first. `notes` are lines for the description.
    """

    table_set: TableSet[Table]
    columns: Mapping[str, str]
    values: dict[str, NDArray[Any]]
    points: PointTable
    queries: PointTable | None
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))

    def __getitem__(self, role: str) -> NDArray[Any]:
        return self.values[role]

    def __contains__(self, role: str) -> bool:
        return role in self.values

    @property
    def weights(self) -> NDArray[Any] | None:
        """Weights of the rows, or None."""
        return self.values.get("weight")

    def name(self, *points: int) -> str:
        """Names of points in their files, for a message."""
        n_queries = 0 if self.queries is None else len(self.queries)
        names = []
        for point in points:
            table = self.queries if self.queries is not None and point < n_queries else self.points
            row = point if point < n_queries else point - n_queries
            names.append(f"row {row}" if table.ids is None else shown(table.ids[[row]].tolist()[0]))
        return ", ".join(names)

    def refuse(
        self,
        rows: IntArray,
        problem: Callable[[int], str],
        remedy: str = "Remove these rows.",
        column: str | None = None,
        others: IntArray | None = None,
    ) -> None:
        """Raise an error if `rows` is not empty; `others` are rows that they contradict or repeat."""
        complaints, location = Complaints(self.table_set.location), self.table_set.location

        def told(i: int) -> str:
            return problem(int(rows[i])) + ("" if others is None else f" in {location(int(others[i]))}")

        complaints.add(rows, told, remedy, column)
        complaints.raise_if_any()


def read_rows(
    table_set: TableSet[Table],
    kind: Kind,
    columns: Mapping[str, str],
    points: PointTable,
    queries: PointTable | None,
) -> ComparisonRows:
    """Read comparisons, and look up the points that they name, by row number where a table has no ids.

    `columns` has the column of each role.
    """
    lookups = {role: _Lookup(points, 0 if queries is None else len(queries)) for role in kind.points}
    if queries is not None:
        lookups |= {role: _Lookup(queries, 0) for role in kind.queries}
    sessions: dict[str, int] = {}

    def values(chunk: Chunk, role: str, column: str) -> NDArray[Any]:
        if role in lookups:
            return lookups[role].find(chunk.ids(column), chunk.rows)
        if role == "sign":
            return chunk.marks(column, _SIGNS, _FIX_SIGN)
        if role == "clicked":
            return chunk.marks(column, _CLICKS, _FIX_CLICK)
        if role == "session":
            return np.array([sessions.setdefault(text, len(sessions)) for text in as_texts(chunk.ids(column))])
        return chunk.numbers(column)

    numbers = [column for role, column in columns.items() if role in _NUMBERS]
    names = [column for role, column in columns.items() if role not in _NUMBERS]
    parts = [
        {role: values(chunk, role, column) for role, column in columns.items()}
        for chunk in table_set.chunks(Wanted(names, numbers))
    ]
    complaints = Complaints(table_set.location)
    for role, lookup in lookups.items():
        alone = queries is None and role in kind.queries
        lookup.complain(
            columns[role], complaints, "; queries may have a file of their own ({queries})" if alone else ""
        )
    complaints.raise_if_any()
    together = {role: np.concatenate([part[role] for part in parts]) for role in columns}
    return ComparisonRows(table_set, columns, together, points, queries)


class _Lookup:
    """Find points by id or row number, and remember those not found; numbers of points start at `offset`."""

    def __init__(self, table: PointTable, offset: int) -> None:
        self._table, self._offset = table, offset
        self._known = table.identifiers or Identifiers(np.arange(len(table)))
        self._rows, self._unknown, self._n = list[int](), list[str | int](), 0

    def find(self, ids: Ids, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of points, -1 if not found."""
        numbers = self._known.find(ids)
        unknown = np.flatnonzero(numbers < 0)
        self._n += len(ids)
        self._rows += rows[unknown].tolist()
        self._unknown += ids[unknown[:_MOST_NAMED]].tolist()
        return np.where(numbers < 0, -1, numbers + self._offset)

    def complain(self, column: str, complaints: Complaints, elsewhere: str) -> None:
        """Add complaints about ids that were not found."""
        table, source = self._table, literal(self._table.source)
        is_named = table.ids is not None and (table.origin is None or table.origin.id is not None)
        problem, remedy = f"is not an id of {table.source}", f"Add these points to {source}, or remove these rows."
        if not is_named:
            # Of points that were chosen by their rows, it is not known how many there are.
            known = f", which has rows 0 to {len(table) - 1:,}" if table.ids is None else ""
            problem = f"is not a row of {table.source}{known}"
            remedy = (
                "Points without ids go by row, counted from 0. If these are ids, name the points' column of ids ({id})."
            )
        elif table.ids is not None and len(self._rows) == self._n:
            such = (
                f"{'text' if table.ids.dtype == object else 'whole numbers'}, such as {listed(table.ids[:3].tolist())}"
            )
            remedy = (
                literal(f"None of column {column!r} is. The ids of {table.source} are {such}. Check that the files ")
                + f"belong together, and the names of the columns{elsewhere}."
            )

        def told(i: int) -> str:
            close = self._known.closest(str(self._unknown[i])) if is_named else None
            hint = f" (is {shown(close)} meant?)" if close is not None else ""
            return f"{shown(self._unknown[i])} {problem}{hint}"

        complaints.add(self._rows, told, remedy, column)


def compare(
    table_set: TableSet[Table],
    kind: str,
    columns: Mapping[str, str],
    points: PointTable,
    queries: PointTable | None,
    max_per_query: int | None,
    grouped: bool,
) -> tuple[ComparisonRows, Comparisons]:
    """Read the rows of tables with known kind and columns, and build comparisons from them."""
    rows = read_rows(table_set, KINDS[kind], columns, points, queries)
    _check_weights(rows)
    try:
        if kind == "triplets":
            return rows, _from_triplets(rows, grouped)
        if kind == "quadruplets":
            return rows, _from_quadruplets(rows, grouped)
        if kind == "pairs":
            return rows, _from_pairs(rows)
        return rows, _from_rankings(rows, max_per_query)
    except TableError:
        raise
    except ValueError as error:
        raise TableError(f"{table_set}: {error}") from error


def _check_weights(rows: ComparisonRows) -> None:
    weights = rows.weights
    if weights is None:
        return
    negative = np.flatnonzero(weights < 0)
    rows.refuse(negative, lambda row: f"the weight is {weights[row]:g}", _FIX_WEIGHT, rows.columns["weight"])
    if not weights.any():
        raise NoComparisonsError(
            f"{rows.table_set}: all weights are 0, which leaves out every row. Give a positive weight to some."
        )


def _from_triplets(rows: ComparisonRows, grouped: bool) -> Comparisons:
    """See `Comparisons.from_triplets`."""
    t = np.stack([rows["anchor"], rows["near"], rows["far"]], axis=1)
    same = (t[:, 0] == t[:, 1]) | (t[:, 0] == t[:, 2]) | (t[:, 1] == t[:, 2])
    rows.refuse(np.flatnonzero(same), lambda row: f"({rows.name(*t[row])}) are not three different points")
    return Comparisons.from_triplets(t, rows.weights, grouped=grouped)


def _from_quadruplets(rows: ComparisonRows, grouped: bool) -> Comparisons:
    """See `Comparisons.from_quadruplets`."""
    q = np.stack([rows["a"], rows["b"], rows["c"], rows["d"]], axis=1)
    itself = (q[:, 0] == q[:, 1]) | (q[:, 2] == q[:, 3])
    rows.refuse(np.flatnonzero(itself), lambda row: f"in ({rows.name(*q[row])}) a point is paired with itself")
    same = (np.sort(q[:, :2]) == np.sort(q[:, 2:])).all(axis=1)
    rows.refuse(np.flatnonzero(same), lambda row: f"in ({rows.name(*q[row])}) a pair is compared with itself")
    return Comparisons.from_quadruplets(q, rows.weights, grouped=grouped)


def _from_pairs(rows: ComparisonRows) -> Comparisons:
    """See `Comparisons.from_pairs`; with weights, one group for each combination of two weights.

    The weight of a comparison is the product of the weights of its two pairs, as if each pair were repeated.
    """
    pairs, sign = np.stack([rows["a"], rows["b"]], axis=1), rows["sign"]
    if np.isin([0, -1], sign).all():
        place = rows.table_set.location(int(np.argmax(sign == 0)), rows.columns["sign"])
        raise TableError(f"{place}: 0, but elsewhere dissimilar pairs are marked by -1. Use one of them for all.")
    rows.refuse(np.flatnonzero(pairs[:, 0] == pairs[:, 1]), lambda row: f"({rows.name(*pairs[row])}) is one point")
    similar, marks = sign == 1, ("dissimilar", "similar")
    rows.notes.append(f"{plural(int(similar.sum()), 'similar pair')}, {int((~similar).sum()):,} dissimilar")
    ordered = np.sort(pairs)
    order = np.lexsort((sign, ordered[:, 1], ordered[:, 0]))
    both = np.flatnonzero((np.diff(ordered[order], axis=0) == 0).all(axis=1) & (np.diff(sign[order]) != 0))

    def contradicts(row: int) -> str:
        return f"({rows.name(*pairs[row])}) is {marks[int(similar[row])]} here and {marks[int(not similar[row])]}"

    one, other = order[both], order[both + 1]
    rows.refuse(np.maximum(one, other), contradicts, "Remove one of each.", others=np.minimum(one, other))
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


def _from_rankings(rows: ComparisonRows, max_per_query: int | None) -> Comparisons:
    """See `Comparisons.from_rankings`: graded results, clicks, or results in order of position.

    Lists that give no comparison are left out, with a note.
    """
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
    document = rows["document"]
    rows.refuse(
        np.flatnonzero(document == rows["query"]),
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
        raise NoComparisonsError(f"{rows.table_set}: no list gives a comparison. The first, of {first}. {remedy}.")
    n = int((~useful).sum())
    left_out = f"no comparison and {'is' if n == 1 else 'are'} left out; the first, of {first}"
    rows.notes.append(f"{n:,} of {len(useful):,} lists {'gives' if n == 1 else 'give'} {left_out}")
    if not clicks:  # of clicks that is usual: the first result is clicked most
        warn(f"{rows.table_set}: {rows.notes[-1]}.")
