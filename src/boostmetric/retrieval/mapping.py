"""Points as a metric maps them, in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import as_numbers
from boostmetric.metric import MahalanobisMetric

_LARGEST = 1e150  # coordinate whose squares can be summed without overflow


def mapped_rows(metric: MahalanobisMetric | None, given: Any, first: int, name: str) -> FloatArray:
    """Map some rows of `name`, of which `first` is the first; without a metric, copy them.

    Raises
    ------
    ValueError
        If distances between the mapped rows may not be finite; the message names the row.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # detected below
        if metric is not None:
            points = metric._mapped(given)
        else:
            dense = given.toarray() if sparse.issparse(given) else given
            points = np.array(as_numbers("The points", dense), order="C")
    wrong = np.flatnonzero(~(np.abs(points) <= _LARGEST).all(axis=1))
    if len(wrong):
        raise ValueError(
            f"Row {first + int(wrong[0])} of {name} has numbers that are NaN, infinite, or above {_LARGEST:g} under "
            "the metric. Leave it out, or correct it."
        )
    return points
