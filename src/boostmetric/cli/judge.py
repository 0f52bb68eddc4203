"""``boostmetric judge``: a page where people teach the distance."""

from __future__ import annotations

import shlex
import socket
import webbrowser
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from boostmetric.cli.commands import INTERRUPTED, say
from boostmetric.cli.output import Force, Json, answer, check_new
from boostmetric.cli.points import Columns, Id, Ignore, PointFiles, Reading, Vector, Where, separated

if TYPE_CHECKING:
    from boostmetric.judge.answers import AnswerFile
    from boostmetric.judge.finish import Outputs
    from boostmetric.judge.records import Judge
    from boostmetric.judge.sitting import Objects

_SHOWN, _JUDGES, _SERVER = "What is shown", "Who answers", "Where the page is"


def judge(
    points: PointFiles,
    answers: Annotated[
        Path, typer.Option("--answers", "-a", help="File of the answers (.judge), made or continued.")
    ] = Path("answers.judge"),
    output: Annotated[Path, typer.Option("--output", "-o", help="Model to write at the end.")] = Path(
        "judged.safetensors"
    ),
    images: Annotated[
        Path | None, typer.Option(help="Folder of pictures, called after the ids.", rich_help_panel=_SHOWN)
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="Column of the pictures' names in that folder.", rich_help_panel=_SHOWN)
    ] = None,
    text: Annotated[str | None, typer.Option(help="Column of texts to show.", rich_help_panel=_SHOWN)] = None,
    mode: Annotated[
        Literal["triplet", "odd", "choice"] | None,
        typer.Option(
            help="triplet: which of two is more like a third; odd: the odd one out of three; choice: the most similar "
            "two of eight. Default: triplet, or that of the file.",
            rich_help_panel=_SHOWN,
        ),
    ] = None,
    judges: Annotated[
        list[str] | None,
        typer.Option(
            help="Names, separated by commas; each has a link of their own. Default: those of the file, or one.",
            rich_help_panel=_JUDGES,
        ),
    ] = None,
    leave_out: Annotated[
        list[str] | None,
        typer.Option(help="Judges whose answers are not learned from, separated by commas.", rich_help_panel=_JUDGES),
    ] = None,
    host: Annotated[
        str,
        typer.Option(help="Address to serve; others than this machine can reach it then.", rich_help_panel=_SERVER),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port; 0 takes any free one.", rich_help_panel=_SERVER)
    ] = 8421,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.", rich_help_panel=_SERVER)
    ] = True,
    finish: Annotated[
        bool, typer.Option("--finish", help="Ask nothing: write the model from the answers so far.")
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Random seed of the questions, for a new file. Default: another each time."),
    ] = None,
    id: Id = None,
    vector: Vector = None,
    columns: Columns = None,
    ignore: Ignore = None,
    where: Where = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Ask people which objects are alike, on a page in the browser, and learn while they answer.

    Every answer is stored at once; Ctrl-C ends the sitting, and the same command goes on. The page's Finish writes the
    model and a report. The file of answers is also a file of comparisons: boostmetric fit --comparisons.
    """
    if answers.suffix != ".judge":
        raise typer.BadParameter(f"{answers} must end with .judge.", param_hint="--answers")
    if image is not None and images is None:
        raise typer.BadParameter("--image names files in a folder: give --images.", param_hint="--image")
    if finish and not answers.exists():
        raise typer.BadParameter(f"There are no answers yet: {answers} does not exist.", param_hint="--finish")
    check_new(output, force)
    report = output.with_suffix(".html")
    check_new(report, force)
    reading = Reading.of(id, None, vector, columns, ignore, where)

    from boostmetric.judge.answers import AnswerFile
    from boostmetric.judge.finish import Outputs

    names = separated(judges or ())
    objects = _objects(points, reading, images, image, text)
    shown = [column for column in (text, image) if column is not None]
    typed = replace(reading, ignore=tuple(dict.fromkeys([*reading.ignore, *shown]))).typed
    outputs = Outputs(output, report, f"{' '.join(map(shlex.quote, points))}{typed}")
    is_new = not answers.exists() or not answers.stat().st_size
    with AnswerFile(answers, mode=mode or ("triplet" if is_new else None), seed=seed) as file:
        before = [person.name for person in file.judges()]
        people = [] if finish else [file.judge(name) for name in dict.fromkeys(names or before or ["judge"])]
        if leave_out is not None:
            file.leave_out(separated(leave_out))
        if finish:
            from boostmetric.judge.finish import finish as write

            _conclude(write(file, objects, outputs), outputs, as_json=as_json)
            return
        _serve(file, objects, people, outputs, host, port, browser=browser, as_json=as_json)


def _objects(
    points: Sequence[str], reading: Reading, images: Path | None, image: str | None, text: str | None
) -> Objects:
    """Points with what is shown of them."""
    import numpy as np

    from boostmetric.judge.pictures import find_pictures
    from boostmetric.judge.sitting import Objects

    table = replace(reading, keep=tuple(column for column in (text, image) if column is not None)).read(points)
    ids: Any = np.arange(len(table)) if table.ids is None else table.ids
    if images is None and text is None and table.ids is None:
        raise typer.BadParameter("Nothing can be shown of the objects: give --images, --text or --id.")
    pictures = None
    if images is not None:
        named = ids if image is None else table.kept[image]
        pictures = find_pictures(images, list(map(str, named.tolist())), "id" if image is None else f"column {image!r}")
    texts = None if text is None else list(map(str, table.kept[text].tolist()))
    return Objects(ids, table.points.astype(np.float64), texts, pictures, table.feature_names)


def _serve(
    file: AnswerFile,
    objects: Objects,
    people: Sequence[Judge],
    outputs: Outputs,
    host: str,
    port: int,
    *,
    browser: bool,
    as_json: bool,
) -> None:
    """Serve pages until all have finished, or Ctrl-C."""
    from boostmetric.judge.limits import is_loopback
    from boostmetric.judge.serving import Served, bound
    from boostmetric.judge.worker import started

    loopback = is_loopback(host)
    try:
        listening = bound(host, port)
    except OSError as error:
        raise typer.BadParameter(f"{host}:{port} cannot be used: {error.strerror}. Give another --port.") from None
    with ExitStack() as stack:
        stack.callback(listening.close)
        worker = started(file.path, objects.ids, objects.points)
        stack.callback(worker.join, 5)
        stack.callback(worker.terminate)
        served = Served(file, objects, people, outputs, loopback=loopback)
        links = [f"http://{_reachable(host)}:{listening.getsockname()[1]}/{judge.token}/" for judge in people]
        say(f"Answers go to {file.path}: each is stored at once. Ctrl-C ends the sitting; the same command goes on.")
        if not loopback:
            say(
                "Other machines can reach these pages, over a connection that is not encrypted. Whoever has a link can "
                "answer."
            )
        for judge, link in zip(people, links, strict=True):
            say(link if len(people) == 1 else f"{judge.name}: {link}")
        if browser and loopback:
            webbrowser.open(links[0])
        with suppress(KeyboardInterrupt):
            served.run(listening)
    if served.sitting.outcome is None:
        say(
            f"{len(file.judged()):,} answers are in {file.path}. The same command goes on; with --finish it writes the "
            "model."
        )
        raise typer.Exit(INTERRUPTED)
    _conclude(served.sitting.outcome, outputs, as_json=as_json)


def _reachable(host: str) -> str:
    """A name under which the page can be reached."""
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host
    return f"[{name}]" if ":" in name else name


def _conclude(outcome: dict[str, Any], outputs: Outputs, *, as_json: bool) -> None:
    from boostmetric.judge.finish import judges_in_words

    people = judges_in_words(outcome["result"]["judges"])
    lines = [
        outcome["text"],
        *(people if len(people) > 1 else []),
        "",
        "Next:",
        *(f"  {c}" for c in outcome["commands"]),
    ]
    told = {"model": str(outputs.model), "report": str(outputs.report), **outcome["result"]}
    answer(told, "\n".join(lines), as_json=as_json)
