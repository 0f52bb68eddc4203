"""Targets and impostors: the points of a labelled set to compare."""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from boostmetric.arrays.errors import ParameterError, ParameterWarning
from boostmetric.arrays.frame import Given, Shift, centre_and_scale, stays_single
from boostmetric.arrays.ragged import Ragged
from boostmetric.arrays.tensors import as_numpy
from boostmetric.arrays.validation import check_count, checked, warn
from boostmetric.comparisons.classes import Classes
from boostmetric.neighbors import nearest_alike, nearest_others, rounding_of_distances
from boostmetric.parallel.devices import check_device, torch_device

# Near and far pairs, summed over all groups: they are numbered with 32 bits.
_MOST_MEMBERS = 2**31 - 1
_MANY_CLASSES = 20  # if more than half of the samples have a label of their own


def mine(
    X: ArrayLike,
    y: ArrayLike,
    *,
    n_neighbors: int,
    n_impostors: int | Literal["all"],
    asked: NDArray[np.bool_] | None = None,
    unlabelled: bool = False,
    quiet: bool = False,
    device: str = "cpu",
) -> tuple[NDArray[np.int64], Ragged, Ragged | Classes]:
    """Find the nearest points of the same class (targets) and of other classes (impostors) for each point.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    n_neighbors : int
        Number of targets per point; fewer in classes that are too small.
    n_impostors : int or "all"
        Number of impostors per point.
    asked : ndarray of bool of shape (n_samples,), optional
        Points to find targets and impostors for; by default all.
    unlabelled : bool, default=False
        Whether points may have no label, see `known_labels`. They are neither anchors nor targets nor impostors.
    quiet : bool, default=False
        Whether to suppress the warning about small classes.
    device : str, default="cpu"
        Where to search, see `boostmetric.parallel.devices`; the result is the same.

    Returns
    -------
    anchors : ndarray of shape (n_anchors,)
        Points that have a target, in ascending order.
    targets : Ragged with n_anchors rows
        Point numbers.
    impostors : Ragged with n_anchors rows, or Classes
        Point numbers; or the classes, if the impostors are all points of other classes.
    """
    check_numbers(n_neighbors, n_impostors)
    check_device(device)
    samples = checked(check_array, X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2)
    y, known = known_labels(y, unlabelled=unlabelled)
    labels = column_or_1d(y, warn=True)
    check_consistent_length(samples, labels)
    if known is not None:
        return _mine_known(
            samples,
            labels,
            np.flatnonzero(known),
            n_neighbors=n_neighbors,
            n_impostors=n_impostors,
            asked=None if asked is None else asked[known],
            quiet=quiet,
            device=device,
        )
    check_labels(labels)
    torch_device(device, samples)  # it must exist, even if no search will use it
    classes, label, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if not quiet:
        warn_of_small_classes(classes, sizes, n_neighbors)
    _check_size(sizes, n_neighbors, n_impostors)

    points, exponent = _coordinates(samples)
    rounding = float(np.ldexp(rounding_of_distances(samples), -exponent))
    anchor, found = nearest_alike(points, label, n_neighbors, rounding, is_asked=asked, device=device)
    if n_impostors == "all":
        return anchor, found, Classes(label.astype(np.int32))
    return anchor, found, nearest_others(points, label, n_impostors, rounding, asked=anchor, device=device)


def _mine_known(
    samples: Given, labels: NDArray[Any], known: NDArray[np.int64], **how: Any
) -> tuple[NDArray[np.int64], Ragged, Ragged | Classes]:
    """As `mine`, among the points of these numbers."""
    anchors, targets, impostors = mine(samples[known], labels[known], **how)
    targets = Ragged(known[targets.values], targets.bounds)
    if isinstance(impostors, Ragged):
        return known[anchors], targets, Ragged(known[impostors.values], impostors.bounds)
    label = np.full(len(labels), -1, dtype=np.int32)
    label[known] = impostors.label
    return known[anchors], targets, Classes(label)


def _coordinates(samples: Given) -> tuple[Given, int]:
    """Points to measure distances between, and the exponent of the power of two that distances are divided by."""
    if sparse.issparse(samples):
        return centre_and_scale(samples)
    if stays_single(samples):
        return samples, 0
    shift = Shift.of(samples[0], samples.min(axis=0), samples.max(axis=0))
    return shift.coordinates_of(samples), shift.exponent


def check_numbers(n_neighbors: int, n_impostors: int | Literal["all"]) -> None:
    """Raise an error if the number of targets or impostors is invalid."""
    check_count("n_neighbors", n_neighbors)
    if not isinstance(n_impostors, str) or n_impostors != "all":
        check_count("n_impostors", n_impostors, alternative=' or "all"')


