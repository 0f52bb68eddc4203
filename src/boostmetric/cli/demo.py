"""``boostmetric demo``: the method on data that ships with the package."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for picture and report.")] = Path("demo"),
) -> None:
    """Learn metrics on the paper's concentric circles and on Wine: errors before and after, and a picture."""
    import numpy as np
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from boostmetric.cli.arguments import make_folder
    from boostmetric.optional import require
    from boostmetric.paper.datasets import BENCHMARKS, load
    from boostmetric.paper.illustration import PRINTED_EIGENVALUES, circles
    from boostmetric.paper.protocol import paper_setting, run, splits
    from boostmetric.report import paragraph, picture, table, write_page
    from boostmetric.storage.files import replacing

    require("matplotlib", "plot", "The demo")  # before it learns
    make_folder(output)
    console = Console()
    console.print("Concentric circles: 2 dimensions of structure, 8 of noise.")
    found = circles(verbose=1)
    wine = next(benchmark for benchmark in BENCHMARKS if benchmark.name == "Wine")
    console.print(f"Wine: {wine.n_runs} random splits.")
    with Progress(console=Console(stderr=True)) as progress:
        tracked = progress.track(splits(wine, load("wine")), total=wine.n_runs, description="Learning")
        outcomes = [[run(metric, split).error for metric in (None, paper_setting(wine))] for split in tracked]

    euclidean, learned = np.mean(outcomes, axis=0)
    header = ["3-NN error on new points", "Euclidean", "BoostMetric"]
    rows = [
        [f"Circles, {found.n_triplets:,} triplets", f"{found.euclidean:.1f} %", f"{found.boostmetric:.1f} %"],
        [f"Wine, mean of {wine.n_runs} splits", f"{euclidean:.1f} %", f"{learned:.1f} %"],
        ["Wine, as printed in the paper", f"{wine.printed_euclidean:.1f} %", f"{wine.printed_boostmetric:.1f} %"],
    ]
    printed = Table(*header)
    for row in rows:
        printed.add_row(*row)
    console.print(printed)

    shares = found.eigenvalues / found.eigenvalues.sum()
    eigenvalues = (
        f"Eigenvalues of the metric learned on the circles: {', '.join(f'{s:.3f}' for s in shares)} of their sum "
        f"(the paper: {', '.join(map(str, PRINTED_EIGENVALUES))}). The two that dominate span the plane of the circles."
    )
    console.print(eigenvalues)

    image, page = output / "circles.png", output / "report.html"
    with replacing(image) as temporary:
        found.figure.savefig(temporary)
    description = "The circles projected to two dimensions by PCA, LDA and BoostMetric; only the last shows them."
    write_page(
        page,
        "boostmetric demo",
        [table(header, rows), paragraph(eigenvalues), picture(found.figure, description), paragraph(description)],
    )
    console.print(f"Picture: {image}\nReport:  {page}", markup=False, soft_wrap=True)
