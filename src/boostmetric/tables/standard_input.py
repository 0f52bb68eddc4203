"""Standard input as a file of JSON lines, which can be read several times."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import IO

NAME = "-"
"""What stands for standard input where the name of a file is asked for."""


def standard_input() -> Path:
    """A temporary file with all of standard input, which is read to its end when this is first called."""
    return _kept(sys.stdin.buffer)


@lru_cache(maxsize=1)
def _kept(stream: IO[bytes]) -> Path:
    handle, name = tempfile.mkstemp(prefix="boostmetric-", suffix=".jsonl")
    atexit.register(Path(name).unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as file:
        shutil.copyfileobj(stream, file)
    return Path(name)