def _check_size(sizes: NDArray[np.int64], n_neighbors: int, n_impostors: int | Literal["all"]) -> None:
    """Raise an error before any work if there would be too many pairs to number."""
    listed = 0 if n_impostors == "all" else np.minimum(sizes.sum() - sizes, n_impostors)
    n_members = int(np.sum(np.where(sizes > 1, sizes * (np.minimum(n_neighbors, sizes - 1) + listed), 0)))
    if n_members > _MOST_MEMBERS:
        raise ParameterError(
            "{n_impostors}={value!r} gives {n:,} near and far pairs in total; at most {most:,} are supported. Lower "
            "{n_impostors}, or use fewer samples.",
            value=n_impostors,
            n=n_members,
            most=_MOST_MEMBERS,
        )


def check_labels(y: NDArray[Any]) -> None:
    """Raise an error if labels are missing, or allow no comparison."""
    known_labels(y)
    check_targets(y)
    classes, sizes = np.unique(y, return_counts=True)
    check_classes(classes, sizes)
    if len(classes) > max(_MANY_CLASSES, len(y) / 2):
        warn(
            ParameterWarning(
                "There are more than half as many labels, such as {name!r}, as samples: most have hardly another of "
                "their class to be close to. Check that these are class labels, not ids or numbers to predict.",
                name=classes.tolist()[0],
            )
        )


def check_targets(y: NDArray[Any]) -> None:
    """Raise an error if labels cannot name classes, without scikit-learn's warning if they are many."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes")
        checked(check_classification_targets, y)


def known_labels(y: Any, *, unlabelled: bool | None = None) -> tuple[Any, NDArray[np.bool_] | None]:
    """Find the samples that have a label, or raise an error if some have none.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels. None, NaN and pandas' NA and NaT are missing.
    unlabelled : bool, optional
        Whether samples may have no label. Then -1, scikit-learn's mark of unlabelled samples, and the empty text are
        no labels either. None is no, for callers that have no such parameter to name in the error.

    Returns
    -------
    y : array-like of shape (n_samples,)
        The labels; samples without one have that of another, so that the array can be validated as a whole.
    known : ndarray of bool of shape (n_samples,), optional
        Samples that have a label; None if all have.
    """
    given = as_numpy(y)
    # An array of its own choice would turn NaN beside texts into the text "nan".
    labels = np.array(given, dtype=object) if isinstance(given, list | tuple) else np.asarray(given)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.dtype.kind not in "fiOU":
        return y, None
    without = _missing(labels)
    if unlabelled:
        without |= _marked(labels)
    if not without.any():
        return y, None
    first = int(np.argmax(without))
    if without.all():
        raise ValueError(f"None of the {len(labels)} samples has a label. Give labels of some.")
    if not unlabelled:
        accept = "" if unlabelled is None else ", or set unlabelled=True"
        raise ValueError(
            f"{without.sum()} of {len(labels)} samples have no label; the first is sample {first} "
            f"({labels.tolist()[first]!r}). Leave them out, X[labelled] and y[labelled]{accept}: nothing is "
            "learned from samples without a label."
        )
    known = np.array(labels[~without].tolist())
    filled = np.full(len(labels), known[0])
    filled[~without] = known
    return filled, ~without


def _missing(labels: NDArray[Any]) -> NDArray[np.bool_]:
    if labels.dtype.kind == "f":
        return np.asarray(np.isnan(labels))
    if labels.dtype.kind != "O":
        return np.zeros(len(labels), dtype=bool)
    return np.array([_is_missing(label) for label in labels], dtype=bool)


def _is_missing(label: Any) -> bool:
    missing: bool = label is None or type(label).__name__ in ("NAType", "NaTType")
    return missing or (isinstance(label, float) and math.isnan(label))


def _marked(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Labels that mean that there is none, where samples may be unlabelled."""
    if labels.dtype.kind == "U":
        return np.isin(labels, ["", "-1"])
    if labels.dtype.kind != "O":
        return np.asarray(labels == -1)
    return np.array([not _is_missing(label) and label in (-1, "", "-1") for label in labels], dtype=bool)


def check_classes(classes: NDArray[Any], sizes: NDArray[np.int64]) -> None:
    """Raise an error if classes of these sizes allow no comparison."""
    if len(classes) < 2:
        raise ValueError(
            f"All {sizes[0]} samples have the label {classes.tolist()[0]!r}: comparisons need at least 2 classes. "
            "Check that these are class labels."
        )
    if sizes.max() < 2:
        raise ValueError(
            f"Each of the {len(classes)} labels occurs once, so no sample has another of its class to be close to. "
            "Labels must repeat: they name classes, not samples."
        )


def warn_of_small_classes(classes: NDArray[Any], sizes: NDArray[np.int64], n_neighbors: int) -> None:
    """Warn about classes with too few samples for `n_neighbors` targets."""
    small = sizes <= n_neighbors
    if small.any():
        least = int(np.argmin(sizes))
        warn(
            ParameterWarning(
                "{n_small} of {n_classes} classes have fewer than {n_neighbors} + 1 = {needed} samples (class "
                "{name!r} has {size}): their samples get fewer targets, and a sample alone in its class is only used "
                "as an impostor. Lower {n_neighbors} or drop these classes if you do not want that.",
                n_small=int(small.sum()),
                n_classes=len(classes),
                needed=n_neighbors + 1,
                name=classes.tolist()[least],
                size=sizes[least],
            )
        )
