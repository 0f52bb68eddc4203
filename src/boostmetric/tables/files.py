"""Points and comparisons in Parquet files, which workers read: each its row groups, and the points that these name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boostmetric.comparisons import Comparisons
from boostmetric.frame import Given
from boostmetric.shares import Loaded
from boostmetric.tables.comparisons import ComparisonTable, compare, read_comparisons, stack
from boostmetric.tables.complaints import Complaints, NoComparisonsError, TableError, plural
from boostmetric.tables.features import Features
from boostmetric.tables.kinds import KINDS, recognise
from boostmetric.tables.parquet import ParquetTable
from boostmetric.tables.points import PointTable, features_of, read_points, read_some_points
from boostmetric.tables.reading import Shards
from boostmetric.tables.sources import Source, open_row_groups, open_tables
from boostmetric.tables.values import Ids, Part, joined
from boostmetric.validation import check_choice, check_count, check_number

# Whole numbers as they are written in one way only.
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
# Rows that a worker makes comparisons of at once: some hundred bytes each, until they are packed.
_ROWS_AT_ONCE = 2**21
# Kinds whose comparisons are within rows, not between them: a file may be cut anywhere.
_ROW_BY_ROW = ("triplets", "quadruplets")


class Rows(NamedTuple):
    """Row groups of a file: the first, and the one after the last."""

    path: str
    begin: int
    end: int


@dataclass(frozen=True)
class Sample:
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
class _PointFiles:
    """Files of points, and which of their columns are what."""

    files: tuple[str, ...]
    id: str | None
    vector: str | None
    columns: tuple[str, ...] | None
    n_features: int

    def read(self, only: Ids) -> PointTable:
        """The points of some ids."""
        shards = open_tables(self.files)
        table = read_some_points(shards, self.id, None, self.vector, self.columns, only=only)
        if not len(table):  # whoever looks these ids up will say so
            return replace(table, points=np.zeros((0, self.n_features)))
        if table.n_features != self.n_features:
            raise TableError(
                f"{shards}: the first vector in column {self.vector!r} has {plural(self.n_features, 'number')}, others "
                f"have {table.n_features:,}. All vectors must have one length: correct or remove the others."
            )
        return table


@dataclass(frozen=True)
class FileShare:
    """Row groups of comparisons, and where their points are.

    Attributes
    ----------
    rows : tuple of Rows
    points, queries
    kind : str
    columns : dict of str to str
        The column of each role.
    max_per_query : int or None
    sample : Sample or None
    """

    rows: tuple[Rows, ...]
    points: _PointFiles
    queries: _PointFiles | None
    kind: str
    columns: Mapping[str, str]
    max_per_query: int | None
    sample: Sample | None

    def load(self) -> Loaded:
        """Read the ids in the comparisons, then the points of these ids; comparisons are read block by block."""
        asked = KINDS[self.kind].queries if self.queries is not None else ()
        roles = KINDS[self.kind].points
        points = self.points.read(self._ids([role for role in roles if role not in asked]))
        queries = None if self.queries is None else self.queries.read(self._ids(asked))
        tables = [None if table is None else _named(table) for table in (points, queries)]
        stacked = stack(points, queries)
        if not len(stacked):
            next(self._blocks(*tables))  # complains of the ids
        return Loaded(stacked, self._blocks(*tables))

    def _ids(self, roles: Sequence[str]) -> Ids:
        """All ids in the columns of some roles, once each."""
        complaints, shards = Complaints(), self._opened(self.rows)
        names = list(dict.fromkeys(self.columns[role] for role in roles))
        known: Ids = np.empty(0, dtype=np.int64)
        for chunk in shards.chunks(names):
            known = _distinct(joined([known, *(Part(shards, chunk, name, complaints).ids() for name in names)]))
        complaints.raise_if_any()
        return known

    def _blocks(self, points: PointTable | None, queries: PointTable | None) -> Iterator[Comparisons]:
        assert points is not None
        ids = joined([_known(table) for table in (queries, points) if table is not None])
        for rows in self._cut():
            try:
                _, comparisons, _ = compare(
                    self._opened(rows), self.kind, self.columns, points, queries, self.max_per_query, grouped=False
                )
            except NoComparisonsError:  # here; there may be some elsewhere
                continue
            chosen = comparisons if self.sample is None else self.sample.of(comparisons, ids)
            if chosen is not None:
                yield chosen

    def _cut(self) -> Iterator[list[Rows]]:
        """Row groups in blocks."""
        block, size = list[Rows](), 0
        for rows in self.rows:
            sizes = open_row_groups(Path(rows.path), rows.begin, rows.end).group_sizes
            pieces = [rows]
            if self.kind in _ROW_BY_ROW:
                pieces = [Rows(rows.path, group, group + 1) for group in range(rows.begin, rows.end)]
            for piece in pieces:
                n = sum(sizes[piece.begin : piece.end])
                if block and size + n > _ROWS_AT_ONCE:
                    yield block
                    block, size = [], 0
                block.append(piece)
                size += n
        yield block

    def _opened(self, rows: Sequence[Rows]) -> Shards:
        return Shards([open_row_groups(Path(path), begin, end) for path, begin, end in rows])


def _named(table: PointTable) -> PointTable:
    """The names of points without the points, which are held elsewhere."""
    return replace(table, points=np.empty((len(table), 0)))


def _known(table: PointTable) -> Ids:
    assert table.ids is not None  # of points that were chosen by them
    return table.ids if table.ids.dtype.kind == "i" else list(table.ids)


def _distinct(ids: Ids) -> Ids:
    return np.unique(ids) if isinstance(ids, np.ndarray) else list(dict.fromkeys(ids))


@dataclass(frozen=True)
class ComparisonFiles:
    r"""Points and comparisons in files, to learn from with ``ComparisonBoostMetric(...).fit(ComparisonFiles(...))``.

    With ``engine="ray"`` they must be Parquet files, and the workers read them, each its part: the process that calls
    reads no more than what the files say about themselves, and the length of the first vector. Without, they are read
    whole, as `read_points` and `read_comparisons` do.

    Parameters
    ----------
    points, comparisons : path, pattern such as ``"shards/*.parquet"``, or sequence of them
        Every machine of a cluster must see them under the same paths.
    id, vector, columns, ignore
        As for `read_points`.
    kind, names, max_per_query
        As for `read_comparisons`. Workers take "triplets", "quadruplets", "grades", "clicks" and "rankings"; of the
        last three, all rows of a query must be in one file. Triplets and quadruplets stand each for itself: they do not
        form groups, which would depend on where files are cut (``grouped`` in `boostmetric.Comparisons.from_triplets`).
    queries : path, pattern or sequence, optional
        Files of the queries, where they are not among the points; with the same columns.
    sample : Sample, optional
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

    points: Source
    comparisons: Source
    id: str | None = None
    vector: str | None = None
    columns: str | Sequence[str] | None = None
    ignore: str | Sequence[str] = ()
    kind: str | None = None
    names: Mapping[str, str] | None = None
    queries: Source | None = None
    max_per_query: int | None = None
    sample: Sample | None = None

    def __post_init__(self) -> None:
        if self.kind is not None:
            check_choice("kind", self.kind, KINDS)
        if self.max_per_query is not None:
            check_count("max_per_query", self.max_per_query, alternative=", or None")

    def read(self) -> tuple[Given, Comparisons]:
        """All points and comparisons, in this process."""
        table = self._table()
        if self.sample is None:
            return table.points, table.comparisons
        train, held_out = table.comparisons.split(self.sample.fraction, self.sample.seed)
        return table.points, held_out if self.sample.held_out else train

    def _table(self) -> ComparisonTable:
        options: dict[str, Any] = {"vector": self.vector, "columns": self.columns, "ignore": self.ignore}
        points = read_points(self.points, id=self.id, **options)
        queries = None if self.queries is None else read_points(self.queries, id=self.id, **options)
        return read_comparisons(
            self.comparisons,
            points,
            kind=self.kind,
            queries=queries,
            names=self.names,
            max_per_query=self.max_per_query,
            grouped=False,
        )

    def split(self, test_size: float, random_state: int) -> tuple[ComparisonFiles, ComparisonFiles]:
        """Comparisons to learn from, and those of some anchors, held out.

        Parameters
        ----------
        test_size : float
            Share of the anchors (or queries) to hold out.
        random_state : int
            Which ones.
        """
        check_number("test_size", test_size, above=0.0, below=1.0)
        if self.sample is not None:
            raise ValueError("These comparisons are held out from others already. Split the others differently.")
        return tuple(replace(self, sample=Sample(test_size, int(random_state), held)) for held in (False, True))  # type: ignore[return-value]

    @cached_property
    def _point_files(self) -> Shards:
        return _parquet(self.points)

    @cached_property
    def _comparison_files(self) -> Shards:
        return _parquet(self.comparisons)

    @cached_property
    def _features(self) -> Features:
        claimed = {} if self.id is None else {self.id: "id"}
        return features_of(self._point_files, claimed, self.vector, self.columns, self.ignore)

    @cached_property
    def n_features(self) -> int:
        """Of the points."""
        features = self._features
        if not features.is_vector:
            return len(features.names)
        first = next((table for table in self._point_files.tables if table.n_rows), None)
        if first is None:
            raise TableError(f"{self._point_files}: there are no rows. At least one is needed.")
        assert isinstance(first, ParquetTable)
        return first.first_vector(features.names[0])

    @property
    def feature_names(self) -> list[str] | None:
        """None if the features are a vector."""
        return None if self._features.is_vector else list(self._features.names)

    @cached_property
    def _roles(self) -> tuple[str, dict[str, str]]:
        kind, columns = recognise(self._comparison_files.first, self.kind, self.names or {})
        if kind == "pairs":
            raise TableError(
                f"{self._comparison_files}: similar pairs are compared with all dissimilar ones, of all files, so that "
                "workers cannot share them out. Write triplets or quadruplets, or learn without an engine."
            )
        if self.max_per_query is not None and "query" not in columns:
            raise TableError(f"{self._comparison_files}: these are {kind}, which have no max_per_query. Leave it out.")
        return kind, columns

    @property
    def n_rows(self) -> int:
        """Of the comparisons, those of other samples among them."""
        return self._comparison_files.n_rows or 0

    def describe(self) -> str:
        """What was understood, for people."""
        points, rows = self._point_files, self._comparison_files
        kind, columns = self._roles
        n_files = plural(len(points.tables), "file")
        return "\n".join(
            [
                f"{points}: Parquet, {plural(points.n_rows or 0, 'point')} in {n_files}, read by the workers",
                f"  features: {self._features.describe()}",
                f"  ids: {'row numbers' if self.id is None else f'column {self.id!r}'}",
                f"{rows}: Parquet, {plural(self.n_rows, 'row')} in {plural(len(rows.tables), 'file')}",
                f"  {KINDS[kind].title}",
                f"  columns: {', '.join(columns.values())}",
            ]
        )

    def shares(self, n: int) -> list[FileShare]:
        """So many shares, or fewer, of about as many rows each.

        Parameters
        ----------
        n : int
        """
        kind, columns = self._roles
        units, sizes = list[Rows](), list[int]()
        for table in self._comparison_files.tables:
            assert isinstance(table, ParquetTable)
            path, counts = str(table.path.absolute()), table.group_sizes
            if kind in _ROW_BY_ROW:
                units += [Rows(path, group, group + 1) for group in range(len(counts))]
                sizes += counts
            else:
                units.append(Rows(path, 0, len(counts)))
                sizes.append(sum(counts))
        ends = np.cumsum(sizes)
        if not len(ends) or not ends[-1]:
            raise TableError(f"{self._comparison_files}: there are no rows. At least one is needed.")
        # A unit belongs where its middle lies.
        cuts = np.unique(np.searchsorted(ends - 0.5 * np.array(sizes), ends[-1] * np.arange(1, n) / n))
        whole = [tuple(_merged(units[i] for i in part if sizes[i])) for part in np.split(np.arange(len(units)), cuts)]
        points = self._files_of(self.points)
        queries = None if self.queries is None else self._files_of(self.queries)
        return [
            FileShare(rows, points, queries, kind, columns, self.max_per_query, self.sample) for rows in whole if rows
        ]

    def _files_of(self, source: Source) -> _PointFiles:
        shards = _parquet(source)
        columns = None if self._features.is_vector else self._features.names
        vector = self._features.names[0] if self._features.is_vector else None
        files = tuple(str(table.path.absolute()) for table in shards.tables)
        return _PointFiles(files, self.id, vector, columns, self.n_features)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what the files say about themselves, and of how they are read."""
        asked = (self.id, self._features.names, self._roles, self.max_per_query, self.sample)
        digest = hashlib.blake2b(repr(asked).encode(), digest_size=16)
        sources = [self._point_files, self._comparison_files]
        for shards in sources if self.queries is None else [*sources, _parquet(self.queries)]:
            for table in shards.tables:
                assert isinstance(table, ParquetTable)
                digest.update(table.footer())
        return digest.hexdigest()


def _merged(units: Iterable[Rows]) -> list[Rows]:
    """Row groups of a file that follow each other as one; a file may be given twice."""
    merged: list[Rows] = []
    for unit in units:
        last = merged[-1] if merged else None
        if last is not None and last.path == unit.path and last.end <= unit.begin:
            merged[-1] = Rows(unit.path, last.begin, unit.end)
        else:
            merged.append(unit)
    return merged


def _parquet(source: Source) -> Shards:
    shards = open_tables(source)
    for table in shards.tables:
        if not isinstance(table, ParquetTable):
            raise TableError(
                f"{table.path}: workers read Parquet files, and this one is {table.format}. Convert it, or learn "
                "without an engine, in this process."
            )
    return shards


def are_parquet(*sources: Source | None) -> bool:
    """Whether all files of the sources are, so that workers can read them."""
    given = [source for source in sources if source is not None]
    return all(isinstance(table, ParquetTable) for source in given for table in open_tables(source).tables)
