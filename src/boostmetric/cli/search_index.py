"""The index of ``boostmetric search --index FILE``: written once, and read again."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from boostmetric.callbacks import Steps
from boostmetric.cli.fit_run import records_of
from boostmetric.cli.output import check_writable
from boostmetric.cli.points import Reading, check_features
from boostmetric.metric import MahalanobisMetric
from boostmetric.retrieval import MetricIndex

if TYPE_CHECKING:
    from boostmetric.tables import PointTable

_AT_ONCE = 256  # queries between two steps of the progress bar
_MEASURED = 100  # queries that an approximate search is compared with the exact one on


def search_index(
    metric: MahalanobisMetric,
    path: Path | None,
    backend: str | None,
    reading: Reading,
    points: Sequence[str],
    asked: "PointTable",
    k: int,
    quiet: bool,
) -> tuple[dict[str, np.ndarray[Any, Any]], int, float | None]:
    """Ids and distances of the nearest points, the number of points, and the recall of a search that is not exact."""
    is_new = path is None or not path.exists()
    index, recall, found = _index_of(path, backend, metric, reading, points), None, []
    with Steps("Queries", visible=not quiet) as steps:
        for start in range(0, len(asked), _AT_ONCE):
            found.append(index.search(asked.points[start : start + _AT_ONCE], k))
            steps.update(min(start + _AT_ONCE, len(asked)), len(asked))
    if is_new and path is not None:  # after the search, which has built what faiss needs
        index.save(path)
    if index.backend != "exact":
        some = np.unique(np.linspace(0, len(asked) - 1, _MEASURED).astype(int))
        recall = index.recall(asked.points[some], k)
    ids, distances = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return {"id": ids.ravel(), "distance": distances.ravel()}, len(index), recall


def _index_of(
    path: Path | None, backend: str | None, metric: MahalanobisMetric, reading: Reading, points: Sequence[str]
) -> MetricIndex:
    """Read an index, or make it from the points; refuse one of another model or other points."""
    if path is None or not path.exists():
        if path is not None:
            check_writable(path, "--index")
        table = reading.read(points)
        check_features(metric, table)
        index = MetricIndex(metric, backend=backend or "exact")
        index.add(table.points, ids=None if table.ids is None else table.ids.tolist())
        if path is not None:
            index.about = _made_from(reading, points)
        return index
    index = MetricIndex.load(path, backend=backend)
    if not _is_same(index.metric, metric):
        raise _refusal(path, "with another model")
    if index.about != _made_from(reading, points):
        raise _refusal(path, "from other points, or other columns or rows of them")
    return index


def _made_from(reading: Reading, points: Sequence[str]) -> dict[str, Any]:
    """What the points of an index depend on."""
    files = [record["sha256"] for record in records_of({"points": points}, hashed=True)]
    return {"files": files, "columns": reading.typed, "where": [str(condition) for condition in reading.where]}


def _is_same(metric: MahalanobisMetric | None, other: MahalanobisMetric) -> bool:
    return (
        metric is not None
        and metric.normalize == other.normalize
        and metric.feature_names == other.feature_names
        and np.array_equal(metric.components, other.components)
    )


def _refusal(path: Path, how: str) -> typer.BadParameter:
    message = f"{path} was made {how}. Remove it, so that it is made again, or give another name."
    return typer.BadParameter(message, param_hint="--index")
