"""Data sets of the paper: its 15 benchmarks (Table 1) and the concentric circles of its illustrative example.

Iris and Wine come with scikit-learn; Balance, Twin Peaks, Helix and the circles are generated. The others are read from
a folder of ``.npz`` files with arrays `X` and `y`, given as `data_dir` or in the environment variable BOOSTMETRIC_DATA;
else from the cache of earlier downloads; else they are downloaded. They are not part of this project, because most have
no stated terms of use.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from boostmetric.paper import archive
from boostmetric.paper.benchmarks import BENCHMARKS, Benchmark
from boostmetric.paper.download import DownloadError, cached_file, download, read_cached
from boostmetric.paper.sources import SOURCES, DataSource

__all__ = [
    "BENCHMARKS",
    "GENERATED",
    "N_LETTERS",
    "Benchmark",
    "Labelled",
    "MissingDataError",
    "concentric_circles",
    "load",
    "own_file",
    "read_own",
]

Labelled = tuple[NDArray[np.float64], NDArray[np.int64]]

N_LETTERS = 15000
"""Number of rows of Letters to use: the paper's sizes are those of LIBSVM's split, presumably the first rows."""

_N_GENERATED = 20000  # points of Twin Peaks, and of the helix


class MissingDataError(FileNotFoundError):
    """A data set is not available, or its file is damaged; the message says how to get it."""


def load(source: str, data_dir: Path | None = None) -> Labelled:
    """Load the points and labels of a data set.

    Parameters
    ----------
    source : str
        The `source` of a `Benchmark`, or ``"circles"``.
    data_dir : Path, optional
        Folder of ``.npz`` files; by default the one in the environment variable BOOSTMETRIC_DATA. Bundled and generated
        sets are never read from it.

    Raises
    ------
    MissingDataError
        If the set is not available; the message says how to get it.

    Examples
    --------
    >>> from boostmetric.paper.datasets import load
    >>> X, y = load("balance")
    >>> X.shape
    (625, 4)
    """
    if source in GENERATED:
        return GENERATED[source]()
    if source not in SOURCES:
        raise ValueError(f"{source!r} is not a data set of the paper. Available: {', '.join([*GENERATED, *SOURCES])}.")
    X, y = _find(source, SOURCES[source], data_dir)
    kept = slice(N_LETTERS if source == "letters" else None)
    return X[kept].astype(np.float64), y[kept].astype(np.int64)


def own_file(source: str, data_dir: Path | None = None) -> Path | None:
    """Path of a set in the user's own folder, whether it exists or not; None without such a folder."""
    folder = data_dir or os.environ.get("BOOSTMETRIC_DATA")
    return Path(folder) / f"{source}.npz" if folder else None


def read_own(path: Path, source: DataSource) -> tuple[archive.AnyArray, archive.AnyArray]:
    """Read a set from the user's own file.

    Its numbers may differ from ours (another reduction of ORL, or other images of MNIST, are just as true to the
    paper); its shape and number of classes may not, or it would be another set.
    """
    X, y = archive.read(path)
    if found := archive.differences(X, y, source.shape, source.n_classes):
        raise archive.UnusableFileError("; ".join(found))
    return X, y


def _find(name: str, source: DataSource, data_dir: Path | None) -> tuple[archive.AnyArray, archive.AnyArray]:
    path = own_file(name, data_dir)
    if path is not None and path.exists():
        try:
            return read_own(path, source)
        except archive.UnusableFileError as error:
            # Do not fall back silently: a user who names a folder wants its data.
            raise _missing(name, source, f"the file {path} cannot be used: {error}") from error
    if path is not None and not path.parent.is_dir():
        raise _missing(name, source, f"there is no folder {path.parent}")
    if (cached := read_cached(name, source)) is not None:
        return cached
    try:
        return download(name, source)
    except DownloadError as error:
        tried = f"there is no file {path}" if path else "no data folder was given"
        kept = f"the file {cached_file(name)} is damaged" if cached_file(name).exists() else "it is not in the cache"
        raise _missing(name, source, f"{tried}, {kept}, and the download failed: {error}") from error


def _missing(name: str, source: DataSource, why: str) -> MissingDataError:
    n_samples, n_features = source.shape
    where, note = " and ".join(source.places[0]), f" ({source.note})" if source.note else ""
    return MissingDataError(
        f"The data set {name!r} does not come with the package; {why}. If you have a folder with "
        f"{name}.npz, pass it as --data-dir, or set the environment variable BOOSTMETRIC_DATA to it. "
        f"Otherwise, download {where} ({source.publisher}), save the data{note} as {name}.npz with arrays X "
        f"({n_samples} samples x {n_features} features) and y (labels, {source.n_classes} classes), and pass its "
        "folder in the same way."
    )


def concentric_circles(n: int = 1000, noise: float = 2.5, seed: int = 0) -> Labelled:
    """Four concentric circles in the first two dimensions, and eight dimensions of Gaussian noise (section 3.1).

    Parameters
    ----------
    n : int
        Number of points; with three targets and three impostors each, 1,000 give the paper's 9,000 triplets.
    noise : float
        Standard deviation of the noise dimensions; that of the circles, with radii 1, 2, 3, 4, is 1.9.
    seed : int
    """
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4
    angle = rng.uniform(0, 2 * np.pi, n)
    radius = y + 1 + 0.05 * rng.standard_normal(n)
    circle = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.hstack([circle, noise * rng.standard_normal((n, 8))]), y


def _iris() -> Labelled:
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    return X, y.astype(np.int64)


def _wine() -> Labelled:
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    return X, y.astype(np.int64)


def _balance() -> Labelled:
    """UCI's Balance Scale: weights and distances from 1 to 5; the heavier side (0 neither, 1 left, 2 right)."""
    X = np.array(list(itertools.product(range(1, 6), repeat=4)), dtype=np.float64)
    torque = X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3]
    return X, np.where(torque == 0, 0, np.where(torque > 0, 1, 2)).astype(np.int64)


def _twin_peaks() -> Labelled:
    """Two peaks over a square, labelled by rounded height; van der Maaten's generator (version 0.2b) without noise."""
    x1, x2 = 1 - 2 * np.random.default_rng(0).random((2, _N_GENERATED))
    height = 10 * np.sin(np.pi * x1) * np.tanh(3 * x2)
    return np.stack([x1, x2, height], axis=1), _matlab_uint8(height)


def _helix() -> Labelled:
    """A closed helix, labelled by rounded angle; van der Maaten's generator (version 0.2b), default noise."""
    t = 2 * np.pi * np.arange(1, _N_GENERATED + 1) / _N_GENERATED
    X = np.stack([(2 + np.cos(8 * t)) * np.cos(t), (2 + np.cos(8 * t)) * np.sin(t), np.sin(8 * t)], axis=1)
    return X + 0.05 * np.random.default_rng(0).standard_normal((_N_GENERATED, 3)), _matlab_uint8(t)


def _matlab_uint8(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round half away from zero and clip at 0, as Matlab's uint8 does."""
    return np.maximum(np.floor(values + 0.5), 0).astype(np.int64)


GENERATED: dict[str, Callable[[], Labelled]] = {
    "iris": _iris,
    "wine": _wine,
    "balance": _balance,
    "twin_peaks": _twin_peaks,
    "helix": _helix,
    "circles": concentric_circles,
}
"""Functions for the sets that are always available, by name."""
