"""Checks of single parameters, with messages that show the value and what is allowed; and warnings."""

from __future__ import annotations

import math
import numbers
import reprlib
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import refusal
from boostmetric.arrays.tensors import as_numpy

_PACKAGE = str(Path(__file__).parents[1])


def check_count(name: str, value: object, *, alternative: str = "") -> None:
    """Raise an error unless `value` is a whole number of at least 1."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not 1 <= int(value) <= sys.maxsize:
        raise refusal(name, f"must be a whole number of at least 1{alternative}", value)


def check_number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    below: float = math.inf,
    at_most: float | None = None,
    alternative: str = "",
) -> None:
    """Raise an error unless `value` is a finite number of at least 0 (or above `above`), within the upper limit."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    large_enough = real and (value >= 0 if above is None else value > above)  # type: ignore[operator]
    small_enough = real and (value < below if at_most is None else value <= at_most)  # type: ignore[operator]
    if not (large_enough and small_enough):
        limits = "of at least 0" if above is None else f"above {above:g}"
        limits += "" if below == math.inf else f" and below {below:g}"
        limits += "" if at_most is None else f" and at most {at_most:g}"
        raise refusal(name, f"must be a finite number {limits}{alternative}", value)


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Raise an error unless `value` is one of the given strings."""
    if not isinstance(value, str) or value not in choices:
        raise refusal(name, f"must be one of {', '.join(map(repr, choices))}", value)


def check_flag(name: str, value: object, *, alternative: str = "") -> None:
    """Raise an error unless `value` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise refusal(name, f"must be True or False{alternative}", value)


def check_threads(name: str, value: object) -> None:
    """Raise an error unless `value` is None or a nonzero whole number."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if value is not None and not (whole and value != 0):
        raise refusal(name, "must be a whole number of threads, -1 for all processors, or None", value)


def checked(check: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Run one of scikit-learn's array checks, without its warning about summing infinities of both signs.

    The check first sums all numbers, and only then looks for those that are not finite, which it reports in its error.
    Tensors are copied to the host.
    """
    with np.errstate(invalid="ignore"):
        return check(*map(as_numpy, arguments), **options)


def as_numbers(name: str, values: Any) -> NDArray[np.float64]:
    """Convert real numbers to a float64 array, or raise an error. They need not be finite."""
    try:
        given = np.asarray(as_numpy(values))
        if given.dtype.kind not in "biufOUS":
            raise TypeError(f"their type is {given.dtype}")
        with np.errstate(over="ignore"):  # values of longer types that do not fit become infinite
            return given.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be numbers: {error}. Got {reprlib.repr(values)}.") from error


def as_list(name: str, values: Any, *, of: str = "") -> list[Any]:
    """Convert a list, tuple, array or other iterable to a list, or raise an error."""
    scalar = isinstance(values, np.ndarray) and values.ndim == 0
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable) or scalar:
        raise ValueError(f"{name} must be a list{of}. Got {reprlib.repr(values)}.")
    return list(values)


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn, pointing at the user's line: the innermost one outside this package and scikit-learn."""
    sklearn = sys.modules.get("sklearn")
    ours = (_PACKAGE, *(sklearn.__path__ if sklearn else ()))
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def n_dimensions(value: object) -> int:
    """Like `numpy.ndim`, but also accept rows of different lengths, which count as two-dimensional.

    Examples
    --------
    >>> from boostmetric.arrays.validation import n_dimensions
    >>> [n_dimensions(value) for value in (7, [7, 8], [[7, 8], [9]])]
    [0, 1, 2]
    """
    try:
        return np.ndim(value)  # type: ignore[arg-type]
    except ValueError:
        return 2
