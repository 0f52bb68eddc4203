"""What all commands share: plain errors and warnings, and exit codes."""

import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import Any, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from boostmetric.arrays.errors import NamesParameters, ParameterError

NOT_MET, INTERRUPTED = 3, 130

# Library names whose options are called differently.
_ALIASES = {
    "resume_from": "resume",
    "n_neighbors": "neighbors",
    "n_impostors": "impostors",
    "n_passes": "passes",
    "n_components": "components",
    "n_negatives": "negatives",
    "n_positives": "positives_per_point",
    "random_state": "seed",
    "n_jobs": "jobs",
    "names": "name",
    "groups": "group",
}


class _PlainFlags:
    """Flags that take no value, --help included, though typer would show <bool>."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class Commands(_PlainFlags, TyperGroup):
    """All commands."""


class FileCommand(_PlainFlags, TyperCommand):
    """A command whose errors are messages, not tracebacks.

    Problems with files, models or optional packages end it with code 1 and one message on standard error. A wrong
    command ends with code 2, also where only the data show that the value of an option is wrong. Anything else is a bug
    and keeps its traceback.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the options; an error says which value was given."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = _with_value(error)
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _plain_warnings(self), _stopped_by_signals():
            try:
                _check_output(ctx.params)
                return super().invoke(ctx)
            except (ValueError, ImportError, MemoryError, OSError) as error:
                if isinstance(error, BrokenPipeError):
                    raise
                say(f"Error: {message_of(error, self)}")
                raise typer.Exit(2 if _is_about_options(error, self) else 1) from None
            except KeyboardInterrupt:
                say("Interrupted.")
                raise typer.Exit(INTERRUPTED) from None


def _with_value(error: typer.BadParameter) -> str:
    """The message of a wrong value, which typer's newer versions leave out."""
    message = error.message.removeprefix("Value error, ")
    details = getattr(error.__cause__, "errors", None)  # of pydantic
    given = repr(details()[0]["input"]) if details is not None else ""
    return message if given in message else f"{message.rstrip('.')}. Got {given}."


# They say nothing about a result.
_NOT_RECORDED = ("jobs", "quiet", "as_json", "force", "output", "resume")


def typed(ctx: Any) -> str:
    """The command with its options, for the record; without those that say where to write or how to run."""
    arguments, options = [], []
    for parameter in ctx.command.params:
        value = ctx.params.get(parameter.name)
        source = ctx.get_parameter_source(parameter.name)
        if parameter.name in _NOT_RECORDED or source is None or source.name == "DEFAULT" or value is None:
            continue
        values = [str(one) for one in (value if isinstance(value, list | tuple) else [value])]
        if parameter.param_type_name == "argument":
            arguments += values
        elif isinstance(value, bool):
            options.append((parameter.opts if value else parameter.secondary_opts)[0])
        else:
            options += [text for one in values for text in (parameter.opts[0], one)]
    return shlex.join(["boostmetric", ctx.info_name, *arguments, *options])


def message_of(error: Exception, command: Any) -> str:
    """The message of an error or warning, with the options of a command in place of the library's parameters."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}."
    if not isinstance(error, NamesParameters):
        return str(error)
    return error.told(_options(command))


def _options(command: Any) -> dict[str, str]:
    """The options of a command by the names of the library's parameters."""
    options = {
        option.lstrip("-").replace("-", "_"): option
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("-")
    }
    return options | {name: options[ours] for name, ours in _ALIASES.items() if ours in options}


def _is_about_options(error: Exception, command: Any) -> bool:
    """Whether the value of an option is wrong; a checkpoint is a file."""
    from boostmetric.tables.complaints import OptionError

    if isinstance(error, OptionError):
        return True
    options = _options(command)
    if not isinstance(error, ParameterError) or "resume_from" in error.parameters:
        return False
    return any(name in options for name in error.parameters)


def _check_output(given: dict[str, Any]) -> None:
    """Refuse an output that is also an input, even with --force."""
    output = given.get("output")
    if output is None or not Path(output).is_file():
        return
    for name, value in given.items():
        for item in value if isinstance(value, list | tuple) else [value]:
            if name == "output" or not isinstance(item, str | Path):
                continue
            found = glob(str(item))  # noqa: PTH207 - a pattern of any folder
            if any(Path(path).samefile(output) for path in found if Path(path).exists()):
                raise typer.BadParameter(f"{output} is what is read. Give another name.", param_hint="--output")


def say(message: str = "") -> None:
    """Print a line on standard error, where everything but the result goes."""
    typer.echo(message, err=True)


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM, which schedulers send, both raise KeyboardInterrupt, unless they are ignored."""
    before = {}
    if threading.current_thread() is threading.main_thread():  # no other may do so
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _plain_warnings(command: Any) -> Iterator[None]:
    """Show each warning once, as one line without its location in the code, with the options of a command."""
    shown: set[str] = set()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        text = message if isinstance(message, str) else message_of(message, command)
        if text not in shown:
            shown.add(text)
            say(f"Warning: {text}")

    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
            for category in (UserWarning, RuntimeWarning):
                warnings.simplefilter("always", category)
        warnings.showwarning = show
        yield
