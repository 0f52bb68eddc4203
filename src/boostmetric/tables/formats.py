"""Files of all formats, found by path or pattern and opened by suffix. All but npy and npz are read by pyarrow."""

from __future__ import annotations

import csv
import glob
import gzip
import hashlib
import io
import json
import math
import os
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import listed, shown
from boostmetric.optional import require
from boostmetric.storage.files import BROKEN, array_blocks, array_headers, whole_array
from boostmetric.tables.answer_table import SUFFIX as ANSWERS
from boostmetric.tables.answer_table import AnswerTable
from boostmetric.tables.complaints import NotThereError, TableError, TableNotFoundError, reading
from boostmetric.tables.reading import Column, Table, TableSet, Wanted, are_finite, is_number, type_of, values_of
from boostmetric.tables.standard_input import NAME, standard_input

FilePaths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
# About as many bytes of Parquet are decoded at once; much less is slower, much more shows in the memory.
BYTES_PER_CHUNK = 2**24
# Much less is slower, much more shows in the memory: pyarrow reads some blocks ahead.
BYTES_PER_BLOCK = 2**20
FIRST_ROWS = 1000  # in which a first value of each column is looked for
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_KINDS = {bool: "number", int: "number", float: "number", str: "text", type(None): "text"}


class _TextTable(Table):
    """A table of lines. The standard library checks what pyarrow is lenient about, and finds lines for messages."""

    def __init__(self, path: Path, format: str, n_headers: int = 0) -> None:
        super().__init__(path, format)
        self._n_headers = n_headers
        self._arrow = require("pyarrow", "data", f"Reading {format} files")

    def location(self, row: int) -> str:
        """Location of a row: its line."""
        return f"{self.path}, line {self._lines[row + self._n_headers]}"

    @cached_property
    def _lines(self) -> NDArray[np.int64]:
        """First line of each row, headers included. Only messages need it, so the file is read again."""
        with self._opened() as file:
            return np.fromiter((line for line, _ in self._rows(file)), dtype=np.int64)

    @abstractmethod
    def _rows(self, file: IO[bytes]) -> Iterator[tuple[int, Any]]:
        """Yield the line and the values of each row, read by the standard library; blank lines are skipped."""

    def _text(self, file: IO[bytes], first: int = 1) -> Iterator[tuple[int, str]]:
        """Yield the lines of a file with their numbers."""
        # Excel begins UTF-8 with a mark, which is not part of the first name.
        with io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline="") as lines:
            for number, line in enumerate(lines, first):
                try:
                    line.encode()
                except UnicodeEncodeError as error:
                    byte, place = ord(line[error.start]) - 0xDC00, len(line[: error.start].encode()) + 1
                    problem = f"byte 0x{byte:02x} at position {place} is not UTF-8 text. Save the file as UTF-8."
                    raise self.error(problem, line=number) from None
                yield number, line

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        opener: Any = partial(open, mode="rb")
        broken, kind = tuple[type[Exception], ...](), ""
        match self.path.suffix.lower():
            case ".gz":
                opener, broken, kind = gzip.open, (gzip.BadGzipFile, EOFError, zlib.error), "gzip"
            case ".zst":
                opener, broken, kind = self._open_zstd, (OSError,), "zstd"
        with reading(self.path, broken, kind), opener(self.path) as file:
            yield file

    def _open_zstd(self, path: Path) -> IO[bytes]:
        return io.BufferedReader(self._arrow.CompressedInputStream(path, "zstd"))


