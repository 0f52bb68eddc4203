"""Values of a column as numbers, vectors, ids, classes or truth values, with a complaint for each that is none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.tables.complaints import Complaints, plural, shown
from boostmetric.tables.reading import Chunk, TableSet
from boostmetric.tables.text import is_blank, parse_number

# Whole numbers that are written in one way only, so that text and number can be told from each other: not 007, +7, -0.
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_VALUES_PER_CHECK = 2**20

Ids = NDArray[np.int64] | list[str]

_FIX_NUMBER = "Numbers are needed here: correct these values, remove these rows, or leave the column out."
_FIX_MISSING = "Fill in what is missing, or remove these rows."
_FIX_FINITE = "Only finite numbers can be used: correct these values, or remove these rows."
_FIX_LENGTH = "All vectors must have one length: correct or remove the others."
_FIX_VECTOR = "A list of numbers is needed here: correct these values, or name another column as vector."
_FIX_ID = "Ids are text or whole numbers: convert the column."
_FIX_CLASS = "Classes are text or whole numbers: convert the column."


class ColumnPart:
    """The values of one column in one chunk."""

    def __init__(self, table_set: TableSet, chunk: Chunk, column: str, complaints: Complaints) -> None:
        self._table_set, self._chunk, self._column, self._complaints = table_set, chunk, column, complaints
        values = chunk.values[column]
        self._values = values.tolist() if isinstance(values, np.ndarray) and values.dtype.kind == "U" else values

    def complain(self, offset: int, problem: str, remedy: str, *, element: int | None = None) -> None:
        """Note what is wrong with one value."""

        def place() -> str:
            where = self._table_set.location(self._chunk.row(offset), self._column)
            return where if element is None else f"{where}, element {element}"

        self._complaints.add(place, problem, remedy)

    def numbers(self) -> NDArray[Any]:
        """Finite numbers; 0 where there was a complaint."""
        numbers = self._quickly()
        if numbers is None:
            numbers = np.fromiter(
                (self._number(offset, value) for offset, value in enumerate(self._values)),
                dtype=np.float64,
                count=self._chunk.size,
            )
        for offset in np.flatnonzero(~np.isfinite(numbers)).tolist() if numbers.dtype.kind == "f" else ():
            self.complain(offset, f"{numbers[offset]} is not a finite number", _FIX_FINITE)
        return numbers

    def _quickly(self) -> NDArray[Any] | None:
        """All values at once, or None if they must be looked at one by one."""
        values = self._values
        if isinstance(values, np.ndarray):
            return values if values.ndim == 1 and values.dtype.kind in "biuf" else None
        try:
            if self._chunk.typed:
                return np.array(values, dtype=np.float64) if set(map(type, values)) <= {int, float, bool} else None
            if "_" in "".join(values):  # which Python takes in numbers
                return None
            return np.fromiter(map(float, values), dtype=np.float64, count=len(values))
        except (ValueError, OverflowError):
            return None

    def _number(self, offset: int, value: Any, *, element: int | None = None) -> float:
        if value is None or value == "":
            self.complain(offset, "no value", _FIX_MISSING, element=element)
            return 0.0
        try:
            if isinstance(value, (bool, int, float)):
                return float(value)
            number = None if self._chunk.typed else parse_number(value)  # text is a number in CSV only
        except OverflowError:
            number = None
        if number is None:
            self.complain(offset, f"{shown(value)} is not a number", _FIX_NUMBER, element=element)
        return number or 0.0

    def vectors(self, size: int | None) -> NDArray[Any]:
        """Rows of finite numbers, of the length of the first vector unless `size` says it."""
        rows = self._values
        if not (isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype.kind in "biuf"):
            rows = self._stacked(list(rows), size)
        elif size is not None and rows.shape[1] != size:
            self._complain_of_length(0, rows.shape[1], size)
            if len(rows) > 1:
                self._complaints.count(_FIX_LENGTH, len(rows) - 1)
            rows = np.zeros((len(rows), size))
        per_check = max(1, _VALUES_PER_CHECK // max(1, rows.shape[1]))
        for start in range(0, len(rows) if rows.dtype.kind == "f" else 0, per_check):
            finite = np.isfinite(rows[start : start + per_check])
            if not finite.all():
                for offset, element in np.argwhere(~finite).tolist():
                    value = rows[start + offset, element]
                    self.complain(start + offset, f"{value} is not a finite number", _FIX_FINITE, element=element)
        return rows

    def _stacked(self, rows: list[Any], size: int | None) -> NDArray[np.float64]:
        """Python lists as a matrix."""
        if size is None:
            size = next((len(row) for row in rows if isinstance(row, list)), 0)
        try:
            if all(type(row) is list and set(map(type, row)) <= {int, float, bool} for row in rows):
                stacked = np.array(rows, dtype=np.float64)
                if stacked.shape == (len(rows), size):
                    return stacked
        except (ValueError, OverflowError):
            pass
        stacked = np.zeros((len(rows), size))
        for offset, row in enumerate(rows):
            if is_blank(row):
                self.complain(offset, "no value", _FIX_MISSING)
            elif not isinstance(row, list):
                self.complain(offset, f"{shown(row)} is not a list of numbers", _FIX_VECTOR)
            elif len(row) != size:
                self._complain_of_length(offset, len(row), size)
            else:
                stacked[offset] = [self._number(offset, value, element=e) for e, value in enumerate(row)]
        return stacked

    def _complain_of_length(self, offset: int, found: int, expected: int) -> None:
        self.complain(offset, f"the vector has {plural(found, 'number')}, those before it have {expected}", _FIX_LENGTH)

    def ids(self) -> Ids:
        """Whole numbers if all are, otherwise text; empty text where there was a complaint."""
        return self._names("id", _FIX_ID, loose=False)

    def classes(self, *, blank: bool = False) -> Ids:
        """As `ids`, but 3.0 is taken as 3, and true and false as 1 and 0; `blank` allows rows without a value."""
        return self._names("class", _FIX_CLASS, loose=True, blank=blank)

    def _names(self, what: str, remedy: str, *, loose: bool, blank: bool = False) -> Ids:
        values = self._values
        if isinstance(values, np.ndarray):
            whole = values.ndim == 1 and values.dtype.kind in ("biu" if loose else "iu")
            if whole and not (values.size and values.max() > _LARGEST):
                return values.astype(np.int64)
            values = values.tolist()
        if not self._chunk.typed and all(map(_WHOLE.fullmatch, values)):
            return np.fromiter(map(int, values), dtype=np.int64, count=len(values))
        if set(map(type, values)) == {int} and min(values) >= _SMALLEST and max(values) <= _LARGEST:
            return np.array(values, dtype=np.int64)
        texts = [self._text(offset, value, what, remedy, loose, blank) for offset, value in enumerate(values)]
        if all(type(value) is not str for value in values) and all(map(_WHOLE.fullmatch, texts)):
            return np.fromiter(map(int, texts), dtype=np.int64, count=len(texts))
        return texts

    def _text(self, offset: int, value: Any, what: str, remedy: str, loose: bool, blank: bool) -> str:
        """The text that stands for an id or class."""
        if is_blank(value):
            if not blank:
                self.complain(offset, f"no {what}", _FIX_MISSING)
            return ""
        if isinstance(value, str):
            return value
        if loose and isinstance(value, (bool, float)) and float(value).is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        self.complain(offset, f"{shown(value)} cannot be {'an' if what == 'id' else 'a'} {what}", remedy)
        return ""

    def truths(self, words: dict[str, int], remedy: str) -> NDArray[np.int64]:
        """Numbers that words stand for; 1, 1.0 and True are all the word "1", and False is "0"."""
        known: dict[Any, int] = {}
        truths = np.zeros(self._chunk.size, dtype=np.int64)
        values = self._values.tolist() if isinstance(self._values, np.ndarray) else self._values
        for offset, value in enumerate(values):
            try:
                truths[offset] = known[value]
                continue
            except KeyError:
                pass
            except TypeError:  # a list, or another thing that cannot be looked up
                self.complain(offset, f"{shown(value)} is neither", remedy)
                continue
            word = str(value).strip().casefold()
            number = parse_number(word) if not isinstance(value, bool) else float(value)
            if number is not None:
                word = f"{number:g}"
            if is_blank(value):
                self.complain(offset, "no value", _FIX_MISSING)
            elif word not in words:
                self.complain(offset, f"{shown(value)} is neither", remedy)
            else:
                truths[offset] = known[value] = words[word]
        return truths


def joined(parts: Sequence[Ids]) -> Ids:
    """The ids or classes of all chunks: whole numbers if all are, otherwise text."""
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if len(arrays) == len(parts):
        return np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int64)
    texts: list[str] = []
    for part in parts:
        texts += as_texts(part)
    return texts


def as_texts(ids: Ids | NDArray[Any]) -> list[str]:
    """Ids as text."""
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
        return list(map(str, ids.tolist()))
    return list(ids)
