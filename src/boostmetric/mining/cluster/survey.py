"""Facts about all points that the search needs: the range of the coordinates, and the sizes of the classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import plural
from boostmetric.arrays.frame import Shift
from boostmetric.arrays.identifiers import Ids, joined
from boostmetric.mining.cluster.point_files import PointFiles
from boostmetric.neighbors import rounding_of_distances
from boostmetric.tables.complaints import TableError


@dataclass(frozen=True, eq=False)
class Survey:
    """Facts about the points of some files.

    Attributes
    ----------
    first : ndarray of shape (n_features,)
        The first point.
    ends : ndarray of shape (2, n_features)
        Minimum and maximum of each coordinate, in the precision of the points.
    classes : ndarray of int64, or of text
        All distinct classes.
    class_sizes : ndarray of shape (n_classes,)
    whole_ids : bool
        Whether all ids are whole numbers.
    """

    first: NDArray[Any]
    ends: NDArray[Any]
    classes: Ids
    class_sizes: NDArray[np.int64]
    whole_ids: bool

    @classmethod
    def merged(cls, parts: Sequence[Survey]) -> Survey:
        """Merge surveys of several files, in their order."""
        classes, class_sizes = _counted([(part.classes, part.class_sizes) for part in parts])
        ends = np.concatenate([part.ends for part in parts])
        return cls(
            parts[0].first,
            np.stack([ends.min(axis=0), ends.max(axis=0)]),
            classes,
            class_sizes,
            all(part.whole_ids for part in parts),
        )

    @property
    def shift(self) -> Shift:
        """Shift to the coordinates used in the search."""
        return Shift.of(self.first, *self.ends)

    @property
    def rounding(self) -> float:
        """Rounding of distances in these coordinates: those that differ by less count as equal."""
        return float(np.ldexp(rounding_of_distances(self.ends), -self.shift.exponent))


def survey(files: PointFiles, file: int, n_threads: int) -> Survey | None:
    """Survey all points of one file; None if it has none.

    Raises
    ------
    TableError
        If anything is wrong, with the file, the row and the column.
    """
    first, ends, counts = None, list[NDArray[Any]](), list[tuple[Ids, NDArray[np.int64]]]()
    for batch in files.batches(file, collect=True):
        if first is None:
            first = batch.points[0].copy()
        ends += [batch.points.min(axis=0), batch.points.max(axis=0)]
        counts.append(_counted([(batch.labels, np.ones(len(batch.labels), dtype=np.int64))]))
    if first is None:
        return None
    if not len(first):
        raise TableError(f"{files.paths[file]}: the vectors in column {files.features.names[0]!r} are empty.")
    whole_ids = all(ids.dtype != object for _, ids in files.ids(file))
    classes, class_sizes = _counted(counts)
    return Survey(first, np.stack([np.min(ends, axis=0), np.max(ends, axis=0)]), classes, class_sizes, whole_ids)


def check_vectors(files: PointFiles, surveys: Sequence[Survey | None]) -> None:
    """Refuse files whose vectors have different lengths."""
    lengths = [(path, len(seen.first)) for path, seen in zip(files.paths, surveys, strict=True) if seen is not None]
    (before, expected), *others = lengths
    for path, length in others:
        if length != expected:
            raise TableError(
                f"{path}: the vectors have {plural(length, 'number')}, those of {before} have {expected}. All vectors "
                "must have one length."
            )


def _counted(parts: Sequence[tuple[Ids, NDArray[np.int64]]]) -> tuple[Ids, NDArray[np.int64]]:
    """Merge classes and their sizes: whole numbers if all are, otherwise text, as in `read_points`."""
    all_classes = joined([classes for classes, _ in parts])
    classes, place = np.unique(all_classes, return_inverse=True)
    sizes = np.zeros(len(classes), dtype=np.int64)
    np.add.at(sizes, place, np.concatenate([sizes for _, sizes in parts]))
    return classes, sizes
