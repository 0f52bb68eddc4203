"""``boostmetric watch``: whether a model still fits what comes in, as an exit code."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boostmetric.cli.commands import NOT_MET, say
from boostmetric.cli.conditions import Condition, parse_conditions
from boostmetric.cli.output import Json, Model, answer, paragraph
from boostmetric.cli.points import (
    Columns,
    Id,
    Ignore,
    Label,
    PointFiles,
    Reading,
    Unlabelled,
    Vector,
    Where,
    check_features,
)
from boostmetric.cli.tasks import Comparisons, Headline, Kind, Names, Queries, Relevance, Testing, load_model, read_task

if TYPE_CHECKING:
    from boostmetric.metric import MahalanobisMetric

_MEANING = {
    "lengths": "lengths of the vectors",
    "spectrum": "variances under the metric",
    "neighbors": "distances to the nearest point learned from",
}


def watch(
    model: Model,
    points: PointFiles,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            help="File of points that the model was learned from, with the same columns. Default: those that the model "
            "file names, if they have not changed."
        ),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0.0, help="Differences up to this are no drift, however certain.")
    ] = 0.1,
    id: Id = None,
    label: Label = None,
    unlabelled: Unlabelled = False,
    vector: Vector = None,
    columns: Columns = None,
    ignore: Ignore = None,
    where: Where = None,
    relevance: Relevance = None,
    comparisons: Comparisons = None,
    kind: Kind = None,
    queries: Queries = None,
    names: Names = None,
    headline: Headline = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of what is compared.")] = 0,
    as_json: Json = False,
) -> None:
    """Check that new points are still like those a model was learned from and, with labels, that it still helps.

    Lengths, variances and distances to the nearest point learned from are compared with what differs by chance between
    parts of the points learned from. Labels (--label), grades (--relevance) or comparisons (--comparisons) of the new
    points are evaluated as by boostmetric evaluate; labels search among the new points.

    The exit code is 3 if anything has drifted, or if the verdict is not at least that there is no headroom.
    """
    testing = Testing(None, None, relevance, comparisons, kind, queries, names)
    testing.check(label, needed=False)
    reading = Reading.of(id, label, vector, columns, ignore, where, unlabelled=unlabelled)

    from boostmetric.evaluation import compare, drift

    metric = load_model(model)
    files, rows, left_out = (list(reference), (), ()) if reference else _learned_from(metric, model)
    reading = reading.for_model(metric)
    of_new, of_known = reading.apart(points, files)
    of_known = replace(of_known, where=rows)
    new = of_new.read(points)
    known = of_known.read_two(files, left_out)[0] if left_out else of_known.read(files)
    check_features(metric, new, known)
    found = drift(metric, new.points, known.points, tolerance=tolerance, random_state=seed)
    width = max(map(len, _MEANING.values()))
    conditions = [*map(str, rows), *(f"not {condition}" for condition in left_out)]
    chosen = f" ({', '.join(conditions)})" if conditions else ""
    lines = [f"{len(new):,} new points, compared with {len(known):,} of {', '.join(files)}{chosen}:"]
    for one in found:
        verdict = "drifted" if one.has_drifted else "as before"
        lines.append(f"{_MEANING[one.name].ljust(width)}  {one.value:.3f}, by chance {one.chance:.3f}: {verdict}")
    drifted = [_MEANING[one.name] for one in found if one.has_drifted]
    complaints = [f"Drifted: {', '.join(drifted)}."] if drifted else []
    answered: dict[str, Any] = {"model": str(model), "reference": files, "n_points": len(new)}
    answered["drift"] = [
        {"name": one.name, "value": one.value, "chance": one.chance, "drifted": one.has_drifted} for one in found
    ]
    answered["evaluation"] = None
    if label or relevance or comparisons:
        tested = read_task(metric, points, of_new, testing)
        result = compare(metric, tested.task, beside=tested.beside, headline=headline, random_state=seed)
        answered["evaluation"] = result.as_dict()
        lines.append(paragraph(result.sentence))
        if not result.meets("not-worse"):
            complaints.append(f"The verdict on new feedback is {result.verdict!r}.")
    answered["ok"] = not complaints
    answer(answered, "\n".join(lines), as_json=as_json)
    if complaints:
        say(" ".join([*complaints, "Consider learning again."]))
        raise typer.Exit(NOT_MET)


def _learned_from(
    metric: "MahalanobisMetric", model: Path
) -> tuple[list[str], tuple[Condition, ...], tuple[Condition, ...]]:
    """The files of points that a model names, if they are still the same; which rows, and which of these not."""
    from boostmetric.storage.origin import file_record

    origin = metric.about.get("origin")
    records = origin.get("files") if isinstance(origin, dict) else None
    named = [one for one in records or () if isinstance(one, dict) and one.get("role") == "points"]
    remedy = "Give them by --reference."
    if not named:
        raise typer.BadParameter(f"{model} does not say which points it was learned from. {remedy}")
    for record in named:
        path = Path(str(record.get("name")))
        if not path.is_file():
            raise typer.BadParameter(f"{model} was learned from {path}, which is not there any more. {remedy}")
        if file_record(path, "points")["sha256"] != record.get("sha256"):
            raise typer.BadParameter(f"{path} has changed since {model} was learned from it. {remedy}")
    rows, left_out = (_conditions(named[0].get(name)) for name in ("where", "left_out"))
    return [str(record["name"]) for record in named], rows, left_out


def _conditions(recorded: Any) -> tuple[Condition, ...]:
    """Conditions from a model file, which may hold anything."""
    return parse_conditions(map(str, recorded) if isinstance(recorded, list) else (), "MODEL")
