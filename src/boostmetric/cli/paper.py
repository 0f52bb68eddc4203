"""``boostmetric paper``: the paper's classification errors again."""

from pathlib import Path
from typing import Annotated

import typer


def paper(
    ctx: typer.Context,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for table and picture.")] = Path("paper"),
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of .npz files, for sets that do not come along.")
    ] = None,
    only: Annotated[str, typer.Option(help="Names of sets, separated by commas; all by default.")] = "",
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all processors.")] = -1,
) -> None:
    """Rerun Table 2 for the Euclidean distance and BoostMetric, with the paper's setting and ours; and the circles.

    Printed values stand beside ours. Sets that are not available are named and left out. Rows are written as they
    finish; all sets take most of an hour.
    """
    if ctx.invoked_subcommand is not None:
        return
    import numpy as np
    from rich.console import Console
    from rich.progress import Progress

    from boostmetric import BoostMetric
    from boostmetric.cli.arguments import check_jobs, make_folder
    from boostmetric.files import replacing
    from boostmetric.paper.datasets import BENCHMARKS, MissingDataError, load
    from boostmetric.paper.illustration import circles
    from boostmetric.paper.protocol import paper_setting, run, splits

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
    header = [
        "set",
        "runs",
        "Euclidean",
        "paper's setting",
        "recommended",
        "printed: Euclidean",
        "printed: BoostMetric",
        "s / fit, paper's",
        "s / fit, recommended",
    ]
    lines = [f"| {' | '.join(header)} |", f"| {' | '.join('---' for _ in header)} |"]
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
    for name in names:
        benchmark = known[name]
        try:
            data = load(benchmark.source, data_dir)
        except MissingDataError as missing:
            console.print(f"{benchmark.name} left out. {missing}", markup=False, soft_wrap=True)
            continue
        learners = [None, paper_setting(benchmark, jobs), BoostMetric.recommended(random_state=0, n_jobs=jobs)]
        with Progress(console=Console(stderr=True), transient=True) as progress:
            tracked = progress.track(splits(benchmark, data), total=benchmark.n_runs, description=benchmark.name)
            outcomes = [[run(learner, split) for learner in learners] for split in tracked]
        errors = np.array([[outcome.error for outcome in row] for row in outcomes])
        seconds = np.mean([[outcome.seconds for outcome in row] for row in outcomes], axis=0)
        cells = [
            benchmark.name,
            str(len(outcomes)),
            *(f"{mean:.2f} ({std:.2f})" for mean, std in zip(errors.mean(axis=0), errors.std(axis=0), strict=True)),
            f"{benchmark.printed_euclidean:.2f}",
            f"{benchmark.printed_boostmetric:.2f}",
            *(f"{value:.2f}" for value in seconds[1:]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
        console.print(lines[-1], markup=False, soft_wrap=True)
        with replacing(output / "table2.md") as temporary:
            temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with replacing(output / "circles.png") as temporary:
        circles().figure.savefig(temporary)
    console.print(f"Written to {output}", markup=False, soft_wrap=True)
