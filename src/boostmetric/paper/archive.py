"""Points and labels in an ``.npz`` file: reading, writing, checks, and the hash that identifies the data.

The hash is of the numbers, not of a file: publishers pack the same data as Matlab, ARFF, text or images, and may
recompress them.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.storage.files import replacing

AnyArray = NDArray[Any]


class UnusableFileError(ValueError):
    """A file does not hold what it should; the message says what is wrong with it."""


def content_hash(X: AnyArray, y: AnyArray) -> str:
    """SHA-256 of points and labels, independent of their types and byte order.

    Points are hashed in single precision, which distinguishes all measurements in the paper's sets: 33.6 read from text
    in double precision and 33.6 stored in single precision are the same value.
    """
    points = np.ascontiguousarray(X, dtype="<f4") + np.float32(0)  # -0 and 0 are the same
    labels = np.ascontiguousarray(y, dtype="<i4")
    digest = hashlib.sha256(f"X {points.shape} float32, y {labels.shape} int32\n".encode())
    digest.update(points.tobytes())
    digest.update(labels.tobytes())
    return digest.hexdigest()


def read(path: Path) -> tuple[AnyArray, AnyArray]:
    """Read arrays `X` and `y` from a file, without running any code from it.

    Raises
    ------
    UnusableFileError
        If the file is damaged, is not an ``.npz`` file, or lacks one of the arrays.
    """
    try:
        # Opened here, because numpy would leave the file open if it is not an archive.
        with path.open("rb") as file:
            arrays = np.load(file, allow_pickle=False)
            if not isinstance(arrays, np.lib.npyio.NpzFile):
                raise UnusableFileError("it is a single array (.npy), not an .npz file with arrays X and y")
            with arrays:
                missing = [name for name in ("X", "y") if name not in arrays.files]
                if missing:
                    has = ", ".join(arrays.files) or "none"
                    raise UnusableFileError(f"it has no array {' and no array '.join(missing)} (it has: {has})")
                return arrays["X"], arrays["y"]
    except UnusableFileError:
        raise
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise UnusableFileError(f"it cannot be read as an .npz file ({error or type(error).__name__})") from error


def write(path: Path, X: AnyArray, y: AnyArray) -> None:
    """Write `X` and `y` to a compressed file in the precision of the hash, atomically."""
    with replacing(path) as temporary:
        np.savez_compressed(temporary, X=np.asarray(X, dtype=np.float32), y=np.asarray(y, dtype=np.int32))


def differences(X: AnyArray, y: AnyArray, shape: tuple[int, int], n_classes: int) -> list[str]:
    """List what is wrong with points and labels for a data set of this shape; empty if nothing is."""
    found = []
    if X.dtype.kind not in "uif":
        found.append(f"X has dtype {X.dtype}, which is not numeric")
    elif X.shape != shape:
        found.append(f"X has shape {X.shape}, not {shape}")
    elif not np.isfinite(X).all():
        found.append("X holds values that are not finite")
    if y.dtype.kind not in "ui":
        found.append(f"y has dtype {y.dtype}, which is not an integer type")
    elif y.shape != shape[:1]:
        found.append(f"y has shape {y.shape}, not {shape[:1]}")
    elif len(np.unique(y)) != n_classes:
        found.append(f"y has {len(np.unique(y))} classes, not {n_classes}")
    return found
