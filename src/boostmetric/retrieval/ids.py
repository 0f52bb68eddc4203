"""What points are called: any hashable values, looked up, put into arrays, and kept in files with their types."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.storage.tensor_file import TensorFile

_NAMED = 5  # ids in a message


def as_ids(ids: Iterable[Hashable]) -> list[Hashable]:
    """A list of ids that can be looked up; numbers and texts of NumPy become those of Python."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise ValueError(f"ids must be a list, also for one id. Got {ids!r}.")
    names = [one.item() if isinstance(one, np.integer | np.floating | np.bool_ | np.str_) else one for one in ids]
    for one in names:
        try:
            hash(one)
            same = bool(one == one)
        except (TypeError, ValueError):
            same = False
        if not same:  # NaN too, which could never be found again
            raise ValueError(f"An id must be hashable and equal to itself: a number, a text, a tuple. Got {one!r}.")
    return names


def as_array(ids: list[Hashable]) -> NDArray[Any]:
    """Of int64 if all are integers of that size, else of objects."""
    if all(type(one) is int for one in ids):
        try:
            return np.array(ids, dtype=np.int64)
        except OverflowError:
            pass
    return np.fromiter(ids, dtype=object, count=len(ids))


def number_behind(ids: list[Hashable], number: int) -> int:
    """The first whole number that is larger than every number among the ids, and at least the given one."""
    finite = (one for one in ids if isinstance(one, int) or (isinstance(one, float) and math.isfinite(one)))
    return max([number, *(math.floor(one) + 1 for one in finite)])


def refuse_repeated(ids: list[Hashable]) -> None:
    """Raise an error that names the ids that are there twice."""
    repeated = [one for one, times in Counter(ids).items() if times > 1]
    if repeated:
        raise ValueError(f"Given more than once: {listed(repeated)}. An id is that of one point.")


def listed(ids: list[Hashable]) -> str:
    """The first few, for a message."""
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return ", ".join(repr(one) for one in ids[:_NAMED]) + more


def packed(ids: list[Hashable], path: str | Path) -> dict[str, NDArray[Any]]:
    """Ids as an array; their types come back."""
    whole = as_array(ids)
    if whole.dtype != object:
        return {"ids": whole}
    for one in ids:
        wrong = _first_unknown(one)
        if wrong is not None:
            raise ValueError(
                f"The id {one!r} cannot be written to {str(path)!r}: {wrong.__qualname__} is none of int, str, float, "
                "bool, None, and tuples of these. Add the points under such ids."
            )
    return {"ids_json": np.frombuffer(json.dumps(ids).encode("ascii"), dtype=np.uint8)}


def _first_unknown(value: object) -> type | None:
    """The first type that JSON would not give back."""
    if type(value) is tuple:
        return next(filter(None, map(_first_unknown, value)), None)
    return None if value is None or type(value) in (int, str, float, bool) else type(value)


def unpacked(file: TensorFile, n: int) -> list[Hashable]:
    """The way back."""
    if "ids" in file.tensors:
        whole: list[Hashable] = file.tensor("ids", (n,), ["int64"]).tolist()
        return whole
    try:
        listed = json.loads(file.tensor("ids_json", (None,), ["uint8"]).tobytes())
        ids = [_with_tuples(one) for one in listed]
        hash(tuple(ids))
    except (TypeError, ValueError, RecursionError) as error:
        raise file.error(f"its ids cannot be read ({error})") from error
    if len(ids) != n:
        raise file.error(f"it has {n} points and {len(ids)} ids")
    return ids


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value
