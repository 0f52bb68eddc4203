"""Packages that are not needed by everybody."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, extra: str, purpose: str) -> Any:
    """Import a package that comes with an extra, or say how to install it.

    Parameters
    ----------
    module : str
        As imported.
    extra : str
        Of this package: what to install.
    purpose : str
        What it is needed for, as the beginning of a sentence.

    Raises
    ------
    ImportError
        With the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise ImportError(
            f"{purpose} needs the package {name}, which is not installed. Install it: pip install 'boostmetric[{extra}]'"
        ) from error
