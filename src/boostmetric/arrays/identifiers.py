"""Ids of points: joined, and looked up.

An id is its text: the whole number 7 in a Parquet file and the text "7" in a CSV file are the same id, and a table that
has both 7 and "7" has it twice. "007" and "7.0" are other ids. Whole numbers are kept as numbers where all ids of a
table are, which is smaller and quicker to look up.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import cached_property
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

# int64 if all are whole numbers, otherwise objects of text.
Ids = NDArray[Any]

# Comparing text letter by letter takes some microseconds an id.
_MOST_COMPARED = 20_000


class Identifiers:
    """Lookup of points by id, with one id per point."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids

    @cached_property
    def _ordered(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        order = np.argsort(self._ids, kind="stable")
        return order, self._ids[order]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        texts = as_texts(self._ids).tolist()
        return dict(zip(reversed(texts), range(len(texts) - 1, -1, -1), strict=True))  # the first of equal ones

    def find(self, ids: Ids) -> NDArray[np.int64]:
        """Return the number of the point with each id, or -1."""
        if not len(self._ids):
            return np.full(len(ids), -1)
        if self._ids.dtype.kind == ids.dtype.kind == "i":
            order, ordered = self._ordered
            place = np.minimum(np.searchsorted(ordered, ids), len(ordered) - 1)
            return np.where(ordered[place] == ids, order[place], -1)
        return np.fromiter(map(self._numbers.get, as_texts(ids).tolist(), repeat(-1)), dtype=np.int64, count=len(ids))

    def repeated(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the points whose id occurred before: the numbers of the first occurrences, and of the repetitions."""
        first = self.find(self._ids)
        again = np.flatnonzero(first != np.arange(len(first)))
        return first[again], again

    def closest(self, text: str) -> str | None:
        """Return the id that was probably meant: equal up to spaces, case and leading zeros, or similar."""
        texts, loose = as_texts(self._ids), _loosely(text)
        equal = (known for known in texts if _loosely(known) == loose)
        close = difflib.get_close_matches(text, texts, n=1, cutoff=0.75) if len(texts) <= _MOST_COMPARED else ()
        return next(chain(equal, close), None)


def _loosely(text: str) -> str:
    text = text.strip().casefold().removesuffix(".0")
    return text.lstrip("0") or text


def joined(parts: Sequence[Ids]) -> Ids:
    """Concatenate ids or classes: whole numbers if all are, otherwise text."""
    if any(part.dtype == object for part in parts):
        return np.concatenate(list(map(as_texts, parts)))
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def as_texts(ids: Ids) -> Ids:
    """Convert ids to text."""
    return ids if ids.dtype == object else ids.astype(str).astype(object)
