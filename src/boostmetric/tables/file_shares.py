"""Shares of comparisons in Parquet files, which workers read: each its row groups, and the points that these name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from boostmetric.comparisons import Comparisons
from boostmetric.comparisons.shares import Loaded
from boostmetric.parallel.crew import Crew
from boostmetric.tables.comparison_table import compare, stack
from boostmetric.tables.complaints import Complaints, NoComparisonsError, TableError, plural
from boostmetric.tables.kinds import KINDS
from boostmetric.tables.opening import open_row_groups, open_tables
from boostmetric.tables.parquet import ParquetTable
from boostmetric.tables.point_table import PointTable, read_some_points
from boostmetric.tables.reading import TableSet
from boostmetric.tables.values import ColumnPart, Ids, joined

# Whole numbers as they are written in one way only.
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
# RowGroups that a worker makes comparisons of at once: some hundred bytes each, until they are packed.
_ROWS_AT_ONCE = 2**21
# Kinds whose comparisons are within rows, not between them: a file may be cut anywhere.
ROW_BY_ROW = ("triplets", "quadruplets")


class RowGroups(NamedTuple):
    """Row groups of a file: the first, and the one after the last."""

    path: str
    begin: int
    end: int


def merged(units: Iterable[RowGroups]) -> list[RowGroups]:
    """Row groups of a file that follow each other as one, for which it is opened once; a file may be given twice."""
    found: list[RowGroups] = []
    for unit in units:
        last = found[-1] if found else None
        if last is not None and last.path == unit.path and last.end <= unit.begin:
            found[-1] = RowGroups(unit.path, last.begin, unit.end)
        else:
            found.append(unit)
    return found


@dataclass(frozen=True)
class AnchorSample:
    """Anchors chosen by their ids alone, so that every worker chooses the same ones.

    Attributes
    ----------
    fraction : float
    seed : int
    held_out : bool
        Whether the comparisons are those of the chosen anchors, or all others.
    """

    fraction: float
    seed: int
    held_out: bool

    def of(self, comparisons: Comparisons, ids: Ids) -> Comparisons | None:
        """The comparisons of this sample; None if there are none."""
        anchors = comparisons.anchors
        first = comparisons.pairs[comparisons.members[comparisons.bounds[:-1:2]], 0]
        numbers, place = np.unique(np.where(anchors < 0, first, anchors), return_inverse=True)
        known = ids[numbers] if isinstance(ids, np.ndarray) else [ids[number] for number in numbers]
        chosen = _hashed(known, self.seed) < self.fraction
        groups = np.flatnonzero(chosen[place] == self.held_out)
        return comparisons.subset(groups) if len(groups) else None


def _hashed(ids: Ids, seed: int) -> NDArray[np.float64]:
    """Numbers between 0 and 1 that look random, the same for 7 and "7"."""
    if not isinstance(ids, np.ndarray):
        ids = np.array([_number(text) for text in ids], dtype=np.int64)
    x = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15 * (seed + 1) % 2**64)
    # The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray((x ^ (x >> np.uint64(31))) / 2.0**64)


def _number(text: str) -> int:
    """The number that a text is, as it would be in a column of whole numbers; or one that stands for it."""
    if _WHOLE.fullmatch(text) and -(2**63) <= int(text) < 2**63:
        return int(text)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


@dataclass(frozen=True)
class SharedPoints:
    """Files of points, and which of their columns are what."""

    files: tuple[str, ...]
    id: str | None
    vector: str | None
    columns: tuple[str, ...] | None
    n_features: int

    def read(self, only: Ids) -> PointTable:
        """The points of some ids."""
        table_set = open_tables(self.files)
        table = read_some_points(table_set, self.id, None, self.vector, self.columns, only=only)
        if not len(table):  # whoever looks these ids up will say so
            return replace(table, points=np.zeros((0, self.n_features)))
        if table.n_features != self.n_features:
            raise TableError(
                f"{table_set}: the first vector in column {self.vector!r} has {plural(self.n_features, 'number')}, "
                f"others have {table.n_features:,}. All vectors must have one length: correct or remove the others."
            )
        return table


@dataclass(frozen=True)
class FileShare:
    """Row groups of comparisons, and where their points are.

    Attributes
    ----------
    rows : tuple of RowGroups
    points, queries
    kind : str
    columns : dict of str to str
        The column of each role.
    max_per_query : int or None
    sample : AnchorSample or None
    footers : dict of str to str
        Checksums of the footers of all these files, from when they were shared out.
    """

    rows: tuple[RowGroups, ...]
    points: SharedPoints
    queries: SharedPoints | None
    kind: str
    columns: Mapping[str, str]
    max_per_query: int | None
    sample: AnchorSample | None
    footers: Mapping[str, str]

    def load(self, crew: Crew) -> Loaded:
        """Read the ids in the comparisons, then the points of these ids; comparisons are read block by block."""
        self._check_unchanged()
        asked = KINDS[self.kind].queries if self.queries is not None else ()
        roles = KINDS[self.kind].points
        cut = list(self._cut())
        points = self.points.read(self._ids([role for role in roles if role not in asked], cut, crew))
        queries = None if self.queries is None else self.queries.read(self._ids(asked, cut, crew))
        stacked = stack(points, queries)
        points, queries = _named(points), None if queries is None else _named(queries)
        ids = joined([_known(table) for table in (queries, points) if table is not None])
        blocks = [partial(self._block, rows, points, queries, ids) for rows in cut]
        if not len(stacked):
            blocks[0]()  # complains of the ids
        return Loaded(stacked, blocks)

    def _check_unchanged(self) -> None:
        """A worker that is started again must read what the one before it has read."""
        for path, footer in self.footers.items():
            (table,) = open_tables(path).tables
            if not isinstance(table, ParquetTable) or table.footer_checksum() != footer:
                raise TableError(
                    f"{path}: was written anew since the fit began. Begin again, with files that do not change."
                )

    def _ids(self, roles: Sequence[str], cut: list[list[RowGroups]], crew: Crew) -> Ids:
        """All ids in the columns of some roles, once each."""
        names = list(dict.fromkeys(self.columns[role] for role in roles))

        def ids_in(rows: list[RowGroups]) -> Ids:
            complaints, table_set = Complaints(), self._opened(rows)
            known: Ids = np.empty(0, dtype=np.int64)
            for chunk in table_set.chunks(names):
                known = _distinct(
                    joined([known, *(ColumnPart(table_set, chunk, name, complaints).ids() for name in names)])
                )
            complaints.raise_if_any()
            return known

        return _distinct(joined(crew.each(ids_in, cut)))

    def _block(
        self, rows: list[RowGroups], points: PointTable, queries: PointTable | None, ids: Ids
    ) -> Comparisons | None:
        try:
            _, comparisons, _ = compare(
                self._opened(rows), self.kind, self.columns, points, queries, self.max_per_query, grouped=False
            )
        except NoComparisonsError:  # here; there may be some elsewhere
            return None
        return comparisons if self.sample is None else self.sample.of(comparisons, ids)

    def _cut(self) -> Iterator[list[RowGroups]]:
        """Row groups in blocks."""
        block, size = list[RowGroups](), 0
        for rows in self.rows:
            sizes = open_row_groups(Path(rows.path), rows.begin, rows.end).group_sizes
            pieces = [rows]
            if self.kind in ROW_BY_ROW:
                pieces = [RowGroups(rows.path, group, group + 1) for group in range(rows.begin, rows.end)]
            for piece in pieces:
                n = sum(sizes[piece.begin : piece.end])
                if block and size + n > _ROWS_AT_ONCE:
                    yield merged(block)
                    block, size = [], 0
                block.append(piece)
                size += n
        yield merged(block)

    def _opened(self, rows: Sequence[RowGroups]) -> TableSet:
        return TableSet([open_row_groups(Path(path), begin, end) for path, begin, end in rows])


def _named(table: PointTable) -> PointTable:
    """The names of points without the points, which are held elsewhere."""
    return replace(table, points=np.empty((len(table), 0)))


def _known(table: PointTable) -> Ids:
    assert table.ids is not None  # of points that were chosen by them
    return table.ids if table.ids.dtype.kind == "i" else list(table.ids)


def _distinct(ids: Ids) -> Ids:
    return np.unique(ids) if isinstance(ids, np.ndarray) else list(dict.fromkeys(ids))
