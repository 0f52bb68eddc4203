"""CSV, TSV and JSON lines: text, read line by line, so that every complaint can name the line that an editor shows."""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from boostmetric.tables.complaints import TableError, listed, shown
from boostmetric.tables.reading import BYTES_PER_CHUNK, VALUES_PER_CHUNK, Chunk, Column, Table

# Narrower than Python's float, which also takes 1_000.
_NUMBER = re.compile(r" *[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|inf|infinity) *", re.IGNORECASE | re.ASCII)


class _Lines:
    """The line on which each row begins, kept as the rows where counting on from the last one goes wrong."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._lines: list[int] = []
        self._ahead: int | None = None  # of the last row

    def note(self, row: int, line: int) -> None:
        """The line of the next row; rows that were noted before are passed over."""
        if line - row != self._ahead and (not self._rows or row > self._rows[-1]):
            self._rows.append(row)
            self._lines.append(line)
        self._ahead = line - row

    def __getitem__(self, row: int) -> int:
        last = bisect_right(self._rows, row) - 1
        return self._lines[last] + row - self._rows[last]


class _TextTable(Table):
    """A table of lines."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._lines = _Lines()

    def location(self, row: int) -> str:
        return f"{self.path}, line {self._lines[row]}"

    @contextmanager
    def _opened(self) -> Iterator[TextIO]:
        """The file as text, with the errors that only reading shows."""
        opener: Any = gzip.open if self.path.suffix.lower() == ".gz" else open
        with self._errors((gzip.BadGzipFile, EOFError, zlib.error), "gzip"):
            try:
                # Excel begins UTF-8 with a mark, which is not part of the first name.
                with opener(self.path, "rt", encoding="utf-8-sig", newline="") as file:
                    yield file
            except UnicodeDecodeError:
                raise self._not_utf8(opener) from None  # which reads again, and may find that the file is broken

    def _not_utf8(self, opener: Any) -> TableError:
        """The error that names the first line that is not UTF-8: text is decoded by blocks, which know no lines."""
        with opener(self.path, "rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError as error:
                    return TableError(
                        f"{self.path}, line {number}: byte 0x{line[error.start]:02x} at position {error.start + 1} is "
                        "not UTF-8 text. Save the file as UTF-8."
                    )
        raise AssertionError("decoding failed, and does not when tried again")


class CsvTable(_TextTable):
    """Comma-separated values (RFC 4180) with a header, or tab-separated ones."""

    def __init__(self, path: Path, *, delimiter: str) -> None:
        super().__init__(path)
        self._delimiter = delimiter
        self.format = "CSV" if delimiter == "," else "TSV"
        header, examples = self._beginning()
        self._check_header(header)
        self.columns = {name: self._column(name, example) for name, example in zip(header, examples, strict=True)}

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Fields as text."""
        place = {name: number for number, name in enumerate(self.columns)}
        at = [place[name] for name in names]
        n_columns = len(self.columns)
        per_chunk = max(1, VALUES_PER_CHUNK // n_columns)
        start, rows = 0, list[list[str]]()
        for line, fields in self._records():
            if len(fields) != n_columns:
                raise TableError(
                    f"{self.path}, line {line}: {len(fields)} fields, but the header has {n_columns}. A field that "
                    f"contains {'a comma' if self._delimiter == ',' else 'a tab'} must be put in double quotes."
                )
            self._lines.note(start + len(rows), line)
            rows.append(fields)
            if len(rows) == per_chunk:
                yield self._chunk(start, rows, names, at)
                start, rows = start + len(rows), []
        if rows:
            yield self._chunk(start, rows, names, at)

    @staticmethod
    def _chunk(start: int, rows: list[list[str]], names: Sequence[str], at: list[int]) -> Chunk:
        columns = list(zip(*rows, strict=True))
        return Chunk(start, len(rows), {name: columns[c] for name, c in zip(names, at, strict=True)}, typed=False)

    def _records(self, *, header: bool = False) -> Iterator[tuple[int, list[str]]]:
        """Fields of each record with the line that it begins on; blank lines are passed over."""
        with self._opened() as file:
            reader = csv.reader(file, delimiter=self._delimiter, strict=True)
            before = 0
            try:
                for fields in reader:
                    line, before = before + 1, reader.line_num
                    if not fields:
                        continue
                    if header:
                        yield line, fields
                    header = True
            except csv.Error as error:
                raise TableError(
                    f"{self.path}, line {before + 1}: not valid {self.format} ({error}). Check the quotes of the row "
                    "that begins there."
                ) from None

    def _beginning(self) -> tuple[list[str], list[str]]:
        """The header, and the first text of each column among the first rows."""
        records = self._records(header=True)
        try:
            _, header = next(records, (0, []))
            if not header:
                raise TableError(f"{self.path}: the file is empty. It needs a line of column names, and rows below it.")
            examples = [""] * len(header)
            for _, (_, fields) in zip(range(1000), records, strict=False):
                examples = [known or field for known, field in zip(examples, fields, strict=False)]
                examples += [""] * (len(header) - len(examples))  # a short row is refused later, with its line
                if all(examples):
                    break
        finally:
            records.close()  # type: ignore[attr-defined]
        return header, examples

    def _check_header(self, header: list[str]) -> None:
        twice = {name for name in header if header.count(name) > 1} if len(set(header)) < len(header) else ()
        if twice:
            raise TableError(f"{self.path}, line 1: several columns are called {listed(sorted(twice))}. Rename them.")
        other = ";" if self._delimiter == "," else ","
        others = {";": "semicolons", ",": "commas", "\t": "tabs"}
        for separator in (other, "\t" if self._delimiter == "," else ";"):
            if len(header) == 1 and separator in header[0]:
                raise TableError(
                    f"{self.path}, line 1: one column, {shown(header[0])}, which seems to be several separated by "
                    f"{others[separator]}. Separate them by commas in .csv files, and by tabs in .tsv files."
                )
        counted = [str(number) for number in range(len(header))]  # what pandas writes for columns without names
        if header != counted and all(_NUMBER.fullmatch(name) for name in header):
            raise TableError(
                f"{self.path}, line 1: numbers ({listed(header, 3)}) where the names of the columns should be. Add a "
                "line of names at the top, or save the matrix as .npy."
            )

    @staticmethod
    def _column(name: str, example: str) -> Column:
        return Column(name, "number" if _NUMBER.fullmatch(example) else "text", example=example)


class JsonLinesTable(_TextTable):
    """One JSON object a line."""

    format = "JSON lines"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.columns = {}
        records = self._records()
        for start, chunk in records:
            examples: dict[str, Any] = {}
            for record in chunk:
                for name, value in record.items():
                    if examples.get(name) is None:
                        examples[name] = value
            self.columns = {name: self._column(name, example) for name, example in examples.items()}
            assert start == 0
            break
        records.close()  # type: ignore[attr-defined]
        if not self.columns:
            raise TableError(
                f'{path}: the file is empty. It needs one JSON object a line, such as {{"id": 1, "x": 0.5}}.'
            )

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Values as JSON has them, None where a line does not have the field."""
        known = self.columns.keys()
        for start, records in self._records():
            for row, record in enumerate(records, start):
                if not record.keys() <= known:
                    for name in record.keys() - known:
                        self.unexpected.setdefault(name, row)
            yield Chunk(start, len(records), {name: [record.get(name) for record in records] for name in names})

    def _records(self) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """Objects in chunks, with the number of those before."""
        start, length, records = 0, 0, list[dict[str, Any]]()
        with self._opened() as file:
            for line, text in enumerate(file, 1):
                if text.isspace():
                    continue
                self._lines.note(start + len(records), line)
                records.append(self._record(line, text))
                length += len(text)
                if length >= BYTES_PER_CHUNK or len(records) >= VALUES_PER_CHUNK // 8:
                    yield start, records
                    start, length, records = start + len(records), 0, []
        if records:
            yield start, records

    def _record(self, line: int, text: str) -> dict[str, Any]:
        try:
            record = json.loads(text)
        except json.JSONDecodeError as error:
            raise TableError(
                f"{self.path}, line {line}: not JSON ({error.msg} at character {error.colno}): {shown(text.strip())}. "
                "Write one JSON object a line."
            ) from None
        except (ValueError, RecursionError) as error:  # a number of thousands of digits; thousands of brackets
            raise TableError(f"{self.path}, line {line}: cannot be read as JSON ({error}).") from None
        if not isinstance(record, dict):
            raise TableError(
                f"{self.path}, line {line}: {shown(record)} is not a JSON object. Write one object a line, such as "
                '{"id": 1, "x": 0.5}.'
            )
        return record

    @staticmethod
    def _column(name: str, example: Any) -> Column:
        if isinstance(example, (bool, int, float)):
            return Column(name, "number", example=example)
        if isinstance(example, str) or example is None:
            return Column(name, "text", example=example)
        numbers = isinstance(example, list) and all(isinstance(value, (int, float, type(None))) for value in example)
        return Column(name, "list" if numbers else "other", example=example)


def parse_number(text: str) -> float | None:
    """A number as it is written in CSV, or None."""
    return float(text) if _NUMBER.fullmatch(text) else None


def is_blank(value: object) -> bool:
    """Whether there is no value: nothing in JSON or Parquet, an empty field in CSV, not a number in an array."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))
