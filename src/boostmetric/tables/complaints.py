"""What is wrong with a file, said so that it can be found in an editor and put right."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# Of each kind of complaint, so that a wrong column of a million rows is one short message.
_MOST_SHOWN = 5
_LONGEST_VALUE = 60

Told = str | Callable[[], str]


class TableError(ValueError):
    """A file of points or comparisons that cannot be used, with the place and the remedy in its message.

    Examples
    --------
    >>> from boostmetric.tables import TableError, read_points
    >>> try:
    ...     read_points("points.xlsx")
    ... except TableError as error:
    ...     print(error)
    points.xlsx: there is no such file. Check the path; it is looked for in the current folder.
    """


class NoComparisonsError(TableError):
    """Nothing follows from what a file says, though nothing in it is wrong."""


class TableNotFoundError(TableError, FileNotFoundError):
    """There is no file of this name.

    Examples
    --------
    >>> from boostmetric.tables import TableNotFoundError
    >>> issubclass(TableNotFoundError, FileNotFoundError)
    True
    """


@contextmanager
def looking_for(path: Path) -> Iterator[None]:
    """Around all that opens a file: it may go away after it was looked for, and is then told of in the same words."""
    try:
        yield
    except TableError:
        raise
    except (FileNotFoundError, NotADirectoryError):
        where = "" if path.is_absolute() else "; it is looked for in the current folder"
        raise TableNotFoundError(f"{path}: there is no such file. Check the path{where}.") from None
    except PermissionError:
        raise TableError(f"{path}: may not be read by this user. Change its permissions.") from None


class Complaints:
    """Complaints about a file, collected while it is read and raised together.

    Of each kind, the first few are told with their places, and the number of the others. A kind is known by its
    remedy, which is told once.

    Examples
    --------
    >>> from boostmetric.tables.complaints import Complaints
    >>> complaints = Complaints()
    >>> complaints.add("points.csv, line 3, column 'price'", "'n/a' is not a number", "Correct it.")
    >>> complaints.raise_if_any()
    Traceback (most recent call last):
    boostmetric.tables.complaints.TableError: points.csv, line 3, column 'price': 'n/a' is not a number. Correct it.
    """

    def __init__(self) -> None:
        self._shown: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._counts)

    def add(self, place: Told, problem: Told, remedy: str) -> None:
        """Note one complaint; functions are called only if it will be shown, for there may be a million."""
        self.count(remedy, 1)
        shown = self._shown.setdefault(remedy, [])
        if len(shown) < _MOST_SHOWN:
            where, what = (told if isinstance(told, str) else told() for told in (place, problem))
            shown.append(f"{where}: {what}")

    def count(self, remedy: str, more: int) -> None:
        """Note complaints that are not shown."""
        self._counts[remedy] = self._counts.get(remedy, 0) + more

    def raise_if_any(self) -> None:
        """Raise what was collected."""
        if not self._counts:
            return
        parts = []
        for remedy, shown in self._shown.items():
            if self._counts[remedy] == 1:
                parts.append(f"{shown[0]}. {remedy}")
                continue
            hidden = self._counts[remedy] - len(shown)
            more = [f"... and {hidden:,} more like {'these' if len(shown) > 1 else 'this'}"] if hidden else []
            parts.append("\n".join([*shown, *more, remedy]))
        raise TableError("\n".join(parts))


def shown(value: object) -> str:
    """A value as a message shows it: cut if it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 4]}...{text[-1]}"


def listed(names: Iterable[object], most: int = 10) -> str:
    """Names for a message: the first ones, and how many there are."""
    names = list(names)
    text = ", ".join(map(shown, names[:most]))
    return text if len(names) <= most else f"{text}, ... ({len(names):,} in all)"


def plural(count: int, thing: str, things: str | None = None) -> str:
    """A count with its noun."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def missing_column(place: str, what: str, name: str, there: Sequence[str], remedy: str = "") -> TableError:
    """The error for a column that was asked for and is not there."""
    folded = {other.strip().casefold(): other for other in reversed(there)}
    close = difflib.get_close_matches(name.strip().casefold(), folded, n=1, cutoff=0.8)
    hint = f" Did you mean {folded[close[0]]!r}?" if close else ""
    return TableError(
        f"{place}: there is no {what} {name!r}.{hint} It has {listed(there, 20) if there else 'none'}.{remedy}"
    )
