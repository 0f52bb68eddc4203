"""Parquet files, read in batches of similar size."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from boostmetric.optional import require
from boostmetric.tables.complaints import reading, refuse_repeated_columns
from boostmetric.tables.reading import Column, Table, Wanted
from boostmetric.tables.values import Values

# About as many bytes are decoded at once; much less is slower, much more shows in the memory.
BYTES_PER_CHUNK = 2**24


class ParquetTable(Table):
    """A Parquet file, or its row groups ``groups[0]`` to ``groups[1]`` (exclusive).

    `group_sizes` has the number of rows of each row group of the file.
    """

    format = "Parquet"

    def __init__(self, path: Path, groups: tuple[int, int] | None = None) -> None:
        super().__init__(path)
        self._arrow = require("pyarrow", "data", "Reading Parquet files")
        with self._opened() as file:
            schema, about = file.schema_arrow, file.metadata
            self.group_sizes = [about.row_group(group).num_rows for group in range(about.num_row_groups)]
        self._groups = range(*groups or (0, len(self.group_sizes)))
        self._n_before = sum(self.group_sizes[: self._groups.start])
        self.n_rows = sum(self.group_sizes[group] for group in self._groups)
        refuse_repeated_columns(path, schema.names)
        self.columns = {column.name: _column(column.name, column.type) for column in schema}

    def chunks(self, wanted: Wanted) -> Iterator[dict[str, Values]]:
        """Yield batches of similar size, row group by row group."""
        with self._opened() as file:
            for group in self._groups:
                # Row groups may hold a million rows: they are decoded in batches.
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


def values_of(array: Any) -> Values:
    """Convert an array of pyarrow; not by to_numpy, which imports pandas if it is installed."""
    array = getattr(array, "storage", array)  # of an extension, such as tensors of one shape
    array = array.dictionary_decode() if hasattr(array, "dictionary") else array
    is_list, dtype = _kind(array.type)
    flat = array.flatten() if is_list else array
    if array.null_count or flat.null_count or dtype is None:
        values = array.to_pylist()
        is_text = str(array.type) in ("string", "large_string") and not array.null_count
        return np.array(values, dtype=object) if is_text else values
    numbers = np.from_dlpack(flat.cast("uint8" if dtype.kind == "b" else str(dtype))).astype(dtype, copy=False)
    if not is_list:
        return numbers
    lengths = np.unique(np.from_dlpack(array.value_lengths()))
    return numbers.reshape(len(array), lengths[0]) if len(lengths) == 1 else array.to_pylist()


def _column(name: str, kind: Any) -> Column:
    kind = getattr(kind, "storage_type", kind)
    kind = kind.value_type if hasattr(kind, "index_type") else kind  # of a dictionary
    is_list, dtype = _kind(kind)
    if dtype is not None:
        return Column(name, "list" if is_list else "number", dtype)
    # By name: older versions of pyarrow do not know them all.
    return Column(name, "text" if str(kind) in ("string", "large_string", "string_view", "null") else "other")


def _kind(kind: Any) -> tuple[bool, np.dtype[Any] | None]:
    """Whether a type is a list, and the NumPy type of its numbers, or None."""
    types = require("pyarrow", "data", "Reading Parquet files").types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    kind = kind.value_type if is_list else kind
    if types.is_decimal(kind):
        return is_list, np.dtype(np.float64)
    is_number = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
    return is_list, np.dtype(kind.to_pandas_dtype()) if is_number else None
