"""The model file: a metric with its metadata.

The layout is a file of `boostmetric.storage.tensor_file` of kind "model" with

- tensor ``components``, of shape (n_components, n_features);
- tensors ``directions``, of shape (n_directions, n_features), and ``step_sizes``, of shape (n_directions,): both or
  neither;
- ``feature_names``: a list of n_features strings, or null;
- ``about``: a dictionary, see `boostmetric.MahalanobisMetric`;
- ``normalize``: true, only in files of metrics that scale points to unit length.

A file with ``normalize`` has version 2. Versions of the library without that option refuse it, because they would
compute other distances. All other files have version 1, which those versions can read.

Tensors are written as float64; float32 and float16 can also be read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.storage.tensor_file import TensorFile, read_tensors, write_tensors

if TYPE_CHECKING:  # the class uses this module to save and load, so a real import would be circular
    from boostmetric.metric.mahalanobis import MahalanobisMetric

_KIND = "model"
_PLAIN, NEWEST = 1, 2  # versions of the layout, without and with ``normalize``


def save_model(metric: MahalanobisMetric, path: str | Path) -> None:
    """Write a metric to a file."""
    write_tensors(path, _KIND, version_of(metric), tensors_of(metric), said_of(metric))


def load_model(path: str | Path, make: type[MahalanobisMetric]) -> MahalanobisMetric:
    """Read a metric from a file and construct it with `make`."""
    file = read_tensors(path, _KIND, NEWEST)
    return metric_of(file, file.about, make)


def tensors_of(metric: MahalanobisMetric) -> dict[str, NDArray[np.float64]]:
    """Arrays of a metric, by name."""
    tensors = {"components": metric.components}
    if metric.directions is not None and metric.step_sizes is not None:
        tensors |= {"directions": metric.directions, "step_sizes": metric.step_sizes}
    return tensors


def said_of(metric: MahalanobisMetric) -> dict[str, Any]:
    """Metadata of a metric."""
    said: dict[str, Any] = {"feature_names": metric.feature_names, "about": metric.about}
    return {**said, "normalize": True} if metric.normalize else said


def version_of(metric: MahalanobisMetric | None) -> int:
    """Layout version of a file with this metric: the lowest that has all it needs, for older readers."""
    return NEWEST if metric is not None and metric.normalize else _PLAIN


def metric_of(file: TensorFile, said: dict[str, Any], make: type[MahalanobisMetric]) -> MahalanobisMetric:
    """Construct a metric from the arrays of a file and its metadata (`said_of`); errors name the file."""
    components = file.tensor("components", (None, None))
    directions = step_sizes = None
    if "directions" in file.tensors or "step_sizes" in file.tensors:
        step_sizes = file.tensor("step_sizes", (None,))
        directions = file.tensor("directions", (len(step_sizes), components.shape[1]))
    try:
        return make(
            components,
            feature_names=said["feature_names"],
            directions=directions,
            step_sizes=step_sizes,
            about=said["about"],
            normalize=said["normalize"] if "normalize" in said else False,  # noqa: SIM401 - `said` may be any JSON
        )
    except (KeyError, TypeError, ValueError) as error:
        raise file.error(f"it does not describe a metric ({error})") from error
