"""``boostmetric transform``: map points by a learned metric."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from boostmetric.cli.output import Force, Json, Model, Rank, answer, check_new, check_suffix
from boostmetric.cli.points import Columns, Id, Ignore, Label, PointFiles, Quiet, Reading, Vector, Where, check_features
from boostmetric.cli.tasks import load_model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boostmetric.metric import MahalanobisMetric
    from boostmetric.tables import PointTable

_FORMATS = (".npy", ".npz", ".parquet", ".csv", ".tsv", ".jsonl")


def transform(
    model: Model,
    points: PointFiles,
    output: Annotated[
        Path, typer.Option("--output", "-o", help=f"File to write: {', '.join(_FORMATS)}.", show_default=False)
    ],
    id: Id = None,
    label: Label = None,
    vector: Vector = None,
    columns: Columns = None,
    ignore: Ignore = None,
    where: Where = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Other columns to write too, separated by commas. Can be repeated."),
    ] = None,
    rank: Rank = None,
    dtype: Annotated[Literal["float16", "float32", "float64"], typer.Option(help="Type of the numbers.")] = "float32",
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Map points so that their plain Euclidean distance is the learned one, for any index or program.

    A model that was fitted with --normalize maps them to unit length, for indexes that compare by cosine.

    Ids, labels and the columns of --keep are written under their names (.npy holds the numbers alone). The vectors
    are X in .npz, vector in .parquet and .jsonl, and v0, v1, ... in .csv and .tsv.

    Points are read and written in blocks, so that the files may be larger than memory.
    """
    check_suffix(output, _FORMATS)
    check_new(output, force)
    suffix = output.suffix.lower()
    if keep and suffix == ".npy":
        raise typer.BadParameter(f"{output} holds numbers alone. Write another format.", param_hint="--keep")
    reading = Reading.of(id, label, vector, columns, ignore, where, keep)

    from boostmetric.callbacks import Steps
    from boostmetric.cli.table_files import write_parts

    metric = load_model(model, rank)
    table = reading.for_model(metric).open(points)
    check_features(metric, table)
    n, size = len(table), len(metric.components)
    named = {name: values for name, values in ((id, table.ids), (label, table.labels)) if name and values is not None}
    named |= {name: table.numbers_kept(name) for name in reading.keep}
    where_to = {".npy": "X", ".npz": "X", ".parquet": "vector", ".jsonl": "vector"}.get(suffix, "v")
    written = {where_to} if where_to != "v" else {f"v{i}" for i in range(size)}
    if suffix == ".npy":
        named = {}
    if taken := [name for name in named if name in written]:
        raise ValueError(f"The column {taken[0]!r} has the name that the vectors get. Write another format.")
    with Steps("Points", visible=not quiet) as steps:
        write_parts(output, _parts(metric, table, named, where_to, dtype, steps.update), n)
    found = {"output": str(output), "n_points": n, "n_dimensions": size, "dtype": dtype}
    answer(found, f"{n:,} points of {size:,} dimensions ({dtype}): {output}", as_json=as_json)


def _parts(
    metric: "MahalanobisMetric",
    table: "PointTable",
    named: "dict[str, NDArray[Any]]",
    where_to: str,
    dtype: str,
    on_progress: Callable[[int, int], None],
) -> "Iterator[dict[str, NDArray[Any]]]":
    """Yield the columns to write, block by block."""
    import numpy as np

    done = 0
    for block in table.points.blocks():
        mapped = metric.transform(block)
        largest = float(np.abs(mapped).max())
        if largest > np.finfo(dtype).max:
            raise ValueError(
                f"The transformed points have numbers up to {largest:.3g}, too large for {dtype} (--dtype)."
            )
        rows = slice(done, done + len(block))
        yield {**{name: values[rows] for name, values in named.items()}, where_to: mapped.astype(dtype)}
        done += len(block)
        on_progress(done, len(table))
