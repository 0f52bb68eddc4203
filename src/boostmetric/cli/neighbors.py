"""``boostmetric neighbors``: targets and impostors of labelled points in many files, part by part."""

from pathlib import Path
from time import monotonic
from typing import Annotated, Literal, Self

import typer

from boostmetric.cli.commands import say
from boostmetric.cli.output import Json, answer
from boostmetric.cli.points import Columns, Id, Ignore, Vector, separated

_CLUSTER = "Cluster"
# Not in a terminal, a line after so many seconds.
_SECONDS_BETWEEN_LINES = 10.0


def neighbors(
    points: Annotated[
        list[str],
        typer.Argument(
            metavar="POINTS...", show_default=False, help="Parquet files of points, or a pattern in quotes."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder for the parts; one that was begun is gone on with."),
    ],
    label: Annotated[str, typer.Option(help="Column of the class labels.", rich_help_panel="Which columns and rows")],
    id: Id = None,
    vector: Vector = None,
    columns: Columns = None,
    ignore: Ignore = None,
    n_neighbors: Annotated[
        int, typer.Option("--neighbors", min=1, help="Targets of a point: nearest of its class.")
    ] = 3,
    n_impostors: Annotated[
        int, typer.Option("--impostors", min=1, help="Impostors of a point: nearest of other classes.")
    ] = 3,
    rows_per_part: Annotated[int, typer.Option(min=1, help="Points of a part, at most.")] = 16384,
    engine: Annotated[
        Literal["ray"] | None,
        typer.Option(help="Work on a Ray cluster; without it, in this process.", rich_help_panel=_CLUSTER),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Of the cluster, such as auto; by default RAY_ADDRESS, or one is started on this machine.",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes to work with; by default all.", rich_help_panel=_CLUSTER)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    as_json: Json = False,
) -> None:
    """Find targets and impostors of labelled points, part by part.

    For points that are too many for one process: each is compared with all others, which are read batch by batch.
    Writes query, document and grade (1 for targets, 0 for impostors), as boostmetric fit --comparisons reads them. The
    same command goes on with a run that was ended.
    """
    for option, value in (("--address", address), ("--workers", workers)):
        if value is not None and engine is None:
            raise typer.BadParameter("It goes with --engine ray.", param_hint=option)

    from dataclasses import asdict

    from boostmetric.engines.ray import RayEngine
    from boostmetric.mining.cluster import mine_neighbors

    with _Display(quiet=quiet) as display:
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
            on_progress=display.show,
        )
    answer(asdict(mined), mined.describe(), as_json=as_json)


class _Display:
    """Parts that are done, on standard error: a bar in a terminal, else a line now and then."""

    def __init__(self, *, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        self._draws = console.is_terminal and not quiet
        self._quiet = quiet
        self._shown_at = monotonic()
        self._bar = Progress(console=console, transient=True, disable=not self._draws)
        self._task = self._bar.add_task("Reading", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def show(self, n_done: int, n_parts: int) -> None:
        """Show how far it is."""
        if self._draws:
            self._bar.update(self._task, description="Mining", completed=n_done, total=n_parts)
        elif not self._quiet and monotonic() - self._shown_at >= _SECONDS_BETWEEN_LINES:
            self._shown_at = monotonic()
            say(f"{n_done} of {n_parts} parts")
