"""Checks of what was typed, before any work is done."""

from pathlib import Path

import typer

from boostmetric.validation import check_threads


def make_folder(path: Path) -> None:
    """Make the output folder, or say why that is not possible."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"{path} cannot be used as a folder: {error.strerror}."
        raise typer.BadParameter(message, param_hint="--output") from None


def check_jobs(jobs: int) -> None:
    """Refuse a number of threads that means nothing."""
    try:
        check_threads("--jobs", jobs)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--jobs") from None
