"""Opening of files by path or pattern; the suffix gives the format."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from boostmetric.tables.arrays import ArrayTable
from boostmetric.tables.complaints import TableError, TableNotFoundError, reading
from boostmetric.tables.parquet import ParquetTable
from boostmetric.tables.reading import Table, TableSet
from boostmetric.tables.text import CsvTable, JsonLinesTable

FilePaths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

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
    return TableSet([_open(path) for path in _files(source)])


def open_parquet(source: FilePaths, reader: str, otherwise: str) -> TableSet[ParquetTable]:
    """As `open_tables`, for Parquet only; the error for other formats uses `reader` and `otherwise`."""
    tables = []
    for table in open_tables(source).tables:
        if not isinstance(table, ParquetTable):
            raise TableError(
                f"{table.path}: {reader}, and this is {table.format}. Write it as Parquet, or {otherwise}."
            )
        tables.append(table)
    return TableSet(tables)


def _files(source: FilePaths) -> list[Path]:
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
    return files


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
            raise TableError(
                f"{path}: files called {path.suffix or 'without a suffix'} are not read. "
                f"Those that are: {', '.join(_FORMATS)}.{_REMEDIES.get(path.suffix.lower(), '')}"
            )
        if path.stat().st_size == 0:
            raise TableError(f"{path}: the file is empty.")
        return suffix
