"""Shares of comparisons in Parquet files, which workers read: each its row groups, and the points that these name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from boostmetric.comparisons import Comparisons
from boostmetric.comparisons.anchor_sample import AnchorSample
from boostmetric.comparisons.shares import Loaded
from boostmetric.parallel.crew import Crew
from boostmetric.tables.building import compare
from boostmetric.tables.comparison_table import stack
from boostmetric.tables.complaints import Complaints, NoComparisonsError, TableError
from boostmetric.tables.features import PointColumns
from boostmetric.tables.kinds import KINDS
from boostmetric.tables.opening import open_tables
from boostmetric.tables.parquet import ParquetTable
from boostmetric.tables.point_table import PointTable, read_some_points
from boostmetric.tables.reading import TableSet, Wanted
from boostmetric.tables.values import Ids, joined

# Rows that a worker makes comparisons of at once: some hundred bytes each, until they are packed.
_ROWS_AT_ONCE = 2**21
# Kinds whose comparisons are within rows, not between them: a file may be cut anywhere.
_ROW_BY_ROW = ("triplets", "quadruplets")


class RowGroups(NamedTuple):
    """Row groups of a file: the first, and the one after the last."""

    path: str
    begin: int
    end: int

    def units(self, kind: str) -> list[RowGroups]:
        """What can be read by itself: each row group, unless comparisons of this kind are between rows."""
        cut = range(self.begin, self.end) if kind in _ROW_BY_ROW else ()
        return [RowGroups(self.path, group, group + 1) for group in cut] or [self]


def merged(units: Iterable[RowGroups]) -> list[RowGroups]:
    """Row groups of a file that follow each other as one, for which it is opened once; a file may be given twice."""
    found: list[RowGroups] = []
    for unit in units:
        if found and found[-1].path == unit.path and found[-1].end <= unit.begin:
            unit = found.pop()._replace(end=unit.end)
        found.append(unit)
    return found


@dataclass(frozen=True)
class FileShare:
    """Row groups of comparisons, the columns of their roles, and the files and columns of points and queries.

    Footers are checksums of the footers of all these files, from when they were shared out.
    """

    rows: tuple[RowGroups, ...]
    kind: str
    columns: Mapping[str, str]
    points: tuple[str, ...]
    queries: tuple[str, ...]
    point_columns: PointColumns
    max_per_query: int | None
    sample: AnchorSample | None
    footers: Mapping[str, str]

    def load(self, crew: Crew) -> Loaded:
        """Read the ids in the comparisons, then the points of these ids; comparisons are read block by block."""
        for path, footer in self.footers.items():
            # A worker that is started again must read what the one before it has read.
            if ParquetTable(Path(path)).footer_checksum() != footer:
                raise TableError(
                    f"{path}: was written anew since the fit began. Begin again, with files that do not change."
                )
        asked = KINDS[self.kind].queries if self.queries else ()
        others = [role for role in KINDS[self.kind].points if role not in asked]
        cut = list(self._cut())
        read = partial(read_some_points, asked=self.point_columns)
        points = read(open_tables(self.points), only=self._ids(others, cut, crew))
        queries = read(open_tables(self.queries), only=self._ids(asked, cut, crew)) if self.queries else None
        stacked = stack(points, queries)
        points, queries = _named(points), None if queries is None else _named(queries)
        ids = joined([table.ids for table in (queries, points) if table is not None and table.ids is not None])
        blocks = [partial(self._block, rows, points, queries, ids) for rows in cut]
        if not len(stacked):
            blocks[0]()  # complains of the ids
        return Loaded(stacked, blocks)

    def _ids(self, roles: Sequence[str], cut: list[list[RowGroups]], crew: Crew) -> Ids:
        """All ids in the columns of some roles, once each."""
        names = list(dict.fromkeys(self.columns[role] for role in roles))

        def ids_in(rows: list[RowGroups]) -> Ids:
            table_set = _opened(rows)
            complaints, known = Complaints(table_set.location), np.empty(0, dtype=np.int64)
            for chunk in table_set.chunks(Wanted(names), complaints):
                known = _distinct(joined([known, *map(chunk.ids, names)]))
            complaints.raise_if_any()
            return known

        return _distinct(joined(crew.each(ids_in, cut)))

    def _block(
        self, rows: list[RowGroups], points: PointTable, queries: PointTable | None, ids: Ids
    ) -> Comparisons | None:
        try:
            _, comparisons = compare(
                _opened(rows), self.kind, self.columns, points, queries, self.max_per_query, grouped=False
            )
        except NoComparisonsError:  # here; there may be some elsewhere
            return None
        return comparisons if self.sample is None else self.sample.of(comparisons, ids)

    def _cut(self) -> Iterator[list[RowGroups]]:
        """Row groups in blocks."""
        block, size = list[RowGroups](), 0
        for rows in self.rows:
            sizes = ParquetTable(Path(rows.path)).group_sizes
            for unit in rows.units(self.kind):
                n = sum(sizes[unit.begin : unit.end])
                if block and size + n > _ROWS_AT_ONCE:
                    yield merged(block)
                    block, size = [], 0
                block.append(unit)
                size += n
        yield merged(block)


def _named(table: PointTable) -> PointTable:
    """The names of points without the points, which are held elsewhere."""
    return replace(table, points=np.empty((len(table), 0)))


def _distinct(ids: Ids) -> Ids:
    return np.array(list(dict.fromkeys(ids)), dtype=object) if ids.dtype == object else np.unique(ids)


def _opened(rows: Sequence[RowGroups]) -> TableSet[ParquetTable]:
    return TableSet([ParquetTable(Path(path), (begin, end)) for path, begin, end in rows])
