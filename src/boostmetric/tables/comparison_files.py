"""Points and comparisons in files, read in this process or in shares by workers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from boostmetric.arrays.errors import plural
from boostmetric.arrays.frame import Given
from boostmetric.arrays.identifiers import Ids, joined
from boostmetric.arrays.validation import check_choice, check_count, check_number
from boostmetric.comparisons import Comparisons
from boostmetric.comparisons.anchor_sample import AnchorSample
from boostmetric.comparisons.shares import Loaded
from boostmetric.parallel.crew import Crew
from boostmetric.tables.building import KINDS, POINTS, QUERIES, ComparisonRows, recognise
from boostmetric.tables.comparing import compare
from boostmetric.tables.comparison_table import read_comparisons, stack
from boostmetric.tables.complaints import NoComparisonsError, TableError
from boostmetric.tables.formats import FilePaths, ParquetTable, open_parquet, open_tables
from boostmetric.tables.point_table import (
    Features,
    PointColumns,
    PointTable,
    features_of,
    read_some_points,
    to_ignore,
)
from boostmetric.tables.reading import TableSet, Wanted

_OTHERWISE = "learn without an engine, in this process"
_ROWS_AT_ONCE = 2**21  # that a worker makes comparisons of: some hundred bytes each, until they are packed
_ROW_BY_ROW = ("triplets", "quadruplets")  # rows are not compared with each other: a file may be cut anywhere


@dataclass(frozen=True)
class ComparisonFiles:
    r"""Points and comparisons in files, to learn from with ``ComparisonBoostMetric(...).fit(ComparisonFiles(...))``.

    With ``engine="ray"``, the files must be Parquet, and each worker reads its part. The calling process reads only the
    footers and the length of the first vector. Without an engine, the files are read completely, as by `read_points`
    and `read_comparisons`.

    Parameters
    ----------
    points, comparisons : path, pattern such as ``"points/*.parquet"``, or sequence of them
        Every machine of a cluster must see them under the same paths.
    id, vector, columns, ignore
        As for `read_points`.
    kind, names, max_per_query
        As for `read_comparisons`. Workers take "triplets", "quadruplets", "grades", "clicks" with propensities, and
        "rankings"; of the last three, all rows of a query must be in one file. Triplets and quadruplets stand each for
        itself: they do not form groups, which would depend on where files are cut (``grouped`` in
        `boostmetric.Comparisons.from_triplets`). Nor do workers compare clicks with documents that were not shown.
    queries : path, pattern or sequence, optional
        Files of the queries, where they are not among the points; with the same columns.
    sample : AnchorSample, optional
        Which anchors the comparisons are of, where `split` has chosen; all by default.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from boostmetric import ComparisonBoostMetric
    >>> from boostmetric.tables import ComparisonFiles
    >>> folder = tempfile.TemporaryDirectory()
    >>> points, triplets = Path(folder.name) / "points.csv", Path(folder.name) / "triplets.csv"
    >>> _ = points.write_text("id,x,y\na,0,0\nb,0,1\nc,1,0\n")
    >>> _ = triplets.write_text("anchor,near,far\na,b,c\n")
    >>> metric = ComparisonBoostMetric(max_iter=5).fit(ComparisonFiles(points, triplets, id="id"))
    >>> bool(metric.pair_distance([[[0, 0], [0, 1]]])[0] < metric.pair_distance([[[0, 0], [1, 0]]])[0])
    True
    >>> folder.cleanup()
    """

    points: FilePaths
    comparisons: FilePaths
    id: str | None = None
    vector: str | None = None
    columns: str | Sequence[str] | None = None
    ignore: str | Sequence[str] = ()
    kind: str | None = None
    names: Mapping[str, str] | None = None
    queries: FilePaths | None = None
    max_per_query: int | None = None
    sample: AnchorSample | None = None

    def __post_init__(self) -> None:
        if self.kind is not None:
            check_choice("kind", self.kind, KINDS)
        if self.max_per_query is not None:
            check_count("max_per_query", self.max_per_query, alternative=", or None")

    @property
    def _point_columns(self) -> PointColumns:
        return PointColumns(self.id, None, self.vector, self.columns, self.ignore)

    def _beside(self, table_set: TableSet[Any], other: TableSet[Any] | None) -> PointColumns:
        """The columns of points, or of queries; each may have columns to ignore that the other has not."""
        others = [] if other is None else [*other.tables]
        ignored = to_ignore(table_set.first, self.ignore, [*table_set.tables, *others])
        return self._point_columns._replace(ignore=ignored)

    def read(self) -> tuple[Given, Comparisons]:
        """Read all points and comparisons in this process."""
        points, queries = open_tables(self.points), None if self.queries is None else open_tables(self.queries)
        table = read_comparisons(
            self.comparisons,
            read_some_points(points, self._beside(points, queries)),
            kind=self.kind,
            queries=None if queries is None else read_some_points(queries, self._beside(queries, points)),
            names=self.names,
            max_per_query=self.max_per_query,
            grouped=False,
        )
        if self.sample is None:
            return table.points, table.comparisons
        train, held_out = table.comparisons.split(self.sample.fraction, self.sample.seed)
        return table.points, held_out if self.sample.held_out else train

    def split(self, test_size: float, random_state: int) -> tuple[ComparisonFiles, ComparisonFiles]:
        """Split by anchor into comparisons to learn from and comparisons to hold out.

        Parameters
        ----------
        test_size : float
            Share of the anchors (or queries) to hold out.
        random_state : int
            Seed of the choice of anchors.
        """
        check_number("test_size", test_size, above=0.0, below=1.0)
        if self.sample is not None:
            raise ValueError("These comparisons are held out from others already. Split the others differently.")
        return tuple(replace(self, sample=AnchorSample(test_size, int(random_state), held)) for held in (False, True))  # type: ignore[return-value]

    def opened(self) -> OpenedFiles:
        """Read the footers of the files."""
        read = partial(open_parquet, reader="workers read Parquet files", otherwise=_OTHERWISE)
        queries = None if self.queries is None else read(self.queries)
        return OpenedFiles(self, read(self.points), read(self.comparisons), queries)


@dataclass(frozen=True)
class OpenedFiles:
    """Footers of files of points and comparisons. Of the rows, only the first vector is read."""

    files: ComparisonFiles
    points: TableSet[ParquetTable]
    comparisons: TableSet[ParquetTable]
    queries: TableSet[ParquetTable] | None = None

    def split(self, test_size: float, random_state: int) -> tuple[OpenedFiles, OpenedFiles]:
        """See `ComparisonFiles.split`."""
        train, held_out = self.files.split(test_size, random_state)
        return replace(self, files=train), replace(self, files=held_out)

    @cached_property
    def _features(self) -> Features:
        return features_of(self.points, self.files._beside(self.points, self.queries))

    @cached_property
    def n_features(self) -> int:
        """Number of features of the points."""
        names = self._features.names
        if not self._features.is_vector:
            return len(names)
        first = next(table for table in self.points.tables if table.n_rows)
        vector = first.first_value(names[0])
        if vector is None or not len(vector):
            raise TableError(f"{first.location(0)}, column {names[0]!r}: no value. Fill it in, or remove the row.")
        return len(vector)

    @property
    def feature_names(self) -> list[str] | None:
        """None if the features are a vector."""
        return None if self._features.is_vector else list(self._features.names)

    @cached_property
    def _roles(self) -> tuple[str, dict[str, str]]:
        """The kind of the comparisons, and the columns of its roles."""
        files = self.files
        kind, columns = recognise(self.comparisons.first, files.kind, files.names or {}, files.max_per_query)
        if kind == "pairs":
            problem = "similar pairs are compared with dissimilar ones of all files, so workers cannot share them out."
            raise self.comparisons.error(problem, "Write triplets or quadruplets, or learn without an engine.")
        if kind == "positives":
            problem = "positives are compared with the documents nearest to their query, and workers have only some."
            raise self.comparisons.error(problem, "Write triplets (boostmetric mine), or learn without an engine.")
        if kind == "clicks" and "propensity" not in columns:
            problem = "without propensities, which are estimated from a whole log; workers see parts of it."
            raise self.comparisons.error(problem, "Add a column propensity, or learn without an engine.")
        return kind, columns

    @property
    def n_rows(self) -> int:
        """Number of rows of comparisons, including those of other samples."""
        return self.comparisons.n_rows or 0

    def describe(self) -> str:
        """Describe the files and how they are read."""
        points, rows = self.points, self.comparisons
        kind, columns = self._roles
        n_points, n_files = plural(points.n_rows or 0, "point"), plural(len(points.tables), "file")
        return (
            f"{points}: Parquet, {n_points} in {n_files}, read by the workers\n"
            f"  features: {self._features.describe()}\n"
            f"  ids: {'row numbers' if self.files.id is None else f'column {self.files.id!r}'}\n"
            f"{rows}: Parquet, {plural(self.n_rows, 'row')} in {plural(len(rows.tables), 'file')}\n"
            f"  {KINDS[kind].title}\n"
            f"  columns: {', '.join(columns.values())}"
        )

    def shares(self, n: int) -> list[FileShare]:
        """Divide the comparisons into at most n shares of about equal numbers of rows."""
        kind, columns = self._roles
        units = []
        for table in self.comparisons.tables:  # row groups, or whole files if rows are compared with each other
            groups, path = table.group_sizes, str(table.path.absolute())
            bounds = range(len(groups) + 1) if kind in _ROW_BY_ROW else (0, len(groups))
            units += [RowGroups(path, begin, end, sum(groups[begin:end])) for begin, end in pairwise(bounds)]
        units = [unit for unit in units if unit.n_rows]
        sizes = np.array([unit.n_rows for unit in units])
        ends = np.cumsum(sizes)
        # A unit belongs where its middle lies.
        cuts = np.unique(np.searchsorted(ends - 0.5 * sizes, ends[-1] * np.arange(1, n) / n))
        names = self._features.names
        vector, named = (names[0], None) if self._features.is_vector else (None, names)
        points, queries = (_paths(table_set) for table_set in (self.points, self.queries))
        files = replace(self.files, points=points, queries=queries, vector=vector, columns=named, ignore=())
        shares = []
        for part in np.split(np.arange(len(units)), cuts):
            rows = tuple(units[i] for i in part)
            paths = (*points, *queries, *(unit.path for unit in rows))
            if rows:
                shares.append(FileShare(files, rows, kind, columns, {path: self._footers[path] for path in paths}))
        return shares

    @cached_property
    def _footers(self) -> dict[str, str]:
        """Checksum of the footer of each file, by absolute path."""
        paths = [path for table_set in (self.points, self.comparisons, self.queries) for path in _paths(table_set)]
        return {path: ParquetTable(Path(path)).footer_checksum() for path in paths}

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the footers and of the parameters of reading."""
        asked = (self.files.id, self._features.names, self._roles, self.files.max_per_query, self.files.sample)
        sources = [_paths(table_set) for table_set in (self.points, self.comparisons, self.queries) if table_set]
        footers = [[self._footers[path] for path in paths] for paths in sources]
        return hashlib.blake2b(repr((asked, footers)).encode(), digest_size=16).hexdigest()


