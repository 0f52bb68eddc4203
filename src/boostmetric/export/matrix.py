"""Export the matrix of a metric in a given precision, and measure the effect of rounding."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.tensors import unit_vectors
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_choice, warn
from boostmetric.metric.mahalanobis import MahalanobisMetric, as_metric
from boostmetric.storage.files import replacing

_N_VECTORS = 256
_MOST_CHANGE = 0.01  # rounding to float16 alone changes distances by about a thousandth


class Learned(Protocol):
    """A fitted metric learner, such as `BoostMetric`."""

    def get_metric(self) -> MahalanobisMetric:
        """Return the learned metric."""
        ...


def metric_of(metric: MahalanobisMetric | Learned) -> MahalanobisMetric:
    """Return a metric as it is, or the metric of a fitted learner."""
    learned = as_metric(metric)
    if learned is None:
        raise TypeError("There is no metric to export: pass a fitted learner or a MahalanobisMetric, not None.")
    return learned


def rounded(metric: MahalanobisMetric, dtype: str) -> NDArray[Any]:
    """Matrix M of `to_numpy`; refuse numbers that are too large for the type, and warn if distances change."""
    longest, largest = float(np.linalg.norm(metric.components, 2)), float(np.finfo(dtype).max)
    unit = ", normalize=True" if metric.normalize else ""
    if longest > largest:
        raise ValueError(
            f"The metric maps a vector of length 1 to one of length {longest:.3g}, but {dtype} ends at {largest:.5g}. "
            "Scale the metric down, which changes no neighbours: "
            f"MahalanobisMetric(metric.components / 2.0**{_exponent(longest)}{unit})"
            + ("; or use dtype='float32'." if dtype == "float16" else ".")
        )
    change = largest_change(metric, dtype)
    if change > _MOST_CHANGE:
        warn(
            f"Rounding the metric to {dtype} changes distances of random vectors by up to {change:.2g} times their "
            f"mean: its numbers are too small for the type. Scale the metric up, which changes no neighbours: "
            f"MahalanobisMetric(metric.components * 2.0**{-_exponent(longest)}{unit})"
            + ("; or use dtype='float32'." if dtype == "float16" else ".")
        )
    return np.ascontiguousarray(metric.components.T, dtype=dtype)


def largest_change(metric: MahalanobisMetric | Learned, dtype: str = "float16") -> float:
    """Measure how much rounding the matrix of a metric changes distances.

    Parameters
    ----------
    metric : MahalanobisMetric or fitted learner
    dtype : {"float16", "float32", "float64"}, default="float16"

    Returns
    -------
    float
        Largest change of 256 distances, relative to their mean (root mean square). The distances are between random
        vectors whose coordinates have one scale, as in embeddings, and are the same in each call. Infinite if the type
        cannot hold the numbers.

    Notes
    -----
    Changes are not relative to each distance: a metric of rank 1 makes some distances arbitrarily small, so that any
    change of these would look large.

    Examples
    --------
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.export import largest_change
    >>> largest_change(MahalanobisMetric([[0.5, 0.0], [0.0, 2.0]]))
    0.0
    >>> round(largest_change(MahalanobisMetric([[1 / 3, 0.0], [0.0, 1 / 7]])), 4)
    0.0006
    >>> largest_change(MahalanobisMetric([[1e-9, 0.0]])) > 1  # rounded to zero
    True
    """
    check_choice("dtype", dtype, ("float16", "float32", "float64"))
    learned = metric_of(metric)
    components = learned.components
    with np.errstate(over="ignore"):
        stored = components.astype(dtype).astype(np.float64)
    if not np.isfinite(stored).all():
        return float("inf")
    vectors = np.random.RandomState(0).standard_normal((_N_VECTORS, components.shape[1]))
    before, after = (_distances(vectors @ rows.T, learned.normalize) for rows in (components, stored))
    mean = float(np.sqrt(np.mean(before**2)))
    return float(np.abs(after - before).max() / mean) if mean > 0 else 0.0


def to_numpy(metric: MahalanobisMetric | Learned, path: str | os.PathLike[str], dtype: str = "float32") -> Path:
    """Write the linear map of a metric as an array for NumPy.

    The array M has shape (n_features, n_components). It is the transpose of ``metric.components``: the rows of
    ``X @ M`` are the transformed rows of X, and the Euclidean distance between two of them is the learned distance. If
    the metric scales points to unit length (`normalize`), compare them by cosine: a matrix cannot scale each row.

    Parameters
    ----------
    metric : MahalanobisMetric or fitted learner
    path : str or path
        Path of the .npy file; an existing file is replaced.
    dtype : {"float16", "float32", "float64"}, default="float32"
        Precision of the array; float16 halves the file. A warning says if distances of random vectors change by more
        than 1 %, see `largest_change`; a metric that is too large for the type is refused.

    Returns
    -------
    Path
        Path of the file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.export import to_numpy
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     M = np.load(to_numpy(MahalanobisMetric([[2.0, 0.0]]), f"{folder}/metric.npy"))
    >>> np.array([[0.0, 0.0], [1.0, 5.0]]) @ M
    array([[0.],
           [2.]])
    """
    check_choice("dtype", dtype, ("float16", "float32", "float64"))
    path, matrix = Path(path), rounded(metric_of(metric), dtype)
    # Through a file handle: `save` would append .npy to a path.
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, matrix, allow_pickle=False)
    return path


def _distances(mapped: FloatArray, normalize: bool) -> FloatArray:
    """Distances of mapped vectors: of each from zero or, at unit length, from the next one."""
    if normalize:
        mapped = unit_vectors(mapped)
        mapped = mapped - np.roll(mapped, 1, axis=0)
    return np.asarray(np.linalg.norm(mapped, axis=1))


def _exponent(value: float) -> int:
    """Exponent of the next larger power of two; scaling by a power of two is exact."""
    return int(np.frexp(value)[1])
