"""Images of the paper's section 3.3: four classes of Caltech-101, from a folder, the cache, or their publisher.

A data folder holds them as ``images/motorbikes``, ``images/airplanes``, ``images/faces`` and
``images/background_google``. They are not part of this project.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePath, PurePosixPath

from boostmetric.paper.datasets import MissingDataError
from boostmetric.paper.download import DownloadError, cache_folder, fetch

CATEGORIES = {
    "motorbikes": "Motorbikes",
    "airplanes": "airplanes",
    "faces": "Faces",
    "background_google": "BACKGROUND_Google",
}
"""Our names of the classes, and the names of the publisher's folders."""

# California Institute of Technology: Li, Andreeto, Ranzato and Perona, Caltech 101 (2022), doi 10.22002/D1.20086.
URL = "https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip"
SHA256 = "331234750fc7f77520e50d9565e8b6907b03565e30320da1401130db08c61f91"
_INNER = "101_ObjectCategories.tar.gz"
_SUFFIX = ".jpg"


def find_pictures(category: str, data_dir: Path | None = None) -> list[Path]:
    """Find the image files of a class, sorted by name.

    Parameters
    ----------
    category : str
        One of `CATEGORIES`.
    data_dir : Path, optional
        Folder that holds a folder ``images``; by default the one in the environment variable BOOSTMETRIC_DATA.

    Raises
    ------
    MissingDataError
        If the images are not available; the message says how to get them.
    """
    own = own_folder(data_dir)
    if own is not None and (own / category).is_dir():
        return _files(own / category)
    kept = cached_pictures()
    if not (kept / category).is_dir():
        try:
            _download(kept)
        except (DownloadError, OSError) as error:
            tried = f"there is no folder {own / category}" if own else "no data folder was given"
            raise MissingDataError(
                f"The images {category!r} do not come with the package; {tried}, they are not in the cache, and the "
                f"download failed: {error}. Download {URL}, unpack {_INNER} in it, put the images of its folder "
                f"{CATEGORIES[category]} into a folder images/{category}, and pass the folder that holds images as "
                "--data-dir, or set the environment variable BOOSTMETRIC_DATA to it."
            ) from error
    return _files(kept / category)


def own_folder(data_dir: Path | None = None) -> Path | None:
    """The user's own folder of images; None without a data folder."""
    folder = data_dir or os.environ.get("BOOSTMETRIC_DATA")
    return Path(folder) / "images" if folder else None


def cached_pictures() -> Path:
    """Folder of downloaded images."""
    return cache_folder() / "caltech101"


def _files(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if _is_picture(path))
    if not files:
        raise MissingDataError(f"The folder {folder} holds no {_SUFFIX} files.")
    return files


def _is_picture(path: PurePath) -> bool:
    """Whether a name is that of a picture; names with a leading dot are files that some systems add."""
    return path.suffix.lower() == _SUFFIX and not path.name.startswith(".")


def _download(folder: Path) -> None:
    """Download all classes; each folder appears complete or not at all."""
    content = fetch(URL, "Caltech-101")
    if (found := hashlib.sha256(content).hexdigest()) != SHA256:
        raise DownloadError(f"{URL} sent an unexpected file: its SHA-256 is {found}, not {SHA256}")
    ours = {theirs: name for name, theirs in CATEGORIES.items()}
    folder.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".unpacked-", dir=folder))
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as outer:
            inner = next(name for name in outer.namelist() if PurePosixPath(name).name == _INNER)
            with outer.open(inner) as packed, tarfile.open(fileobj=packed, mode="r|gz") as archive:
                for member in archive:
                    path = PurePosixPath(member.name)
                    if member.isfile() and _is_picture(path) and path.parent.name in ours:
                        # Use only the last part of names from the archive, for safety.
                        target = temporary / ours[path.parent.name] / path.name
                        target.parent.mkdir(exist_ok=True)
                        opened = archive.extractfile(member)
                        assert opened is not None
                        with opened, target.open("wb") as written:
                            shutil.copyfileobj(opened, written)
        for whole in temporary.iterdir():
            try:
                whole.rename(folder / whole.name)
            except OSError:
                # It exists already: from an earlier download, or another process was faster.
                if not (folder / whole.name).is_dir():
                    raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
