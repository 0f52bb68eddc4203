"""Errors and warnings that know which parameters they name, so that the command line can show its own options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from string import Formatter
from typing import Any

_LONGEST_VALUE = 60


class NamesParameters(Exception):  # noqa: N818 - mixed into errors and warnings
    """Mixin for errors and warnings whose message names parameters and can be rendered with other names for them.

    Parameters
    ----------
    text : str
        Message as a format string. A field that is not in `values`, such as ``{n_neighbors}``, names a parameter.
    **values
        Values of the other fields.

    Attributes
    ----------
    parameters : tuple of str
        Parameters named in the message.

    Examples
    --------
    >>> from boostmetric.arrays.errors import ParameterError
    >>> error = ParameterError("{n_components}={value} is more than {n} features. Lower {n_components}.", value=9, n=4)
    >>> print(error)
    n_components=9 is more than 4 features. Lower n_components.
    >>> error.parameters
    ('n_components',)
    >>> print(error.told({"n_components": "--components"}))
    --components=9 is more than 4 features. Lower --components.
    """

    def __init__(self, text: str, **values: Any) -> None:
        fields = [name for _, name, _, _ in Formatter().parse(text) if name is not None]
        self.parameters = tuple(dict.fromkeys(name for name in fields if name not in values))
        self._text, self._values = text, values
        super().__init__(self.told({}))

    def told(self, names: Mapping[str, str]) -> str:
        """Render the message with other names for the parameters."""
        return self._text.format(**self._values, **{name: names.get(name, name) for name in self.parameters})

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self._text, self._values)


def _rebuilt(kind: type[NamesParameters], text: str, values: dict[str, Any]) -> NamesParameters:
    return kind(text, **values)


class ParameterError(NamesParameters, ValueError):
    """Invalid value of a parameter."""


class ParameterWarning(NamesParameters, UserWarning):
    """Warning whose remedy is another value of a parameter."""


class MissingFileError(NamesParameters, FileNotFoundError):
    """File not found."""


class NotEnoughMemoryError(NamesParameters, MemoryError):
    """Not enough memory for the requested work."""


def literal(text: str) -> str:
    """Escape braces so that `text` appears literally in a format string."""
    return text.replace("{", "{{").replace("}", "}}")


def refusal(name: str, rule: str, value: object) -> ParameterError:
    """Return the error for a parameter with an invalid value.

    Parameters
    ----------
    name : str
        Name of the parameter.
    rule : str
        What the value must satisfy, such as "must be positive".
    value : object
        Value that was received.
    """
    subject = f"{{{name}}}" if name.isidentifier() else literal(name)
    return ParameterError(f"{subject} {{rule}}. Got {{value!r}}.", rule=rule, value=value)


def shown(value: object) -> str:
    """Format a value for a message; long ones are cut."""
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 4]}...{text[-1]}"


def listed(names: Iterable[object], most: int = 10) -> str:
    """Format names for a message: the first ones, and their number."""
    names = list(names)
    text = ", ".join(map(shown, names[:most]))
    return text if len(names) <= most else f"{text}, ... ({len(names):,} in all)"


def plural(count: int, thing: str, things: str | None = None) -> str:
    """Format a count with its noun."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"
