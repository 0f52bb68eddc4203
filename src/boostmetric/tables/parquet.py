"""Parquet: read by row group, in batches of a size that does not depend on how the file was written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from boostmetric.optional import require
from boostmetric.tables.complaints import TableError, listed
from boostmetric.tables.reading import BYTES_PER_CHUNK, Chunk, Column, Table, Values


class ParquetTable(Table):
    """A Parquet file, or some of its row groups, through pyarrow.

    Parameters
    ----------
    path : Path
    groups : tuple of int, optional
        The first row group, and the one after the last; all by default.

    Attributes
    ----------
    group_sizes : list of int
        Rows of each row group of the file.
    """

    format = "Parquet"

    def __init__(self, path: Path, groups: tuple[int, int] | None = None) -> None:
        super().__init__(path)
        self._arrow = require("pyarrow", "data", "Reading Parquet files")
        with self._opened() as file:
            schema, about = file.schema_arrow, file.metadata
            self.group_sizes = [about.row_group(group).num_rows for group in range(about.num_row_groups)]
        self._groups = range(*groups) if groups is not None else range(len(self.group_sizes))
        self._n_before = sum(self.group_sizes[: self._groups.start])
        self.n_rows = sum(self.group_sizes[group] for group in self._groups)
        if len(set(schema.names)) < len(schema.names):
            twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
            raise TableError(f"{path}: several columns are called {listed(twice)}. Rename them.")
        self.columns = {column.name: self._column(column.name, column.type) for column in schema}

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Batches of about the same size, row group after row group."""
        start = 0
        with self._opened() as file:
            for group in self._groups:
                # Row groups may hold a million rows: they are decoded in batches.
                about = file.metadata.row_group(group)
                per_batch = max(1, BYTES_PER_CHUNK * about.num_rows // max(1, about.total_byte_size))
                for batch in file.iter_batches(batch_size=per_batch, row_groups=[group], columns=list(names)):
                    values = {name: self._values(batch.column(name)) for name in names}
                    size = batch.num_rows
                    del batch  # so that no two are held
                    yield Chunk(start, size, values)
                    start += size
        self._arrow.default_memory_pool().release_unused()  # what pyarrow keeps for further use

    def location(self, row: int) -> str:
        """Where a row is found: by its number in the file."""
        return super().location(row + self._n_before)

    def footer_checksum(self) -> str:
        """Of what the file says about itself: its columns, and where, how large and of what range each part is."""
        with self._opened(), self.path.open("rb") as file:
            file.seek(-8, os.SEEK_END)
            size = int.from_bytes(file.read(4), "little")
            file.seek(-8 - size, os.SEEK_END)
            return hashlib.blake2b(file.read(size), digest_size=16).hexdigest()

    def first_vector(self, name: str) -> int:
        """Length of the first list of a column."""
        with self._opened() as file:
            for batch in file.iter_batches(batch_size=1, columns=[name]):
                (first,) = self._values(batch.column(name))
                if first is None or not len(first):
                    raise TableError(f"{self.location(0)}, column {name!r}: no value. Fill it in, or remove the row.")
                return len(first)
        raise TableError(f"{self.path}: there are no rows. At least one is needed.")

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        parquet = require("pyarrow.parquet", "data", "Reading Parquet files")
        broken = (self._arrow.ArrowException, OSError, ValueError, KeyError)  # names that are not text, ...
        # Without pre_buffer: it fetches the columns of all row groups ahead.
        with self._errors(broken, self.format), parquet.ParquetFile(self.path, pre_buffer=False) as file:
            yield file

    def _column(self, name: str, kind: Any) -> Column:
        types = self._arrow.types
        if isinstance(kind, self._arrow.BaseExtensionType):  # such as a tensor of one shape
            kind = kind.storage_type
        if types.is_dictionary(kind):
            kind = kind.value_type
        if self._is_list(kind):
            dtype = self._dtype(kind.value_type)
            return Column(name, "other") if dtype is None else Column(name, "list", dtype)
        dtype = self._dtype(kind)
        if dtype is not None:
            return Column(name, "number", dtype)
        # By name: older versions of pyarrow do not know them all.
        return Column(name, "text" if str(kind) in ("string", "large_string", "string_view", "null") else "other")

    def _is_list(self, kind: Any) -> bool:
        types = self._arrow.types
        return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))

    def _dtype(self, kind: Any) -> np.dtype[Any] | None:
        """The type of numbers in NumPy, None if they are not numbers."""
        types = self._arrow.types
        if types.is_decimal(kind):
            return np.dtype(np.float64)
        numbers = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
        return np.dtype(kind.to_pandas_dtype()) if numbers else None

    def _values(self, array: Any) -> Values:
        if isinstance(array.type, self._arrow.BaseExtensionType):
            array = array.storage
        if self._arrow.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if self._is_list(array.type):
            return self._lists(array)
        if self._dtype(array.type) is None or array.null_count:
            return array.to_pylist()  # type: ignore[no-any-return]
        return self._numbers(array)

    def _numbers(self, array: Any) -> Values:
        if self._arrow.types.is_decimal(array.type):
            array = array.cast(self._arrow.float64())
        return array.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]

    def _lists(self, array: Any) -> Values:
        """A matrix where all lists have one length and no gaps, otherwise Python lists, for complaints."""
        if array.null_count or not len(array):
            return array.to_pylist()  # type: ignore[no-any-return]
        if self._arrow.types.is_fixed_size_list(array.type):
            size = array.type.list_size
        else:
            sizes = np.diff(array.offsets.to_numpy())
            size = int(sizes[0])
            if (sizes != size).any():
                return array.to_pylist()  # type: ignore[no-any-return]
        flat = array.flatten()
        if flat.null_count or self._dtype(flat.type) is None:
            return array.to_pylist()  # type: ignore[no-any-return]
        return np.asarray(self._numbers(flat)).reshape(len(array), size)
