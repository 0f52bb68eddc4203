"""Files by path or pattern. The suffix gives the format: npy, npz and Parquet are here, the others in `text`."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.optional import require
from boostmetric.storage.files import BROKEN, array_headers, whole_array
from boostmetric.tables.complaints import TableError, TableNotFoundError, reading
from boostmetric.tables.reading import Column, Table, TableSet, Values, Wanted, type_of, values_of
from boostmetric.tables.text import CsvTable, JsonLinesTable

FilePaths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
# About as many bytes of Parquet are decoded at once; much less is slower, much more shows in the memory.
BYTES_PER_CHUNK = 2**24


class ArrayTable(Table):
    """Arrays of an npz file, or the array of an npy file, called "array"; opening reads only their headers.

    A vector is a column of numbers, a matrix is a column of lists.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "npz" if path.suffix.lower() == ".npz" else "npy")
        with reading(path, BROKEN, self.format):
            self.shapes = array_headers(path)
        if not self.shapes:
            raise self.error("there are no arrays in it.")
        if self.format == "npy":
            self.n_rows = next(iter(self.shapes["array"][0]), None)
        self._named = dict[str, NDArray[Any]]()  # columns of a matrix
        for name, (shape, dtype) in self.shapes.items():
            if dtype.kind in "biuf" and len(shape) in (1, 2):
                self.columns[name] = Column(name, "number" if len(shape) == 1 else "list", dtype)
            else:
                self.columns[name] = Column(name, "text" if dtype.kind == "U" and len(shape) == 1 else "other")

    def name_columns(self, matrix: str, names: Sequence[str]) -> None:
        """Give names to the columns of a matrix, which then are columns of the table, beside the vectors."""
        self._named = dict(zip(names, self._array(matrix).T, strict=True))
        named = {name: Column(name, "number", values.dtype) for name, values in self._named.items()}
        beside = {name: column for name, column in self.columns.items() if column.kind in ("number", "text")}
        self.columns = named | beside | named

    def chunks(self, wanted: Wanted) -> Iterator[dict[str, Values]]:
        """Yield all rows at once: an array that needs no conversion is not copied."""
        values = {name: self._array(name) for name in wanted.columns}
        for name, array in values.items():
            if array.ndim == 0:
                raise self.error(f"{name!r} is one value, where one for each row is needed. Name another array.")
        if len(set(map(len, values.values()))) > 1:
            sizes = ", ".join(f"{name!r} has {len(array):,}" for name, array in values.items())
            raise self.error(f"the arrays must have equally many rows, but {sizes}.")
        yield {name: array.astype(object) if array.dtype.kind == "U" else array for name, array in values.items()}

    def _array(self, name: str) -> NDArray[Any]:
        if name in self._named:
            return self._named[name]
        if self.shapes[name][1].hasobject:
            problem = "holds Python objects, which are not loaded because loading them can run code."
            raise self.error(f"{problem} Save arrays of numbers or of text.")
        with reading(self.path, BROKEN, self.format):
            loaded = np.load(self.path, allow_pickle=False)
            if self.format == "npy":
                return whole_array(loaded)
            with loaded:
                return whole_array(loaded[name])


