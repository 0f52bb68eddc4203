"""Points in Parquet files, read batch by batch and never all in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.tables.complaints import Complaints, TableError, plural
from boostmetric.tables.features import Features
from boostmetric.tables.opening import FilePaths, open_parquet, open_tables
from boostmetric.tables.parquet import ParquetTable
from boostmetric.tables.point_table import features_of
from boostmetric.tables.reading import Chunk, TableSet
from boostmetric.tables.values import ColumnPart, Ids

_OTHERWISE = "read it whole with read_points, for Comparisons.from_labels"


@dataclass(frozen=True)
class PointBatch:
    """Rows of one file: the number of the first among all rows, the points, and their labels."""

    first: int
    points: NDArray[Any]
    labels: Ids


@dataclass(frozen=True)
class PointFiles:
    """Files of points, and the columns to read.

    Attributes
    ----------
    paths : tuple of Path
    sizes : tuple of int
        Number of rows of each file.
    features : Features
    label : str
    id : str, optional
        Without it, the id of a point is its row number.
    """

    paths: tuple[Path, ...]
    sizes: tuple[int, ...]
    features: Features
    label: str
    id: str | None

    @classmethod
    def opened(
        cls,
        source: FilePaths,
        *,
        label: str,
        id: str | None,
        vector: str | None,
        columns: Sequence[str] | None,
        ignore: Sequence[str],
    ) -> PointFiles:
        """Open files by reading their footers only, no rows."""
        table_set = open_parquet(source, "only Parquet files are mined in parts", _OTHERWISE)
        for table in table_set.tables:
            for name, what in ((label, "of labels"), (id, "of ids")):
                if name is not None:
                    table.column(name, what)
        claimed = {label: "label"} if id is None else {id: "id", label: "label"}
        features = features_of(table_set, claimed, vector, columns, ignore)
        # Absolute, because workers may run in another folder than this process.
        paths = tuple(table.path.absolute() for table in table_set.tables)
        files = cls(paths, tuple(table.n_rows or 0 for table in table_set.tables), features, label, id)
        if not sum(files.sizes):
            raise TableError(f"{table_set}: there are no rows. At least one is needed.")
        return files

    def __str__(self) -> str:
        more = len(self.paths) - 1
        return f"{self.paths[0]} and {plural(more, 'more file')}" if more else str(self.paths[0])

    @property
    def starts(self) -> list[int]:
        """Number of the first row of each file, among all rows."""
        return list(accumulate(self.sizes, initial=0))[:-1]

    def footers(self) -> list[str]:
        """Checksum of the footer of each file: schema, number of rows, and sizes and ranges of all columns."""
        return [ParquetTable(path).footer_checksum() for path in self.paths]

    def batches(
        self, file: int, *, complaints: Complaints | None = None, n_features: int | None = None
    ) -> Iterator[PointBatch]:
        """Read the points of one file, batch by batch.

        Parameters
        ----------
        file : int
        complaints : Complaints, optional
            Collects errors; without it, they are raised at once.
        n_features : int, optional
            Length of the vectors, if known.
        """
        for chunk, table_set in self._chunks(file, [*self.features.names, self.label]):
            collected = Complaints() if complaints is None else complaints
            points = self._points(table_set, chunk, collected, n_features)
            labels = ColumnPart(table_set, chunk, self.label, collected).classes()
            if complaints is None:
                collected.raise_if_any()
            n_features = points.shape[1]
            yield PointBatch(self.starts[file] + chunk.start, points, labels)

    def ids(self, file: int) -> Iterator[tuple[int, Ids]]:
        """Read the ids of one file, batch by batch, each with the number of its first row."""
        start = self.starts[file]
        if self.id is None:
            yield start, np.arange(start, start + self.sizes[file])
            return
        for chunk, table_set in self._chunks(file, [self.id]):
            complaints = Complaints()
            ids = ColumnPart(table_set, chunk, self.id, complaints).ids()
            complaints.raise_if_any()
            yield start + chunk.start, ids

    def location(self, row: int) -> str:
        """Location of a row, for a message."""
        file = int(np.searchsorted(np.cumsum(self.sizes), row, side="right"))
        where = f"{self.paths[file]}, row {row - self.starts[file]} (counted from 0)"
        return where if self.id is None else f"{where}, column {self.id!r}"

    def _chunks(self, file: int, names: list[str]) -> Iterator[tuple[Chunk, TableSet]]:
        if not self.sizes[file]:
            return
        table_set = open_tables(self.paths[file])
        if table_set.n_rows != self.sizes[file]:
            raise TableError(
                f"{self.paths[file]}: had {plural(self.sizes[file], 'row')} and has {table_set.n_rows:,} now. Begin "
                "anew, with files that do not change."
            )
        for chunk in table_set.chunks(list(dict.fromkeys(names))):
            yield chunk, table_set

    def _points(
        self, table_set: TableSet, chunk: Chunk, complaints: Complaints, n_features: int | None
    ) -> NDArray[Any]:
        names, dtype = self.features.names, self.features.dtype
        if self.features.is_vector:
            return ColumnPart(table_set, chunk, names[0], complaints).vectors(n_features).astype(dtype, copy=False)
        points = np.empty((chunk.size, len(names)), dtype=dtype)
        for place, name in enumerate(names):
            points[:, place] = ColumnPart(table_set, chunk, name, complaints).numbers()
        return points
