"""``boostmetric fit``: learn a metric from files, and write a model."""

import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from boostmetric.cli.commands import INTERRUPTED, say, told
from boostmetric.cli.conditions import parse_conditions
from boostmetric.cli.output import Force, Json, answer, check_new
from boostmetric.cli.points import Columns, Id, Ignore, Label, Reading, Vector, Where
from boostmetric.cli.tasks import FEEDBACK, Comparisons, Kind, Names, Queries, parse_names

if TYPE_CHECKING:
    from boostmetric.cli.fit_data import FitData

_VALIDATION, _LEARNING, _CLUSTER = "What is validated on", "How it is learned", "On a cluster"


def fit(
    ctx: typer.Context,
    points: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[POINTS]...",
            show_default=False,
            help="Files of points (.csv, .tsv, .jsonl, .parquet, .npz, .npy), or a pattern in quotes; read as one "
            "table.",
        ),
    ] = None,
    more_points: Annotated[
        list[str] | None, typer.Option("--points", help="The same as POINTS.", show_default=False)
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")] = Path("model.safetensors"),
    id: Id = None,
    label: Label = None,
    vector: Vector = None,
    columns: Columns = None,
    ignore: Ignore = None,
    where: Where = None,
    comparisons: Comparisons = None,
    kind: Kind = None,
    queries: Queries = None,
    names: Names = None,
    max_per_query: Annotated[
        int | None, typer.Option(min=1, help="Most comparisons of a query.", rich_help_panel=FEEDBACK)
    ] = None,
    validation: Annotated[
        list[str] | None,
        typer.Option(
            help="File of rows (with --comparisons: of comparisons) to validate on.", rich_help_panel=_VALIDATION
        ),
    ] = None,
    validation_where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=VALUE",
            help="Validate on these rows of POINTS. A --where about the same column does not hold for them.",
            rich_help_panel=_VALIDATION,
        ),
    ] = None,
    validation_fraction: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=0.9,
            help="Share of the rows of each class (or of the anchors) to validate on; 0 for none. If nothing is said: "
            "0.2, or none of fewer than 1,500 labelled rows, which are validated on in turn.",
            rich_help_panel=_VALIDATION,
        ),
    ] = None,
    setting: Annotated[
        Literal["recommended", "paper"],
        typer.Option(help="What is not given below: chosen by validation, or the paper's.", rich_help_panel=_LEARNING),
    ] = "recommended",
    loss: Annotated[
        Literal["exponential", "logistic", "smooth-hinge"] | None,
        typer.Option(help="Loss to minimise.", rich_help_panel=_LEARNING),
    ] = None,
    solver: Annotated[
        Literal["stagewise", "corrective", "auto"] | None,
        typer.Option(help="What an iteration does.", rich_help_panel=_LEARNING),
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(
            help="Metric to begin with: zero, identity, standardized; with labels also rca, standardized-rca, auto.",
            rich_help_panel=_LEARNING,
        ),
    ] = None,
    max_iter: Annotated[
        int | None, typer.Option(min=1, help="Most iterations (of each pass).", rich_help_panel=_LEARNING)
    ] = None,
    passes: Annotated[
        int | None, typer.Option(min=1, help="Most passes; labels only.", rich_help_panel=_LEARNING)
    ] = None,
    neighbors: Annotated[
        int | None, typer.Option(min=1, help="Targets of each point; labels only.", rich_help_panel=_LEARNING)
    ] = None,
    impostors: Annotated[
        str | None, typer.Option(help="Impostors of each point, or all; labels only.", rich_help_panel=_LEARNING)
    ] = None,
    regularization: Annotated[
        float | None, typer.Option(min=0.0, help="Weight of the trace.", rich_help_panel=_LEARNING)
    ] = None,
    components: Annotated[
        int | None, typer.Option(min=1, help="Largest rank of the model.", rich_help_panel=_LEARNING)
    ] = None,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all processors.", rich_help_panel=_LEARNING)] = -1,
    device: Annotated[
        str, typer.Option(help="cpu, cuda, cuda:0, ..., or auto: a GPU if there is one.", rich_help_panel=_LEARNING)
    ] = "cpu",
    engine: Annotated[
        Literal["ray"] | None,
        typer.Option(
            help="Learn on a Ray cluster; Parquet files of points and comparisons are read by its workers.",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Of the cluster, such as auto; by default RAY_ADDRESS, or one is started on this machine.",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processors; by default all of the cluster.", rich_help_panel=_CLUSTER)
    ] = None,
    workers_per_process: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many of them are threads of one process; by default those of a machine, which then holds its "
            "points once.",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.", rich_help_panel=_LEARNING)] = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a fit that was interrupted: otherwise the same command.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what was understood, and learn nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Learn a metric from labelled points, or from points and comparisons.

    The setting is chosen by validation, with the Euclidean distance as a candidate. Ctrl-C ends the fit after the
    current iteration and keeps the best so far; --resume goes on from there, also after a crash.
    """
    points = [*(points or ()), *(more_points or ())]
    if not points:
        raise typer.BadParameter("No points are given: name the files to learn from.", param_hint="POINTS")
    options = {"--address": address, "--workers": workers, "--workers-per-process": workers_per_process}
    for option, given in options.items():
        if given and not engine:
            raise typer.BadParameter(f"{option} goes with --engine ray.", param_hint=option)
    if bool(label) == bool(comparisons):
        raise typer.BadParameter(
            "Learn from --label or from --comparisons: give one of them. A column of labels that is not used can be "
            "left out with --ignore."
        )
    for option, value in (
        ("--kind", kind),
        ("--queries", queries),
        ("--name", names),
        ("--max-per-query", max_per_query),
    ):
        if value and not comparisons:
            raise typer.BadParameter(f"{option} goes with --comparisons.", param_hint=option)
    for option, value in (("--passes", passes), ("--neighbors", neighbors), ("--impostors", impostors)):
        if value and comparisons:
            raise typer.BadParameter(f"{option} goes with --label.", param_hint=option)
    said = [validation, validation_where, None if validation_fraction is None else [validation_fraction]]
    if sum(map(bool, said)) > 1:
        raise typer.BadParameter("Give one of --validation, --validation-where and --validation-fraction.")
    if comparisons and validation_where:
        raise typer.BadParameter("Comparisons have no such columns: use --validation.", param_hint="--validation-where")
    reading = Reading.of(id, label, vector, columns, ignore, where)
    held_out = parse_conditions(validation_where, "--validation-where")
    overrides: dict[str, Any] = {
        name: value
        for name, value in {
            "loss": loss,
            "solver": solver,
            "init": init,
            "max_iter": max_iter,
            "n_passes": passes,
            "n_neighbors": neighbors,
            "n_impostors": _impostors(impostors),
            "regularization": regularization,
            "n_components": components,
        }.items()
        if value is not None
    }

    from boostmetric import BoostMetric, ComparisonBoostMetric
    from boostmetric.cli import fit_run
    from boostmetric.cli.fit_data import ComparedData, Feedback, HoldOut, LabelledData, SharedData
    from boostmetric.engines.ray import RayEngine
    from boostmetric.tables.comparison_files import are_parquet

    checkpoint = fit_run.checkpoint_of(output)
    if resume and not checkpoint.exists():
        raise FileNotFoundError(
            f"There is no checkpoint {checkpoint} to go on from: the fit was never begun, ended in order, or was "
            "stopped in its first iterations. Leave --resume out to begin."
        )
    # A model beside a checkpoint is what an interrupted fit left, and its own to replace.
    if not dry_run:
        check_new(output, force or resume, "--resume goes on with the fit that left it" if checkpoint.exists() else "")
    cluster = RayEngine(address, workers, workers_per_process) if engine else None
    choose = setting == "recommended"
    learner = ComparisonBoostMetric if comparisons else BoostMetric
    estimator: Any = (learner.recommended if choose else learner)(**overrides, random_state=seed)
    shown = f"setting: {setting}, {' '.join(repr(estimator).split())}"
    try:  # before files are read, which may take long
        estimator.set_params(n_jobs=jobs, device=device, engine=cluster).check_parameters()
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(told(error, ctx.command)) from None
    data: FitData
    hold_out = HoldOut(validation or (), held_out, validation_fraction, seed)
    if comparisons:
        feedback = Feedback(comparisons, kind, queries, parse_names(names), max_per_query)
        # What workers cannot read, this process reads, and sends them.
        if cluster and are_parquet(points, comparisons, queries, validation):
            data = SharedData.opened(points, reading, feedback, hold_out, cluster)
        else:
            data = ComparedData.read(points, reading, feedback, hold_out)
    else:
        data = LabelledData.read(points, reading, hold_out)
    described = f"{data.describe()}\n  {shown}"
    if dry_run:
        found = {"dry_run": True, "setting": setting, "data": data.as_dict(), "description": described}
        answer(found, f"{described}\nNothing was learned (--dry-run).", as_json=as_json)
        return
    if not quiet and not as_json:
        say(described)
    if checkpoint.exists() and not resume:
        say(f"There is a checkpoint of an earlier fit, {checkpoint}, which --resume would go on from. This fit is new.")
    try:
        with cluster.connected() if cluster else nullcontext():
            outcome = fit_run.run(data, estimator, output, choose=choose, resume=resume, quiet=quiet, seed=seed)
    except KeyboardInterrupt:
        kept = f"To go on, run the same command with --resume ({checkpoint})." if checkpoint.exists() else ""
        say(f"Stopped at once. No model was written. {kept}".rstrip())
        raise typer.Exit(INTERRUPTED) from None
    outcome.metric.save(output)
    if not outcome.interrupted:
        checkpoint.unlink(missing_ok=True)
    text = fit_run.as_text(outcome, output, chosen=choose, next_steps=_next_steps(output, points, reading, queries))
    answer(fit_run.as_dict(outcome, data, output), text, as_json=as_json)
    if outcome.interrupted:
        say("Interrupted: the model is the best so far. To go on, run the same command with --resume.")
        raise typer.Exit(INTERRUPTED)


def _impostors(text: str | None) -> int | str | None:
    if text is None or text == "all":
        return text
    if not text.isdigit() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is neither a whole number from 1 on nor all.", param_hint="--impostors")
    return int(text)


def _next_steps(output: Path, points: Sequence[str], reading: Reading, queries: Sequence[str] | None) -> list[str]:
    """Commands that show what the model is good for."""
    model, file = shlex.quote(str(output)), shlex.quote(points[0])
    asked = "".join(f" --queries {shlex.quote(query)}" for query in queries or ())
    tested = f"{model} TEST_POINTS{reading.typed} --comparisons TEST_COMPARISONS{asked}"
    if reading.label is not None:
        label = f"--label {shlex.quote(reading.label)}{reading.typed}"
        tested = f"{model} TEST_POINTS {label} --reference {file}"
        # Where rows were chosen by a column, others of the same file are there to test on.
        named = [condition for condition in reading.where if condition.equal]
        if named:
            others = [shlex.quote(f"--where={other}") for other in reading.where if other.column != named[0].column]
            choice = shlex.quote(named[0].column)
            rows = [*others, f"--where {choice}=...", f"--reference-where {shlex.quote(str(named[0]))}"]
            tested = f"{model} {file} {label} {' '.join(rows)}"
    return [
        f"boostmetric evaluate {tested}",
        f"boostmetric report {tested}",
        f"boostmetric transform {model} {file}{reading.typed} -o transformed.npz",
        f"boostmetric export {model} --to faiss -o metric.faiss",
    ]
