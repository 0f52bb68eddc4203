"""``boostmetric demo``: the method on data that ships with the package."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for picture and report.")] = Path("demo"),
) -> None:
    """Learn metrics on the paper's concentric circles and on Wine: errors before and after, a picture, and a report."""
    import numpy as np
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from boostmetric.cli.arguments import make_folder
    from boostmetric.optional import require
    from boostmetric.paper.datasets import BENCHMARKS, load
    from boostmetric.paper.illustration import PRINTED_EIGENVALUES, circles
    from boostmetric.paper.protocol import paper_setting, run, splits
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
    _report_on_wine(page)
    console.print(f"Picture: {image}\nReport:  {page}", markup=False, soft_wrap=True)


def _report_on_wine(page: Path) -> None:
    """Learn from two thirds of the wines, and write the report that ``boostmetric report`` writes, on the others."""
    from sklearn.datasets import load_wine

    from boostmetric import BoostMetric
    from boostmetric.evaluation import LabelTask, split_rows
    from boostmetric.report import write_model_report

    wine = load_wine()
    y = wine.target_names[wine.target]
    train, test = split_rows(y, 1 / 3, random_state=0)
    metric = BoostMetric(random_state=0).fit(wine.data[train], y[train]).get_metric()
    metric.feature_names = list(wine.feature_names)
    write_model_report(
        page,
        metric,
        LabelTask.of(wine.data[test], y[test], reference=(wine.data[train], y[train])),
        ids=[f"wine {row}" for row in test],
        reference_ids=[f"wine {row}" for row in train],
        title="Wine: a learned metric",
    )
