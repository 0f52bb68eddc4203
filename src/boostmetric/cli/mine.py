"""``boostmetric mine``: hard negatives, as triplets to learn from."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from boostmetric.cli.output import Force, Json, answer, check_new, check_suffix
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
    check_classes,
    check_features,
    labelled,
)
from boostmetric.cli.tasks import load_model, parse_names

_GUARDS = "Guards against false negatives"
_PAIRS = "Which points belong together"


def mine(
    points: PointFiles,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="File to write: .csv, .tsv, .jsonl, .parquet, .npz.", show_default=False),
    ],
    id: Id = None,
    label: Label = None,
    unlabelled: Unlabelled = False,
    vector: Vector = None,
    columns: Columns = None,
    ignore: Ignore = None,
    where: Where = None,
    positives: Annotated[
        list[str] | None,
        typer.Option(
            help="File of pairs (query, document) that belong together; or use --label.", rich_help_panel=_PAIRS
        ),
    ] = None,
    documents: Annotated[
        list[str] | None,
        typer.Option(help="File of the documents, if they are not among POINTS.", rich_help_panel=_PAIRS),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--name", metavar="ROLE=COLUMN", help="Name of a column: query=... or document=...", rich_help_panel=_PAIRS
        ),
    ] = None,
    positives_per_point: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With labels: how many nearest points of its class are positives. Default: 1.",
            rich_help_panel=_PAIRS,
        ),
    ] = None,
    model: Annotated[Path | None, typer.Option(help="Measure distances by this model instead of Euclidean.")] = None,
    ranks: Annotated[
        str, typer.Option(metavar="FIRST-LAST", help="Ranks of the candidates, counted from the nearest.")
    ] = "1-100",
    negatives: Annotated[int, typer.Option(min=1, help="Largest number of negatives per positive.")] = 5,
    per_query: Annotated[int | None, typer.Option(min=1, help="Largest number of triplets per query.")] = None,
    choice: Annotated[
        Literal["nearest", "random"], typer.Option(help="Which candidates to take if there are more.")
    ] = "nearest",
    relative_margin: Annotated[
        str | None,
        typer.Option(
            metavar="LEAST[,MOST]|none",
            help="How much farther than the positive, as a fraction of its distance. Default: 0.05, or none with "
            "labels.",
            rich_help_panel=_GUARDS,
        ),
    ] = None,
    margin: Annotated[
        str | None,
        typer.Option(metavar="LEAST[,MOST]", help="The same in units of the distance.", rich_help_panel=_GUARDS),
    ] = None,
    near_duplicate: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE|none",
            help="Skip documents closer to a positive than this fraction of its distance from the query. Default: "
            "0.1, or none with labels.",
            rich_help_panel=_GUARDS,
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Skip documents with the same value in this column as a positive, such as the same article.",
            rich_help_panel=_GUARDS,
        ),
    ] = None,
    excluded: Annotated[
        list[str] | None,
        typer.Option(help="File of further pairs that are relevant, or may be.", rich_help_panel=_GUARDS),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of --choice random.")] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Find hard negatives: points near a query that do not belong to it.

    Writes anchor, positive and negative, with the rank and both distances, as boostmetric fit --comparisons reads them.
    With --label, all points of other classes are negatives; with --positives, guards skip documents that may be
    relevant but are not marked as such.
    """
    if bool(label) == bool(positives):
        raise typer.BadParameter("Give either --label or --positives to say what belongs together.")
    for option, value in (("--documents", documents), ("--group", group), ("--excluded", excluded), ("--name", names)):
        if value and label:
            raise typer.BadParameter(f"{option} goes with --positives, not with --label.", param_hint=option)
    if unlabelled and not id:
        message = "Rows are left out, so their numbers say nothing: name the column of ids (--id)."
        raise typer.BadParameter(message, param_hint="--unlabelled")
    if positives and positives_per_point:
        raise typer.BadParameter("It goes with --label.", param_hint="--positives-per-point")
    from boostmetric.cli.table_files import FORMATS

    check_suffix(output, FORMATS)
    check_new(output, force)
    options: dict[str, Any] = {
        "ranks": _window(ranks),
        "n_negatives": negatives,
        "per_query": per_query,
        "choice": choice,
        "random_state": seed,
    }
    for name, text in (("relative_margin", relative_margin), ("margin", margin), ("near_duplicate", near_duplicate)):
        if text is not None:
            options[name] = _limits(text, f"--{name.replace('_', '-')}", 1 if name == "near_duplicate" else 2)
    reading = Reading.of(id, label, vector, columns, ignore, where, unlabelled=unlabelled)

    from dataclasses import replace

    from boostmetric.cli.table_files import write_table
    from boostmetric.mining import mine_from_labels, mine_triplets
    from boostmetric.tables import read_positives

    metric = None if model is None else load_model(model)
    reading = reading if metric is None else reading.for_model(metric)
    of_points, of_documents = reading.apart(points, documents or points)
    kept = (group,) if group else ()
    table = (of_points if documents else replace(of_points, keep=kept)).read(points)
    found = replace(of_documents, keep=kept).read(documents) if documents else None
    if metric is not None:
        check_features(metric, table, *([] if found is None else [found]))
    if label:
        table = labelled(table) if unlabelled else table
        check_classes(table)
        if positives_per_point:
            options["n_positives"] = positives_per_point
        assert table.labels is not None
        mined = mine_from_labels(table.points, table.labels, metric=metric, **options)
    else:
        searched, queries = (table, None) if found is None else (found, table)
        called = parse_names(names)
        pairs = read_positives(list(positives or ()), searched, queries=queries, names=called)
        if excluded:
            options["excluded"] = read_positives(list(excluded), searched, queries=queries, names=called)
        if group:
            # Rows without a value belong to no group.
            values = searched.kept[group].tolist()
            options["groups"] = [f"row {row}" if value == "" else f"group {value}" for row, value in enumerate(values)]
        searched_points = None if found is None else found.points
        mined = mine_triplets(table.points, searched_points, pairs, metric=metric, **options)
    write_table(output, mined.columns(table.ids, None if found is None else found.ids))
    answer({"output": str(output), **mined.as_dict()}, f"{mined.describe()}\nTriplets: {output}", as_json=as_json)


def _window(text: str) -> tuple[int, int]:
    first, sign, last = text.partition("-")
    if not (sign and first.strip().isdigit() and last.strip().isdigit()):
        raise typer.BadParameter(f"{text!r} is not of the form FIRST-LAST, such as 10-100.", param_hint="--ranks")
    return int(first), int(last)


def _limits(text: str, hint: str, most: int) -> Any:
    """One number, two, or none."""
    if text.strip().lower() == "none":
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= most:
        raise typer.BadParameter(
            f"{text!r} is not a number{', or two of them,' * (most - 1)} or none.", param_hint=hint
        )
    return numbers[0] if len(numbers) == 1 else tuple(numbers)
