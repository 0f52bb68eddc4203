"""The command line: one file per command, with heavy imports inside functions so that ``--help`` is quick."""

from pathlib import Path
from typing import Annotated

import typer

import boostmetric
from boostmetric.cli.commands import Commands, FileCommand
from boostmetric.cli.demo import demo
from boostmetric.cli.evaluate import evaluate
from boostmetric.cli.export import export
from boostmetric.cli.fit import fit
from boostmetric.cli.info import info
from boostmetric.cli.judge import judge
from boostmetric.cli.mine import mine
from boostmetric.cli.neighbors import neighbors
from boostmetric.cli.paper import paper
from boostmetric.cli.report import report
from boostmetric.cli.search import search
from boostmetric.cli.transform import transform
from boostmetric.cli.watch import watch

app = typer.Typer(
    cls=Commands,
    help="Learn a distance from comparisons.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _paragraphs(text: str | None) -> str:
    """A docstring with its line breaks removed, since --help would keep them."""
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))


for command in (demo, fit, evaluate, transform, search, mine, neighbors, judge, export, report, info, watch, paper):
    app.command(cls=FileCommand, help=_paragraphs(command.__doc__))(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"boostmetric {boostmetric.__version__}")
        raise typer.Exit


@app.callback()
def main(
    ctx: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="TOML file with options, in a table for each command."),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Learn a distance from comparisons."""
    if config is not None:
        from boostmetric.cli.config import read_config

        ctx.default_map = read_config(config, ctx.command.commands)  # type: ignore[attr-defined]
