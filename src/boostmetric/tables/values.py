"""Conversion of columns to numbers, vectors, ids, classes or marks, with a complaint about each invalid value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import plural, shown
from boostmetric.arrays.identifiers import Ids
from boostmetric.optional import require
from boostmetric.tables.complaints import Complaints

# Numbers, with two axes for vectors; objects for text, of which none is missing; otherwise a list of whatever there is.
# Of CSV, text that may be numbers, as pyarrow holds it.
Values = Any

# Narrower than Python's float, which also takes 1_000.
_NUMBER = re.compile(r"[ \t]*[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|inf|infinity)[ \t]*", re.IGNORECASE | re.ASCII)

_FIX_NUMBER = "Numbers are needed here: correct these values, remove these rows, or leave the column out."
_FIX_MISSING = "Fill in what is missing, or remove these rows."
_FIX_FINITE = "Only finite numbers can be used: correct these values, or remove these rows."
_FIX_LENGTH = "All vectors must have one length: correct or remove the others."
_FIX_VECTOR = "A list of numbers is needed here: correct these values, or name another column as {vector}."
_FIX_ID = "Ids are text or whole numbers: convert the column."
_FIX_CLASS = "Classes are text or whole numbers: convert the column."


def _texts(texts: Any) -> list[str]:
    return list(texts.to_pylist())


class _Unusable(Exception):  # noqa: N818
    """Invalid value."""

    def __init__(self, problem: str, remedy: str = _FIX_MISSING) -> None:
        self.problem, self.remedy = problem, remedy


@dataclass(frozen=True)
class Chunk:
    """Rows of a table: their numbers, and values by column.

    Invalid values are converted to 0 or an empty text, with a complaint.
    """

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
        return self._names(name, "iu", partial(_name, what="id", remedy=_FIX_ID))

    def classes(self, name: str, *, blank: bool = False) -> Ids:
        """As `ids`, but 3.0 is 3, and true and false are 1 and 0; `blank` allows missing values."""
        return self._names(name, "biu", partial(_name, what="class", remedy=_FIX_CLASS, blank=blank))

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

    def _values(self, name: str, parse: Callable[[Any], Values] = _texts) -> Values:
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
    if types.is_decimal(number):
        return "list" if is_list else "number", double
    if types.is_boolean(number) or types.is_integer(number) or types.is_floating(number):
        return "list" if is_list else "number", np.dtype(number.to_pandas_dtype())
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
        numbers = plural(len(value), "number")
        raise _Unusable(f"the vector has {numbers}, those before it have {size}", _FIX_LENGTH)
    return value


def _name(value: Any, what: str, remedy: str, blank: bool = False) -> int | str:
    """Check that a value is a text or a whole number."""
    if _is_blank(value):
        if not blank:
            raise _Unusable(f"no {what}")
        return ""
    if what == "class" and isinstance(value, (bool, float)) and float(value).is_integer():
        value = int(value)
    if not isinstance(value, str) and type(value) is not int:
        raise _Unusable(f"{shown(value)} cannot be {'an' if what == 'id' else 'a'} {what}", remedy)
    return value


def _mark(value: Any, words: Mapping[str, int], remedy: str) -> int:
    if (word := _word(str(value))) in words:
        return words[word]
    raise _Unusable("no value") if _is_blank(value) else _Unusable(f"{shown(value)} is neither", remedy)


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
