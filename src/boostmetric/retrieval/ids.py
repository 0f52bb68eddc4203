"""Ids of points: any hashable values, checked, put into arrays, and saved to files with their types."""

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

_NAMED = 5  # ids listed in a message


def as_ids(ids: Iterable[Hashable]) -> list[Hashable]:
    """Check that ids can be looked up and return them as a list; NumPy numbers and strings become Python ones."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise ValueError(f"ids must be a list, even for one id. Got {ids!r}.")
    names = [one.item() if isinstance(one, np.integer | np.floating | np.bool_ | np.str_) else one for one in ids]
    for one in names:
        try:
            hash(one)
            same = bool(one == one)
        except (TypeError, ValueError):
            same = False
        if not same:  # also NaN, which could never be looked up
            raise ValueError(f"An id must be hashable and equal to itself: a number, string or tuple. Got {one!r}.")
    return names


def as_array(ids: list[Hashable]) -> NDArray[Any]:
    """Ids as an array of int64 if all are integers of that size, else of objects."""
    if all(type(one) is int for one in ids):
        try:
            return np.array(ids, dtype=np.int64)
        except OverflowError:
            pass
    return np.fromiter(ids, dtype=object, count=len(ids))


def number_behind(ids: list[Hashable], number: int) -> int:
    """Smallest whole number that is above every number among the ids, and at least the given number."""
    finite = (one for one in ids if isinstance(one, int) or (isinstance(one, float) and math.isfinite(one)))
    return max([number, *(math.floor(one) + 1 for one in finite)])


def refuse_repeated(ids: list[Hashable]) -> None:
    """Refuse repeated ids, and name them."""
    repeated = [one for one, times in Counter(ids).items() if times > 1]
    if repeated:
        raise ValueError(f"Ids must be unique. Given more than once: {listed(repeated)}.")


def listed(ids: list[Hashable]) -> str:
    """First few ids, for a message."""
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return ", ".join(repr(one) for one in ids[:_NAMED]) + more


def packed(ids: list[Hashable], path: str | Path) -> dict[str, NDArray[Any]]:
    """Ids as an array to save; loading restores their types."""
    whole = as_array(ids)
    if whole.dtype != object:
        return {"ids": whole}
    for one in ids:
        wrong = _first_unknown(one)
        if wrong is not None:
            raise ValueError(
                f"The id {one!r} cannot be written to {str(path)!r}: {wrong.__qualname__} is none of int, str, float, "
                "bool, None, and tuples of these. Use such ids for the points."
            )
    return {"ids_json": np.frombuffer(json.dumps(ids).encode("ascii"), dtype=np.uint8)}


def _first_unknown(value: object) -> type | None:
    """First type that would not survive a round trip through JSON, or None."""
    if type(value) is tuple:
        return next(filter(None, map(_first_unknown, value)), None)
    return None if value is None or type(value) in (int, str, float, bool) else type(value)


def unpacked(file: TensorFile, n: int) -> list[Hashable]:
    """Ids from a file; the inverse of `packed`."""
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
