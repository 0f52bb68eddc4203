"""Parts of docstrings that learners share, and the decorator that fills them in."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import TypeVar

Class = TypeVar("Class", bound=type)

_OF_ALL_LEARNERS = {
    "callbacks": """
    callbacks : list, default=None
        Objects with a method ``on_iteration(record)`` that sees each `Iteration` and may return True to stop: see
        `boostmetric.callbacks`. Callbacks of scikit-learn's own protocol are set with ``set_callbacks``.
    """,
    "verbose": """
    verbose : int, default=0
        1 shows a progress bar on standard error.
    """,
    "components": """
    components_ : ndarray of shape (rank, n_features)
        The linear map L with X = L'L; rows are orthogonal, longest first.
    """,
    "about_the_fit": """
    stop_reason_ : StopReason
        Why the fit ended; ``str(stop_reason_)`` is a sentence.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the data had names.
    """,
}


def documenting(parts: Mapping[str, str]) -> Callable[[Class], Class]:
    """Return a decorator that fills shared parts into the docstring of a class, where it says ``%(name)s``.

    Parameters
    ----------
    parts : mapping of str to str
        Descriptions by name, in addition to those of all learners. ``@name`` in one stands for the default of the
        parameter of that name.
    """
    shared = {**_OF_ALL_LEARNERS, **parts}

    def documented(cls: Class) -> Class:
        defaults = inspect.signature(cls).parameters

        def default(match: re.Match[str]) -> str:
            return repr(defaults[match[1]].default).replace("'", '"')

        def part(match: re.Match[str]) -> str:
            return re.sub(r"@(\w+)", default, inspect.cleandoc(shared[match[1]]))

        cls.__doc__ = re.sub(r"%\((\w+)\)s", part, inspect.cleandoc(cls.__doc__ or ""))
        return cls

    return documented
