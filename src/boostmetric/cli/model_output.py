"""The model that ``fit`` writes: by one fit at a time, and elsewhere if its place turns out to be full."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from boostmetric.cli.output import check_writable

if TYPE_CHECKING:
    from boostmetric.metric import MahalanobisMetric


@contextmanager
def claimed(output: Path) -> Iterator[None]:
    """Keep other fits from writing the same model, and its checkpoint; without effect on Windows.

    The lock is the operating system's, so none is left by a process that was killed.
    """
    check_writable(output)
    if sys.platform == "win32":
        yield
        return
    import fcntl

    output.parent.mkdir(parents=True, exist_ok=True)
    path = output.with_name(f".{output.name}.lock")
    while True:
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                message = f"Another fit is about to write {output}. Wait until it ends, or give another name."
                raise typer.BadParameter(message, param_hint="--output") from None
            except OSError:  # a file system without locks
                pass
            if not _is_at(path, file.fileno()):
                continue  # the fit that made this file ended, and removed it, before the lock was ours
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _is_at(path: Path, number: int) -> bool:
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(number))
    except FileNotFoundError:
        return False


def save_or_rescue(metric: MahalanobisMetric, output: Path, checkpoint: Path) -> None:
    """Write a model; if that is not possible, write it elsewhere, so that what was learned is not lost.

    Raises
    ------
    OSError
        If the model is not at `output`. The message says where it is.
    """
    try:
        metric.save(output)
    except OSError as error:
        if (other := _saved_elsewhere(metric, output)) is not None:
            remedy = f"The learned model is in {other} instead: move it to where there is space."
        else:
            remedy = "It could not be written elsewhere either."
            if checkpoint.exists():
                remedy += f" Free some space, and run the same command with --resume ({checkpoint})."
        raise OSError(f"{output} cannot be written: {error.strerror or error}. {remedy}") from error


def _saved_elsewhere(metric: MahalanobisMetric, output: Path) -> Path | None:
    folders: Sequence[str | Path] = (tempfile.gettempdir(), Path.home(), Path.cwd())
    for folder in dict.fromkeys(map(str, folders)):
        with suppress(OSError):
            other = Path(tempfile.mkdtemp(prefix="boostmetric-", dir=folder)) / output.name
            metric.save(other)
            return other
    return None
