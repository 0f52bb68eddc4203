"""Errors in files, with their place and remedy."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from boostmetric.arrays.errors import NamesParameters, listed, literal

# Of each kind of complaint, so that a wrong column of a million rows is one short message.
_MOST_SHOWN = 5


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
    """Errors in rows, collected while a file is read and raised together.

    Errors with the same remedy are of one kind. The message shows the first few of each kind, and counts the others.
    """

    def __init__(self, location: Callable[[int, str | None], str]) -> None:
        self._location = location
        self._shown: dict[str, list[str]] = {}
        self._counts = Counter[str]()

    def add(
        self,
        rows: Sequence[int] | NDArray[Any],
        problem: str | Callable[[int], str],
        remedy: str,
        column: str | None = None,
        element: int | None = None,
    ) -> None:
        """Add an error in some rows; `problem` may be a function of the index in `rows`."""
        if not len(rows):
            return
        self._counts[remedy] += len(rows)
        shown = self._shown.setdefault(remedy, [])
        for i, row in enumerate(rows[: _MOST_SHOWN - len(shown)]):
            where = self._location(int(row), column) + ("" if element is None else f", element {element}")
            shown.append(f"{where}: {problem if isinstance(problem, str) else problem(i)}")

    def raise_if_any(self) -> None:
        """Raise the collected errors."""
        parts = []
        for remedy, shown in self._shown.items():
            lines, hidden = list(map(literal, shown)), self._counts[remedy] - len(shown)
            if hidden:
                lines.append(f"... and {hidden:,} more like these")
            parts.append(f"{lines[0]}. {remedy}" if len(lines) == 1 else "\n".join([*lines, remedy]))
        if parts:
            raise TableError("", "\n".join(parts))


def missing_column(place: object, what: str, name: str, there: Collection[str], remedy: str = "") -> TableError:
    """Return the error for a missing column."""
    folded = {other.strip().casefold(): other for other in reversed(list(there))}
    close = difflib.get_close_matches(name.strip().casefold(), folded, n=1, cutoff=0.8)
    hint = f" Did you mean {folded[close[0]]!r}?" if close else ""
    return TableError(f"{place}: there is no {what} {name!r}.{hint} It has {listed(there, 20) or 'none'}.", remedy)


def refuse_repeated_columns(place: object, names: Sequence[str]) -> None:
    """Raise an error if columns have the same name."""
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise TableError(f"{place}: several columns are called {listed(twice)}. Rename them.")
