"""``boostmetric demo``: the method on data that ships with the package."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for picture and report.")] = Path("demo"),
) -> None:
    """Learn metrics on the paper's concentric circles and on sentences: errors before and after, picture and report."""
    from rich.console import Console
    from rich.table import Table

    from boostmetric import BoostMetric
    from boostmetric.cli.arguments import make_folder
    from boostmetric.cli.demo_data import bank_requests
    from boostmetric.evaluation import LabelTask
    from boostmetric.evaluation.knn import knn_error
    from boostmetric.optional import require
    from boostmetric.paper.illustration import PRINTED_EIGENVALUES, circles
    from boostmetric.report import write_model_report
    from boostmetric.storage.files import replacing

    require("matplotlib", "plot", "The demo")  # before it learns
    make_folder(output)
    console = Console()
    console.print("Concentric circles: 2 dimensions of structure, 8 of noise.")
    found = circles(verbose=1)
    train, test = bank_requests()
    console.print(f"Requests to a bank: {len(train.sentences):,} sentences of {len(set(train.intents))} intents.")
    metric = BoostMetric(random_state=0, verbose=1).fit(train.vectors, train.intents).get_metric()

    errors = [
        100 * knn_error(mapped(train.vectors), train.intents, mapped(test.vectors), test.intents)
        for mapped in (lambda vectors: vectors, metric.transform)
    ]
    printed = Table("3-NN error on new points", "Euclidean", "BoostMetric")
    printed.add_row(f"Circles, {found.n_triplets:,} triplets", f"{found.euclidean:.1f} %", f"{found.boostmetric:.1f} %")
    printed.add_row(f"Requests, {len(test.sentences)} others", *(f"{error:.1f} %" for error in errors))
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
    write_model_report(
        page,
        metric,
        LabelTask.of(test.vectors, test.intents, reference=(train.vectors, train.intents)),
        texts=test.sentences,
        reference_texts=train.sentences,
        title="Requests to a bank: a learned metric",
    )
    console.print(f"Picture: {image}\nReport:  {page}", markup=False, soft_wrap=True)
