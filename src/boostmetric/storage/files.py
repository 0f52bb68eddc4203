"""Atomic writing of files and folders, and the exceptions that damaged files raise."""

from __future__ import annotations

import errno
import math
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
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

# What NumPy and zipfile raise when npy and npz files are damaged. NotImplementedError, for an unknown compression, is a
# RuntimeError; a wrong shape may ask for more memory than there is.
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
    """Return what `numpy.load` returned, or raise an error if it is not an array or has invalid characters."""
    if not isinstance(loaded, np.ndarray):  # NumPy returns raw bytes for a member it does not recognise
        raise ValueError("a part of it is not an array")
    if loaded.dtype.kind == "U" and loaded.dtype.itemsize:
        codes = np.ascontiguousarray(loaded.reshape(-1), dtype=loaded.dtype.newbyteorder("=")).view(np.uint32)
        if codes.max(initial=0) > sys.maxunicode:  # converting it to str would raise a SystemError
            raise ValueError(f"a string in it has the character {int(codes.max()):#x}, which does not exist")
    return loaded


def array_headers(path: Path) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Shape and type of each array of an npz file, or of the one of an npy file, "array", without their numbers."""
    if path.suffix.lower() != ".npz":
        with path.open("rb") as file:
            return {"array": _header(file, path.stat().st_size)}
    headers = {}
    with ZipFile(path) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                with archive.open(member) as part:
                    headers[member.filename.removesuffix(".npy")] = _header(part, member.file_size)
    return headers


def _header(file: IO[bytes], size: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
    shape, _, dtype = _layout(file)
    needed = math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and size - file.tell() < needed:  # before memory is asked for
        raise EOFError(f"{needed:,} bytes of numbers should follow, and {size - file.tell():,} do")
    return tuple(map(int, shape)), dtype


def array_blocks(path: Path, name: str, n_rows: int) -> Iterator[NDArray[Any]]:
    """Yield an array of an npz file, or that of an npy file, in blocks of rows; at least one block.

    A new memory map for each block of an npy file, so that what was read does not count as memory of this process.
    """
    if path.suffix.lower() != ".npz":
        n, start = 1, 0
        while start < max(n, 1):
            mapped = whole_array(np.load(path, mmap_mode="r", allow_pickle=False))
            n = len(mapped)
            yield np.array(mapped[start : start + n_rows])
            del mapped
            start += n_rows
        return
    with ZipFile(path) as archive, archive.open(f"{name}.npy") as part:
        shape, by_columns, dtype = _layout(part)
        if by_columns and len(shape) > 1:
            with np.load(path, allow_pickle=False) as loaded:
                whole = whole_array(loaded[name])
            yield from (whole[start : start + n_rows] for start in range(0, max(len(whole), 1), n_rows))
            return
        row = math.prod(shape[1:]) * dtype.itemsize
        for start in range(0, max(shape[0], 1), n_rows):
            size = min(n_rows, shape[0] - start)
            data = part.read(size * row)
            if len(data) < size * row:
                raise EOFError(f"{shape[0]:,} rows should be there, and {start + len(data) // row:,} are")
            yield whole_array(np.frombuffer(data, dtype=dtype, count=size * math.prod(shape[1:]))).reshape(
                size, *shape[1:]
            )


def _layout(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape of an array, whether it is stored by columns, and its type; the file is then at its numbers."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(file)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Provide a temporary file beside `path`; it is renamed to `path` at the end, or removed on an error.

    Raises
    ------
    OSError
        With the name of `path`, whatever the writer raised, if the disk is full or the folder cannot be written.
    """
    with _naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        with _naming(path, temporary):
            yield temporary
            with temporary.open("rb+") as written:
                os.fsync(written)  # on disk before the rename, in case the machine stops
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Provide a temporary folder beside `path`; it is renamed to `path` at the end, or removed on an error.

    Raises
    ------
    FileExistsError
        If `path` exists and is not an empty folder. A full folder cannot be replaced in one step, and may hold files
        that we did not write.
    OSError
        As `replacing`.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise FileExistsError(f"{path} already exists. Remove it, or name a new folder.")
    with _naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        with _naming(path, temporary):
            yield temporary
            for file in temporary.rglob("*"):
                if file.is_file():
                    with file.open("rb+") as written:
                        os.fsync(written)
                    file.chmod(0o666 & ~_umask())  # safetensors gives access to the owner only
            temporary.chmod(0o777 & ~_umask())
            if path.exists():
                path.rmdir()  # empty; Windows cannot rename to an existing folder
            temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _naming(path: Path, temporary: Path | None = None) -> Iterator[None]:
    """Turn an error of writing, of the disk or of a library, into an OSError that names `path`.

    safetensors and faiss have errors of their own for a full disk, and NumPy's names neither the reason nor the file.
    """
    try:
        yield
    except Exception as error:
        number = _number_of(error, temporary)
        if number is None:
            raise
        raise OSError(number, os.strerror(number), str(path)) from error


def _number_of(error: Exception, temporary: Path | None) -> int | None:
    """The number of the system's error because of which nothing can be written; None if the error is another."""
    if isinstance(error, OSError) and error.errno is not None:
        name = error.filename
        is_other = (
            isinstance(name, str) and temporary is not None and temporary not in (Path(name), *Path(name).parents)
        )
        return None if is_other else error.errno
    if temporary is None:
        return None
    target = temporary / "more" if temporary.is_dir() else temporary
    try:  # what was written is still there: if the disk was full, it is now
        with target.open("ab") as file:
            file.write(bytes(2**20))
            file.flush()
            os.fsync(file)
    except OSError as full:
        return full.errno
    return errno.ENOSPC if f"os error {errno.ENOSPC}" in str(error) else None


def _umask() -> int:
    """Permission bits to remove from new files; mkstemp gives access to the owner only."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
