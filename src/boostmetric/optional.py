"""Import of optional packages."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, extra: str, purpose: str) -> Any:
    """Import a package that comes with an extra, or say how to install it.

    Parameters
    ----------
    module : str
        Name of the module to import.
    extra : str
        Extra of boostmetric that installs it.
    purpose : str
        What needs it: the subject of the error message.

    Raises
    ------
    ImportError
        If it is not installed. The message gives the command to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise ImportError(
            f"{purpose} needs the package {name}, which is not installed. Install it: "
            f"pip install 'boostmetric[{extra}]'"
        ) from error
