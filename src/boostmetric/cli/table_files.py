"""Tables written to files, by suffix, in the forms that `boostmetric.tables` reads."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.optional import require
from boostmetric.storage.files import replacing

FORMATS = (".csv", ".tsv", ".jsonl", ".parquet", ".npz")


def write_table(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns, whole or not at all.

    Parameters
    ----------
    path : Path
        Its suffix, one of `FORMATS`, says the format.
    columns : mapping of str to ndarray of shape (n_rows,) or (n_rows, n_components)
        Of text or numbers. One of two axes is a column of lists in .jsonl and .parquet and a matrix in .npz; in .csv
        and .tsv it becomes a column for each component, called after it and numbered from 0.

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
    suffix = path.suffix.lower()
    with replacing(path) as temporary:
        if suffix == ".npz":
            arrays = {name: _plain(values) for name, values in columns.items()}
            with temporary.open("wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]  # of numbers and text only: nothing is pickled
        elif suffix == ".parquet":
            _write_parquet(temporary, columns)
        elif suffix == ".jsonl":
            _write_json_lines(temporary, columns)
        else:
            _write_csv(temporary, columns, "\t" if suffix == ".tsv" else ",")


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Text as NumPy stores it without pickle."""
    return values.astype(str) if values.dtype.kind == "O" else values


def _write_csv(path: Path, columns: Mapping[str, NDArray[Any]], delimiter: str) -> None:
    header = chain.from_iterable(
        [name] if values.ndim == 1 else [f"{name}{number}" for number in range(values.shape[1])]
        for name, values in columns.items()
    )
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(header)
        for row in zip(*columns.values(), strict=True):
            cells: list[Any] = []
            for cell in row:  # numbers of NumPy in as many digits as their type has
                cells += map(str, cell) if isinstance(cell, np.ndarray) else [str(cell)]
            writer.writerow(cells)


def _write_json_lines(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in zip(*columns.values(), strict=True):
            cells = (_shortest(cell) for cell in row)
            file.write(json.dumps(dict(zip(columns, cells, strict=True)), ensure_ascii=False, allow_nan=False) + "\n")


def _shortest(cell: Any) -> Any:
    """A cell for JSON, with no more digits than its type has."""
    if isinstance(cell, np.ndarray):
        return [_shortest(number) for number in cell]
    if isinstance(cell, np.floating):
        return float(str(cell))
    return cell.item() if isinstance(cell, np.generic) else cell


def _write_parquet(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    pyarrow = require("pyarrow", "data", "Writing Parquet")
    parquet = require("pyarrow.parquet", "data", "Writing Parquet")
    arrays = {}
    for name, values in columns.items():
        if values.ndim == 2:
            flat = pyarrow.array(np.ascontiguousarray(values).ravel())
            arrays[name] = pyarrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
        else:
            arrays[name] = pyarrow.array(values.tolist() if values.dtype.kind in "OU" else values)
    parquet.write_table(pyarrow.table(arrays), path)
