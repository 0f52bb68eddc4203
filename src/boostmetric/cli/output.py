"""Results as text or JSON, and outputs that are not overwritten by accident."""

import json
import shutil
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
Rank = Annotated[int | None, typer.Option(min=1, help="Cut the model to this many dimensions first.")]
Model = Annotated[
    Path, typer.Argument(metavar="MODEL", show_default=False, help="Model file that boostmetric fit wrote.")
]


_OTHER_FORMATS = (".pkl", ".pickle", ".joblib", ".npy", ".npz", ".json", ".csv", ".tsv", ".parquet", ".onnx", ".faiss")


def check_new(path: Path, force: bool, otherwise: str = "") -> None:
    """Refuse an output that exists, or cannot be written; `otherwise` says what else can be done."""
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder. Give the name of a file.", param_hint="--output")
    if path.exists() and not force:
        remedy = f"Use --force to replace it{otherwise and f'; {otherwise}'}."
        raise typer.BadParameter(f"{path} exists already. {remedy}", param_hint="--output")
    check_writable(path)


def check_model_name(path: Path) -> None:
    """Refuse a name that promises another format than a model's."""
    if path.suffix.lower() in _OTHER_FORMATS:
        message = f"{path} would be a safetensors file all the same. Call it {path.with_suffix('.safetensors')}."
        raise typer.BadParameter(message, param_hint="--output")


def check_writable(path: Path, hint: str = "--output") -> None:
    """Refuse an output whose folder, or the nearest one above that exists, cannot be written; before any work."""
    folder = path.absolute().parent
    try:
        while not folder.exists():
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        message = f"{path} cannot be written: {folder}: {error.strerror}. Give another name."
        raise typer.BadParameter(message, param_hint=hint) from None


def check_suffix(path: Path, known: tuple[str, ...]) -> None:
    """Refuse a file name of unknown format."""
    if path.suffix.lower() not in known:
        raise typer.BadParameter(
            f"{path} ends with {path.suffix or 'no suffix'!r}, which is not a format that can be written. There are: "
            f"{', '.join(known)}.",
            param_hint="--output",
        )


def whole_numbers(text: str, hint: str) -> list[int]:
    """Positive whole numbers, separated by commas."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise typer.BadParameter(f"{text!r} is not a list of positive whole numbers, such as 1,5,10.", param_hint=hint)
    return list(dict.fromkeys(numbers))


def answer(result: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print the result."""
    typer.echo(json.dumps(result, ensure_ascii=False, allow_nan=False) if as_json else text)


def paragraph(text: str, indent: str = "") -> str:
    """Wrap a text to the width of the terminal, lines after the first indented; leave it as one line without one."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10**6
    return textwrap.fill(
        text,
        max(width, 40),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