class RowGroups(NamedTuple):
    """Row groups ``begin`` to ``end`` (exclusive) of a file, and their number of rows."""

    path: str
    begin: int
    end: int
    n_rows: int


def _paths(table_set: TableSet[ParquetTable] | None) -> list[str]:
    """Absolute paths, because workers may run in another folder."""
    return [] if table_set is None else [str(table.path.absolute()) for table in table_set.tables]


@dataclass(frozen=True)
class FileShare:
    """Row groups of comparisons; `files` names the columns of points, `footers` has the checksums of all files."""

    files: ComparisonFiles
    rows: tuple[RowGroups, ...]
    kind: str
    columns: Mapping[str, str]
    footers: Mapping[str, str]

    def load(self, crew: Crew) -> Loaded:
        """Read the ids in the comparisons, then the points of these ids; comparisons are read block by block."""
        for path, footer in self.footers.items():
            # A restarted worker must read what its predecessor read.
            table = ParquetTable(Path(path))
            if table.footer_checksum() != footer:
                raise table.error("was rewritten since the fit began. Start again, with files that do not change.")
        files, cut = self.files, self._cut()
        read = partial(read_some_points, asked=files._point_columns)
        asked = [role for role in self.columns if files.queries and role in QUERIES]
        others = [role for role in self.columns if role in POINTS and role not in asked]
        points = read(open_tables(files.points), only=self._ids(others, cut, crew))
        queries = read(open_tables(files.queries), only=self._ids(asked, cut, crew)) if files.queries else None
        stacked = stack(points, queries)
        # Without the features, which are held once.
        points = replace(points, points=np.empty((len(points), 0)))
        queries = None if queries is None else replace(queries, points=np.empty((len(queries), 0)))
        ids = joined([table.ids for table in (queries, points) if table is not None and table.ids is not None])
        blocks = [partial(self._block, rows, points, queries, ids) for rows in cut]
        if not len(stacked):
            blocks[0]()  # complains of the ids
        return Loaded(stacked, blocks)

    def _ids(self, roles: Sequence[str], cut: list[list[RowGroups]], crew: Crew) -> Ids:
        """Return the distinct ids in the columns of some roles."""
        names = list(dict.fromkeys(self.columns[role] for role in roles))

        def ids_in(rows: list[RowGroups]) -> Ids:
            known = np.empty(0, dtype=np.int64)
            for chunk in _opened(rows).chunks(Wanted(names)):
                known = _distinct(joined([known, *map(chunk.ids, names)]))
            return known

        return _distinct(joined(crew.each(ids_in, cut)))

    def _block(
        self, rows: list[RowGroups], points: PointTable, queries: PointTable | None, ids: Ids
    ) -> Comparisons | None:
        files = self.files
        try:
            read = ComparisonRows(_opened(rows), self.columns, points, queries)
            comparisons = compare(read, self.kind, files.max_per_query, grouped=False, points=None)
        except NoComparisonsError:  # here; there may be some elsewhere
            return None
        return comparisons if files.sample is None else files.sample.of(comparisons, ids)

    def _cut(self) -> list[list[RowGroups]]:
        """Cut the row groups into blocks; adjacent row groups of a file are merged, to open it once."""
        blocks: list[list[RowGroups]] = [[]]
        for unit in self.rows:
            if blocks[-1] and sum(rows.n_rows for rows in blocks[-1]) + unit.n_rows > _ROWS_AT_ONCE:
                blocks.append([])
            block = blocks[-1]
            if block and block[-1].path == unit.path and block[-1].end <= unit.begin:  # a file may be given twice
                last = block.pop()
                unit = RowGroups(unit.path, last.begin, unit.end, last.n_rows + unit.n_rows)
            block.append(unit)
        return blocks


def _distinct(ids: Ids) -> Ids:
    return np.array(list(dict.fromkeys(ids)), dtype=object) if ids.dtype == object else np.unique(ids)


def _opened(blocks: Sequence[RowGroups]) -> TableSet[ParquetTable]:
    return TableSet([ParquetTable(Path(rows.path), (rows.begin, rows.end)) for rows in blocks])
