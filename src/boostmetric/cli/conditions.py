"""Conditions on columns, as in ``--where split=0``, that choose rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from boostmetric.tables import PointTable


@dataclass(frozen=True)
class Condition:
    """COLUMN=VALUE or COLUMN!=VALUE."""

    column: str
    value: str
    equal: bool

    def __str__(self) -> str:
        return f"{self.column}{'=' if self.equal else '!='}{self.value}"


def parse_conditions(texts: Iterable[str] | None, hint: str) -> tuple[Condition, ...]:
    """Parse conditions.

    Examples
    --------
    >>> from boostmetric.cli.conditions import parse_conditions
    >>> parse_conditions(["y!=150"], "--where")
    (Condition(column='y', value='150', equal=False),)
    """
    found = []
    for text in texts or ():
        left, sign, value = text.partition("=")
        column = left.removesuffix("!")
        if not sign or not column.strip():
            raise typer.BadParameter(f"{text!r} is not of the form COLUMN=VALUE or COLUMN!=VALUE.", param_hint=hint)
        found.append(Condition(column, value, equal=column == left))
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
        same = _rows_with(table, condition)
        mask &= same if condition.equal else ~same
    return mask


def _rows_with(table: "PointTable", condition: Condition) -> "NDArray[np.bool_]":
    import numpy as np

    from boostmetric.arrays.errors import listed
    from boostmetric.tables import TableError

    values = table.kept[condition.column]
    wanted: Any = condition.value
    if values.dtype.kind == "i":
        wanted = _whole(condition.value)
    same = np.zeros(len(values), dtype=bool) if wanted is None else np.asarray(values == wanted, dtype=bool)
    if not same.any():
        there = np.unique(values).tolist()
        raise TableError(
            f"{table.source}: no row has {condition.value!r} in column {condition.column!r} ({condition}). There are "
            f"{listed(there)}."
        )
    return same


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
