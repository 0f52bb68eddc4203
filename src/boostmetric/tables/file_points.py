"""Points that stay in their files, and are read block by block whenever they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import plural
from boostmetric.arrays.point_blocks import ROWS, PointBlocks
from boostmetric.tables.formats import FilePaths, open_tables
from boostmetric.tables.point_table import (
    Features,
    NamedColumns,
    Origin,
    PointColumns,
    PointTable,
    features_of,
    late_columns,
)
from boostmetric.tables.reading import Table, TableSet, Wanted


class FilePoints(PointBlocks):
    """Features of points in files.

    A block is checked when it is read, and what is wrong with any is reported after the last one.

    Parameters
    ----------
    table_set : TableSet
    features : Features
    late : sequence of str
        As in `Wanted`.
    n_points, n_features : int
    rows : ndarray of int, optional
        Numbers of the rows to read, in ascending order; by default all.
    """

    def __init__(
        self,
        table_set: TableSet[Table],
        features: Features,
        late: Sequence[str],
        n_points: int,
        n_features: int,
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        self._table_set, self._features, self._late = table_set, features, late
        self._n_points, self._rows = n_points, rows
        self.shape = (n_points if rows is None else len(rows), n_features)
        self.dtype = features.dtype

    def __getitem__(self, rows: Any) -> FilePoints:
        """Choose rows by a mask or by ascending numbers; nothing is read."""
        known = np.arange(self._n_points) if self._rows is None else self._rows
        args = self._table_set, self._features, self._late, self._n_points, self.shape[1]
        return FilePoints(*args, known[rows])

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield the points, some thousands at a time."""
        parts, n = list[NDArray[Any]](), 0
        for part in self._parts():
            while n + len(part) >= ROWS:
                yield np.concatenate([*parts, part[: ROWS - n]])
                part, parts, n = part[ROWS - n :], [], 0
            parts.append(part)
            n += len(part)
        if n:
            yield np.concatenate(parts)

    def _parts(self) -> Iterator[NDArray[Any]]:
        n = 0
        for chunk in self._table_set.chunks(Wanted([], self._features.names, self._late)):
            part = self._features.of(chunk, self.shape[1])
            first, n = n, n + len(part)
            if self._rows is not None:
                begin, end = np.searchsorted(self._rows, [first, n])
                part = part[self._rows[begin:end] - first]
            yield part
        if n != self._n_points:
            problem = f"had {plural(self._n_points, 'row')} and has {n:,} now."
            raise self._table_set.error(problem, "Start again, with files that do not change.")


def open_points(
    path: FilePaths,
    *,
    id: str | None = None,
    label: str | None = None,
    vector: str | None = None,
    columns: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] = (),
    keep: str | Sequence[str] = (),
    unlabelled: bool = False,
) -> PointTable:
    r"""Open files of points that may be larger than memory: as `read_points`, but the features stay in the files.

    Ids, labels and kept columns are read, and held. The features are read block by block when they are used, and then
    checked.

    Parameters
    ----------
    path, id, label, vector, columns, ignore, keep, unlabelled
        As for `boostmetric.tables.read_points`.

    Returns
    -------
    PointTable
        Its `points` have the method ``blocks()``, which yields arrays of consecutive points.

    Raises
    ------
    TableError
        If anything is wrong with ids, labels or kept columns; ``blocks()`` raises what is wrong with the features.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from boostmetric.tables import open_points
    >>> path = Path(tempfile.mkdtemp()) / "points.npy"
    >>> np.save(path, np.eye(3))
    >>> table = open_points(path)
    >>> len(table), table.n_features
    (3, 3)
    >>> [len(block) for block in table.points.blocks()]
    [3]
    """
    table_set, asked = open_tables(path), PointColumns(id, label, vector, columns, ignore, keep, unlabelled=unlabelled)
    features = features_of(table_set, asked)
    late = late_columns(features, asked)
    names, n = NamedColumns(asked), table_set.n_rows
    if asked.claimed or n is None:
        n = 0
        for chunk in table_set.chunks(Wanted(list(asked.claimed) or features.names[:1], [], late)):
            names.add(chunk)
            n += len(chunk.rows)
    width = len(features.names)
    if features.is_vector:
        first = next(table_set.chunks(Wanted([], features.names, late)))
        width = features.of(first).shape[1]
        if not width:
            raise table_set.error(f"the vectors in column {features.names[0]!r} are empty.")
    return PointTable(
        FilePoints(table_set, features, late, n, width),
        feature_names=None if features.is_vector else list(features.names),
        source=str(table_set),
        origin=Origin(table_set.format, features, asked, tuple(table_set.first.columns.values())),
        **names.checked(table_set),
    )
