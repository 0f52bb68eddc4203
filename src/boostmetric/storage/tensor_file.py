"""Arrays in a file with metadata and a checksum: the format of all saved models and indexes.

The format is safetensors: a text header followed by the numbers, and nothing executable. The metadata have one entry,
``boostmetric``: JSON with the *kind* of the file, the layout version of that kind, a description of the arrays, and a
SHA-256 checksum over all of this and over the arrays with their names, types and shapes. safetensors itself has no
checksum, so a flipped bit in a matrix would go unnoticed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from boostmetric import __version__
from boostmetric.storage.files import replacing

FLOATS = ("float64", "float32", "float16")

_ENTRY = "boostmetric"
_A_FILE = {"model": "a model file", "index": "an index file", "tenants": "a file of tenants"}
_LOADERS = {
    "model": "boostmetric.MahalanobisMetric.load",
    "index": "boostmetric.retrieval.MetricIndex.load",
    "tenants": "boostmetric.tenants.TenantMetrics.load",
}


@dataclass(frozen=True)
class TensorFile:
    """Content of a file.

    Attributes
    ----------
    path : Path
    kind : str
    version : int
        Layout version of this kind.
    written_by : str
        Version of this library that wrote the file.
    tensors : dict of str to ndarray
    about : dict
        Description of the arrays, as JSON values.
    """

    path: Path
    kind: str
    version: int
    written_by: str
    tensors: dict[str, NDArray[Any]]
    about: dict[str, Any]

    def error(self, reason: str) -> ValueError:
        """Return the error for content that is not valid for this kind of file."""
        return _error(self.path, self.kind, reason)

    def tensor(self, name: str, shape: tuple[int | None, ...], dtypes: Collection[str] = FLOATS) -> NDArray[Any]:
        """Return the array `name`, checked for shape (None allows any length), type and, for floats, finiteness.

        Raises
        ------
        ValueError
            If it is missing or fails a check.
        """
        if name not in self.tensors:
            raise self.error(f"it has no tensor {name!r}, only {', '.join(sorted(self.tensors)) or 'none'}")
        found = self.tensors[name]
        if found.dtype.name not in dtypes:
            raise self.error(f"its tensor {name!r} has dtype {found.dtype.name}, not {' or '.join(dtypes)}")
        fits = len(found.shape) == len(shape)
        if not fits or any(size not in (None, length) for size, length in zip(shape, found.shape, strict=True)):
            wanted = str(shape).replace("None", "any")
            raise self.error(f"its tensor {name!r} has shape {found.shape}, not {wanted}")
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise self.error(f"its tensor {name!r} has NaN or infinite values")
        return found


def write_tensors(
    path: str | Path, kind: str, version: int, tensors: Mapping[str, NDArray[Any]], about: Mapping[str, Any]
) -> None:
    """Write arrays to a file atomically.

    Parameters
    ----------
    path : str or Path
        File to write; replaced if it exists.
    kind : {"model", "index", "tenants"}
    version : int
        Layout version of this kind, incremented when an older reader would misread a new file.
    tensors : mapping of str to ndarray
        Arrays of booleans, integers or real numbers.
    about : mapping
        Description of the arrays, as JSON values; no NaN, which JSON does not have.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from boostmetric.storage.tensor_file import read_tensors, write_tensors
    >>> path = Path(tempfile.mkdtemp()) / "one.safetensors"
    >>> write_tensors(path, "model", 1, {"components": np.eye(2)}, {"made_by": "hand"})
    >>> read_tensors(path, "model", 1).about
    {'made_by': 'hand'}
    """
    # Little-endian and C-contiguous: safetensors writes the bytes as they are in memory.
    plain = {name: np.ascontiguousarray(a, dtype=a.dtype.newbyteorder("<")) for name, a in tensors.items()}
    try:
        # Through JSON text, so that the checksum covers what the reader will see.
        head = json.loads(_text({"kind": kind, "version": version, "written_by": __version__, "about": dict(about)}))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"The description of the {kind} cannot be written to {str(path)!r} as JSON ({error}). Use strings, finite "
            "numbers, booleans, None, and lists and dictionaries of these."
        ) from error
    metadata = {_ENTRY: _text({**head, "sha256": _checksum(head, plain)})}
    with replacing(Path(path)) as temporary:
        save_file(plain, temporary, metadata)


def read_tensors(path: str | Path, kind: str, newest: int) -> TensorFile:
    """Read what `write_tensors` wrote, or say what is wrong with the file. No code in the file is executed.

    Parameters
    ----------
    path : str or Path
    kind : {"model", "index", "tenants"}
    newest : int
        Newest layout version understood; all from 1 on are.

    Returns
    -------
    TensorFile

    Raises
    ------
    FileNotFoundError
        If there is no file.
    ValueError
        If it is not a safetensors file, not from this library, of another kind, too new, or damaged.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no {kind} file {str(path)!r}.")
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder. Give the path of {_A_FILE[kind]}.")
    try:
        with safe_open(path, framework="np") as opened:
            metadata, names = opened.metadata() or {}, opened.keys()
            tensors = {name: opened.get_tensor(name) for name in names}
    except OSError:
        raise  # disk or permissions: the message says enough
    except Exception as error:  # anything that safetensors or NumPy may raise on bad bytes
        raise _error(path, kind, f"it is not a complete safetensors file: {error}") from error
    if _ENTRY not in metadata:
        raise _error(path, kind, f"it is a safetensors file, but its metadata have no entry {_ENTRY!r}")
    head = _head(path, kind, metadata[_ENTRY])
    if head.get("kind") != kind:
        loader = _LOADERS.get(str(head.get("kind")))
        raise _error(
            path, kind, f"it is of kind {head.get('kind')!r}" + (f", which {loader} reads" if loader else ""), hint=""
        )
    version = head.get("version")
    # Before the checksum, which other versions may compute differently.
    if type(version) is not int or not 1 <= version <= newest:
        raise _error(
            path,
            kind,
            f"its format has version {version!r}, but boostmetric {__version__} reads "
            + ("version 1" if newest == 1 else f"versions 1 to {newest}"),
            hint=" Install a newer boostmetric.",
        )
    written = head.pop("sha256", None)
    if written != _checksum(head, tensors):
        raise _error(path, kind, "its content does not match its checksum, so it has been changed or damaged")
    about, written_by = head.get("about"), head.get("written_by")
    if not isinstance(about, dict) or not isinstance(written_by, str):
        raise _error(path, kind, "its metadata lack a valid 'about' or 'written_by'")
    return TensorFile(path, kind, version, written_by, tensors, about)


def _head(path: Path, kind: str, text: str) -> dict[str, Any]:
    try:
        head = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _error(path, kind, f"its metadata are not JSON: {error}") from error
    if not isinstance(head, dict):
        raise _error(path, kind, f"its metadata are a {type(head).__name__}, not a dictionary")
    return head


def _text(value: object) -> str:
    """Canonical JSON, in ASCII."""
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))


def _checksum(head: dict[str, Any], tensors: Mapping[str, NDArray[Any]]) -> str:
    """Checksum of the content, independent of the order and spacing of the file."""
    names = sorted(tensors)
    shapes = [[name, tensors[name].dtype.name, list(tensors[name].shape)] for name in names]
    try:
        text = _text([head, shapes])
    except (ValueError, RecursionError):  # NaN, which we never write
        return ""
    digest = hashlib.sha256(text.encode("ascii"))
    for name in names:
        digest.update(np.ascontiguousarray(tensors[name]).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _error(path: Path, kind: str, reason: str, hint: str = " Write it again, or fetch it again.") -> ValueError:
    return ValueError(f"{str(path)!r} cannot be read as {_A_FILE[kind]} of boostmetric: {reason}.{hint}")
