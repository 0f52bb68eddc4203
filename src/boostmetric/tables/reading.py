"""Tables of any format: columns known before the rows are read, and rows in chunks, which are converted."""

from __future__ import annotations

import difflib
import math
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import methodcaller
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import listed, literal, plural, shown
from boostmetric.arrays.identifiers import Ids
from boostmetric.optional import require
from boostmetric.tables.complaints import Complaints, NotThereError, TableError

# Numbers, with two axes for vectors; objects for text, none missing; a list of anything; of CSV, an array of pyarrow.
Values = Any

# Narrower than Python's float, which also takes 1_000.
_NUMBER = re.compile(r"[ \t]*[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|inf|infinity)[ \t]*", re.IGNORECASE | re.ASCII)

_FIX_NUMBER = "Numbers are needed here: correct these values, remove these rows, or leave the column out."
_FIX_MISSING = "Fill in what is missing, or remove these rows."
_FIX_FINITE = "Only finite numbers can be used: correct these values, or remove these rows."
_FIX_LENGTH = "All vectors must have one length: correct or remove the others."
_FIX_VECTOR = "A list of numbers is needed here: correct these values, or name another column as {vector}."
_FIX_NAME = "{} are text or whole numbers: convert the column."


class _Unusable(Exception):  # noqa: N818
    """Invalid value."""

    def __init__(self, problem: str, remedy: str = _FIX_MISSING) -> None:
        self.problem, self.remedy = problem, remedy


@dataclass(frozen=True)
class Chunk:
    """Rows of a table: their numbers, and values by column. Invalid ones become 0 or "", with a complaint."""

    rows: NDArray[np.int64]
    values: Mapping[str, Values]
    complaints: Complaints

    def numbers(self, name: str) -> NDArray[Any]:
        """Convert a column to finite numbers."""
        values = self._values(name, _parsed_numbers)
        if are_finite(values, 1):
            return values
        return np.fromiter(self._each(_number, values, name, 0.0), dtype=np.float64)

    def vectors(self, name: str, size: int | None = None) -> NDArray[Any]:
        """Convert a column of lists to rows of finite numbers; `size` is by default the length of the first."""
        values = self._values(name)
        if are_finite(values, 2) and size in (None, values.shape[1]):
            return values
        if size is None:
            size = next((len(vector) for vector in values if isinstance(vector, list | np.ndarray)), 0)
        vectors = np.zeros((len(values), size))
        for i, vector in enumerate(self._each(partial(_vector, size=size), values, name, ())):
            for element, value in enumerate(() if are_finite(values[i], 1) else vector):
                try:
                    vectors[i, element] = _number(value)
                except _Unusable as error:
                    self.complaints.add([self.rows[i]], error.problem, error.remedy, name, element)
        return vectors

    def ids(self, name: str) -> Ids:
        """Convert a column to whole numbers if all are, otherwise to text."""
        return self._names(name, "iu", partial(_name, what="id", remedy=_FIX_NAME.format("Ids")))

    def classes(self, name: str, *, blank: bool = False) -> Ids:
        """As `ids`, but 3.0 is 3, and true and false are 1 and 0; `blank` allows missing values and fractions."""
        return self._names(name, "biu", partial(_name, what="class", remedy=_FIX_NAME.format("Classes"), blank=blank))

    def marks(self, name: str, words: Mapping[str, int], remedy: str) -> NDArray[np.int64]:
        """Convert words to numbers; 1, 1.0 and "1" are the same word."""
        mark = partial(_mark, words=words, remedy=remedy)
        return np.fromiter(self._each(mark, self._values(name), name, 0), dtype=np.int64)

    def _names(self, name: str, whole: str, convert: Callable[[Any], int | str]) -> Ids:
        values = self._values(name, _whole_numbers_or_text)
        if isinstance(values, np.ndarray) and values.ndim == 1:
            if values.dtype.kind in whole and values.max() <= 2**63 - 1:
                return values.astype(np.int64)
            if values.dtype == object and (values != "").all():
                return values
        names = list(self._each(convert, values, name, ""))
        if all(type(value) is int and -(2**63) <= value < 2**63 for value in names):
            return np.array(names, dtype=np.int64)
        return np.array(list(map(str, names)), dtype=object)

    def _values(self, name: str, parse: Callable[[Any], Values] = methodcaller("to_pylist")) -> Values:
        values = self.values[name]
        return values if isinstance(values, np.ndarray | list) else parse(values)

    def _each(self, convert: Callable[[Any], Any], values: Values, name: str, otherwise: Any) -> Iterator[Any]:
        """Convert the values of a column one by one."""
        if isinstance(values, np.ndarray):  # of vectors one by one: they may be all of a large file
            values = values.tolist() if values.ndim == 1 else map(np.ndarray.tolist, values)
        for row, value in zip(self.rows, values, strict=True):
            try:
                yield convert(value)
            except _Unusable as error:
                self.complaints.add([row], error.problem, error.remedy, name)
                yield otherwise


