"""The data sets of the paper: its 15 benchmarks (Table 1) and the concentric circles of its illustrative example.

Iris and Wine come with scikit-learn; Balance, Twin Peaks, Helix and the circles are generated. The others are read from
a folder of ``.npz`` files with arrays `X` and `y`, given as `data_dir` or in the environment variable BOOSTMETRIC_DATA.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from boostmetric.paper.benchmarks import BENCHMARKS, Benchmark

__all__ = ["BENCHMARKS", "Benchmark", "Labelled", "MissingDataError", "concentric_circles", "load"]

Labelled = tuple[NDArray[np.float64], NDArray[np.int64]]


class MissingDataError(FileNotFoundError):
    """A data set is neither generated nor in the data folder; the message says how to get it."""


def load(source: str, data_dir: Path | None = None) -> Labelled:
    """Points and labels of a data set.

    Parameters
    ----------
    source : str
        The `source` of a `Benchmark`.
    data_dir : Path, optional
        Folder of ``.npz`` files; by default that of the environment variable BOOSTMETRIC_DATA.

    Raises
    ------
    MissingDataError
        With the ways to get the file.
    """
    if source in _GENERATED:
        return _GENERATED[source]()
    folder = data_dir or os.environ.get("BOOSTMETRIC_DATA")
    path = Path(folder) / f"{source}.npz" if folder else None
    if path is None or not path.exists():
        raise MissingDataError(
            f"The data set {source!r} does not come with the package"
            + (f", and there is no file {path}. " if path else ", and no data folder was given. ")
            + f"Put a file {source}.npz with arrays X (samples x features) and y (labels) into a folder, and name the "
            "folder with --data-dir or in the environment variable BOOSTMETRIC_DATA."
        )
    with np.load(path, allow_pickle=False) as arrays:
        X, y = arrays["X"].astype(np.float64), arrays["y"].astype(np.int64)
    # The paper's 15,000 letters are the sizes of LIBSVM's split of the first 15,000 rows.
    return (X[:15000], y[:15000]) if source == "letters" else (X, y)


def concentric_circles(n: int = 1000, noise: float = 2.5, seed: int = 0) -> Labelled:
    """Four concentric circles in the first two dimensions, and eight dimensions of Gaussian noise (section 3.1).

    Parameters
    ----------
    n : int
        Points; with three targets and three impostors each, 1,000 give the paper's 9,000 triplets.
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


def _twin_peaks(n: int = 20000) -> Labelled:
    """Two peaks over a square, labelled by rounded height; van der Maaten's generator (version 0.2b) without noise."""
    x1, x2 = 1 - 2 * np.random.default_rng(0).random((2, n))
    height = 10 * np.sin(np.pi * x1) * np.tanh(3 * x2)
    return np.stack([x1, x2, height], axis=1), _matlab_uint8(height)


def _helix(n: int = 20000) -> Labelled:
    """A closed helix, labelled by rounded angle; van der Maaten's generator (version 0.2b), default noise."""
    t = 2 * np.pi * np.arange(1, n + 1) / n
    X = np.stack([(2 + np.cos(8 * t)) * np.cos(t), (2 + np.cos(8 * t)) * np.sin(t), np.sin(8 * t)], axis=1)
    return X + 0.05 * np.random.default_rng(0).standard_normal((n, 3)), _matlab_uint8(t)


def _matlab_uint8(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round half away from zero and clip at 0, as Matlab's uint8 does."""
    return np.maximum(np.floor(values + 0.5), 0).astype(np.int64)


_GENERATED: dict[str, Callable[[], Labelled]] = {
    "iris": _iris,
    "wine": _wine,
    "balance": _balance,
    "twin_peaks": _twin_peaks,
    "helix": _helix,
}
