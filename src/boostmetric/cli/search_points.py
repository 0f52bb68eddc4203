"""``boostmetric search MODEL POINTS --queries FILE``: the nearest points."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from boostmetric.callbacks import Steps
from boostmetric.cli.output import answer, check_new, check_suffix
from boostmetric.cli.points import Reading, check_features
from boostmetric.cli.search_index import search_index
from boostmetric.cli.table_files import FORMATS, write_table
from boostmetric.cli.tasks import load_model
from boostmetric.metric import MahalanobisMetric
from boostmetric.retrieval import search_blocks

if TYPE_CHECKING:
    from boostmetric.tables import PointTable

_LONGEST = 60  # characters of a text that is printed


def search_points(
    model: Path,
    points: Sequence[str],
    queries: Sequence[str],
    reading: Reading,
    k: int,
    rank: int | None,
    base: bool,
    index: Path | None,
    backend: str | None,
    output: Path | None,
    force: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Search among points; see `boostmetric.cli.search`."""
    if output is not None:
        check_suffix(output, FORMATS)
        check_new(output, force)
    metric = load_model(model, rank)
    reading, of_queries = reading.for_model(metric).apart(points, queries, id_in_one=True)
    asked = of_queries.read(queries)
    check_features(metric, asked)
    n, recall, texts = len(asked), None, of_queries.texts(asked)
    hits: dict[str, np.ndarray[Any, Any]] = {
        "query": np.repeat(np.arange(n) if asked.ids is None else asked.ids, k),
        **({} if texts is None else {"query_text": np.repeat(texts, k)}),
        "rank": np.tile(np.arange(1, k + 1), n),
    }
    if index is None and backend is None:
        found_hits, n_searched = _in_blocks(metric, reading.open(points), asked, k, quiet)
    else:
        found_hits, n_searched, recall = search_index(metric, index, backend, reading, points, asked, k, quiet)
    hits |= _with_texts(found_hits, reading, points)
    if base:
        found_hits, n_searched = _in_blocks(None, reading.open(points), asked, k, quiet)
        hits |= {f"base_{name}": values for name, values in _with_texts(found_hits, reading, points).items()}
    measured: dict[str, Any] = {} if recall is None else {"recall": recall}
    said = "" if recall is None else f"It finds {recall:.1%} of what an exact search finds."
    if output is not None:
        write_table(output, hits)
        found: dict[str, Any] = {"output": str(output), "n_queries": n, "k": k, **measured}
        answer(
            found,
            f"The {k} nearest of {n_searched:,} points for {n:,} queries: {output}\n{said}".strip(),
            as_json=as_json,
        )
        return
    rows = list(zip(*(values.tolist() for values in hits.values()), strict=True))
    found = {"n_queries": n, "k": k, "hits": [dict(zip(hits, row, strict=True)) for row in rows]}
    text = "" if as_json else _aligned(hits) + (f"\n\n{said}" if said else "")
    answer(found | measured, text, as_json=as_json)


def _cell(value: object) -> str:
    """A value as it is printed; a long text is cut."""
    if isinstance(value, float):
        return f"{value:.4g}"
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _in_blocks(
    metric: MahalanobisMetric | None, searched: "PointTable", asked: "PointTable", k: int, quiet: bool
) -> tuple[dict[str, np.ndarray[Any, Any]], int]:
    """Ids and distances of the nearest points, exactly, and the number of points."""
    if metric is not None:
        check_features(metric, searched)
    with Steps("Points" if metric is not None else "Points, base", visible=not quiet) as steps:
        rows, distances = search_blocks(metric, searched.points, asked.points, k, on_progress=steps.update)
    ids = rows if searched.ids is None else searched.ids[rows]
    return {"id": ids.ravel(), "distance": distances.ravel()}, len(searched)


def _with_texts(
    hits: dict[str, np.ndarray[Any, Any]], reading: Reading, points: Sequence[str]
) -> dict[str, np.ndarray[Any, Any]]:
    """Hits, with the texts of the points that were found after their ids."""
    if reading.text is None:
        return hits
    table = reading.open(points)
    texts = reading.texts(table)
    assert texts is not None
    ids = hits["id"] if hits["id"].dtype.kind == "i" else hits["id"].astype(object)
    return {"id": hits["id"], "text": texts[table.identifiers.find(ids)], "distance": hits["distance"]}


def _aligned(hits: dict[str, np.ndarray[Any, Any]]) -> str:
    """Hits in columns, with a line between queries."""
    columns = [[name, *map(_cell, values.tolist())] for name, values in hits.items()]
    widths = [max(map(len, column)) for column in columns]
    rank = list(hits).index("rank")
    numeric = [values.dtype.kind in "if" for values in hits.values()]
    lines = []
    for number, row in enumerate(zip(*columns, strict=True)):
        if number > 1 and row[rank] == "1":
            lines.append("")
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
