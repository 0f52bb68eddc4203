"""``boostmetric fit``: learn a metric from files, and write a model."""

import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from boostmetric.cli.commands import INTERRUPTED, message_of, say, typed
from boostmetric.cli.conditions import parse_conditions
from boostmetric.cli.output import Force, Json, answer, check_model_name, check_new
from boostmetric.cli.points import (
    POINTS_HELP,
    Columns,
    Id,
    Ignore,
    Label,
    Reading,
    Unlabelled,
    Vector,
    Weight,
    Where,
)
from boostmetric.cli.tasks import (
    FEEDBACK,
    ClickModel,
    Comparisons,
    Headline,
    Kind,
    Names,
    Queries,
    load_earlier,
    load_model,
    parse_names,
)

if TYPE_CHECKING:
    from boostmetric.cli.fit_data import FitData

_VALIDATION, _LEARNING, _CLUSTER = "What to validate on", "How to learn", "On a cluster"


def fit(
    ctx: typer.Context,
    points: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="POINTS",
            show_default=False,
            help=POINTS_HELP,
        ),
    ] = None,
    more_points: Annotated[
        list[str] | None, typer.Option("--points", help="The same as POINTS.", show_default=False)
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")] = Path("model.safetensors"),
    id: Id = None,
    label: Label = None,
    weight: Weight = None,
    vector: Vector = None,
    columns: Columns = None,
    ignore: Ignore = None,
    where: Where = None,
    unlabelled: Unlabelled = False,
    comparisons: Comparisons = None,
    kind: Kind = None,
    queries: Queries = None,
    names: Names = None,
    max_per_query: Annotated[
        int | None, typer.Option(min=1, help="Largest number of comparisons per query.", rich_help_panel=FEEDBACK)
    ] = None,
    click_model: ClickModel = None,
    contradictions: Annotated[
        Literal["weigh", "refuse"],
        typer.Option(
            help="Whether judgements that contradict each other are weighed against each other, or an error.",
            rich_help_panel=FEEDBACK,
        ),
    ] = "weigh",
    validation: Annotated[
        list[str] | None,
        typer.Option(
            help="File of rows to validate on (with --comparisons, of comparisons).", rich_help_panel=_VALIDATION
        ),
    ] = None,
    validation_where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=VALUE",
            help="Validate on these rows of POINTS. A --where on the same column does not apply to them.",
            rich_help_panel=_VALIDATION,
        ),
    ] = None,
    validation_fraction: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=0.9,
            help="Fraction of each class (or of the anchors) to validate on; 0 for none. Default: 0.2, or none with "
            "fewer than 1,500 labelled rows, which are validated on in turn.",
            rich_help_panel=_VALIDATION,
        ),
    ] = None,
    headline: Headline = None,
    setting: Annotated[
        Literal["recommended", "paper"],
        typer.Option(
            help="Where the options below come from if not given: validation, or the paper.", rich_help_panel=_LEARNING
        ),
    ] = "recommended",
    loss: Annotated[
        Literal["exponential", "logistic", "smooth-hinge"] | None,
        typer.Option(help="Loss to minimise.", rich_help_panel=_LEARNING),
    ] = None,
    solver: Annotated[
        Literal["stagewise", "corrective", "auto"] | None,
        typer.Option(help="How an iteration uses its new direction.", rich_help_panel=_LEARNING),
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(
            help="Metric to start from: zero, identity, standardized or auto; with labels also rca, standardized-rca, "
            "lda, standardized-lda, geometric-mean. Or a model file, such as yesterday's.",
            rich_help_panel=_LEARNING,
        ),
    ] = None,
    max_iter: Annotated[
        int | None, typer.Option(min=1, help="Largest number of iterations (per pass).", rich_help_panel=_LEARNING)
    ] = None,
    passes: Annotated[
        int | None,
        typer.Option(
            min=1, help="Largest number of passes; with labels, or positives alone.", rich_help_panel=_LEARNING
        ),
    ] = None,
    neighbors: Annotated[
        int | None, typer.Option(min=1, help="Targets per point; labels only.", rich_help_panel=_LEARNING)
    ] = None,
    impostors: Annotated[
        str | None, typer.Option(help="Impostors per point, or all; labels only.", rich_help_panel=_LEARNING)
    ] = None,
    regularization: Annotated[
        float | None, typer.Option(min=0.0, help="Weight of the trace.", rich_help_panel=_LEARNING)
    ] = None,
    components: Annotated[
        int | None, typer.Option(min=1, help="Largest rank of the model.", rich_help_panel=_LEARNING)
    ] = None,
    normalize: Annotated[
        bool | None,
        typer.Option(
            "--normalize/--no-normalize",
            help="Whether the model scales mapped vectors to unit length, for indexes that compare by cosine. Default: "
            "if validation finds it better.",
            rich_help_panel=_LEARNING,
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all processors.", rich_help_panel=_LEARNING)] = -1,
    device: Annotated[
        str, typer.Option(help="cpu, cuda, cuda:0, ..., or auto (a GPU if there is one).", rich_help_panel=_LEARNING)
    ] = "cpu",
    engine: Annotated[
        Literal["ray"] | None,
        typer.Option(
            help="Learn on a Ray cluster. Its workers read Parquet files of points and comparisons.",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of the cluster, such as auto. Default: RAY_ADDRESS, or start one on this machine.",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of processors. Default: all of the cluster.", rich_help_panel=_CLUSTER),
    ] = None,
    workers_per_process: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Threads per process. Default: the processors of a machine, which then holds its points once.",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.", rich_help_panel=_LEARNING)] = 0,
    tag: Annotated[
        str | None, typer.Option(help="A name for the model file to hold, such as a date or a commit.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted fit; repeat its other options.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what was understood, and learn nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Learn a metric from labelled points, or from points and comparisons.

    Validation chooses the setting, with the Euclidean distance as a candidate. Ctrl-C ends the fit after the current
    iteration and keeps the best metric so far; --resume continues from there, also after a crash.
    """
    points = [*(points or ()), *(more_points or ())]
    if not points:
        raise typer.BadParameter("No points given: name the files to learn from.", param_hint="POINTS")
    options = {"--address": address, "--workers": workers, "--workers-per-process": workers_per_process}
    for option, given in options.items():
        if given and not engine:
            raise typer.BadParameter(f"{option} goes with --engine ray.", param_hint=option)
    if bool(label) == bool(comparisons):
        raise typer.BadParameter(
            "Give either --label or --comparisons to learn from. To leave out a column of labels, use --ignore."
        )
    for option, value in (
        ("--kind", kind),
        ("--queries", queries),
        ("--name", names),
        ("--max-per-query", max_per_query),
        ("--click-model", click_model),
        ("--contradictions", contradictions != "weigh"),
    ):
        if value and not comparisons:
            raise typer.BadParameter(f"{option} goes with --comparisons.", param_hint=option)
    for option, value in (
        ("--weight", weight),
        ("--neighbors", neighbors),
        ("--impostors", impostors),
    ):
        if value and comparisons:
            raise typer.BadParameter(f"{option} goes with --label.", param_hint=option)
    said = [validation, validation_where, None if validation_fraction is None else [validation_fraction]]
    if sum(map(bool, said)) > 1:
        raise typer.BadParameter("Give one of --validation, --validation-where and --validation-fraction.")
    if comparisons and validation_where:
        raise typer.BadParameter(
            "Comparisons have no columns of points: use --validation.", param_hint="--validation-where"
        )
    reading = replace(Reading.of(id, label, vector, columns, ignore, where, unlabelled=unlabelled), weight=weight)
    held_out = parse_conditions(validation_where, "--validation-where")
    before = Path(init) if init and (init.endswith(".safetensors") or Path(init).is_file()) else None
    overrides: dict[str, Any] = {
        name: value
        for name, value in {
            "loss": loss,
            "solver": solver,
            "init": init if before is None else load_model(before, hint="--init"),
            "max_iter": max_iter,
            "n_passes": passes,
            "n_neighbors": neighbors,
            "n_impostors": _impostors(impostors),
            "regularization": regularization,
            "n_components": components,
            "normalize": normalize,
        }.items()
        if value is not None
    }

    from boostmetric import BoostMetric, ComparisonBoostMetric
    from boostmetric.cli import fit_run, model_output
    from boostmetric.cli.fit_comparisons import ComparedData
    from boostmetric.cli.fit_data import Feedback, HoldOut
    from boostmetric.cli.fit_labels import LabelledData
    from boostmetric.cli.fit_shared import SharedData, are_parquet
    from boostmetric.engines.ray import RayEngine
    from boostmetric.storage.origin import origin

    checkpoint = fit_run.checkpoint_of(output)
    if resume and not checkpoint.exists():
        raise FileNotFoundError(
            f"There is no checkpoint {checkpoint} to continue from: the fit was never started, has finished, or was "
            "stopped in its first iterations. Leave --resume out to start one."
        )
    # A model beside a checkpoint was left by an interrupted fit, which may replace it.
    if not dry_run:
        ctx.with_resource(model_output.claimed(output))
        check_new(output, force or resume, "--resume continues the fit that left it" if checkpoint.exists() else "")
    check_model_name(output)
    cluster = RayEngine(address, workers, workers_per_process) if engine else None
    choose = setting == "recommended"
    learner = ComparisonBoostMetric if comparisons else BoostMetric
    estimator: Any = (learner.recommended if choose else learner.paper)(**overrides, random_state=seed)
    shown = f"setting: {setting}, {' '.join(repr(estimator).split())}"
    try:  # before files are read, which may take long
        estimator.set_params(n_jobs=jobs, device=device, engine=cluster).check_parameters()
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(message_of(error, ctx.command)) from None
    data: FitData
    hold_out = HoldOut(validation or (), held_out, validation_fraction, seed)
    if comparisons:
        feedback = Feedback(comparisons, kind, queries, parse_names(names), max_per_query, click_model, contradictions)
        # What the workers cannot read, this process reads and sends to them.
        if cluster and are_parquet(points, comparisons, queries, validation):
            data = SharedData.opened(points, reading, feedback, hold_out, cluster)
        else:
            data = ComparedData.read(points, reading, feedback, hold_out)
    else:
        data = LabelledData.read(points, reading, hold_out)
    if before is not None:
        names = data.features.feature_names
        estimator.set_params(init=load_earlier(before, data.features.n_features, names, "--init", "the data"))
    data.headline(headline)
    described = f"{data.describe()}\n  {shown}"
    if dry_run:
        found = {"dry_run": True, "setting": setting, "data": data.as_dict(), "description": described}
        answer(found, f"{described}\nNothing was learned (--dry-run).", as_json=as_json)
        return
    read = {"points": points, "comparisons": comparisons, "queries": queries, "validation": validation}
    if label and label.lower().endswith(".npy"):
        read["labels"] = label.split(",")
    read |= {"init": None if before is None else [str(before)]}
    made_from = fit_run.records_of(read, hashed=not isinstance(data, SharedData))
    chosen = {"where": list(map(str, reading.where)), "left_out": list(map(str, held_out))}
    for record in made_from:
        if record["role"] == "points":
            record |= {name: conditions for name, conditions in chosen.items() if conditions}
    if not quiet and not as_json:
        say(described)
    if checkpoint.exists() and not resume:
        say(f"There is a checkpoint of an earlier fit, {checkpoint}, which --resume would continue. This fit is new.")
    try:
        with cluster.connected() if cluster else nullcontext():
            outcome = fit_run.run(
                data, estimator, output, choose=choose, headline=headline, resume=resume, quiet=quiet, seed=seed
            )
    except KeyboardInterrupt:
        kept = f"To continue, run the same command with --resume ({checkpoint})." if checkpoint.exists() else ""
        say(f"Stopped at once. No model was written. {kept}".rstrip())
        raise typer.Exit(INTERRUPTED) from None
    outcome.metric.about["origin"] = origin(command=typed(ctx), tag=tag, files=made_from)
    model_output.save_or_rescue(outcome.metric, output, checkpoint)
    resumes = outcome.interrupted and outcome.can_resume
    if not resumes:
        checkpoint.unlink(missing_ok=True)
    text = fit_run.as_text(outcome, output, chosen=choose, next_steps=_next_steps(output, points, reading, queries))
    answer(fit_run.as_dict(outcome, data, output), text, as_json=as_json)
    if outcome.interrupted or not outcome.can_resume:
        if resumes:
            how = "the model is the best so far. To continue, run the same command with --resume."
        elif outcome.interrupted:
            how = "the model is the best so far. The choice of the setting was interrupted too, so it cannot be "
            how += "continued: run the command again."
        else:
            how = "the setting is the best of those tried. To try all, run the command again."
        say(f"Interrupted: {how}")
        raise typer.Exit(INTERRUPTED)


def _impostors(text: str | None) -> int | str | None:
    if text is None or text == "all":
        return text
    if not text.isdigit() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is neither a positive whole number nor all.", param_hint="--impostors")
    return int(text)


def _next_steps(output: Path, points: Sequence[str], reading: Reading, queries: Sequence[str] | None) -> list[str]:
    """Commands to try next."""
    model, file = shlex.quote(str(output)), shlex.quote(points[0])
    asked = "".join(f" --queries {shlex.quote(query)}" for query in queries or ())
    tested = f"{model} TEST_POINTS{reading.typed} --comparisons TEST_COMPARISONS{asked}"
    if reading.label is not None:
        beside = reading.label.lower().endswith(".npy")  # a file, of these points only
        labels = f"TEST_LABELS.npy,{reading.label.partition(',')[0]}" if beside else reading.label
        label = f"--label {shlex.quote(labels)}{reading.typed}"
        tested = f"{model} TEST_POINTS {label} --reference {file}"
        # If rows were chosen by a column, the other rows of the file can be tested on.
        named = [condition for condition in reading.where if condition.sign == "="]
        if named:
            others = [shlex.quote(f"--where={other}") for other in reading.where if other.column != named[0].column]
            choice = shlex.quote(named[0].column)
            rows = [*others, f"--where {choice}=...", f"--reference-where {shlex.quote(str(named[0]))}"]
            tested = f"{model} {file} {label} {' '.join(rows)}"
    return [
        f"boostmetric evaluate {tested}",
        f"boostmetric report {tested}",
        f"boostmetric transform {model} {file}{replace(reading, unlabelled=False).typed} -o transformed.npz",
        f"boostmetric export {model} --to faiss -o metric.faiss",
    ]
