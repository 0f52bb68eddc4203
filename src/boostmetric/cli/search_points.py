"""``boostmetric search MODEL POINTS --queries FILE``: the nearest points."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from boostmetric.cli.output import answer, check_new, check_suffix
from boostmetric.cli.points import Reading, check_features
from boostmetric.cli.table_files import FORMATS, write_table
from boostmetric.cli.tasks import load_model
from boostmetric.retrieval import MetricIndex


def search_points(
    model: Path,
    points: Sequence[str],
    queries: Sequence[str],
    reading: Reading,
    k: int,
    rank: int | None,
    base: bool,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Search among points; see `boostmetric.cli.search`."""
    if output is not None:
        check_suffix(output, FORMATS)
        check_new(output, force)
    metric = load_model(model, rank)
    reading = reading.for_model(metric)
    searched, asked = reading.read(points), reading.read_others(queries)
    check_features(metric, searched, asked)
    ids = None if searched.ids is None else searched.ids.tolist()
    hits = MetricIndex(metric).add(searched.points, ids=ids).search(asked.points, k, as_table=True)
    if asked.ids is not None:
        hits["query"] = asked.ids[hits["query"]]
    if base:
        before = MetricIndex().add(searched.points, ids=ids).search(asked.points, k, as_table=True)
        hits |= {"base_id": before["id"], "base_distance": before["distance"]}
    n = len(asked)
    if output is not None:
        write_table(output, hits)
        found: dict[str, Any] = {"output": str(output), "n_queries": n, "k": k}
        answer(found, f"The {k} nearest of {len(searched):,} points for {n:,} queries: {output}", as_json=as_json)
        return
    rows = list(zip(*(values.tolist() for values in hits.values()), strict=True))
    found = {"n_queries": n, "k": k, "hits": [dict(zip(hits, row, strict=True)) for row in rows]}
    answer(found, "" if as_json else _aligned(hits), as_json=as_json)


def _aligned(hits: dict[str, np.ndarray[Any, Any]]) -> str:
    """Hits in columns, with a line between queries."""
    columns = [
        [name, *(f"{value:.4g}" if isinstance(value, float) else str(value) for value in values.tolist())]
        for name, values in hits.items()
    ]
    widths = [max(map(len, column)) for column in columns]
    numeric = [values.dtype.kind in "if" for values in hits.values()]
    lines = []
    for number, row in enumerate(zip(*columns, strict=True)):
        if number > 1 and row[1] == "1":
            lines.append("")
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
