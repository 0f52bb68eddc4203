"""What an estimator says of itself in a model file: name, parameters, and what came out of its fit."""

from __future__ import annotations

import math
import re
from enum import Enum
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from boostmetric import __version__

_LONGEST_TEXT = 200
_ADDRESS = re.compile(r"\bat 0x[0-9A-Fa-f]+")
# Said elsewhere in the file, by the shapes of the arrays.
_LEFT_OUT = ("n_features_in_",)


def summary(learner: BaseEstimator) -> dict[str, Any]:
    """What is known about a fitted estimator, as values of JSON.

    Returns
    -------
    dict
        "estimator": "name" and "parameters", those that are no values of JSON as text; "library": the version of
        boostmetric; "training": every fitted attribute that is a number or a text, without its last underscore, and of
        the last iteration the "loss", the fraction of comparisons "satisfied", and of those "held_out" which are.
        Numbers that are not known (NaN) are left out.
    """
    parameters = {name: _plain(value) for name, value in learner.get_params(deep=False).items()}
    return {
        "estimator": {"name": type(learner).__name__, "parameters": parameters},
        "library": __version__,
        "training": {**_attributes(learner), **_last_iteration(learner)},
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


def _last_iteration(learner: BaseEstimator) -> dict[str, Any]:
    history = getattr(learner, "history_", None)
    if not history:
        return {}
    last = history[-1]
    held_out = math.nan if last.held_out is None else last.held_out
    numbers = {"loss": float(last.loss), "satisfied": 1.0 - float(last.violated), "held_out": float(held_out)}
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def _plain(value: Any) -> Any:
    """A value of JSON, or a text about what is none."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    text = repr(value)
    # The address of an object says nothing to a reader, and would make every file another one.
    return type(value).__name__ if _ADDRESS.search(text) else text[:_LONGEST_TEXT]
