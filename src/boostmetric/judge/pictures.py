"""The pictures of the points: found once, in one folder, from which nothing else is ever read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from boostmetric.arrays.errors import plural, shown

MEDIA_TYPES = {
    ".avif": "image/avif",
    ".bmp": "image/bmp",
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
}
"""Media types by suffix. SVG is not among them: it can hold scripts."""

_LARGEST = 20 * 2**20  # bytes; a larger file is no picture for a page


class PictureError(ValueError):
    """Pictures are missing or cannot be shown; the message names them."""


def find_pictures(folder: Path, names: Sequence[str], what: str = "id") -> list[Path]:
    """Find the picture of each point.

    Parameters
    ----------
    folder : Path
    names : sequence of str
        Path of each picture within the folder, with or without its suffix.
    what : str
        What the names are, for messages.

    Returns
    -------
    list of Path
        Resolved paths, all of them in the folder.

    Raises
    ------
    PictureError
        If a picture is missing, leads out of the folder, or is no picture.
    """
    root = folder.resolve()
    if not root.is_dir():
        raise PictureError(f"{folder} is no folder of pictures. Check the path.")
    known: dict[str, list[Path]] = {}
    for path in sorted(root.rglob("*")):
        if path.suffix.lower() in MEDIA_TYPES and path.is_file():
            inside = path.relative_to(root).as_posix()
            for name in {inside, inside[: -len(path.suffix)]}:
                known.setdefault(name, []).append(path)
    found: list[Path] = []
    missing: list[str] = []
    for name in names:
        there = known.get(name, [])
        if len(there) > 1 and not name.lower().endswith(tuple(MEDIA_TYPES)):
            files = ", ".join(path.name for path in there)
            raise PictureError(f"{folder}: there are several pictures of {shown(name)} ({files}). Keep one of them.")
        if not there:
            missing.append(name)
            continue
        found.append(_checked(there[0], root))
    if missing:
        raise PictureError(
            f"{folder}: there is no picture of {plural(len(missing), 'point')} of {len(names):,}, the first "
            f"{shown(missing[0])}. Pictures are called after the {what} ({', '.join(sorted(MEDIA_TYPES))}); name "
            "another column of names with --image."
        )
    return found


def _checked(path: Path, root: Path) -> Path:
    target = path.resolve()
    if not target.is_relative_to(root):
        raise PictureError(f"{path} leads out of the folder {root}. Copy the picture into it.")
    if target.stat().st_size > _LARGEST:
        raise PictureError(f"{path} has more than {_LARGEST // 2**20} MB. Make the picture smaller.")
    return target
