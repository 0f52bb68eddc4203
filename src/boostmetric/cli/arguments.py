"""Checks of arguments, before any work is done."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import typer


def make_folder(path: Path) -> None:
    """Make the output folder, or say why that is not possible, or why it cannot be written."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        message = f"{path} cannot be used as a folder: {error.strerror}."
        raise typer.BadParameter(message, param_hint="--output") from None


def chosen_of(text: str, known: Sequence[str], hint: str) -> list[str]:
    """Known names from a comma-separated list, ignoring case; all of them if the list is empty."""
    by_lower = {name.lower(): name for name in known}
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in by_lower:
            raise typer.BadParameter(f"{name!r} is not known. There are: {', '.join(known)}.", param_hint=hint)
    return [by_lower[name] for name in dict.fromkeys(names)] or list(known)
