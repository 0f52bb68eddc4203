"""``boostmetric paper``: the paper's classification errors again."""

from pathlib import Path
from typing import Annotated

import typer


def paper(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for table and picture.")] = Path("paper"),
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of .npz files, for sets that do not come along.")
    ] = None,
    only: Annotated[str, typer.Option(help="Names of sets, separated by commas; all by default.")] = "",
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all processors.")] = -1,
) -> None:
    """Rerun Table 2 for the Euclidean distance and BoostMetric, and the circles; printed values beside ours.

    Sets that are not available are named and left out. Rows are written as they finish.
    """
    import numpy as np
    from rich.console import Console
    from rich.progress import Progress

    from boostmetric.cli.arguments import check_jobs, make_folder
    from boostmetric.files import replacing
    from boostmetric.paper.datasets import BENCHMARKS, MissingDataError, load
    from boostmetric.paper.illustration import circles
    from boostmetric.paper.protocol import run, splits

    make_folder(output)
    check_jobs(jobs)
    known = {benchmark.name.lower(): benchmark for benchmark in BENCHMARKS}
    names = [name.strip().lower() for name in only.split(",") if name.strip()] or list(known)
    for name in names:
        if name not in known:
            raise typer.BadParameter(
                f"{name!r} is not a set of the paper. There are: {', '.join(known)}.", param_hint="--only"
            )

    console = Console()
    lines = [
        "| set | runs | Euclidean | BoostMetric | paper: Euclidean | paper: BoostMetric | s / run |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
    for name in names:
        benchmark = known[name]
        try:
            data = load(benchmark.source, data_dir)
        except MissingDataError as missing:
            console.print(f"{benchmark.name} left out. {missing}", markup=False, soft_wrap=True)
            continue
        with Progress(console=Console(stderr=True), transient=True) as progress:
            tracked = progress.track(splits(benchmark, data), total=benchmark.n_runs, description=benchmark.name)
            outcomes = [run(benchmark, split, n_jobs=jobs) for split in tracked]
        errors = np.array([(outcome.euclidean, outcome.boostmetric) for outcome in outcomes])
        cells = [
            f"{mean:.2f} ({spread:.2f})" for mean, spread in zip(errors.mean(axis=0), errors.std(axis=0), strict=True)
        ]
        seconds = np.mean([outcome.seconds for outcome in outcomes])
        lines.append(
            f"| {benchmark.name} | {len(outcomes)} | {cells[0]} | {cells[1]} | {benchmark.printed_euclidean:.2f} "
            f"| {benchmark.printed_boostmetric:.2f} | {seconds:.2f} |"
        )
        console.print(lines[-1], markup=False, soft_wrap=True)
        with replacing(output / "table2.md") as temporary:
            temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with replacing(output / "circles.png") as temporary:
        circles().figure.savefig(temporary)
    console.print(f"Written to {output}", markup=False, soft_wrap=True)
