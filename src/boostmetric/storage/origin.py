"""Where a model comes from: when, by which command and versions, and from which files."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = ("boostmetric", "numpy", "scipy", "scikit-learn", "numba")


def origin(
    *, command: str | None = None, tag: str | None = None, files: Iterable[dict[str, Any]] = ()
) -> dict[str, Any]:
    """Describe where a model comes from, for its file.

    Parameters
    ----------
    command : str, optional
        The command that made it.
    tag : str, optional
        What the user calls it.
    files : iterable of dict
        What it was learned from, as `file_record` describes files.

    Returns
    -------
    dict
        "date", in UTC; "tag" and "command"; "versions" of Python and packages; "files". If the environment has
        SOURCE_DATE_EPOCH, seconds since 1970, this is the date, so that the same data give the same bytes.
    """
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:  # run from its source
            continue
    return {
        "date": _now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        "tag": tag,
        "command": command,
        "versions": versions,
        "files": list(files),
    }


def file_record(path: str | Path, role: str, *, hashed: bool = True) -> dict[str, Any]:
    """Describe a file: its "name" as given, "role", number of "bytes", and "sha256", None if not `hashed`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from boostmetric.storage.origin import file_record
    >>> path = Path(tempfile.mkdtemp()) / "points.csv"
    >>> path.touch()
    >>> record = file_record(path, "points")
    >>> record["role"], record["bytes"], record["sha256"][:8]
    ('points', 0, 'e3b0c442')
    """
    path = Path(path)
    digest = None
    with path.open("rb") as file:
        if hashed:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"name": str(path), "role": role, "bytes": os.fstat(file.fileno()).st_size, "sha256": digest}


def in_words(record: Mapping[str, Any]) -> str:
    """A file of `file_record` as a line; a record from a model file may be anything."""
    size, digest = record.get("bytes"), record.get("sha256")
    parts = [str(record.get("role", "file")), f"{size:,} bytes" if isinstance(size, int) else "size unknown"]
    if digest is not None:
        parts.append(f"SHA-256 {str(digest)[:16]}...")
    return f"{record.get('name')} ({', '.join(parts)})"


def _now() -> datetime:
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    return datetime.fromtimestamp(int(given), UTC) if given.isdecimal() else datetime.now(UTC)
