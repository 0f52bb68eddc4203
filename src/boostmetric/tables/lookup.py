"""ComparisonRows of comparisons as numbers: ids looked up among the points, other columns read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.tables.complaints import Complaints, listed, shown
from boostmetric.tables.kinds import Kind
from boostmetric.tables.point_table import PointTable
from boostmetric.tables.reading import TableSet
from boostmetric.tables.values import ColumnPart, Ids, as_texts

_SIGNS = {"1": 1, "true": 1, "similar": 1, "-1": -1, "0": 0, "false": 0, "dissimilar": 0}
_CLICKS = {"1": 1, "true": 1, "0": 0, "false": 0}
_FIX_SIGN = "Similar pairs are marked by 1, true or similar, dissimilar ones by -1, 0, false or dissimilar."
_FIX_CLICK = "What was clicked is marked by 1 or true, what was not by 0 or false."
_MOST_NAMED = 5


@dataclass(frozen=True, eq=False)
class ComparisonRows:
    """Comparisons as they are in a file, with points by number.

    Attributes
    ----------
    table_set : TableSet
        The file.
    columns : dict of str to str
        The column of each role.
    values : dict of str to ndarray of shape (n_rows,)
        The numbers of each role; points are counted through both tables, queries first.
    points : PointTable
    queries : PointTable, optional
    """

    table_set: TableSet
    columns: Mapping[str, str]
    values: dict[str, NDArray[Any]]
    points: PointTable
    queries: PointTable | None

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))

    def __getitem__(self, role: str) -> NDArray[Any]:
        return self.values[role]

    @property
    def weights(self) -> NDArray[Any] | None:
        """Weights of the rows, if there are."""
        return self.values.get("weight")

    def name(self, point: int) -> str:
        """A point as its file calls it."""
        n_queries = 0 if self.queries is None else len(self.queries)
        table, row = (self.points, point - n_queries) if point >= n_queries else (self.queries, point)
        assert table is not None
        if table.ids is None:
            return f"row {row}"
        return shown(table.ids[row] if isinstance(table.ids[row], str) else int(table.ids[row]))


def read_rows(
    table_set: TableSet, kind: Kind, columns: Mapping[str, str], points: PointTable, queries: PointTable | None
) -> ComparisonRows:
    """Read comparisons and look up the points that they name.

    Parameters
    ----------
    table_set : TableSet
    kind : Kind
    columns : mapping of str to str
        The column of each role.
    points, queries : PointTable
        Where ids are looked up; row numbers if a table has no ids.
    """
    complaints = Complaints()
    tables = {role: queries if queries is not None and role in kind.queries else points for role in kind.points}
    lookups = {
        role: _Lookup(
            table_set,
            columns[role],
            table,
            0 if queries is None or table is queries else len(queries),
            "; queries may have a file of their own (queries)" if queries is None and role in kind.queries else "",
        )
        for role, table in tables.items()
    }
    sessions: dict[str, int] = {}
    parts: dict[str, list[NDArray[Any]]] = {role: [] for role in columns}
    for chunk in table_set.chunks(list(dict.fromkeys(columns.values()))):
        for role, column in columns.items():
            part = ColumnPart(table_set, chunk, column, complaints)
            if role in lookups:
                value = lookups[role].find(part.ids(), chunk.start)
            elif role == "sign":
                value = part.truths(_SIGNS, _FIX_SIGN)
            elif role == "clicked":
                value = part.truths(_CLICKS, _FIX_CLICK)
            elif role == "session":
                texts = as_texts(part.ids())
                value = np.fromiter((sessions.setdefault(text, len(sessions)) for text in texts), np.int64, chunk.size)
            else:
                value = part.numbers()
            parts[role].append(value)
    complaints.raise_if_any()  # ids that are missing are unknown as well
    for lookup in lookups.values():
        lookup.complain(complaints)
    complaints.raise_if_any()
    return ComparisonRows(
        table_set, columns, {role: np.concatenate(arrays) for role, arrays in parts.items()}, points, queries
    )


class _Lookup:
    """Finds the points of one column, and remembers what it did not find."""

    def __init__(self, table_set: TableSet, column: str, table: PointTable, offset: int, elsewhere: str) -> None:
        self._table_set, self._column, self._table, self._offset = table_set, column, table, offset
        self._elsewhere = elsewhere
        self._unknown: list[tuple[int, str | int]] = []
        self._n = self._n_unknown = 0

    def find(self, ids: Ids, start: int) -> NDArray[np.int64]:
        """Numbers of points; -1 for those that are not there."""
        numbers = self._row_numbers(ids) if self._table.identifiers is None else self._table.identifiers.find(ids)
        unknown = np.flatnonzero(numbers < 0)
        self._n += len(numbers)
        self._n_unknown += len(unknown)
        for offset in unknown[: _MOST_NAMED - len(self._unknown)].tolist():
            value = ids[offset]
            self._unknown.append((start + offset, value if isinstance(value, str) else int(value)))
        return np.where(numbers < 0, -1, numbers + self._offset)

    def _row_numbers(self, ids: Ids) -> NDArray[np.int64]:
        if isinstance(ids, np.ndarray):
            return np.where(ids < len(self._table), ids, -1)
        rows = {str(row): row for row in range(len(self._table))}
        return np.fromiter((rows.get(text, -1) for text in ids), dtype=np.int64, count=len(ids))

    def complain(self, complaints: Complaints) -> None:
        """Note what was not found."""
        if not self._unknown:
            return
        table = self._table
        by_row = table.ids is None or (table.origin is not None and table.origin.id is None)
        if by_row:
            # Of some points, whose ids are their rows, it is not known how many there are.
            known = f", which has rows 0 to {len(table) - 1:,}" if table.ids is None else ""
            problem = f"is not a row of {table.source}{known}"
            remedy = (
                "Points without ids go by row, counted from 0. If these are ids, name the points' column of ids (id)."
            )
        else:
            assert table.ids is not None
            problem = f"is not an id of {table.source}"
            remedy = f"Add these points to {table.source}, or remove these rows."
            if self._n_unknown == self._n:
                such = listed(value if isinstance(value, str) else int(value) for value in table.ids[:3])
                kind = "text" if table.ids.dtype.kind == "O" else "whole numbers"
                remedy = (
                    f"None of column {self._column!r} is. The ids of {table.source} are {kind}, such as {such}. Check "
                    f"that the files belong together, and the names of the columns{self._elsewhere}."
                )
        for row, value in self._unknown:
            close = None if by_row or table.identifiers is None else table.identifiers.closest(str(value))
            hint = f" (is {shown(close)} meant?)" if close is not None else ""
            complaints.add(self._table_set.location(row, self._column), f"{shown(value)} {problem}{hint}", remedy)
        if self._n_unknown > len(self._unknown):
            complaints.count(remedy, self._n_unknown - len(self._unknown))