class ParquetTable(Table):
    """A Parquet file, or its row groups from ``groups[0]`` to before ``groups[1]``; `group_sizes` are of the file."""

    def __init__(self, path: Path, groups: tuple[int, int] | None = None) -> None:
        super().__init__(path, "Parquet")
        self._arrow = require("pyarrow", "data", "Reading Parquet files")
        with self._opened() as file:
            schema, about = file.schema_arrow, file.metadata
            self.group_sizes = [about.row_group(group).num_rows for group in range(about.num_row_groups)]
        self._groups = range(*groups or (0, len(self.group_sizes)))
        self._n_before = sum(self.group_sizes[: self._groups.start])
        self.n_rows = sum(self.group_sizes[group] for group in self._groups)
        self.refuse_repeated(schema.names)
        self.columns = {column.name: Column(column.name, *type_of(column.type)) for column in schema}

    def chunks(self, wanted: Wanted) -> Iterator[dict[str, Values]]:
        """Yield batches of similar size, row group by row group, since one may hold a million rows."""
        with self._opened() as file:
            for group in self._groups:
                about = file.metadata.row_group(group)
                per_batch = max(1, BYTES_PER_CHUNK * about.num_rows // max(1, about.total_byte_size))
                for batch in file.iter_batches(batch_size=per_batch, row_groups=[group], columns=wanted.columns):
                    values = {name: values_of(batch.column(name)) for name in wanted.columns}
                    del batch  # so that no two are held
                    yield values
        self._arrow.default_memory_pool().release_unused()  # what pyarrow keeps for further use

    def first_value(self, name: str) -> Any:
        """Read the first value of a column, and no others."""
        with self._opened() as file:
            return values_of(next(file.iter_batches(batch_size=1, columns=[name])).column(name))[0]

    def location(self, row: int) -> str:
        """Location of a row: its number in the file."""
        return super().location(row + self._n_before)

    def footer_checksum(self) -> str:
        """Checksum of the footer: schema, and place, size and range of each column."""
        with self._opened(), self.path.open("rb") as file:
            file.seek(-8, os.SEEK_END)
            size = int.from_bytes(file.read(4), "little")
            file.seek(-8 - size, os.SEEK_END)
            return hashlib.blake2b(file.read(size), digest_size=16).hexdigest()

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        parquet = require("pyarrow.parquet", "data", "Reading Parquet files")
        broken = (self._arrow.ArrowException, OSError, ValueError, KeyError)  # names that are not text, ...
        # Without pre_buffer: it fetches the columns of all row groups ahead.
        with reading(self.path, broken, self.format), parquet.ParquetFile(self.path, pre_buffer=False) as file:
            yield file


_csv, _tsv = partial(CsvTable, delimiter=","), partial(CsvTable, delimiter="\t")
_FORMATS: dict[str, Callable[[Path], Table]] = {
    **{".csv": _csv, ".csv.gz": _csv, ".tsv": _tsv, ".tsv.gz": _tsv, ".parquet": ParquetTable},
    **dict.fromkeys((".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz"), JsonLinesTable),
    **{".npy": ArrayTable, ".npz": ArrayTable},
}
_REMEDIES = {
    ".json": " Write one object a line and call the file .jsonl.",
    ".txt": " If columns are separated by commas or tabs, call the file .csv or .tsv.",
    ".xlsx": " Save the sheet as CSV (UTF-8).",
    ".pq": " Call Parquet files .parquet.",
}


def open_tables(source: FilePaths) -> TableSet[Table]:
    """Open a file, several files, or the files of a pattern such as ``"shards/*.parquet"``, sorted by name."""
    files: list[Path] = []
    for path in map(Path, [source] if isinstance(source, (str, os.PathLike)) else source):
        found = [path]
        if not path.exists() and glob.has_magic(str(path)):
            found = sorted(map(Path, glob.glob(str(path), recursive=True)))  # noqa: PTH207, a pattern may be absolute
        if not found:
            raise TableNotFoundError(f"{path}: no file has a name like this. Check the pattern, and the folder.")
        files += found
    if not files:
        raise TableError("No file is given: at least one is needed.")
    return TableSet([_open(path) for path in files])


def open_parquet(source: FilePaths, reader: str, otherwise: str) -> TableSet[ParquetTable]:
    """As `open_tables`, for Parquet only; the error for other formats uses `reader` and `otherwise`."""
    tables = []
    for table in open_tables(source).tables:
        if not isinstance(table, ParquetTable):
            raise table.error(f"{reader}, and this is {table.format}. Write it as Parquet, or {otherwise}.")
        tables.append(table)
    table_set = TableSet(tables)
    if not table_set.n_rows:
        raise table_set.error("there are no rows. At least one is needed.")
    return table_set


def _open(path: Path) -> Table:
    return _FORMATS[_check(path)](path)


def _check(path: Path) -> str:
    """Check that a file can be read, and return its suffix."""
    with reading(path):
        suffix = max((suffix for suffix in _FORMATS if path.name.lower().endswith(suffix)), key=len, default=None)
        if not path.exists():
            raise FileNotFoundError(path)
        if path.is_dir():
            raise TableError(f"{path}: is a folder. Give the files in it, such as '{path}/*.parquet'.")
        if suffix is None:
            problem = f"{path}: files called {path.suffix or 'without a suffix'} are not read."
            known = f"Those that are: {', '.join(_FORMATS)}.{_REMEDIES.get(path.suffix.lower(), '')}"
            raise TableError(f"{problem} {known}")
        if path.stat().st_size == 0:
            raise TableError(f"{path}: the file is empty.")
        return suffix
