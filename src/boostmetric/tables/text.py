"""CSV, TSV and JSON lines: blocks of rows, read by pyarrow, or else single rows, read by the standard library.

pyarrow is many times faster, but more lenient, and does not say where something is wrong. It gets the blocks of which
it makes just what the standard library would. From the first block on where that is in doubt, or a value is not as it
should be, rows are read one by one, so that complaints can name the line that an editor shows.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from abc import abstractmethod
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.optional import require
from boostmetric.tables.complaints import TableError, listed, reading, refuse_repeated_columns, shown
from boostmetric.tables.parquet import values_of
from boostmetric.tables.reading import Column, Table, Wanted
from boostmetric.tables.values import Values, are_finite, is_number

# Much less is slower, much more shows in the memory.
BYTES_PER_BLOCK = 2**20
VALUES_PER_CHUNK = 2**18
_KINDS: dict[type, Any] = {**dict.fromkeys((bool, int, float), "number"), **dict.fromkeys((str, type(None)), "text")}


class _TextTable(Table):
    """A table of lines."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._arrow = require("pyarrow", "data", f"Reading {self.format} files")

    def chunks(self, wanted: Wanted) -> Iterator[dict[str, Values]]:
        """By pyarrow as far as it goes, then by the standard library."""
        n_rows = 0
        try:
            for number, block in enumerate(self._blocks()):
                _ensure(not block.startswith(BOM_UTF8))
                _ensure(b"\r" not in block or block.count(b"\r") == block.count(b"\r\n"))
                _ = block.isascii() or block.decode()
                table = self._table(block, wanted, is_first=number == 0)
                values = {name: self._values(table.column(name).combine_chunks()) for name in wanted.columns}
                for name, column in values.items():
                    _ensure(are_finite(column) if name in wanted.numbers else isinstance(column, np.ndarray))
                yield values
                n_rows += table.num_rows
        except ValueError:  # of pyarrow, of UTF-8, or where there is any doubt
            yield from self._row_by_row(n_rows, wanted)

    @abstractmethod
    def _table(self, block: bytes, wanted: Wanted, *, is_first: bool) -> Any:
        """What pyarrow makes of a block."""

    def _values(self, column: Any) -> Values:
        return values_of(column)

    def _row_by_row(self, n_before: int, wanted: Wanted) -> Iterator[dict[str, Values]]:
        """The rows after some, by the standard library."""
        for rows in _portions(islice(self._rows(), n_before, None)):
            values: dict[str, Values] = {name: [row.get(name) for row in rows] for name in wanted.columns}
            for name in {*wanted.numbers} - {*wanted.names}:
                with suppress(ValueError, TypeError, OverflowError):  # what is to be looked at one by one
                    column = self._arrow.array(values[name])
                    converted = values_of(column if self.typed else column.cast("float64"))
                    values[name] = converted if are_finite(converted) else values[name]
            yield values

    @abstractmethod
    def _rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The line and the values of each row, by the standard library."""

    def location(self, row: int) -> str:
        """Where a row is found: by its line."""
        return f"{self.path}, line {self._lines[row]}"

    @cached_property
    def _lines(self) -> NDArray[np.int64]:
        """The line on which each row begins: the file is read again for it, which only messages need."""
        return np.fromiter((line for line, _ in self._rows()), dtype=np.int64)

    def _blocks(self) -> Iterator[bytes]:
        """The file, cut where rows end; an empty block if none does within many bytes."""
        rest = b""
        with self._opened() as file:
            file.seek(len(BOM_UTF8) if file.read(len(BOM_UTF8)) == BOM_UTF8 else 0)
            while more := file.read(BYTES_PER_BLOCK):
                block = rest + more
                end = self._end_of_rows(block) if len(more) == BYTES_PER_BLOCK else len(block)
                yield block[:end]
                rest = block[end:]
        if rest:
            yield rest

    def _end_of_rows(self, block: bytes) -> int:
        return block.rfind(b"\n") + 1

    def _text(self) -> Iterator[tuple[int, str]]:
        """The lines of the file, numbered from 1."""
        # Excel begins UTF-8 with a mark, which is not part of the first name.
        with self._opened() as file, io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline="") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    line.encode()
                except UnicodeEncodeError as error:
                    byte, before = ord(line[error.start]) - 0xDC00, len(line[: error.start].encode())
                    raise TableError(
                        f"{self.path}, line {number}: byte 0x{byte:02x} at position {before + 1} is not UTF-8 text. "
                        "Save the file as UTF-8."
                    ) from None
                yield number, line

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        opener: Any = gzip.open if self.path.suffix.lower() == ".gz" else open
        with reading(self.path, (gzip.BadGzipFile, EOFError, zlib.error), "gzip"), opener(self.path, "rb") as file:
            yield file


def _ensure(sure: bool) -> None:
    if not sure:
        raise ValueError


def _portions(rows: Iterator[tuple[int, dict[str, Any]]]) -> Iterator[list[dict[str, Any]]]:
    """Rows, so many at a time that they need little memory."""
    for _, first in rows:
        size = sum(len(value) if isinstance(value, list) else 1 for value in first.values())
        yield [first, *(row for _, row in islice(rows, VALUES_PER_CHUNK // max(1, size)))]


class CsvTable(_TextTable):
    """Comma-separated values (RFC 4180) with a header, or tab-separated ones."""

    typed = False

    def __init__(self, path: Path, *, delimiter: str) -> None:
        self._delimiter, self.format = delimiter, "CSV" if delimiter == "," else "TSV"
        super().__init__(path)
        records = self._records()
        _, header = next(records, (0, []))
        if not header:
            raise TableError(f"{path}: the file is empty. It needs a line of column names, and rows below it.")
        examples = [""] * len(header)
        for _, fields in islice(records, 1000):
            # A row of another length is refused later, with its line.
            examples = [known or field for known, field in zip_longest(examples, fields[: len(header)], fillvalue="")]
            if all(examples):
                break
        self._check_header(header)
        self.columns = {
            name: Column(name, "number" if is_number(example) else "text", example=example)
            for name, example in zip(header, examples, strict=True)
        }

    def _check_header(self, header: list[str]) -> None:
        refuse_repeated_columns(f"{self.path}, line 1", header)
        separators = {";": "semicolons", ",": "commas", "\t": "tabs"}
        for separator in ";\t" if self._delimiter == "," else ",;":
            if len(header) == 1 and separator in header[0]:
                raise TableError(
                    f"{self.path}, line 1: one column, {shown(header[0])}, which seems to be several separated by "
                    f"{separators[separator]}. Separate them by commas in .csv files, and by tabs in .tsv files."
                )
        counted = [str(number) for number in range(len(header))]  # what pandas writes for columns without names
        if header != counted and all(map(is_number, header)):
            raise TableError(
                f"{self.path}, line 1: numbers ({listed(header, 3)}) where the names of the columns should be. Add a "
                "line of names at the top, or save the matrix as .npy."
            )

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """The line and the fields of each record, the header first; blank lines are passed over."""
        records, line = csv.reader((text for _, text in self._text()), delimiter=self._delimiter, strict=True), 1
        try:
            for fields in records:
                if fields:
                    yield line, fields
                line = records.line_num + 1
        except csv.Error as error:
            raise TableError(
                f"{self.path}, line {line}: not valid {self.format} ({error}). Check the quotes of the row that begins "
                "there."
            ) from None

    def _rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for line, fields in islice(self._records(), 1, None):
            if len(fields) != len(self.columns):
                raise TableError(
                    f"{self.path}, line {line}: {len(fields)} fields, but the header has {len(self.columns)}. A field "
                    f"that contains {'a comma' if self._delimiter == ',' else 'a tab'} must be put in double quotes."
                )
            yield line, dict(zip(self.columns, fields, strict=True))

    def _end_of_rows(self, block: bytes) -> int:
        if b'"' not in block:
            return super()._end_of_rows(block)
        codes = np.frombuffer(block, dtype=np.uint8)
        ends = np.flatnonzero(codes == ord("\n"))
        outside = ends[np.searchsorted(np.flatnonzero(codes == ord('"')), ends) % 2 == 0]  # of quotes
        return int(outside[-1]) + 1 if len(outside) else 0

    def _table(self, block: bytes, wanted: Wanted, *, is_first: bool) -> Any:
        if b'"' in block:  # around fields, or two for one within: others are read differently, or refused
            codes = np.frombuffer(b"\n" + block + b"\n", dtype=np.uint8)
            quotes = np.flatnonzero(codes == ord('"'))
            beside = codes[np.concatenate([quotes[::2] - 1, quotes[1::2] + 1])]
            _ensure(len(quotes) % 2 == 0 and bool(np.isin(beside, list(f'{self._delimiter}\r\n"'.encode())).all()))
        arrow, reader = self._arrow, require("pyarrow.csv", "data", f"Reading {self.format} files")
        types = dict.fromkeys(wanted.numbers, arrow.float64()) | dict.fromkeys(wanted.names, arrow.string())
        return reader.read_csv(
            arrow.BufferReader(block),
            reader.ReadOptions(block_size=len(block) + 1, column_names=[] if is_first else list(self.columns)),
            reader.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            reader.ConvertOptions(column_types=types, include_columns=list(types), null_values=[]),
        )

    def _values(self, column: Any) -> Values:
        """Text that is whole numbers, all written in the one way, is these numbers."""
        with suppress(self._arrow.ArrowInvalid):
            if column.type == self._arrow.string() and len(column) and column[0].as_py().lstrip("-").isdigit():
                numbers = column.cast("int64")
                values = np.from_dlpack(numbers)
                if numbers.cast(column.type).equals(column) and -(10**18) < values.min() <= values.max() < 10**18:
                    return values
        return values_of(column)


class JsonLinesTable(_TextTable):
    """One JSON object a line."""

    format = "JSON lines"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.columns, examples = {}, dict[str, Any]()
        for row in next(_portions(self._records()), []):
            examples |= {name: value for name, value in row.items() if examples.get(name) is None}
        if not examples:
            raise TableError(
                f'{path}: the file is empty. It needs one JSON object a line, such as {{"id": 1, "x": 0.5}}.'
            )
        for name, example in examples.items():
            kind = _KINDS.get(type(example), "other")
            if isinstance(example, list) and all(isinstance(value, (int, float, type(None))) for value in example):
                kind = "list"
            self.columns[name] = Column(name, kind, example=example)

    def _rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, (line, row) in enumerate(self._records()):
            for name in row.keys() - self.columns.keys():
                self.late.setdefault(name, number)
            yield line, row

    def _records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The line and the object of each row; blank lines are passed over."""
        for line, text in self._text():
            if text.isspace():
                continue
            try:
                row = json.loads(text)
            except json.JSONDecodeError as error:
                problem = f"not JSON ({error.msg} at character {error.colno}): {shown(text.strip())}"
                raise TableError(f"{self.path}, line {line}: {problem}. Write one JSON object a line.") from None
            except (ValueError, RecursionError) as error:  # a number of thousands of digits; thousands of brackets
                raise TableError(f"{self.path}, line {line}: cannot be read as JSON ({error}).") from None
            if not isinstance(row, dict):
                raise TableError(
                    f"{self.path}, line {line}: {shown(row)} is not a JSON object. Write one object a line, such as "
                    '{"id": 1, "x": 0.5}.'
                )
            yield line, row

    def _table(self, block: bytes, wanted: Wanted, *, is_first: bool) -> Any:
        arrow, reader = self._arrow, require("pyarrow.json", "data", f"Reading {self.format} files")
        late = "error" if wanted.strict else "ignore"
        table = reader.read_json(
            arrow.BufferReader(block),
            reader.ReadOptions(block_size=len(block) + 1),
            reader.ParseOptions(arrow.schema(self._fields(wanted)), unexpected_field_behavior=late),
        )
        _ensure(table.num_rows == block.strip().count(b"\n") + 1)  # an object in each line
        return table

    def _fields(self, wanted: Wanted) -> Iterator[tuple[str, Any]]:
        """Columns with their types, by the examples: those of ids must be exact."""
        arrow, number = self._arrow, self._arrow.float64()
        exact = {bool: arrow.bool_(), int: arrow.int64(), str: arrow.string()}
        types = exact | {int: number, float: number, list: arrow.list_(number)}
        for name in self.columns if wanted.strict else wanted.columns:
            column, known = self.columns[name], exact if name in wanted.names else types
            _ensure(column.kind != "other" and type(column.example) in known)
            yield name, known[type(column.example)]