class CsvTable(_TextTable):
    """Comma-separated (RFC 4180) or tab-separated values with a header. All columns are read as text."""

    def __init__(self, path: Path, *, delimiter: str) -> None:
        super().__init__(path, "CSV" if delimiter == "," else "TSV", n_headers=1)
        self._delimiter = delimiter
        with self._opened() as file:
            rows = self._rows(file)
            _, header = next(rows, (0, []))
            self._check_header(header)
            examples = [""] * len(header)
            for _, fields in islice(rows, FIRST_ROWS):
                examples = [known or new for known, new in zip(examples, fields, strict=True)]
                if all(examples):
                    break
        for name, example in zip(header, examples, strict=True):
            self.columns[name] = Column(name, "number" if is_number(example) else "text", example=example)

    def column(self, name: str, what: str, remedy: str = "") -> Column:
        """Return a column by name; names that are numbers may be those of a file without a header."""
        if name not in self.columns and any(map(is_number, self.columns)):
            remedy = remedy or "If the first line is a row of data, add a line of names above it."
        return super().column(name, what, remedy)

    def _check_header(self, header: list[str]) -> None:
        if not header:
            raise self.error("the file is empty. It needs a line of column names, and rows below it.")
        others = [name for other, name in _SEPARATORS.items() if other in header[0] and other != self._delimiter]
        if len(header) == 1 and others:
            problem = f"one column, {shown(header[0])}, which seems to be several separated by {others[0]}."
            raise self.error(f"{problem} Separate them by commas in .csv files, and by tabs in .tsv files.", line=1)
        counted = [str(number) for number in range(len(header))]  # what pandas writes for columns without names
        if header != counted and all(map(is_number, header)):
            problem = f"numbers ({listed(header, 3)}) where the names of the columns should be."
            raise self.error(f"{problem} Add a line of names at the top, or save the matrix as .npy.", line=1)
        if fractions := [field for field in header if is_number(field) and not field.strip().lstrip("+-").isdigit()]:
            problem = f"{listed(fractions, 3)} among the names of the columns: the file seems to have no header."
            raise self.error(f"{problem} Add a line of names at the top.", line=1)
        if any(header.count(field) > 1 for field in filter(is_number, header)):
            problem = "the same number stands for several columns: the file seems to have no header."
            raise self.error(f"{problem} Add a line of names at the top.", line=1)
        self.refuse_repeated(header, line=1)

    def chunks(self, wanted: Wanted) -> Iterator[dict[str, Any]]:
        """Yield blocks of rows. Quotes are checked first, because pyarrow accepts invalid ones."""
        arrow, reader = self._arrow, require("pyarrow.csv", "data", f"Reading {self.format} files")
        types = dict.fromkeys(wanted.columns, arrow.string())
        size = max(BYTES_PER_BLOCK, 100 * len(self.columns))  # no row may be larger
        with self._opened() as file:
            if any(b'"' in block for block in iter(partial(file.read, BYTES_PER_BLOCK), b"")):
                _ = self._lines
        with self._opened() as file:
            try:
                for batch in reader.open_csv(
                    file,
                    reader.ReadOptions(use_threads=False, block_size=size),
                    reader.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                    reader.ConvertOptions(column_types=types, include_columns=list(types), null_values=[]),
                ):
                    yield {name: batch.column(name) for name in types}
            except arrow.ArrowInvalid as error:
                if len(self._lines) > 1:  # unless they complain, or there are none
                    raise self.error(f"not valid {self.format} ({error}).") from None

    def _rows(self, file: IO[bytes]) -> Iterator[tuple[int, list[str]]]:
        records = csv.reader((text for _, text in self._text(file)), delimiter=self._delimiter, strict=True)
        line, width = 1, 0
        try:
            for fields in records:
                width = width or len(fields)
                if fields and len(fields) != width:
                    remedy = f"A field that contains {_SEPARATORS[self._delimiter]} must be put in double quotes."
                    raise self.error(f"{len(fields)} fields, but the header has {width}.", remedy, line)
                if fields:
                    yield line, fields
                line = records.line_num + 1
        except csv.Error as error:
            remedy = "Check the quotes of the row that begins there."
            raise self.error(f"not valid {self.format} ({error}).", remedy, line) from None


