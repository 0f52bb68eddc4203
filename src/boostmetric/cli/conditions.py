"""Conditions on columns, as in ``--where split=0``, that choose rows."""

import math
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from boostmetric.tables import PointTable

_ORDERS: dict[str, Any] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True)
class Condition:
    """COLUMN=VALUE, COLUMN!=VALUE, or a number after <, <=, > or >=."""

    column: str
    value: str
    sign: str = "="

    def __str__(self) -> str:
        return f"{self.column}{self.sign}{self.value}"


def parse_conditions(texts: Iterable[str] | None, hint: str) -> tuple[Condition, ...]:
    """Parse conditions.

    Examples
    --------
    >>> from boostmetric.cli.conditions import parse_conditions
    >>> parse_conditions(["y!=150"], "--where")
    (Condition(column='y', value='150', sign='!='),)
    """
    found = []
    for text in texts or ():
        parts = re.fullmatch(r"(\s*[^\s=<>!].*?)(!=|<=|>=|=|<|>)(.*)", text, re.DOTALL)
        if parts is None:
            raise typer.BadParameter(
                f"{text!r} is not of the form COLUMN=VALUE, or with !=, <, <=, > or >= in place of =.", param_hint=hint
            )
        column, sign, value = parts.groups()
        if sign in _ORDERS and not _is_number(value):
            message = f"{text!r}: a number must follow {sign}. Text is compared with = and != only."
            raise typer.BadParameter(message, param_hint=hint)
        found.append(Condition(column, value, sign))
    return tuple(found)


def other_conditions(conditions: Sequence[Condition], instead: Sequence[Condition]) -> tuple[Condition, ...]:
    """The conditions `instead`, and those `conditions` on columns that `instead` does not name."""
    named = {condition.column for condition in instead}
    return (*instead, *(condition for condition in conditions if condition.column not in named))


def rows_where(table: "PointTable", conditions: Sequence[Condition]) -> "NDArray[np.bool_]":
    """Mask of the rows that satisfy all conditions.

    Text is compared as text and whole numbers as numbers. A value that no row has is an error: it is most often
    misspelt.
    """
    import numpy as np

    mask = np.ones(len(table), dtype=bool)
    for condition in conditions:
        if condition.sign in _ORDERS:
            mask &= _rows_in_order(table, condition)
        else:
            same = _rows_with(table, condition)
            mask &= same if condition.sign == "=" else ~same
    return mask


def _rows_in_order(table: "PointTable", condition: Condition) -> "NDArray[np.bool_]":
    import numpy as np

    from boostmetric.arrays.errors import shown
    from boostmetric.tables.complaints import OptionError

    values = table.kept[condition.column]
    if values.dtype == object:  # in CSV fractions are read as text
        texts = values.tolist()
        if (text := next((text for text in texts if not _is_number(text)), None)) is not None:
            raise OptionError(
                f"{table.source}: column {condition.column!r} has {shown(text)}, which is not a number, so "
                f"{condition} cannot be decided. Use = or !=."
            )
        values = np.array(list(map(float, texts)))
    return np.asarray(_ORDERS[condition.sign](values, float(condition.value)), dtype=bool)


def _rows_with(table: "PointTable", condition: Condition) -> "NDArray[np.bool_]":
    import numpy as np

    from boostmetric.arrays.errors import listed
    from boostmetric.tables.complaints import NotThereError

    values = table.kept[condition.column]
    wanted: Any = condition.value
    if values.dtype.kind == "i":
        wanted = _whole(condition.value)
    same = np.zeros(len(values), dtype=bool) if wanted is None else np.asarray(values == wanted, dtype=bool)
    if not same.any():
        there = np.unique(values).tolist()
        raise NotThereError(
            f"{table.source}: no row has {condition.value!r} in column {condition.column!r} ({condition}). There are "
            f"{listed(there)}."
        )
    return same


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


def _whole(text: str) -> int | None:
    """A text such as 3 or 3.0 as a whole number; None if it is not one."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() else None
