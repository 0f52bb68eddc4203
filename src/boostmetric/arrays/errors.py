"""Errors that know which parameters they are about, so that a command line can name its options instead."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Any


class NamesParameters(Exception):  # noqa: N818 - mixed into errors
    """Mixed into an error: its message names parameters, and can name them otherwise.

    Parameters
    ----------
    text : str
        The message as a format string. A field that is not among `values`, such as ``{n_neighbors}``, names a
        parameter.
    **values
        The other fields.

    Attributes
    ----------
    parameters : tuple of str
        The parameters that the message names.

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
        """The message, with other names for parameters."""
        return self._text.format(**self._values, **{name: names.get(name, name) for name in self.parameters})

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self._text, self._values)


def _rebuilt(kind: type[NamesParameters], text: str, values: dict[str, Any]) -> NamesParameters:
    return kind(text, **values)


class ParameterError(NamesParameters, ValueError):
    """A value that cannot be used."""


class MissingFileError(NamesParameters, FileNotFoundError):
    """A file that is not there."""


class NotEnoughMemoryError(NamesParameters, MemoryError):
    """Work that does not fit into memory."""


def literal(text: str) -> str:
    """A text as a part of a format string that stands for itself."""
    return text.replace("{", "{{").replace("}", "}}")


def refusal(name: str, rule: str, value: object) -> ParameterError:
    """The error about a parameter that is not as it must be.

    Parameters
    ----------
    name : str
    rule : str
        What it must be, such as "must be positive".
    value : object
        What was received.
    """
    subject = f"{{{name}}}" if name.isidentifier() else literal(name)
    return ParameterError(f"{subject} {{rule}}. Got {{value!r}}.", rule=rule, value=value)