class JsonLinesTable(_TextTable):
    """One JSON object per line."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "JSON lines")
        examples = dict[str, Any]()
        with self._opened() as file:
            for _, row in islice(self._rows(file), FIRST_ROWS):
                examples |= {name: value for name, value in row.items() if examples.get(name) is None}
        if not examples:
            raise self.error('the file is empty. It needs one JSON object a line, such as {"id": 1, "x": 0.5}.')
        for name, example in examples.items():
            is_list = isinstance(example, list) and all(isinstance(one, (int, float, type(None))) for one in example)
            kind = "list" if is_list else _KINDS.get(type(example), "other")
            self.columns[name] = Column(name, kind, example=example)

    def chunks(self, wanted: Wanted) -> Iterator[dict[str, Any]]:
        """Yield blocks of rows, read by the standard library if pyarrow fails or might read them differently."""
        line = 0
        with self._opened() as file:
            while block := file.read(BYTES_PER_BLOCK) + file.readline():
                try:
                    values = self._by_pyarrow(block, wanted)
                except (ValueError, KeyError):  # of pyarrow, or of UTF-8; a column that no row of the block has
                    rows = list(self._rows(io.BytesIO(block), line + 1))
                    for number, row in rows:
                        for name in self._late(row, wanted):
                            remedy = "Give it to all rows, or name the features ({columns})."
                            raise self.error(
                                f"has {name!r}, which the rows before do not have.", remedy, number
                            ) from None
                    values = {name: [row.get(name) for _, row in rows] for name in wanted.columns}
                yield values
                line += block.count(b"\n")

    def _late(self, names: Iterable[str], wanted: Wanted) -> list[str]:
        """Columns that appear only now, and should not."""
        new = [name for name in names if name not in self.columns]
        return [name for name in new if not any(fnmatchcase(name, pattern) for pattern in wanted.late)]

    def _by_pyarrow(self, block: bytes, wanted: Wanted) -> dict[str, Any]:
        reader = require("pyarrow.json", "data", f"Reading {self.format} files")
        _ = block.isascii() or block.decode()
        table = reader.read_json(self._arrow.BufferReader(block), reader.ReadOptions(block_size=len(block) + 1))
        values = {name: values_of(table.column(name).combine_chunks()) for name in wanted.columns}
        types = {name: type_of(table.column(name).type) for name in wanted.columns}
        is_exact = all(types[name][0] == "text" or types[name][1].kind in "bi" for name in wanted.names)
        is_known = all(kind != "other" for kind, _ in types.values()) and not self._late(table.column_names, wanted)
        is_line_each = table.num_rows == block.strip().count(b"\n") + 1
        if not (is_exact and is_known and is_line_each and all(are_finite(values[name]) for name in wanted.numbers)):
            raise ValueError
        return values

    def _rows(self, file: IO[bytes], first: int = 1) -> Iterator[tuple[int, dict[str, Any]]]:
        for line, text in self._text(file, first):
            if text.isspace():
                continue
            try:
                row = json.loads(text.rstrip())
            except json.JSONDecodeError as error:
                problem = f"not JSON ({error.msg} at character {error.colno}): {shown(text.strip())}"
                raise self.error(f"{problem}. Write one JSON object a line.", line=line) from None
            except (ValueError, RecursionError) as error:  # a number of thousands of digits; thousands of brackets
                raise self.error(f"cannot be read as JSON ({error}).", line=line) from None
            if not isinstance(row, dict):
                remedy = 'Write one object a line, such as {{"id": 1, "x": 0.5}}.'
                raise self.error(f"{shown(row)} is not a JSON object.", remedy, line)
            yield line, row


class StandardInput(JsonLinesTable):
    """JSON lines from standard input."""

    def __init__(self) -> None:
        super().__init__(Path("standard input"))

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        with standard_input().open("rb") as file:
            yield file


class ArrayTable(Table):
    """Vectors (columns of numbers) and matrices (of lists) of an npz file, or the "array" of an npy file.

    Beside an npy file, which has no other columns, a column may be an npy file of its own, called by its path.
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
        self._beside = dict[str, Path]()  # columns in files of their own
        self.columns = {name: _array_column(name, *header) for name, header in self.shapes.items()}

    def column(self, name: str, what: str, remedy: str = "") -> Column:
        """Return a column by name, or by the path of an npy file beside this one."""
        path = Path(name)
        if self.format == "npy" and name not in self.columns and path.suffix.lower() == ".npy" and path.is_file():
            with reading(path, BROKEN, self.format):
                self.shapes[name] = array_headers(path)["array"]
            self.columns[name], self._beside[name] = _array_column(name, *self.shapes[name]), path
        if self.format == "npy" and name not in self.columns and not self._named:
            problem = f"{self.path}: there is no {f'column {what}'.strip()} {name!r}: an .npy file is one array."
            if path.suffix.lower() == ".npy":
                problem = f"{self.path}: there is no {f'file {what}'.strip()} {name!r}."
            if what == "of vectors":
                raise NotThereError(f"{problem} Leave the name out.", remedy)
            raise NotThereError(problem, remedy or "Give the name of an .npy file with one value for each row.")
        return super().column(name, what, remedy)

    def name_columns(self, matrix: str, names: Sequence[str]) -> None:
        """Give names to the columns of a matrix, which then are columns of the table, beside the vectors."""
        self._named = dict(zip(names, self._array(matrix).T, strict=True))
        named = {name: Column(name, "number", values.dtype) for name, values in self._named.items()}
        beside = {name: column for name, column in self.columns.items() if column.kind in ("number", "text")}
        self.columns = named | beside | named

    def chunks(self, wanted: Wanted) -> Iterator[dict[str, Any]]:
        """Yield blocks of rows."""
        shapes = {name: self._shape(name) for name in wanted.columns}
        for name, (shape, _) in shapes.items():
            if not shape:
                raise self.error(f"{name!r} is one value, where one for each row is needed. Name another array.")
        if len({shape[0] for shape, _ in shapes.values()}) > 1:
            sizes = ", ".join(f"{name!r} has {shape[0]:,}" for name, (shape, _) in shapes.items())
            raise self.error(f"the arrays must have equally many rows, but {sizes}.")
        widest = max(math.prod(shape[1:]) * dtype.itemsize for shape, dtype in shapes.values())
        size = max(1, BYTES_PER_CHUNK // max(1, widest))
        with reading(self.path, BROKEN, self.format):
            for blocks in zip(*(self._blocks(name, size) for name in shapes), strict=True):
                yield {
                    name: block.astype(object) if block.dtype.kind == "U" else block
                    for name, block in zip(shapes, blocks, strict=True)
                }

    def _shape(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        if name in self._named:
            return self._named[name].shape, self._named[name].dtype
        self._refuse_objects(name)
        return self.shapes[name]

    def _blocks(self, name: str, size: int) -> Iterator[NDArray[Any]]:
        if name not in self._named:
            return array_blocks(self._beside.get(name, self.path), name, size)
        array = self._named[name]
        return (array[start : start + size] for start in range(0, max(1, len(array)), size))

    def _refuse_objects(self, name: str) -> None:
        if self.shapes[name][1].hasobject:
            problem = "holds Python objects, which are not loaded because loading them can run code."
            raise self.error(f"{problem} Save arrays of numbers or of text.")

    def _array(self, name: str) -> NDArray[Any]:
        self._refuse_objects(name)
        with reading(self.path, BROKEN, self.format):
            loaded = np.load(self.path, allow_pickle=False)
            if self.format == "npy":
                return whole_array(loaded)
            with loaded:
                return whole_array(loaded[name])


def _array_column(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Column:
    if dtype.kind in "biuf" and len(shape) in (1, 2):
        return Column(name, "number" if len(shape) == 1 else "list", dtype)
    return Column(name, "text" if dtype.kind == "U" and len(shape) == 1 else "other")


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

    def chunks(self, wanted: Wanted) -> Iterator[dict[str, Any]]:
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
        # Without pre_buffer: it fetches the columns of all row groups ahead. With a buffer: else all of a row group's
        # column is fetched, which may hold a million vectors.
        how = {"pre_buffer": False, "buffer_size": BYTES_PER_BLOCK}
        with reading(self.path, broken, self.format), parquet.ParquetFile(self.path, **how) as file:
            yield file


_csv, _tsv = partial(CsvTable, delimiter=","), partial(CsvTable, delimiter="\t")
_LINES: dict[str, Callable[[Path], Table]] = {
    ".csv": _csv,
    ".tsv": _tsv,
    ".jsonl": JsonLinesTable,
    ".ndjson": JsonLinesTable,
}
_FORMATS: dict[str, Callable[[Path], Table]] = {
    **{f"{suffix}{packed}": opened for suffix, opened in _LINES.items() for packed in ("", ".gz", ".zst")},
    ".parquet": ParquetTable,
    **{".npy": ArrayTable, ".npz": ArrayTable, ANSWERS: AnswerTable},
}
_REMEDIES = {
    ".json": " Write one object a line and call the file .jsonl.",
    ".txt": " If columns are separated by commas or tabs, call the file .csv or .tsv.",
    ".xlsx": " Save the sheet as CSV (UTF-8).",
    ".pq": " Call Parquet files .parquet.",
}


def open_tables(source: FilePaths) -> TableSet[Table]:
    """Open a file, several files, or the files of a pattern such as ``"points/*.parquet"``, sorted by name."""
    return TableSet([_open(path) for path in files_of(source)])


def files_of(source: FilePaths) -> list[Path]:
    """Paths of a file, several files, or the files of a pattern, sorted by name; "-" is standard input."""
    files: list[Path] = []
    sources = [source] if isinstance(source, (str, os.PathLike)) else source
    if addresses := [one for one in sources if isinstance(one, str) and "://" in one]:
        raise TableError(f"{addresses[0]} is an address. Download the file, and give its name.")
    for path in map(Path, sources):
        found = [path]
        if not path.exists() and glob.has_magic(str(path)):
            found = sorted(map(Path, glob.glob(str(path), recursive=True)))  # noqa: PTH207, a pattern may be absolute
        if not found:
            raise TableNotFoundError(f"{path}: no file has a name like this. Check the pattern, and the folder.")
        files += found
    if not files:
        raise TableError("No file is given: at least one is needed.")
    return files


def size_of(source: FilePaths) -> int:
    """Size of files in bytes."""
    paths = (standard_input() if str(path) == NAME else path for path in files_of(source))
    return sum(path.stat().st_size for path in paths if path.exists())


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
    if str(path) == NAME:
        return StandardInput()
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
