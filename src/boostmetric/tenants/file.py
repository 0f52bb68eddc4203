"""The file of tenants: the shared metric, and the directions of all tenants one after another.

The layout is a file of `boostmetric.storage.tensor_file` of kind "tenants":

- the tensors of a model file, see `metric.model_file`, and its remaining fields in ``metric``;
- ``tenant_directions``, of shape (n_directions, n_components), and ``tenant_centres``, of shape (n_directions,), in
  float32: those of all tenants;
- ``tenant_bounds``, of shape (n_tenants + 1,): tenant i has the rows from bound i to bound i + 1;
- ``tenants``, the list of their ids.

A tenant is small, so that ten thousand of them are read at once, as views of two arrays.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.model_file import NEWEST, metric_of, said_of, tensors_of, version_of
from boostmetric.storage.tensor_file import read_tensors, write_tensors
from boostmetric.tenants.directions import TenantDirections

_KIND = "tenants"


def save_tenants(path: str | Path, shared: MahalanobisMetric, tenants: dict[str, TenantDirections]) -> None:
    """Write the shared metric and all tenants to a file."""
    none = TenantDirections.none(len(shared.components))
    directions, centres = zip(*(none, *tenants.values()), strict=True)
    counts = [len(centre) for centre in centres]  # the first is that of `none`
    tensors: dict[str, Any] = {
        **tensors_of(shared),
        "tenant_directions": np.concatenate(directions).astype(np.float32),
        "tenant_centres": np.concatenate(centres).astype(np.float32),
        "tenant_bounds": np.cumsum(counts, dtype=np.int64),
    }
    write_tensors(path, _KIND, version_of(shared), tensors, {"metric": said_of(shared), "tenants": list(tenants)})


def load_tenants(path: str | Path) -> tuple[MahalanobisMetric, dict[str, TenantDirections]]:
    """Read the shared metric and all tenants from a file."""
    file = read_tensors(path, _KIND, NEWEST)
    try:
        said, names = file.about["metric"], file.about["tenants"]
    except KeyError as error:
        raise file.error(f"its metadata have no entry {error}") from error
    shared = metric_of(file, said, MahalanobisMetric)
    directions = file.tensor("tenant_directions", (None, len(shared.components)), ["float32"])
    centres = file.tensor("tenant_centres", (len(directions),), ["float32"])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
        raise file.error("its tenants are not a list of different names")
    bounds = file.tensor("tenant_bounds", (len(names) + 1,), ["int64"])
    if bounds[0] != 0 or bounds[-1] != len(directions) or (np.diff(bounds) < 0).any():
        raise file.error("the directions of its tenants do not follow one another")
    slices = [slice(*pair) for pair in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]
    tenants = {
        name: TenantDirections(directions[rows], centres[rows]) for name, rows in zip(names, slices, strict=True)
    }
    return shared, tenants
