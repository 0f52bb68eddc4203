"""Points in Parquet files, read batch by batch and never all in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import plural
from boostmetric.arrays.identifiers import Ids
from boostmetric.tables.complaints import TableError
from boostmetric.tables.formats import FilePaths, ParquetTable, open_parquet, open_tables
from boostmetric.tables.point_table import Features, PointColumns, features_of
from boostmetric.tables.reading import Chunk, Wanted

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
    def opened(cls, source: FilePaths, label: str, asked: PointColumns) -> PointFiles:
        """Open files by reading their footers only, no rows."""
        table_set = open_parquet(source, "only Parquet files are mined in parts", _OTHERWISE)
        for table in table_set.tables:
            for name, what in asked.claimed.items():
                table.column(name, what)
        features = features_of(table_set, asked)
        # Absolute, because workers may run in another folder than this process.
        paths = tuple(table.path.absolute() for table in table_set.tables)
        return cls(paths, tuple(table.n_rows or 0 for table in table_set.tables), features, label, asked.id)

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

    def batches(self, file: int, *, n_features: int | None = None, collect: bool = False) -> Iterator[PointBatch]:
        """Read the points of one file, batch by batch.

        Parameters
        ----------
        file : int
        n_features : int, optional
            Length of the vectors, if known.
        collect : bool, default=False
            Whether errors are raised after the last batch, rather than after each.
        """
        for chunk in self._chunks(file, Wanted([self.label], self.features.names)):
            points, labels = self.features.of(chunk, n_features), chunk.classes(self.label)
            if not collect:
                chunk.complaints.raise_if_any()
            n_features = points.shape[1]
            yield PointBatch(self.starts[file] + int(chunk.rows[0]), points, labels)

    def ids(self, file: int) -> Iterator[tuple[int, Ids]]:
        """Read the ids of one file, batch by batch, each with the number of its first row."""
        start = self.starts[file]
        if self.id is None:
            yield start, np.arange(start, start + self.sizes[file])
            return
        for chunk in self._chunks(file, Wanted([self.id])):
            ids = chunk.ids(self.id)
            chunk.complaints.raise_if_any()
            yield start + int(chunk.rows[0]), ids

    def location(self, row: int) -> str:
        """Location of a row, for a message."""
        file = int(np.searchsorted(np.cumsum(self.sizes), row, side="right"))
        where = f"{self.paths[file]}, row {row - self.starts[file]} (counted from 0)"
        return where if self.id is None else f"{where}, column {self.id!r}"

    def _chunks(self, file: int, wanted: Wanted) -> Iterator[Chunk]:
        if not self.sizes[file]:
            return
        table_set = open_tables(self.paths[file])
        if table_set.n_rows != self.sizes[file]:
            raise TableError(
                f"{self.paths[file]}: had {plural(self.sizes[file], 'row')} and has {table_set.n_rows:,} now. Start "
                "again, with files that do not change."
            )
        yield from table_set.chunks(wanted)
