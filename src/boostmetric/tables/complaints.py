"""Errors in files, with their place and remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from boostmetric.arrays.errors import NamesParameters, literal, shown
from boostmetric.arrays.identifiers import Identifiers, Ids

# Of each kind of complaint, so that a wrong column of a million rows is one short message.
_MOST_SHOWN = 5
Location = Callable[[int, str | None], str]  # of a row, and of a column if given
Problem = str | Callable[[int], str]
Rows = Sequence[int] | NDArray[Any]


class TableError(NamesParameters, ValueError):
    """Invalid file of points or comparisons. The message gives the place and the remedy.

    Parameters
    ----------
    problem : str
        What is wrong, and where.
    remedy : str, default=""
        What to do; fields such as ``{columns}`` name parameters.

    Examples
    --------
    >>> from boostmetric.tables import TableError, read_points
    >>> try:
    ...     read_points("points.xlsx")
    ... except TableError as error:
    ...     print(error)
    points.xlsx: there is no such file. Check the path; it is looked for in the current folder.
    """

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(" ".join(filter(None, (literal(problem), remedy))))
        self._parts = problem, remedy

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._parts


class OptionError(TableError):
    """Valid files, but something else was asked for than they hold."""


class NotThereError(OptionError):
    """A column that was asked for, or a value of it, is not there."""


class NoComparisonsError(TableError):
    """Valid file that gives no comparisons."""


class TableNotFoundError(TableError, FileNotFoundError):
    """File not found.

    Examples
    --------
    >>> from boostmetric.tables import TableNotFoundError
    >>> issubclass(TableNotFoundError, FileNotFoundError)
    True
    """


@contextmanager
def reading(path: Path, broken: tuple[type[Exception], ...] = (), kind: str = "") -> Iterator[None]:
    """Convert the errors of opening or reading a file, which may disappear at any time or be damaged."""
    try:
        yield
    except TableError:
        raise
    except (FileNotFoundError, NotADirectoryError):
        where = "" if path.is_absolute() else "; it is looked for in the current folder"
        raise TableNotFoundError(f"{path}: there is no such file. Check the path{where}.") from None
    except PermissionError:
        raise TableError(f"{path}: may not be read by this user. Change its permissions.") from None
    except broken as error:
        problem = f"{path}: not a whole {kind} file ({str(error).strip().rstrip('.')})."
        raise TableError(problem, "Write it again, or copy it again if it was copied.") from None


class Complaints:
    """Errors in rows, raised together: of each remedy, the first few are shown and the others are counted."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._shown: dict[str, list[str]] = {}
        self._counts = Counter[str]()

    def add(self, rows: Rows, problem: Problem, remedy: str, column: str | None, element: int | None = None) -> None:
        """Add an error in some rows; `problem` may be a function of the index in `rows`."""
        if not len(rows):
            return
        self._counts[remedy] += len(rows)
        first = self._shown.setdefault(remedy, [])
        for i, row in enumerate(rows[: _MOST_SHOWN - len(first)]):
            where = self._location(int(row), column) + ("" if element is None else f", element {element}")
            first.append(f"{where}: {problem if isinstance(problem, str) else problem(i)}")

    def raise_if_any(self) -> None:
        """Raise the collected errors."""
        parts = []
        for remedy, first in self._shown.items():
            lines, hidden = list(map(literal, first)), self._counts[remedy] - len(first)
            if hidden:
                lines.append(f"... and {hidden:,} more like these")
            parts.append(f"{lines[0]}. {remedy}" if len(lines) == 1 else "\n".join([*lines, remedy]))
        if parts:
            raise TableError("", "\n".join(parts))


def refuse(
    location: Location,
    rows: NDArray[Any],
    problem: Callable[[int], str],
    remedy: str = "Remove these rows.",
    column: str | None = None,
    others: NDArray[Any] | None = None,
) -> None:
    """Raise an error if there are `rows`; `others` are rows that they repeat or contradict, as the problem says."""
    complaints = Complaints(location)

    def told(i: int) -> str:
        return problem(int(rows[i])) + ("" if others is None else f" {location(int(others[i]), None)}")

    complaints.add(rows, told, remedy, column)
    complaints.raise_if_any()


def refuse_repeated_ids(location: Location, ids: Ids, rows: NDArray[Any], column: str | None) -> None:
    """Raise an error if an id, of the row of its place in `rows`, occurs twice."""
    first, again = Identifiers(ids).repeated()
    id_of = dict(zip(rows[again].tolist(), ids[again].tolist(), strict=True))
    remedy = "Each id must be there once: remove or rename the others."
    refuse(location, rows[again], lambda row: f"id {shown(id_of[row])} is also that of", remedy, column, rows[first])
