"""``boostmetric report``: one HTML page about a model."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from boostmetric.cli.output import Force, Json, Model, answer, check_new
from boostmetric.cli.points import Columns, Id, Ignore, Label, Reading, Text, Unlabelled, Vector, Where
from boostmetric.cli.tasks import (
    ClickModel,
    Comparisons,
    Kind,
    Names,
    Queries,
    Reference,
    ReferenceWhere,
    Relevance,
    Tested,
    Testing,
    load_model,
    read_task,
)


def report(
    model: Model,
    points: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="POINTS",
            show_default=False,
            help="Points to show and test on, which the model was not learned from.",
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Page to write.")] = Path("report.html"),
    id: Id = None,
    label: Label = None,
    unlabelled: Unlabelled = False,
    text: Text = None,
    vector: Vector = None,
    columns: Columns = None,
    ignore: Ignore = None,
    where: Where = None,
    reference: Reference = None,
    reference_where: ReferenceWhere = None,
    relevance: Relevance = None,
    comparisons: Comparisons = None,
    kind: Kind = None,
    queries: Queries = None,
    names: Names = None,
    click_model: ClickModel = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Folder of pictures called after the ids, for a model of boostmetric judge."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a page about a model: scores before and after, how short vectors can get, a picture, neighbours.

    Without POINTS it says what was learned and how. The options are those of boostmetric evaluate. The page holds the
    ids and labels of what it shows.
    """
    check_new(output, force)
    testing = Testing(reference, reference_where, relevance, comparisons, kind, queries, names, click_model)
    testing.check(label, needed=False)
    reading = replace(Reading.of(id, label, vector, columns, ignore, where, unlabelled=unlabelled), text=text)
    if not points and (reading != Reading() or testing != Testing()):
        raise typer.BadParameter("There are options about points, but no POINTS.", param_hint="POINTS")
    if images is not None and not points:
        raise typer.BadParameter("Pictures are found by the ids of POINTS, and there are none.", param_hint="--images")

    from boostmetric.report import write_model_report

    metric = load_model(model)
    tested = read_task(metric, points, reading, testing) if points else Tested(None)
    pictures = None
    if images is not None:
        from boostmetric.judge.pictures import find_pictures

        named = tested.names.get("ids")
        if named is None:
            raise typer.BadParameter("Pictures are found by id: name the column of ids (--id).", param_hint="--images")
        names = list(named)
        pictures = dict(zip(names, find_pictures(images, [str(name) for name in names]), strict=True))
    write_model_report(
        output,
        metric,
        tested.task,
        beside=tested.beside,
        **tested.names,
        pictures=pictures,
        title=title,
        random_state=seed,
    )
    answer({"output": str(output)}, f"Report: {output}", as_json=as_json)
