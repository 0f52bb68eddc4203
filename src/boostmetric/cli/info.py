"""``boostmetric info``: what a model is, and where it comes from."""

from typing import Annotated

import typer

from boostmetric.cli.output import Json, Model, answer, paragraph
from boostmetric.cli.tasks import load_model


def info(
    model: Model,
    features: Annotated[bool, typer.Option("--features", help="Also list the names of the features.")] = False,
    as_json: Json = False,
) -> None:
    """Show what a model is and where it comes from: when, from which files, by which command and versions, and scores.

    With --json, everything that the file holds beside its numbers.
    """
    from boostmetric.report.facts import facts
    from boostmetric.storage.origin import file_record

    metric = load_model(model)
    record = file_record(model, "model")
    names = metric.feature_names
    found = {
        "model": str(model),
        "bytes": record["bytes"],
        "sha256": record["sha256"],
        "rank": len(metric.components),
        "n_features": metric.components.shape[1],
        "normalize": metric.normalize,
        "feature_names": names,
        "about": metric.about,
    }
    listed = [("Model", f"{model}, {record['bytes']:,} bytes, SHA-256 {record['sha256']}"), *facts(metric)]
    if features:
        listed.append(("Features", ", ".join(names) if names else "without names"))
    width = max(len(name) for name, _ in listed)
    lines = [paragraph(f"{name.ljust(width)}  {value}", " " * (width + 2)) for name, value in listed]
    answer(found, "\n".join(lines), as_json=as_json)
