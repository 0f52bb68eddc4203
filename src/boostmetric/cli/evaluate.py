"""``boostmetric evaluate``: compare a model with the base, or with an earlier model, on other points."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from boostmetric.cli.commands import NOT_MET, say
from boostmetric.cli.output import Json, Model, answer, paragraph, whole_numbers
from boostmetric.cli.points import Columns, Id, Ignore, Label, PointFiles, Quiet, Reading, Unlabelled, Vector, Where
from boostmetric.cli.tasks import (
    ClickModel,
    Comparisons,
    Headline,
    Kind,
    Names,
    Queries,
    Reference,
    ReferenceWhere,
    Relevance,
    Testing,
    cut,
    load_earlier,
    load_model,
    read_task,
)


def evaluate(
    model: Model,
    points: PointFiles,
    id: Id = None,
    label: Label = None,
    unlabelled: Unlabelled = False,
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
    k: Annotated[
        str | None, typer.Option("-k", help="Results to look at, separated by commas. Default: 1,5,10.")
    ] = None,
    neighbors: Annotated[
        str | None,
        typer.Option(help="Neighbours that vote; of several values, the first is in the headline. Default: 3."),
    ] = None,
    headline: Headline = None,
    rank: Annotated[
        str | None,
        typer.Option(help="Also evaluate the model cut to this many dimensions; separate several by commas."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="Compare with this model, such as yesterday's, instead of the base."),
    ] = None,
    require: Annotated[
        Literal["better", "not-worse"] | None,
        typer.Option(help="End with code 3 unless the verdict is better, or (not-worse) its interval contains 0."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the bootstrap.")] = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare a model with the Euclidean distance, or with another model, on points it was not learned from.

    Labels (--label), graded documents (--relevance) or comparisons (--comparisons) say what is right. The verdict is
    better, no headroom (with --against, no difference) or worse, by the interval of the difference in the headline
    score; mixed, if another important score contradicts it; or doubtful, if one is below chance.

    Large files of points are searched block by block, so that they may be larger than memory.
    """
    testing = Testing(reference, reference_where, relevance, comparisons, kind, queries, names, click_model)
    testing.check(label, needed=True)
    reading = Reading.of(id, label, vector, columns, ignore, where, unlabelled=unlabelled)
    cuts = None if k is None else whole_numbers(k, "-k")
    votes = None if neighbors is None else whole_numbers(neighbors, "--neighbors")
    ranks = [] if rank is None else sorted(whole_numbers(rank, "--rank"))

    from boostmetric.callbacks import Steps
    from boostmetric.evaluation import compare

    metric = load_model(model)
    earlier = (
        None
        if against is None
        else load_earlier(against, metric.components.shape[1], metric.feature_names, "--against")
    )
    shorter = [cut(metric, size) for size in ranks]
    tested = read_task(metric, points, reading, testing, cuts, votes, or_open=True)
    names = [name for task in (tested.task, *tested.beside) for name in task.names]
    if headline is not None and headline not in names:
        raise typer.BadParameter(
            f"There is no score {headline!r}. Available: {', '.join(names)}.", param_hint="--headline"
        )
    how: dict[str, Any] = {"beside": tested.beside, "headline": headline, "against": earlier, "random_state": seed}
    with Steps("Points", visible=not quiet) as steps:
        result, *of_shorter = [compare(one, tested.task, **how, on_progress=steps.update) for one in (metric, *shorter)]
    found: dict[str, Any] = {"model": str(model), "rank": len(metric.components), "normalize": metric.normalize}
    found |= {"against": None if against is None else str(against), **result.as_dict()}
    found["required"] = None if require is None else {"verdict": require, "met": result.meets(require)}
    found["cut"] = [{"rank": size, **one.as_dict()} for size, one in zip(ranks, of_shorter, strict=True)]
    lines = [*str(result).splitlines()[:-1], paragraph(result.sentence)]
    for size, one in zip(ranks, of_shorter, strict=True):
        lines += ["", paragraph(f"Cut to {size} of {len(metric.components)} dimensions. {one.sentence}")]
    answer(found, "\n".join(lines), as_json=as_json)
    if require is not None and not result.meets(require):
        say(f"The verdict is {result.verdict!r}, so --require {require} is not met.")
        raise typer.Exit(NOT_MET)
