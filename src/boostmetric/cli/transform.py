"""``boostmetric transform``: map points by a learned metric."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from boostmetric.cli.output import Force, Json, Model, Rank, answer, check_new, check_suffix
from boostmetric.cli.points import Columns, Id, Ignore, Label, PointFiles, Reading, Vector, Where, check_features
from boostmetric.cli.tasks import load_model

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
    rank: Rank = None,
    dtype: Annotated[Literal["float16", "float32", "float64"], typer.Option(help="Type of the numbers.")] = "float32",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Map points so that their plain Euclidean distance is the learned one, for any index or program.

    A model that was fitted with --normalize maps them to unit length, for indexes that compare by cosine.

    Ids and labels are kept under the names of their columns (.npy holds the numbers alone). The vectors are X in .npz,
    vector in .parquet and .jsonl, and v0, v1, ... in .csv and .tsv.
    """
    check_suffix(output, _FORMATS)
    check_new(output, force)
    reading = Reading.of(id, label, vector, columns, ignore, where)

    import numpy as np

    from boostmetric.cli.table_files import write_table
    from boostmetric.storage.files import replacing

    metric = load_model(model, rank)
    table = reading.for_model(metric).read(points)
    check_features(metric, table)
    mapped = metric.transform(table.points)
    largest = float(np.abs(mapped).max())
    if largest > np.finfo(dtype).max:
        raise ValueError(f"The transformed points have numbers up to {largest:.3g}, too large for {dtype} (--dtype).")
    mapped = mapped.astype(dtype)
    suffix = output.suffix.lower()
    if suffix == ".npy":
        with replacing(output) as temporary, temporary.open("wb") as file:
            np.save(file, mapped, allow_pickle=False)
    else:
        named = {
            name: values for name, values in ((id, table.ids), (label, table.labels)) if name and values is not None
        }
        where_to = {".npz": "X", ".parquet": "vector", ".jsonl": "vector"}.get(suffix, "v")
        written = {where_to} if where_to != "v" else {f"v{i}" for i in range(mapped.shape[1])}
        taken = [name for name in named if name in written]
        if taken:
            raise ValueError(f"The column {taken[0]!r} has the name that the vectors get. Write another format.")
        write_table(output, {**named, where_to: mapped})
    n, size = mapped.shape
    found = {"output": str(output), "n_points": n, "n_dimensions": size, "dtype": dtype}
    answer(found, f"{n:,} points of {size:,} dimensions ({dtype}): {output}", as_json=as_json)
