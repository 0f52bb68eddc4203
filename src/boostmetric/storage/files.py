"""Files that are either whole or not there; and what is raised where one is not as it was written."""

from __future__ import annotations

import os
import shutil
import struct
import sys
import tempfile
import tokenize
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

# What NumPy and zipfile raise where bytes of npy and npz files are not as they were written. NotImplementedError, of
# an unknown compression, is a RuntimeError; a wrong shape may ask for more memory than there is.
BROKEN = (
    BadZipFile,
    zlib.error,
    tokenize.TokenError,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    TypeError,
    KeyError,
    RuntimeError,
    SyntaxError,
    OverflowError,
    MemoryError,
)


def whole_array(loaded: Any) -> NDArray[Any]:
    """What `numpy.load` returned, or an error where that is no array, or text of characters that do not exist."""
    if not isinstance(loaded, np.ndarray):  # NumPy gives the bytes of a member that it does not know
        raise ValueError("a part of it is not an array")
    if loaded.dtype.kind == "U" and loaded.dtype.itemsize:
        codes = np.ascontiguousarray(loaded.reshape(-1), dtype=loaded.dtype.newbyteorder("=")).view(np.uint32)
        if codes.max(initial=0) > sys.maxunicode:  # Python's error in making a str of it is a SystemError
            raise ValueError(f"a text in it has the character {int(codes.max()):#x}, which there is not")
    return loaded


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` to write to; renamed to `path` at the end, removed on an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as written:
            os.fsync(written)  # on the disk before it has the name, also if the machine stops
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path` to write to; renamed to `path` at the end, removed on an error.

    Raises
    ------
    FileExistsError
        If there is something under the name, other than an empty folder. A full folder cannot be replaced in one step,
        and may hold more than what was written by us.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise FileExistsError(f"{path} is there already. Remove it, or name a new folder.")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                with file.open("rb+") as written:
                    os.fsync(written)
        temporary.chmod(0o777 & ~_umask())
        if path.exists():
            path.rmdir()  # empty; Windows renames to no existing folder
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _umask() -> int:
    """The permissions that new files shall not have; mkstemp's are for the owner only."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
