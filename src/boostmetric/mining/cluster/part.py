"""Mine one part: find the neighbours of some points among all points, and write them to a Parquet file."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.identifiers import Ids, as_texts, joined
from boostmetric.arrays.ragged import Ragged
from boostmetric.mining.cluster.folder import MinedFolder, MinedPart
from boostmetric.mining.cluster.point_files import PointFiles
from boostmetric.mining.cluster.survey import Survey
from boostmetric.neighbors.streams import NearestSoFar
from boostmetric.tables.complaints import refuse_repeated_ids


@dataclass(frozen=True, eq=False)
class Job:
    """What all parts share."""

    files: PointFiles
    survey: Survey
    folder: MinedFolder
    n_neighbors: int
    n_impostors: int


def mine_part(job: Job, part: MinedPart, n_threads: int) -> None:
    """Find the targets and impostors of the points of a part, and write them.

    Memory: the points of the part, one batch of a file, and 16 MB per thread.
    """
    files, survey = job.files, job.survey
    shift, n_features = survey.shift, len(survey.first)
    pieces, label_pieces = list[NDArray[np.float64]](), list[Ids]()
    for batch in files.batches(part.file, n_features=n_features):
        wanted = slice(max(part.first - batch.first, 0), max(part.end - batch.first, 0))
        pieces.append(shift.coordinates_of(batch.points[wanted]))
        label_pieces.append(batch.labels[wanted])
        if batch.first + len(batch.points) >= part.end:
            break
    texts = as_texts(joined(label_pieces))
    # Other classes need no numbers of their own: all are -1, which no anchor has.
    known = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    anchors = np.arange(part.first, part.end)
    search = NearestSoFar(
        np.concatenate(pieces),
        np.array([known[text] for text in texts]),
        anchors,
        job.n_neighbors,
        job.n_impostors,
        survey.rounding,
        n_threads=n_threads,
    )
    del pieces
    for file in range(len(files.paths)):
        for batch in files.batches(file, n_features=n_features):
            search.offer(shift.coordinates_of(batch.points), _numbered(batch.labels, known), batch.first)
    targets, impostors = search.nearest()
    has_target = np.flatnonzero(targets.sizes)
    job.folder.write(
        part, _columns(job, part, anchors[has_target], targets.take(has_target), impostors.take(has_target))
    )


def _numbered(labels: Ids, known: dict[str, int]) -> NDArray[np.int64]:
    """Class number of each label; -1 for unknown classes."""
    classes, place = np.unique(labels, return_inverse=True)
    return np.array([known.get(text, -1) for text in as_texts(classes)], dtype=np.int64)[place]


def _columns(
    job: Job, part: MinedPart, anchors: NDArray[np.int64], targets: Ragged, impostors: Ragged
) -> dict[str, NDArray[Any]]:
    """Columns query, document and grade: for each anchor its targets, nearest first, then its impostors."""
    row = np.concatenate([targets.row, impostors.row])
    order = np.argsort(row, kind="stable")
    query = anchors[row[order]]
    document = np.concatenate([targets.values, impostors.values])[order]
    grade = np.repeat(np.array([1, 0], dtype=np.int8), [len(targets.values), len(impostors.values)])[order]
    rows = np.unique(np.concatenate([query, document]))
    ids = _ids_of(job, part, rows)
    return {
        "query": ids[np.searchsorted(rows, query)],
        "document": ids[np.searchsorted(rows, document)],
        "grade": grade,
    }


def _ids_of(job: Job, part: MinedPart, rows: NDArray[np.int64]) -> NDArray[Any]:
    """Ids of some rows, which are in ascending order.

    All ids are read here, so each part also checks its share of them, about as many as it has points, for duplicates.
    """
    files, whole, n_parts = job.files, job.survey.whole_ids, job.folder.n_parts
    found: list[Any] = []
    share: list[Ids] = []
    share_rows: list[NDArray[np.int64]] = []
    for file in range(len(files.paths)):
        for first, given in files.ids(file):
            ids = given if whole else as_texts(given)
            begin, end = np.searchsorted(rows, [first, first + len(ids)])
            places = rows[begin:end] - first
            found += ids[places].tolist()
            if files.id is None:
                continue
            key = ids if whole else np.array([zlib.crc32(text.encode()) for text in ids])
            mine = np.flatnonzero(key % n_parts == part.number)
            share.append(ids[mine])
            share_rows.append(mine + first)
    if files.id is not None:
        refuse_repeated_ids(
            lambda row, _: files.location(row), as_texts(joined(share)), np.concatenate(share_rows), None
        )
    return np.array(found, dtype=np.int64 if whole else object)
