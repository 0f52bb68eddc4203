"""Download data sets into the user's cache: with a progress bar, verified by hash, and saved atomically."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
import warnings
from pathlib import Path
from typing import Any

from boostmetric.callbacks import Steps
from boostmetric.paper import archive
from boostmetric.paper.archive import AnyArray
from boostmetric.paper.sources import DataSource

_TIMEOUT = 30.0  # seconds without any byte
_CHUNK = 1 << 16
_LARGEST = 1 << 28  # bytes, twice the largest file: a server could send data without end


class DownloadError(RuntimeError):
    """No place had the data; the message names each place and what went wrong there."""


def cache_folder() -> Path:
    """Folder of downloaded sets: BOOSTMETRIC_CACHE, or ``boostmetric`` in XDG_CACHE_HOME or in ``~/.cache``."""
    if named := os.environ.get("BOOSTMETRIC_CACHE"):
        return Path(named).expanduser()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "boostmetric"


def cached_file(name: str) -> Path:
    """Path of a downloaded set in the cache."""
    return cache_folder() / f"{name}.npz"


def read_cached(name: str, source: DataSource) -> tuple[AnyArray, AnyArray] | None:
    """Read a set from the cache; None if it is missing or damaged."""
    try:
        X, y = archive.read(cached_file(name))
    except archive.UnusableFileError:
        return None
    return (X, y) if not differences_from(source, X, y) else None


def download(name: str, source: DataSource) -> tuple[AnyArray, AnyArray]:
    """Download a set from the first place that has the expected data, and save it in the cache.

    Parameters
    ----------
    name : str
        Name of the set, and of the file in the cache.
    source : DataSource

    Raises
    ------
    DownloadError
        If no place has the data. Then the cache is unchanged.
    """
    failures = []
    for urls in source.places:
        try:
            X, y = _from_place(name, source, urls)
        except DownloadError as failure:
            failures.append(str(failure))
            continue
        try:
            archive.write(cached_file(name), X, y)
        except OSError as error:
            warnings.warn(
                f"{name} was downloaded, but cannot be saved in {cache_folder()} ({error.strerror}), so it will be "
                "downloaded again next time. Set the environment variable BOOSTMETRIC_CACHE to a folder that can be "
                "written to.",
                stacklevel=2,
            )
        # The same types as from the cache next time, so that both give the same results.
        return X.astype("float32"), y.astype("int32")
    raise DownloadError("; ".join(failures))


def differences_from(source: DataSource, X: AnyArray, y: AnyArray) -> list[str]:
    """List how points and labels differ from those expected; empty if they hold the same numbers."""
    found = archive.differences(X, y, source.shape, source.n_classes)
    if not found and (sha256 := archive.content_hash(X, y)) != source.sha256:
        found.append(f"the SHA-256 of X and y is {sha256}, not {source.sha256}")
    return found


def _from_place(name: str, source: DataSource, urls: tuple[str, ...]) -> tuple[AnyArray, AnyArray]:
    files = [fetch(url, name) for url in urls]
    try:
        X, y = source.read(files)
    except Exception as error:
        # A reader can fail in many ways on a wrong file; they all mean the same.
        message = f"{urls[0]} sent an unexpected file ({type(error).__name__}: {error})"
        raise DownloadError(message) from error
    if found := differences_from(source, X, y):
        raise DownloadError(f"{urls[0]} sent unexpected data for {name!r}: {', '.join(found)}")
    return X, y


def fetch(url: str, label: str) -> bytes:
    """Download all bytes of a file, with a progress bar on standard error.

    Raises
    ------
    DownloadError
        If the server cannot be reached, refuses, or stops before the end.
    """
    try:
        with open_url(url) as response, Steps(f"Downloading {label}, kB", visible=True) as steps:
            stated = response.headers.get("Content-Length")
            received = bytearray()
            while chunk := response.read(_CHUNK):
                received += chunk
                steps.update(len(received) // 1000, int(stated or 0) // 1000)
                if len(received) > _LARGEST:
                    raise DownloadError(f"{url} sends more than {_LARGEST:,} bytes")
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it is also a response, whose connection would stay open
        raise DownloadError(f"{url} cannot be downloaded ({_reason(error)})") from error
    if stated and len(received) != int(stated):
        raise DownloadError(f"{url} cannot be downloaded (it ended after {len(received):,} of {int(stated):,} bytes)")
    return bytes(received)


def open_url(url: str) -> Any:
    """Response of a server, which the caller reads and closes."""
    # Some servers refuse Python's default user agent.
    request = urllib.request.Request(url, headers={"User-Agent": "boostmetric"})
    return urllib.request.urlopen(request, timeout=_TIMEOUT)


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    if isinstance(error, http.client.IncompleteRead):
        return f"it ended early, {error}"
    return str(error) or type(error).__name__
