"""``boostmetric paper``: reproduce the paper's tables and figures."""

from pathlib import Path
from typing import Annotated

import typer

_TABLES = ("table1", "table2", "table3")
# table1 and circles have no fits.
PARTS = (*_TABLES, "circles", "cputime", "convergence", "triplets", "motorbikes", "faces")


def paper(
    parts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PART", help=f"What to run: {', '.join(PARTS)}. Default: all. Or datasets, to list them."
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for rows, tables, figures and report.")] = Path(
        "paper"
    ),
    data_dir: Annotated[Path | None, typer.Option(help="Folder of .npz files and images to look in first.")] = None,
    only: Annotated[str, typer.Option(help="Names of data sets, separated by commas. Default: all.")] = "",
    systems: Annotated[str, typer.Option(help="Columns of Table 2, separated by commas. Default: all.")] = "",
    runs: Annotated[
        int | None, typer.Option(min=1, help="Largest number of splits per set. Default: as in the paper.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of fits to run at the same time.")] = 2,
    time_limit: Annotated[float, typer.Option(min=1.0, help="Seconds after which a fit is given up.")] = 600.0,
) -> None:
    """Rerun the paper's experiments, and write a report with our figures beside the printed ones.

    Each finished fit is appended to a file in the output folder, so the same command continues an unfinished run. Data
    sets that are missing are downloaded; those that cannot be are listed and skipped.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from boostmetric.cli.arguments import chosen_of, make_folder
    from boostmetric.cli.paper_datasets import list_datasets
    from boostmetric.optional import require
    from boostmetric.paper.experiments import ALL_SETS, EXPERIMENTS, SYSTEMS, Laboratory, data_of, find_data, tasks
    from boostmetric.paper.page import write_report
    from boostmetric.paper.runner import RowFile, run
    from boostmetric.paper.tables import Results

    if data_dir is not None and not data_dir.is_dir():
        raise typer.BadParameter(f"{data_dir} is not a folder.", param_hint="--data-dir")
    if parts == ["datasets"]:
        list_datasets(data_dir)
        return
    wanted = chosen_of(",".join(parts or []), PARTS, "PART")
    columns = chosen_of(systems, list(SYSTEMS), "--systems")
    named = {benchmark.name: benchmark for benchmark in ALL_SETS}
    benchmarks = [named[name] for name in chosen_of(only, list(named), "--only")]
    if not set(wanted) <= set(_TABLES):
        require("matplotlib", "plot", "Drawing figures")  # before the fits
    make_folder(output)

    console = Console()
    planned = [task for part in wanted if part in EXPERIMENTS for task in tasks(part, benchmarks, runs, columns)]
    hashes, missing = find_data(planned, data_dir)
    for name, why in missing.items():
        console.print(f"{name} left out. {why}", markup=False, soft_wrap=True)
    chosen = [task for task in planned if data_of(task) not in missing]
    if planned and not chosen and all(part in EXPERIMENTS for part in wanted):
        console.print("No set is left: nothing was run, and nothing written.", markup=False)
        raise typer.Exit(1)
    file = RowFile(output / "rows.jsonl")
    bar = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*bar, console=Console(stderr=True)) as progress:
        fits = progress.add_task("Fits", total=len(chosen))
        run(
            chosen,
            Laboratory(data_dir),
            file,
            jobs=jobs,
            time_limit=time_limit,
            on_row=lambda done, total: progress.update(fits, completed=done, total=total),
        )
    results = Results(file.rows[task] for task in chosen if task in file.rows)
    written = write_report(output, results, wanted, hashes)
    for row in results.troubles():
        console.print(row.trouble, markup=False)
    console.print(f"Report: {written[0]}\nTables: {written[1]}\nRows:   {file.path}", markup=False, soft_wrap=True)
