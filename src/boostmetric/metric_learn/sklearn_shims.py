"""Names of scikit-learn's tests that metric-learn's tests import from here."""

from __future__ import annotations

import inspect
from typing import Any

from sklearn.metrics import get_scorer
from sklearn.utils._testing import assert_allclose_dense_sparse, ignore_warnings, set_random_state

SKLEARN_AT_LEAST_0_22 = True

__all__ = [
    "SKLEARN_AT_LEAST_0_22",
    "_get_args",
    "assert_allclose_dense_sparse",
    "get_scorer",
    "ignore_warnings",
    "is_public_parameter",
    "set_random_state",
]


def _get_args(function: Any) -> list[str]:
    """Names of the parameters of a function, less those that gather the rest."""
    gathering = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind not in gathering]


def is_public_parameter(name: str) -> bool:
    """Whether an attribute is a parameter of an estimator."""
    return not name.startswith("_") and not name.endswith("_")
