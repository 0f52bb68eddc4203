"""The index file: points as a metric maps them, their ids, and the metric.

The layout is a file of `boostmetric.storage.tensor_file` of kind "index":

- tensor ``points``, of shape (n_points, n_dimensions), in float64;
- tensor ``ids``, of shape (n_points,), if all ids are 64-bit integers; else ``ids_json``, the bytes of a JSON list, in
  which lists stand for tuples;
- if there is a metric, the tensors of a model file, see `metric.model_file`, and its remaining fields in ``metric``;
- what faiss built of the points, if a search has built it: the tensors of `retrieval.built`, ``built.centre`` and
  ``built.exponent``, the origin and scale of its coordinates, each called ``built.`` and its name;
- ``backend``, ``backend_options``, ``n_features`` (null if there is no metric and no point was ever added),
  ``next_number``; and ``about``, what else is known about the index, which files may lack.

As a model file, it has version 2 if the metric scales points to unit length, else version 1.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.model_file import NEWEST, metric_of, said_of, tensors_of, version_of
from boostmetric.retrieval.ids import packed, unpacked
from boostmetric.storage.tensor_file import TensorFile, read_tensors, write_tensors

_KIND = "index"
_BUILT = "built."


class StoredIndex(NamedTuple):
    """Contents of an index file."""

    points: NDArray[np.float64]
    ids: list[Hashable]
    metric: MahalanobisMetric | None
    backend: str
    backend_options: dict[str, int]
    n_features: int | None
    next_number: int
    about: dict[str, Any]
    built: dict[str, NDArray[Any]]


def save_index(index: StoredIndex, path: str | Path) -> None:
    """Write an index to a file."""
    tensors: dict[str, NDArray[Any]] = {"points": index.points, **packed(index.ids, path)}
    tensors |= {f"{_BUILT}{name}": array for name, array in index.built.items()}
    about: dict[str, Any] = {
        "backend": index.backend,
        "backend_options": index.backend_options,
        "n_features": index.n_features,
        "next_number": index.next_number,
        "metric": None,
        "about": index.about,
    }
    if index.metric is not None:
        tensors |= tensors_of(index.metric)
        about["metric"] = said_of(index.metric)
    write_tensors(path, _KIND, version_of(index.metric), tensors, about)


def load_index(path: str | Path) -> StoredIndex:
    """Read an index from a file."""
    file = read_tensors(path, _KIND, NEWEST)
    about = file.about
    try:
        said, backend, options = about["metric"], about["backend"], about["backend_options"]
        n_features, next_number = about["n_features"], about["next_number"]
    except KeyError as error:
        raise file.error(f"its metadata have no entry {error}") from error
    what = about.get("about", {})
    if not isinstance(what, dict):
        raise file.error("its entry 'about' is not a dictionary")
    metric = None if said is None else metric_of(file, said, MahalanobisMetric)
    if metric is not None and n_features != metric.components.shape[1]:
        raise file.error(f"it has {n_features!r} features, but its metric has {metric.components.shape[1]}")
    if n_features is not None and (type(n_features) is not int or n_features < 1):
        raise file.error(f"its number of features is {n_features!r}")
    n_dimensions = n_features if metric is None else len(metric.components)
    shape = (0, 0) if n_dimensions is None else (None, n_dimensions)
    points = file.tensor("points", shape, ["float64"])
    ids = unpacked(file, len(points))
    if len(set(ids)) != len(ids):
        raise file.error("some of its ids are repeated")
    if type(next_number) is not int or next_number < 0:
        raise file.error(f"its next number is {next_number!r}")
    built = _built_of(file, *points.shape)
    return StoredIndex(points, ids, metric, backend, options, n_features, next_number, what, built)


def _built_of(file: TensorFile, n_points: int, n_dimensions: int) -> dict[str, NDArray[Any]]:
    """What faiss built, with the right shapes and types; empty if anything is missing, as it can be built again."""
    one_of_each: dict[str, tuple[tuple[int | None, ...], str]] = {
        "centre": ((n_dimensions,), "float64"),
        "exponent": ((1,), "int64"),
        "cells": ((None, n_dimensions), "float32"),
        "cell_of": ((n_points,), "int32"),
        "layers": ((n_points,), "int32"),
        "links": ((None,), "int32"),
        "entry": ((1,), "int32"),
    }
    return {
        name: file.tensor(f"{_BUILT}{name}", shape, [dtype])
        for name, (shape, dtype) in one_of_each.items()
        if f"{_BUILT}{name}" in file.tensors
    }
