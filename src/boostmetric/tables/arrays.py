"""npy and npz: arrays, of which a vector is a column of numbers and a matrix is a column of lists."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.storage.files import BROKEN, whole_array
from boostmetric.tables.complaints import TableError
from boostmetric.tables.reading import Chunk, Column, Table


class ArrayTable(Table):
    """The arrays of an npz file, or the one of an npy file, which is called "array".

    Only the headers are read at first: an npz may hold much that is not asked for.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._named = path.suffix.lower() == ".npz"
        self.format = "npz" if self._named else "npy"
        with self._reading():
            self.shapes = dict(self._headers())
        self.columns = {name: self._column(name, shape, dtype) for name, (shape, dtype) in self.shapes.items()}
        if not self.columns:
            raise TableError(f"{path}: there are no arrays in it.")
        if not self._named:
            (shape, _) = self.shapes["array"]
            self.n_rows = shape[0] if shape else None

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """All rows at once: an array that needs no conversion is used as it is, and held once."""
        values = {name: self.array(name) for name in names}
        yield Chunk(0, _common_size(self.path, values), dict(values))

    def array(self, name: str) -> NDArray[Any]:
        """One of the arrays."""
        with self._reading():
            loaded = np.load(self.path, allow_pickle=False)
            if not self._named:
                return whole_array(loaded)
            with loaded:
                return whole_array(loaded[name])

    def _headers(self) -> Iterator[tuple[str, tuple[tuple[int, ...], np.dtype[Any]]]]:
        if not self._named:
            with self.path.open("rb") as file:
                yield "array", _header(file, self.path.stat().st_size)
            return
        with zipfile.ZipFile(self.path) as archive:
            for member in archive.infolist():
                if member.filename.endswith(".npy"):
                    with archive.open(member) as file:
                        yield member.filename.removesuffix(".npy"), _header(file, member.file_size)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._errors(BROKEN, self.format):
            try:
                yield
            except ValueError as error:
                if "pickle" not in str(error) and "Object arrays" not in str(error):
                    raise
                raise TableError(
                    f"{self.path}: holds Python objects, which are not loaded because loading them can run code. Save "
                    "arrays of numbers or of text."
                ) from None

    @staticmethod
    def _column(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Column:
        if dtype.kind in "biuf" and len(shape) in (1, 2):
            return Column(name, "number" if len(shape) == 1 else "list", dtype)
        return Column(name, "text" if dtype.kind == "U" and len(shape) == 1 else "other")


class MatrixTable(Table):
    """A matrix whose columns have been given names, and the vectors that are beside it in the file."""

    def __init__(self, table: ArrayTable, array: str, names: Sequence[str]) -> None:
        super().__init__(table.path)
        self.format = table.format
        self._matrix = table.array(array)
        self.n_rows = len(self._matrix)
        self.columns = {name: Column(name, "number", self._matrix.dtype) for name in names}
        self._at = {name: place for place, name in enumerate(names)}
        self._beside = table
        for name, column in table.columns.items():
            if column.kind in ("number", "text"):
                self.columns.setdefault(name, column)

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """All rows at once."""
        values = {name: self._matrix[:, self._at[name]] for name in names if name in self._at}
        values |= {name: self._beside.array(name) for name in names if name not in self._at}
        yield Chunk(0, _common_size(self.path, values), dict(values))


def _common_size(path: Path, arrays: dict[str, NDArray[Any]]) -> int:
    """The number of rows, which must be that of all arrays."""
    for name, array in arrays.items():
        if array.ndim == 0:
            raise TableError(f"{path}: {name!r} is one value, where one for each row is needed. Name another array.")
    sizes = {name: len(array) for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{name!r} has {size:,}" for name, size in sizes.items())
        raise TableError(f"{path}: the arrays must have equally many rows, but {told}.")
    return next(iter(sizes.values()))


def _header(file: IO[bytes], size: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array in a file of the given size, without its numbers."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    needed = math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and size - file.tell() < needed:  # before memory is asked for
        raise EOFError(f"{needed:,} bytes of numbers should follow, and {size - file.tell():,} do")
    return tuple(map(int, shape)), dtype
