"""Descriptors of many images: on all processors, kept on disk, past images that cannot be used."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from boostmetric.callbacks import Steps
from boostmetric.files import replacing
from boostmetric.optional import require
from boostmetric.vision.descriptors import describe, describe_blobs, describe_grid
from boostmetric.vision.images import Given, Image, UnusableImageError, content_of, name_of, read
from boostmetric.vision.regions import harris_affine, harris_laplace

DETECTORS = ("harris-affine", "harris-laplace", "sift", "dense")
# Changes when the same image would get other descriptors.
_VERSION = 1


class Settings(NamedTuple):
    """What decides the descriptors of an image."""

    detector: str
    upright: bool
    max_side: int | None


class Described(NamedTuple):
    """Descriptors of images.

    Attributes
    ----------
    descriptors : list of ndarray of shape (n_regions, 128), dtype uint8
        Of each image; none for one that cannot be used.
    troubles : dict of int to str
        What is wrong with the images that cannot be used.
    """

    descriptors: list[NDArray[np.uint8]]
    troubles: dict[int, str]


def describe_images(
    images: Sequence[Given],
    settings: Settings,
    *,
    cache: Path | None = None,
    n_jobs: int | None = None,
    visible: bool = False,
) -> Described:
    """SIFT descriptors of the interest regions of images.

    Parameters
    ----------
    images : sequence of paths or arrays
    settings : Settings
    cache : Path, optional
        Folder in which descriptors are kept, and looked for.
    n_jobs : int, optional
        Processes, as in joblib.
    visible : bool
        Show a progress bar.
    """
    tasks = (delayed(_describe)(item, name_of(item, number), settings, cache) for number, item in enumerate(images))
    found: list[NDArray[np.uint8]] = []
    troubles = {}
    with Steps("Describing images", visible=visible) as steps:
        for number, answer in enumerate(Parallel(n_jobs=n_jobs, return_as="generator")(tasks)):
            if isinstance(answer, str):
                troubles[number] = answer
            found.append(np.empty((0, 128), dtype=np.uint8) if isinstance(answer, str) else answer)
            steps.update(number + 1, len(images))
    return Described(found, troubles)


def _describe(item: Given, name: str, settings: Settings, cache: Path | None) -> NDArray[np.uint8] | str:
    """The descriptors of an image, or what is wrong with it."""
    try:
        content = content_of(item, name)
        if cache is None:
            return _descriptors(read(item, content, name, settings.max_side), settings)
        file = cache / _key(content, settings)
        kept = _kept(file)
        if kept is None:
            kept = _descriptors(read(item, content, name, settings.max_side), settings)
            with replacing(file) as temporary, temporary.open("wb") as opened:
                np.save(opened, kept)
    except UnusableImageError as error:
        return str(error)
    return kept


def _descriptors(image: Image, settings: Settings) -> NDArray[np.uint8]:
    cv2 = require("cv2", "vision", "Describing images")
    cv2.setNumThreads(1)  # images are described at the same time instead
    return _WAYS[settings.detector](image, settings.upright)


_WAYS: dict[str, Callable[[Image, bool], NDArray[np.uint8]]] = {
    "harris-affine": lambda image, upright: describe(image, harris_affine(image), upright=upright),
    "harris-laplace": lambda image, upright: describe(image, harris_laplace(image), upright=upright),
    "sift": lambda image, upright: describe_blobs(image, upright=upright),
    "dense": lambda image, upright: describe_grid(image),
}


def _key(content: bytes, settings: Settings) -> str:
    """Name of the file that keeps the descriptors of an image."""
    cv2 = require("cv2", "vision", "Describing images")
    what = repr((_VERSION, cv2.__version__, *settings)).encode()
    name = hashlib.sha256(what + b"\0" + content).hexdigest()
    return f"{name[:2]}/{name}.npy"


def _kept(file: Path) -> NDArray[np.uint8] | None:
    """Descriptors from the cache; None if they are not there, or damaged."""
    try:
        with file.open("rb") as opened:
            kept: NDArray[np.uint8] = np.load(opened, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return kept if kept.dtype == np.uint8 and kept.ndim == 2 and kept.shape[1] == 128 else None
