"""Tables written to files, by suffix, in the forms that `boostmetric.tables` reads."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from boostmetric.optional import require
from boostmetric.storage.files import replacing

FORMATS = (".csv", ".tsv", ".jsonl", ".parquet", ".npz")


def write_table(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns, whole or not at all; see `write_parts`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from boostmetric.cli.table_files import write_table
    >>> path = Path(tempfile.mkdtemp()) / "points.csv"
    >>> write_table(path, {"id": np.array(["a", "b"], dtype=object), "v": np.array([[0.5, 1.0], [1.5, 2.0]])})
    >>> print(path.read_text(), end="")
    id,v0,v1
    a,0.5,1.0
    b,1.5,2.0
    """
    write_parts(path, [columns], len(next(iter(columns.values()))))


def write_parts(path: Path, parts: Iterable[Mapping[str, NDArray[Any]]], n_rows: int) -> None:
    """Write a table part by part, whole or not at all.

    Parameters
    ----------
    path : Path
        Its suffix, one of `FORMATS` or .npy, says the format.
    parts : iterable of mappings of str to ndarray of shape (n,) or (n, n_components)
        Consecutive rows, at least one part; all with the same columns, of text or numbers. A column of two axes is a
        column of lists in .jsonl and .parquet and a matrix in .npz, where there can be one; in .csv and .tsv it becomes
        a column for each component, called after it and numbered from 0. In .npy it is all there is.
    n_rows : int
        Number of rows of all parts.
    """
    suffix = path.suffix.lower()
    with replacing(path) as temporary:
        if suffix == ".npy":
            with temporary.open("wb") as file:
                _write_arrays(file, (part[next(iter(part))] for part in parts), n_rows)
        elif suffix == ".npz":
            _write_npz(temporary, parts, n_rows)
        elif suffix == ".parquet":
            _write_parquet(temporary, parts)
        elif suffix == ".jsonl":
            _write_json_lines(temporary, parts)
        else:
            _write_csv(temporary, parts, "\t" if suffix == ".tsv" else ",")


def _write_arrays(file: IO[bytes], parts: Iterable[NDArray[Any]], n_rows: int) -> None:
    """Write parts of an array in NumPy's format."""
    for number, part in enumerate(parts):
        if number == 0:
            layout = {"descr": np.lib.format.dtype_to_descr(part.dtype), "fortran_order": False}
            np.lib.format.write_array_header_1_0(file, {**layout, "shape": (n_rows, *part.shape[1:])})
        file.write(np.ascontiguousarray(part).data)


def _write_npz(path: Path, parts: Iterable[Mapping[str, NDArray[Any]]], n_rows: int) -> None:
    columns: dict[str, list[NDArray[Any]]] = {}

    def matrix(first: str) -> Iterator[NDArray[Any]]:
        for part in chain([head], rest):
            for name, values in part.items():
                if name != first:
                    columns.setdefault(name, []).append(values)
            yield part[first]

    rest = iter(parts)
    head = next(rest)
    wide = next((name for name, values in head.items() if values.ndim == 2), next(iter(head)))
    with ZipFile(path, "w") as archive:
        if head[wide].ndim == 2:
            with archive.open(f"{wide}.npy", "w", force_zip64=True) as file:
                _write_arrays(file, matrix(wide), n_rows)
        else:
            columns[wide] = list(matrix(wide))
        for name in head:
            if name in columns:
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    _write_arrays(file, [_plain(np.concatenate(columns[name]))], n_rows)


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Text as NumPy stores it without pickle."""
    return values.astype(str) if values.dtype.kind == "O" else values


def _write_csv(path: Path, parts: Iterable[Mapping[str, NDArray[Any]]], delimiter: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        for number, columns in enumerate(parts):
            if number == 0:
                writer.writerow(_header(columns))
            for row in zip(*columns.values(), strict=True):
                cells: list[Any] = []
                for cell in row:  # numbers of NumPy in as many digits as their type has
                    cells += map(str, cell) if isinstance(cell, np.ndarray) else [str(cell)]
                writer.writerow(cells)


def _header(columns: Mapping[str, NDArray[Any]]) -> Iterator[str]:
    for name, values in columns.items():
        yield from [name] if values.ndim == 1 else [f"{name}{number}" for number in range(values.shape[1])]


def _write_json_lines(path: Path, parts: Iterable[Mapping[str, NDArray[Any]]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for columns in parts:
            for row in zip(*columns.values(), strict=True):
                cells = (_shortest(cell) for cell in row)
                line = json.dumps(dict(zip(columns, cells, strict=True)), ensure_ascii=False, allow_nan=False)
                file.write(line + "\n")


def _shortest(cell: Any) -> Any:
    """A cell for JSON, with no more digits than its type has."""
    if isinstance(cell, np.ndarray):
        return [_shortest(number) for number in cell]
    if isinstance(cell, np.floating):
        return float(str(cell))
    return cell.item() if isinstance(cell, np.generic) else cell


def _write_parquet(path: Path, parts: Iterable[Mapping[str, NDArray[Any]]]) -> None:
    pyarrow = require("pyarrow", "data", "Writing Parquet")
    parquet = require("pyarrow.parquet", "data", "Writing Parquet")
    with ExitStack() as stack:
        writer = None
        for columns in parts:
            table = pyarrow.table({name: _arrow(values) for name, values in columns.items()})
            if writer is None:
                writer = stack.enter_context(parquet.ParquetWriter(path, table.schema))
            writer.write_table(table)


def _arrow(values: NDArray[Any]) -> Any:
    pyarrow = require("pyarrow", "data", "Writing Parquet")
    if values.ndim == 2:
        flat = pyarrow.array(np.ascontiguousarray(values).ravel())
        return pyarrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return pyarrow.array(values.tolist(), pyarrow.string()) if values.dtype.kind in "OU" else pyarrow.array(values)
