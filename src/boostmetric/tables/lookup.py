"""Rows of comparisons as numbers: ids looked up among the points, other columns read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import literal
from boostmetric.tables.complaints import Complaints, listed, shown
from boostmetric.tables.identifiers import Identifiers
from boostmetric.tables.kinds import Kind
from boostmetric.tables.point_table import PointTable
from boostmetric.tables.reading import Table, TableSet, Wanted
from boostmetric.tables.values import Chunk, Ids, as_texts

_SIGNS = {"1": 1, "true": 1, "similar": 1, "-1": -1, "0": 0, "false": 0, "dissimilar": 0}
_CLICKS = {"1": 1, "true": 1, "0": 0, "false": 0}
_FIX_SIGN = "Similar pairs are marked by 1, true or similar, dissimilar ones by -1, 0, false or dissimilar."
_FIX_CLICK = "What was clicked is marked by 1 or true, what was not by 0 or false."
_NUMBERS = ("weight", "grade", "position")
_MOST_NAMED = 5


@dataclass(frozen=True, eq=False)
class ComparisonRows:
    """Comparisons as they are in a file, with points by number, through both tables, queries first.

    There are the columns of the roles, and their values, each of shape (n_rows,).
    """

    table_set: TableSet[Table]
    columns: Mapping[str, str]
    values: dict[str, NDArray[Any]]
    points: PointTable
    queries: PointTable | None

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))

    def __getitem__(self, role: str) -> NDArray[Any]:
        return self.values[role]

    def __contains__(self, role: str) -> bool:
        return role in self.values

    @property
    def weights(self) -> NDArray[Any] | None:
        """Weights of the rows, if there are."""
        return self.values.get("weight")

    def name(self, point: int) -> str:
        """A point as its file calls it."""
        n_queries = len(self.queries or ())
        table = self.queries if self.queries is not None and point < n_queries else self.points
        row = point if point < n_queries else point - n_queries
        return f"row {row}" if table.ids is None else shown(table.ids[[row]].tolist()[0])


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
    complaints = Complaints(table_set.location)
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
        for chunk in table_set.chunks(Wanted(names, numbers), complaints)
    ]
    complaints.raise_if_any()  # ids that are missing are unknown as well
    for role, lookup in lookups.items():
        alone = queries is None and role in kind.queries
        lookup.complain(
            columns[role], complaints, "; queries may have a file of their own ({queries})" if alone else ""
        )
    complaints.raise_if_any()
    together = {role: np.concatenate([part[role] for part in parts]) for role in columns}
    return ComparisonRows(table_set, columns, together, points, queries)


class _Lookup:
    """Finds points by id, or row number, and remembers what it did not find; points are counted from `offset` on."""

    def __init__(self, table: PointTable, offset: int) -> None:
        self._table, self._offset = table, offset
        self._known = table.identifiers or Identifiers(np.arange(len(table)))
        self._rows, self._unknown, self._n = list[int](), list[str | int](), 0

    def find(self, ids: Ids, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of points; -1 for those that are not there."""
        numbers = self._known.find(ids)
        unknown = np.flatnonzero(numbers < 0)
        self._n += len(ids)
        self._rows += rows[unknown].tolist()
        self._unknown += ids[unknown[:_MOST_NAMED]].tolist()
        return np.where(numbers < 0, -1, numbers + self._offset)

    def complain(self, column: str, complaints: Complaints, elsewhere: str) -> None:
        """Note what was not found."""
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
