"""Summary of a fitted estimator for its model file: name, parameters, and results of the fit."""

from __future__ import annotations

import math
import re
from enum import Enum
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from boostmetric import __version__
from boostmetric.solver.result import Iteration

_LONGEST_TEXT = 200
_MOST_ITERATIONS = 200
_ADDRESS = re.compile(r"\bat 0x[0-9A-Fa-f]+")
# They change nothing about a metric, only how long it takes and what is shown.
_HOW_IT_RAN = ("n_jobs", "verbose")
# The file has these already: in the shapes of its arrays, and as an entry of its own.
_LEFT_OUT = ("n_features_in_", "normalize_")


def summary(learner: BaseEstimator) -> dict[str, Any]:
    """Summarise a fitted estimator as JSON values.

    Returns
    -------
    dict
        "estimator": "name" and "parameters" (all but `n_jobs` and `verbose`), those that are no values of JSON as
        text; "library": the version of boostmetric; "training": every fitted attribute that is a number or a text,
        without its last underscore, and of the last iteration the "loss", the fraction of comparisons "satisfied", and
        of those "held_out" which are. Numbers that are not known (NaN) are left out. "history" has the same three of
        at most 200 iterations, evenly spread and with six digits, as lists beside their numbers ("iteration"), with
        None for what is not known: enough to draw how learning went.
    """
    given = learner.get_params(deep=False)
    parameters = {name: plain(value) for name, value in given.items() if name not in _HOW_IT_RAN}
    return {
        "estimator": {"name": type(learner).__name__, "parameters": parameters},
        "library": __version__,
        "training": {**_attributes(learner), **_iterations(learner)},
    }


def _attributes(learner: BaseEstimator) -> dict[str, Any]:
    found = {}
    for name, value in vars(learner).items():
        if name.startswith("_") or not name.endswith("_") or name in _LEFT_OUT:
            continue
        scalar = str(value) if isinstance(value, Enum) else value.item() if isinstance(value, np.generic) else value
        if isinstance(scalar, str | bool | int) or (isinstance(scalar, float) and math.isfinite(scalar)):
            found[name.removesuffix("_")] = scalar
    return found


def _iterations(learner: BaseEstimator) -> dict[str, Any]:
    history = getattr(learner, "history_", None)
    if not history:
        return {}
    last = {name: value for name, value in _numbers(history[-1]).items() if math.isfinite(value)}
    rows = np.unique(np.linspace(0, len(history) - 1, min(len(history), _MOST_ITERATIONS)).round().astype(int))
    kept = [_numbers(history[row]) for row in rows]
    drawn: dict[str, Any] = {"iteration": [history[row].number for row in rows]}
    for name in kept[0]:
        values = [numbers[name] for numbers in kept]
        if any(map(math.isfinite, values)):  # earlier passes keep no held-out scores
            drawn[name] = [float(f"{value:.6g}") if math.isfinite(value) else None for value in values]
    return {**last, "history": drawn}


def _numbers(record: Iteration) -> dict[str, float]:
    held_out = math.nan if record.held_out is None else record.held_out
    return {"loss": float(record.loss), "satisfied": 1.0 - float(record.violated), "held_out": float(held_out)}


def plain(value: Any) -> Any:
    """A JSON value, or a text that describes the object."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    text = repr(value)
    # An address would tell a reader nothing, and would make every file different.
    return type(value).__name__ if _ADDRESS.search(text) else text[:_LONGEST_TEXT]
