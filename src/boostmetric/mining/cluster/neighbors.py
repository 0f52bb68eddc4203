"""Find targets and impostors of labelled points that are too many for one process or one machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from boostmetric.arrays.validation import check_count
from boostmetric.comparisons.labels import check_classes, warn_of_small_classes
from boostmetric.engines.ray import RayEngine
from boostmetric.mining.cluster.folder import MinedFolder, MinedNeighbors, MinedPart
from boostmetric.mining.cluster.part import Job, mine_part
from boostmetric.mining.cluster.point_files import PointFiles
from boostmetric.mining.cluster.survey import Survey, check_vectors, survey
from boostmetric.mining.cluster.tasks import tasks_on
from boostmetric.tables.complaints import TableError
from boostmetric.tables.formats import FilePaths
from boostmetric.tables.point_table import PointColumns


def mine_neighbors(
    points: FilePaths,
    output: str | Path,
    *,
    label: str,
    id: str | None = None,
    n_neighbors: int = 3,
    n_impostors: int = 3,
    vector: str | None = None,
    columns: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] = (),
    engine: RayEngine | Literal["ray"] | None = None,
    rows_per_part: int = 16384,
    on_progress: Callable[[int, int], object] | None = None,
) -> MinedNeighbors:
    """Find the nearest points of the same class and of other classes, from files to files.

    The result is that of `boostmetric.Comparisons.from_labels` for the same points in the same order. No process holds
    all points: each holds a part of them, and reads all others batch by batch.

    Parameters
    ----------
    points : path, pattern such as ``"points/*.parquet"``, or sequence of them
        Parquet files. On a cluster, every machine must have them under the same names.
    output : path
        Folder for one Parquet file per part, with the columns query, document and grade: 1 for targets (nearest points
        of the same class), 0 for impostors (of other classes), nearest first. `boostmetric.tables.read_comparisons`
        reads them. Existing parts are kept, so the same call resumes an interrupted run; parts from other points or
        settings are refused. On a cluster, every machine must have this folder.
    label : str
        Column of the class labels.
    id : str, optional
        Column of the ids; without it, the id of a point is its row number among all rows, from 0.
    n_neighbors, n_impostors : int, default=3
        Number of targets and of impostors of each point. Points of a smaller class have fewer targets, and a point
        alone in its class serves only as an impostor; both give a warning.
    vector, columns, ignore
        Which columns are the features, as in `boostmetric.tables.read_points`.
    engine : "ray", RayEngine or None, default=None
        Ray cluster to run on: "ray" is one on this machine. None runs in this process, on all processors. The `timeout`
        of an engine is not used: how long a part takes depends on the number of points.
    rows_per_part : int, default=16384
        Maximum number of points in a part; a part never spans two files. All points are read for each part.
    on_progress : callable, optional
        Called with the number of parts done, and the number of all parts.

    Returns
    -------
    MinedNeighbors

    Raises
    ------
    TableError
        If anything in the files is wrong, with the file, the row and the column. Finished parts are kept.

    Notes
    -----
    Cost: the distances between all points, once. Memory of a process, besides its libraries: `rows_per_part` points in
    double precision and about 200 MB. This process reads only the footers of the files; it receives the range of each
    coordinate and the names and sizes of the classes.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from boostmetric.mining.cluster import mine_neighbors
    >>> from boostmetric.tables import read_comparisons, read_points
    >>> folder = tempfile.TemporaryDirectory()
    >>> table = pd.DataFrame({"sku": list("pqrs"), "kind": list("aabb"), "x": [0.0, 1.0, 5.0, 6.0]})
    >>> points, output = f"{folder.name}/points.parquet", f"{folder.name}/mined"
    >>> table.to_parquet(points)
    >>> mined = mine_neighbors(points, output, label="kind", id="sku", n_neighbors=1, n_impostors=2)
    >>> mined.n_rows
    12
    >>> read_comparisons(mined.files, read_points(points, id="sku", label="kind")).comparisons
    Comparisons(n_comparisons=8, n_pairs=6, n_groups=4)
    >>> folder.cleanup()
    """
    for name, value in (("n_neighbors", n_neighbors), ("n_impostors", n_impostors), ("rows_per_part", rows_per_part)):
        check_count(name, value)
    files = PointFiles.opened(points, label, PointColumns(id, label, vector, columns, ignore))
    parts = _parts(files, rows_per_part)
    folder = _folder(files, Path(output).absolute(), n_neighbors, n_impostors, rows_per_part, len(parts))
    folder.open()
    with tasks_on(engine) as run:
        surveys = dict(run(survey, files, range(len(files.paths))))
        seen = _whole(files, [surveys[file] for file in range(len(files.paths))], n_neighbors)
        left = [part for part in parts if folder.found(part) is None]
        n_done = n_found = len(parts) - len(left)
        if on_progress is not None:
            on_progress(n_done, len(parts))
        for _ in run(mine_part, Job(files, seen, folder, n_neighbors, n_impostors), left):
            n_done += 1
            if on_progress is not None:
                on_progress(n_done, len(parts))
    counts = np.array([folder.found(part) or (0, 0) for part in parts])
    n_anchors, n_rows = counts.sum(axis=0).tolist()
    return MinedNeighbors(
        str(Path(output) / "part-*.parquet"),
        sum(files.sizes),
        len(seen.classes),
        len(parts),
        n_anchors,
        n_rows,
        n_found,
    )


def _parts(files: PointFiles, rows_per_part: int) -> list[MinedPart]:
    """Cut each file into parts of about equal size."""
    parts: list[MinedPart] = []
    for file, (start, size) in enumerate(zip(files.starts, files.sizes, strict=True)):
        n_parts = -(-size // rows_per_part)
        cuts = [start + size * cut // max(n_parts, 1) for cut in range(n_parts + 1)]
        for first, end in pairwise(cuts):
            parts.append(MinedPart(len(parts), file, first, end))
    return parts


def _folder(
    files: PointFiles, path: Path, n_neighbors: int, n_impostors: int, rows_per_part: int, n_parts: int
) -> MinedFolder:
    if any(path == file.parent for file in files.paths):
        raise TableError(f"{path} holds the files of points, and may not hold the parts as well. Name another folder.")
    settings = {
        "label": files.label,
        "id": files.id,
        "features": list(files.features.names),
        "n_neighbors": int(n_neighbors),
        "n_impostors": int(n_impostors),
        "rows_per_part": int(rows_per_part),
    }
    known = {"names": [file.name for file in files.paths], "footers": files.footers()}
    return MinedFolder(path, settings, known, n_parts)


def _whole(files: PointFiles, surveys: Sequence[Survey | None], n_neighbors: int) -> Survey:
    """Merge the surveys of all files; refuse points that allow no comparison."""
    check_vectors(files, surveys)
    seen = Survey.merged([one for one in surveys if one is not None])
    classes = np.asarray(seen.classes)
    try:
        check_classes(classes, seen.class_sizes)
    except ValueError as error:
        raise TableError(f"{files}, column {files.label!r}: {error}") from None
    warn_of_small_classes(classes, seen.class_sizes, n_neighbors)
    return seen
