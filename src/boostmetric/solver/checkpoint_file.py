"""Checkpoint files: writing and reading the progress of a fit."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from boostmetric.arrays.errors import MissingFileError, ParameterError
from boostmetric.solver.result import Iteration, Progress
from boostmetric.storage.files import BROKEN, replacing, whole_array

_VERSION = 1
_COLUMNS = [field.name for field in fields(Iteration) if field.name != "so_far"]


def write_checkpoint(progress: Progress, path: Path) -> None:
    """Write a fit to an npz file, atomically."""
    arrays = {"version": np.array(_VERSION), **_arrays(progress)}
    if progress.best is not None:
        arrays |= {f"best_{name}": array for name, array in _arrays(progress.best).items()}
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)


def read_checkpoint(path: str | Path) -> Progress:
    """Read a checkpoint, without executing any code in the file."""
    if not Path(path).exists():
        raise MissingFileError(
            "There is no checkpoint {path!r}. Leave {resume_from} out to begin a new fit.", path=str(path)
        )
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            content = {name: whole_array(file[name]) for name in file.files}
        if int(content["version"]) != _VERSION:
            raise ValueError(f"its format is version {content['version']}, but this boostmetric reads {_VERSION}")
        best = {name.removeprefix("best_"): array for name, array in content.items() if name.startswith("best_")}
        progress = replace(_progress(content), best=_progress(best) if best else None)
    except BROKEN as error:
        raise ParameterError(
            "{path!r} is not a checkpoint of a fit, or it is damaged ({error}). Leave {resume_from} out to begin a "
            "new fit.",
            path=str(path),
            error=error,
        ) from error
    return progress


def _arrays(progress: Progress) -> dict[str, Any]:
    """Convert a fit to arrays, without its best pass."""
    records = [[_number(getattr(record, name)) for name in _COLUMNS] for record in progress.history]
    optional = {"coordinates": progress.coordinates, "found_under": progress.found_under, "score": progress.score}
    return {
        "problem": np.array(progress.problem),
        "watched": np.array(progress.watched),
        "directions": progress.directions,
        "step_sizes": progress.step_sizes,
        "staged": np.array(progress.staged),
        "pass_ends": np.array(progress.pass_ends, dtype=np.int64),
        "columns": np.array(_COLUMNS),
        "history": np.array(records, dtype=np.float64).reshape(-1, len(_COLUMNS)),
        **{name: np.array(value) for name, value in optional.items() if value is not None},
    }


def _progress(content: dict[str, Any]) -> Progress:
    """Convert arrays back to a fit."""
    progress = Progress(
        content["directions"],
        content["step_sizes"],
        [_record(row, content["columns"].tolist()) for row in content["history"].tolist()],
        problem=str(content["problem"]),
        watched=str(content["watched"]),
        coordinates=content.get("coordinates"),
        staged=bool(content["staged"]),
        pass_ends=tuple(content["pass_ends"].tolist()),
        found_under=content.get("found_under"),
        score=float(content["score"]) if "score" in content else None,
    )
    if progress.directions.shape[0] != len(progress.step_sizes) or progress.directions.ndim != 2:
        raise ValueError("directions and step sizes do not match")
    for name in ("directions", "step_sizes"):
        if content[name].dtype.kind != "f" or not np.isfinite(content[name]).all():
            raise ValueError(f"{name} are not finite numbers")
    return progress


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _record(row: list[float], columns: list[str]) -> Iteration:
    values: dict[str, Any] = dict(zip(columns, row, strict=True))
    values["number"], values["capped"] = int(values["number"]), bool(values["capped"])
    values["n_directions"] = int(values.get("n_directions", 1))  # not in older files
    values["held_out"] = None if math.isnan(values["held_out"]) else values["held_out"]
    return Iteration(**values)