def _parsed_numbers(texts: Any) -> Values:
    compute = require("pyarrow.compute", "data", "Reading CSV files")
    try:
        return np.from_dlpack(compute.ascii_trim(texts, " \t").cast("float64"))
    except ValueError:
        return [float(text) if is_number(text) else text for text in texts.to_pylist()]


def _whole_numbers_or_text(texts: Any) -> Ids:
    """Convert to whole numbers if all are written in the usual way: not 007, +7 or -0, which are other ids."""
    with suppress(ValueError):
        whole = texts.cast("int64")
        numbers = np.from_dlpack(whole)
        if whole.cast(texts.type).equals(texts) and -(10**18) < numbers.min() <= numbers.max() < 10**18:
            return numbers
    return np.array(texts.to_pylist(), dtype=object)


def type_of(kind: Any) -> tuple[str, np.dtype[Any]]:
    """Kind of the columns of a type of pyarrow, see `Column`, and the NumPy type of their numbers."""
    types, double = require("pyarrow", "data", "Reading Parquet files").types, np.dtype(np.float64)
    kind = getattr(kind, "storage_type", kind)  # of an extension, such as tensors of one shape
    kind = kind.value_type if hasattr(kind, "index_type") else kind  # of a dictionary
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    number = kind.value_type if is_list else kind
    is_decimal = types.is_decimal(number)
    if is_decimal or types.is_boolean(number) or types.is_integer(number) or types.is_floating(number):
        return "list" if is_list else "number", double if is_decimal else np.dtype(number.to_pandas_dtype())
    # By name: older versions of pyarrow do not know them all.
    return "text" if str(kind) in ("string", "large_string", "string_view", "null") else "other", double


def values_of(array: Any) -> Values:
    """Convert an array of pyarrow; not by to_numpy, which imports pandas if it is installed."""
    array = getattr(array, "storage", array)
    array = array.dictionary_decode() if hasattr(array, "dictionary") else array
    kind, dtype = type_of(array.type)
    flat = array.flatten() if kind == "list" else array
    if array.null_count or flat.null_count or kind in ("text", "other"):
        values = array.to_pylist()
        return np.array(values, dtype=object) if kind == "text" and not array.null_count else values
    numbers = np.from_dlpack(flat.cast("uint8" if dtype.kind == "b" else str(dtype))).astype(dtype, copy=False)
    if kind == "number":
        return numbers
    lengths = np.unique(np.from_dlpack(array.value_lengths()))
    return numbers.reshape(len(array), lengths[0]) if len(lengths) == 1 else array.to_pylist()


def _number(value: Any) -> float:
    if value is None or value == "":
        raise _Unusable("no value")
    if isinstance(value, (bool, int, float)):
        with suppress(OverflowError):
            if not math.isfinite(float(value)):
                raise _Unusable(f"{float(value)} is not a finite number", _FIX_FINITE)
            return float(value)
    raise _Unusable(f"{shown(value)} is not a number", _FIX_NUMBER)


def _vector(value: Any, size: int) -> list[Any]:
    if _is_blank(value):
        raise _Unusable("no value")
    if not isinstance(value, list):
        raise _Unusable(f"{shown(value)} is not a list of numbers", _FIX_VECTOR)
    if len(value) != size:
        raise _Unusable(f"the vector has {plural(len(value), 'number')}, those before it have {size}", _FIX_LENGTH)
    return value


def _name(value: Any, what: str, remedy: str, blank: bool = False) -> int | str:
    """Check that a value is a text or a whole number."""
    if _is_blank(value) and not blank:
        raise _Unusable(f"no {what}")
    if _is_blank(value):
        return ""
    if what == "class" and isinstance(value, (bool, float)) and float(value).is_integer():
        value = int(value)
    if blank and isinstance(value, float):
        return str(value)
    if not isinstance(value, str) and type(value) is not int:
        raise _Unusable(f"{shown(value)} cannot be {'an' if what == 'id' else 'a'} {what}", remedy)
    return value


def _mark(value: Any, words: Mapping[str, int], remedy: str) -> int:
    if (word := _word(str(value))) in words:
        return words[word]
    raise _Unusable("no value") if _is_blank(value) else _Unusable(f"{shown(value)} is not understood", remedy)


@lru_cache
def _word(text: str) -> str:
    word = text.strip().casefold()
    return f"{float(word):g}" if is_number(word) else word


