"""``boostmetric neighbors``: targets and impostors of labelled points in many files, part by part."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from boostmetric.cli.output import Json, answer
from boostmetric.cli.points import Columns, Id, Ignore, Vector, separated

_CLUSTER = "Cluster"


def neighbors(
    points: Annotated[
        list[str],
        typer.Argument(metavar="POINTS", show_default=False, help="Parquet files of points, or a quoted pattern."),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder for the parts. An unfinished one is continued."),
    ],
    label: Annotated[str, typer.Option(help="Column of class labels.", rich_help_panel="Which columns and rows")],
    id: Id = None,
    vector: Vector = None,
    columns: Columns = None,
    ignore: Ignore = None,
    n_neighbors: Annotated[
        int, typer.Option("--neighbors", min=1, help="Targets per point: the nearest of its class.")
    ] = 3,
    n_impostors: Annotated[
        int, typer.Option("--impostors", min=1, help="Impostors per point: the nearest of other classes.")
    ] = 3,
    rows_per_part: Annotated[int, typer.Option(min=1, help="Largest number of points in a part.")] = 16384,
    engine: Annotated[
        Literal["ray"] | None,
        typer.Option(help="Work on a Ray cluster; without it, in this process.", rich_help_panel=_CLUSTER),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of the cluster, such as auto. Default: RAY_ADDRESS, or start one on this machine.",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of processes. Default: all processors of the cluster.", rich_help_panel=_CLUSTER
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    as_json: Json = False,
) -> None:
    """Find targets and impostors of labelled points, part by part.

    For more points than one process can hold: each is compared with all others, which are read batch by batch. Writes
    query, document and grade (1 for targets, 0 for impostors), as boostmetric fit --comparisons reads them. The same
    command continues an unfinished run.
    """
    for option, value in (("--address", address), ("--workers", workers)):
        if value is not None and engine is None:
            raise typer.BadParameter("It goes with --engine ray.", param_hint=option)

    from dataclasses import asdict

    from boostmetric.callbacks import Steps
    from boostmetric.engines.ray import RayEngine
    from boostmetric.mining import mine_neighbors

    with Steps("Mining parts", visible=not quiet) as steps:
        mined = mine_neighbors(
            points,
            output,
            label=label,
            id=id,
            n_neighbors=n_neighbors,
            n_impostors=n_impostors,
            vector=vector,
            columns=None if columns is None else separated(columns),
            ignore=separated(ignore or ()),
            engine=None if engine is None else RayEngine(address, workers),
            rows_per_part=rows_per_part,
            on_progress=steps.update,
        )
    answer(asdict(mined), mined.describe(), as_json=as_json)
