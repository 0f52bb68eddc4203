"""Names of columns for the shell's completion: those of the files that were typed before."""

from contextlib import suppress

import typer


def columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Columns of the files typed so far that begin with what was typed, or with what follows its last comma."""
    from boostmetric.tables.formats import open_tables
    from boostmetric.tables.standard_input import NAME

    before, comma, begun = incomplete.rpartition(",")
    names: dict[str, None] = {}
    # The command is not complete, so that its files may not have been told from other arguments yet.
    for file in ctx.params.get("points") or ctx.args:
        if str(file) == NAME:  # standard input is not there yet
            continue
        with suppress(ImportError, OSError, ValueError):  # a model, or no file: a completion shows no errors
            names |= dict.fromkeys(open_tables(str(file)).first.columns)
    return [f"{before}{comma}{name}" for name in names if name.startswith(begun)]