def _is_blank(value: object) -> bool:
    """Whether a value is missing: null in JSON or Parquet, an empty field in CSV, NaN in an array."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def is_number(text: str) -> bool:
    """Whether a text is a number in CSV."""
    return _NUMBER.fullmatch(text) is not None


def are_finite(values: Any, n_axes: int | None = None) -> TypeGuard[NDArray[Any]]:
    """Whether this is an array of finite numbers. The sum is tested first, which needs no memory."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf" or n_axes not in (None, values.ndim):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum(dtype=np.float64)) or np.isfinite(values).all())


class Column(NamedTuple):
    """A column of a file: "number", "text", "list" (of numbers) or "other"; where types are unknown, by an example."""

    name: str
    kind: str
    dtype: np.dtype[Any] = np.dtype(np.float64)
    example: object = None


class Wanted(NamedTuple):
    """Columns to read as names or marks, and as numbers or vectors; `late` has patterns of those that may come late."""

    names: Sequence[str]
    numbers: Sequence[str] = ()
    late: Sequence[str] = ("*",)

    @property
    def columns(self) -> list[str]:
        """All columns, without repetition."""
        return list(dict.fromkeys([*self.numbers, *self.names]))


class Table(ABC):
    """One file with named columns."""

    n_rows: int | None = None  # None if that is known only after reading

    def __init__(self, path: Path, format: str) -> None:
        self.path, self.format = path, format
        self.columns: dict[str, Column] = {}  # in the order of the file

    @abstractmethod
    def chunks(self, wanted: Wanted) -> Iterator[dict[str, Values]]:
        """Yield the values of columns in chunks."""

    def location(self, row: int) -> str:
        """Location of a row, for a message: its number from 0, or its line in text."""
        return f"{self.path}, row {row} (counted from 0)"

    def column(self, name: str, what: str, remedy: str = "") -> Column:
        """Return a column by name; `what` is its purpose, for the error if it is missing."""
        if name in self.columns:
            return self.columns[name]
        folded = {other.strip().casefold(): other for other in reversed(self.columns)}
        close = difflib.get_close_matches(name.strip().casefold(), folded, n=1, cutoff=0.8)
        hint = f" Did you mean {folded[close[0]]!r}?" if close else ""
        has = listed(self.columns, 20) or "none"
        problem = f"{self.path}: there is no {f'column {what}'.strip()} {name!r}.{hint} It has {has}."
        raise NotThereError(problem, remedy)

    def refuse_repeated(self, names: Sequence[str], line: int | None = None) -> None:
        """Raise an error if columns have the same name."""
        if twice := sorted(name for name, count in Counter(names).items() if count > 1):
            raise self.error(f"several columns are called {listed(twice)}. Rename them.", line=line)

    def error(self, problem: str, remedy: str = "", line: int | None = None) -> TableError:
        """Return an error about this file, or about a line of it."""
        return TableError(f"{self.path}{'' if line is None else f', line {line}'}: {problem}".rstrip(), remedy)


T = TypeVar("T", bound=Table, covariant=True)


class TableSet(Generic[T]):
    """One or more files, read as one table; all must have the columns of the first."""

    def __init__(self, tables: Sequence[T]) -> None:
        self.tables, self.first = tables, tables[0]
        self.format = ", ".join(dict.fromkeys(table.format for table in tables))
        counts = [table.n_rows for table in tables if table.n_rows is not None]
        self.n_rows = sum(counts) if len(counts) == len(tables) else None  # None if not known before reading
        self._starts = [0]

    def __str__(self) -> str:
        more = len(self.tables) - 1
        return f"{self.first.path} and {plural(more, 'more file')}" if more else str(self.first.path)

    def chunks(self, wanted: Wanted) -> Iterator[Chunk]:
        """Yield chunks of all tables; at the end, raise the collected errors, or an error if there are no rows."""
        complaints, n = Complaints(self.location), 0
        self._starts = [n]
        for table in self.tables:
            for name in wanted.columns:
                table.column(name, "", "" if table is self.first else f"{literal(str(self.first.path))} has it.")
            for values in table.chunks(wanted):
                size = len(next(iter(values.values())))
                if size:
                    yield Chunk(np.arange(n, n + size), values, complaints)
                n += size
            self._starts.append(n)
        if not n:
            held = f" It has the columns {listed(self.first.columns)}." if self.first.columns else ""
            raise self.error(f"there are no rows.{held} At least one is needed.")
        complaints.raise_if_any()

    def location(self, row: int, column: str | None = None) -> str:
        """Location of a row, for a message: the file, the line or row number, and the column."""
        # Files without rows start where the next one does, which is the one that has the row.
        number = min(bisect_right(self._starts, row), len(self.tables)) - 1
        where = self.tables[number].location(row - self._starts[number])
        return where if column is None else f"{where}, column {column!r}"

    def error(self, problem: str, remedy: str = "", kind: type[TableError] = TableError) -> TableError:
        """Return an error about these files."""
        return kind(f"{self}: {problem}".rstrip(), remedy)
