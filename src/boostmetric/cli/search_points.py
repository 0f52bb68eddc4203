"""``boostmetric search MODEL POINTS --queries FILE``: the nearest points."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from boostmetric.callbacks import Steps
from boostmetric.cli.output import answer, check_new, check_suffix
from boostmetric.cli.points import Reading, check_features
from boostmetric.cli.table_files import FORMATS, write_table
from boostmetric.cli.tasks import load_model
from boostmetric.retrieval import search_blocks


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
    quiet: bool,
    as_json: bool,
) -> None:
    """Search among points; see `boostmetric.cli.search`."""
    if output is not None:
        check_suffix(output, FORMATS)
        check_new(output, force)
    metric = load_model(model, rank)
    reading = reading.for_model(metric)
    searched, asked = reading.open(points), reading.read_others(queries)
    check_features(metric, searched, asked)
    n = len(asked)
    hits: dict[str, np.ndarray[Any, Any]] = {
        "query": np.repeat(np.arange(n) if asked.ids is None else asked.ids, k),
        "rank": np.tile(np.arange(1, k + 1), n),
    }
    for prefix, learned in (("", metric), *([("base_", None)] if base else [])):
        with Steps("Points, base" if prefix else "Points", visible=not quiet) as steps:
            found_rows, distances = search_blocks(learned, searched.points, asked.points, k, on_progress=steps.update)
        ids = found_rows if searched.ids is None else searched.ids[found_rows]
        hits |= {f"{prefix}id": ids.ravel(), f"{prefix}distance": distances.ravel()}
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
