"""CSV, TSV and JSON lines, read by pyarrow in blocks; the standard library checks what pyarrow is lenient about."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import listed, shown
from boostmetric.optional import require
from boostmetric.tables.complaints import reading
from boostmetric.tables.reading import Column, Table, Values, Wanted, are_finite, is_number, type_of, values_of

# Much less is slower, much more shows in the memory: pyarrow reads some blocks ahead.
BYTES_PER_BLOCK = 2**20
# Rows in which a first value of each column is looked for.
FIRST_ROWS = 1000
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_KINDS = {bool: "number", int: "number", float: "number", str: "text", type(None): "text"}


class _TextTable(Table):
    """A table of lines."""

    _n_headers = 0  # of the rows

    def __init__(self, path: Path, format: str) -> None:
        super().__init__(path, format)
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
        opener: Any = gzip.open if self.path.suffix.lower() == ".gz" else open
        with reading(self.path, (gzip.BadGzipFile, EOFError, zlib.error), "gzip"), opener(self.path, "rb") as file:
            yield file


class CsvTable(_TextTable):
    """Comma-separated (RFC 4180) or tab-separated values with a header. All columns are read as text."""

    _n_headers = 1

    def __init__(self, path: Path, *, delimiter: str) -> None:
        super().__init__(path, "CSV" if delimiter == "," else "TSV")
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

    def _check_header(self, header: list[str]) -> None:
        if not header:
            raise self.error("the file is empty. It needs a line of column names, and rows below it.")
        self.refuse_repeated(header, line=1)
        others = [name for other, name in _SEPARATORS.items() if other in header[0] and other != self._delimiter]
        if len(header) == 1 and others:
            problem = f"one column, {shown(header[0])}, which seems to be several separated by {others[0]}."
            raise self.error(f"{problem} Separate them by commas in .csv files, and by tabs in .tsv files.", line=1)
        counted = [str(number) for number in range(len(header))]  # what pandas writes for columns without names
        if header != counted and all(map(is_number, header)):
            problem = f"numbers ({listed(header, 3)}) where the names of the columns should be."
            raise self.error(f"{problem} Add a line of names at the top, or save the matrix as .npy.", line=1)

    def chunks(self, wanted: Wanted) -> Iterator[dict[str, Values]]:
        """Yield blocks of rows. Quotes are checked first, because pyarrow accepts invalid ones."""
        arrow, reader = self._arrow, require("pyarrow.csv", "data", f"Reading {self.format} files")
        types = dict.fromkeys(wanted.columns, arrow.string())
        size = max(BYTES_PER_BLOCK, 100 * len(self.columns))  # no row may be larger
        with self._opened() as file:
            if any(b'"' in block for block in iter(partial(file.read, BYTES_PER_BLOCK), b"")):
                _ = self._lines
            file.seek(0)
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
                    problem = f"{len(fields)} fields, but the header has {width}. A field that contains"
                    delimiter = "a comma" if self._delimiter == "," else "a tab"
                    raise self.error(f"{problem} {delimiter} must be put in double quotes.", line=line)
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
            kind = _KINDS.get(type(example), "other")
            if isinstance(example, list) and all(isinstance(value, (int, float, type(None))) for value in example):
                kind = "list"
            self.columns[name] = Column(name, kind, example=example)

    def chunks(self, wanted: Wanted) -> Iterator[dict[str, Values]]:
        """Yield blocks of rows, read by the standard library if pyarrow fails or might read them differently."""
        line = n_rows = 0
        with self._opened() as file:
            while block := file.read(BYTES_PER_BLOCK) + file.readline():
                try:
                    values = self._by_pyarrow(block, wanted)
                except (ValueError, KeyError):  # of pyarrow, or of UTF-8; a column that no row of the block has
                    rows = [row for _, row in self._rows(io.BytesIO(block), line + 1)]
                    for number, row in enumerate(rows, n_rows):
                        for name in row.keys() - self.columns.keys():
                            self.late.setdefault(name, number)
                    values = {name: [row.get(name) for row in rows] for name in wanted.columns}
                yield values
                line += block.count(b"\n")
                n_rows += len(next(iter(values.values())))

    def _by_pyarrow(self, block: bytes, wanted: Wanted) -> dict[str, Values]:
        reader = require("pyarrow.json", "data", f"Reading {self.format} files")
        _ = block.isascii() or block.decode()
        table = reader.read_json(self._arrow.BufferReader(block), reader.ReadOptions(block_size=len(block) + 1))
        values = {name: values_of(table.column(name).combine_chunks()) for name in wanted.columns}
        types = {name: type_of(table.column(name).type) for name in wanted.columns}
        is_exact = all(types[name][0] == "text" or types[name][1].kind in "bi" for name in wanted.names)
        is_known = all(kind != "other" for kind, _ in types.values()) and (
            not wanted.strict or self.columns.keys() >= {*table.column_names}
        )
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
