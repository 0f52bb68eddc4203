"""npy and npz files: a vector is a column of numbers, a matrix is a column of lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.storage.files import BROKEN, array_headers, whole_array
from boostmetric.tables.complaints import TableError, reading
from boostmetric.tables.reading import Column, Table, Wanted
from boostmetric.tables.values import Values


class ArrayTable(Table):
    """Arrays of an npz file, or the array of an npy file, called "array".

    Opening reads only the headers, because an npz file may hold large arrays that are not needed.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._named = path.suffix.lower() == ".npz"
        self.format = "npz" if self._named else "npy"
        with reading(path, BROKEN, self.format):
            self.shapes = array_headers(path)
        self.columns = {name: _column(name, shape, dtype) for name, (shape, dtype) in self.shapes.items()}
        if not self.columns:
            raise TableError(f"{path}: there are no arrays in it.")
        if not self._named:
            self.n_rows = next(iter(self.shapes["array"][0]), None)

    def chunks(self, wanted: Wanted) -> Iterator[dict[str, Values]]:
        """Yield all rows at once: an array that needs no conversion is not copied."""
        values = {name: self.array(name) for name in wanted.columns}
        for name, array in values.items():
            if array.ndim == 0:
                raise TableError(
                    f"{self.path}: {name!r} is one value, where one for each row is needed. Name another array."
                )
        if len(set(map(len, values.values()))) > 1:
            sizes = ", ".join(f"{name!r} has {len(array):,}" for name, array in values.items())
            raise TableError(f"{self.path}: the arrays must have equally many rows, but {sizes}.")
        yield {name: array.astype(object) if array.dtype.kind == "U" else array for name, array in values.items()}

    def array(self, name: str) -> NDArray[Any]:
        """Read one array."""
        if self.shapes[name][1].hasobject:
            raise TableError(
                f"{self.path}: holds Python objects, which are not loaded because loading them can run code. Save "
                "arrays of numbers or of text."
            )
        with reading(self.path, BROKEN, self.format):
            loaded = np.load(self.path, allow_pickle=False)
            if not self._named:
                return whole_array(loaded)
            with loaded:
                return whole_array(loaded[name])


class MatrixTable(ArrayTable):
    """A matrix with named columns, and the vectors next to it in the file."""

    def __init__(self, path: Path, matrix: str, names: Sequence[str]) -> None:
        super().__init__(path)
        self._matrix = super().array(matrix)
        self._places = {name: place for place, name in enumerate(names)}
        beside = {name: column for name, column in self.columns.items() if column.kind in ("number", "text")}
        named = {name: Column(name, "number", self._matrix.dtype) for name in names}
        self.columns = named | beside | named

    def array(self, name: str) -> NDArray[Any]:
        """Return a column of the matrix, or read another array."""
        return self._matrix[:, self._places[name]] if name in self._places else super().array(name)


def _column(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Column:
    if dtype.kind in "biuf" and len(shape) in (1, 2):
        return Column(name, "number" if len(shape) == 1 else "list", dtype)
    return Column(name, "text" if dtype.kind == "U" and len(shape) == 1 else "other")
