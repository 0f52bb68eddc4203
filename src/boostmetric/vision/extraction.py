"""Extract descriptors of many images: in parallel, cached on disk, and skipping images that cannot be used."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from boostmetric.callbacks import Steps
from boostmetric.optional import require
from boostmetric.storage.files import replacing
from boostmetric.vision.descriptors import N_NUMBERS, describe, describe_blobs, describe_grid
from boostmetric.vision.images import Given, Image, UnusableImageError, content_of, name_of, read
from boostmetric.vision.regions import harris_affine, harris_laplace

DETECTORS = ("harris-affine", "harris-laplace", "sift", "dense")
# Increase it when the same image would get other descriptors.
_VERSION = 2


class ExtractionSettings(NamedTuple):
    """Settings that determine the descriptors of an image."""

    detector: str
    upright: bool
    max_side: int | None


class Described(NamedTuple):
    """Descriptors of images.

    Attributes
    ----------
    descriptors : list of ndarray of shape (n_regions, 128), dtype uint8
        Descriptors of each image; an empty array for one that cannot be used.
    troubles : dict of int to str
        What is wrong with each image that cannot be used.
    not_kept : str
        Why descriptors could not be written to the cache; empty if they could.
    """

    descriptors: list[NDArray[np.uint8]]
    troubles: dict[int, str]
    not_kept: str = ""


class _Answer(NamedTuple):
    """Result for one image; see `Described`."""

    descriptors: NDArray[np.uint8]
    trouble: str = ""
    not_kept: str = ""


def describe_images(
    images: Sequence[Given],
    settings: ExtractionSettings,
    *,
    cache: Path | None = None,
    n_jobs: int | None = None,
    visible: bool = False,
) -> Described:
    """Compute SIFT descriptors of the interest regions of images.

    Parameters
    ----------
    images : sequence of paths or arrays
    settings : ExtractionSettings
    cache : Path, optional
        Folder that caches descriptors.
    n_jobs : int, optional
        Number of processes, as in joblib.
    visible : bool
        Whether to show a progress bar.
    """
    require("cv2", "vision", "Describing images")  # fail before processes are started
    tasks = (delayed(_describe)(item, name_of(item, number), settings, cache) for number, item in enumerate(images))
    found: list[NDArray[np.uint8]] = []
    troubles = {}
    not_kept = ""
    with Steps("Describing images", visible=visible) as steps:
        for number, answer in enumerate(Parallel(n_jobs=n_jobs, return_as="generator")(tasks)):
            found.append(answer.descriptors)
            if answer.trouble:
                troubles[number] = answer.trouble
            not_kept = not_kept or answer.not_kept
            steps.update(number + 1, len(images))
    return Described(found, troubles, not_kept)


def _describe(item: Given, name: str, settings: ExtractionSettings, cache: Path | None) -> _Answer:
    """Descriptors of an image, from the cache if possible."""
    try:
        content = content_of(item, name)
        file = None if cache is None else cache / _key(content, settings)
        kept = None if file is None else _kept(file)
        if kept is not None:
            return _Answer(kept)
        descriptors = _descriptors(read(item, content, name, settings.max_side), settings)
    except UnusableImageError as error:
        return _Answer(np.empty((0, N_NUMBERS), dtype=np.uint8), trouble=str(error))
    try:
        if file is not None:
            with replacing(file) as temporary, temporary.open("wb") as opened:
                np.save(opened, descriptors)
    except OSError as error:  # such as a full disk: no reason to throw away hours of work
        return _Answer(descriptors, not_kept=error.strerror or str(error))
    return _Answer(descriptors)


def _descriptors(image: Image, settings: ExtractionSettings) -> NDArray[np.uint8]:
    cv2 = require("cv2", "vision", "Describing images")
    n_threads = cv2.getNumThreads()
    cv2.setNumThreads(1)  # images are described in parallel instead
    try:
        return _WAYS[settings.detector](image, settings.upright)
    finally:
        cv2.setNumThreads(n_threads)  # this may run in the user's process


_WAYS: dict[str, Callable[[Image, bool], NDArray[np.uint8]]] = {
    "harris-affine": lambda image, upright: describe(image, harris_affine(image), upright=upright),
    "harris-laplace": lambda image, upright: describe(image, harris_laplace(image), upright=upright),
    "sift": lambda image, upright: describe_blobs(image, upright=upright),
    "dense": lambda image, upright: describe_grid(image),
}


def identity(settings: ExtractionSettings) -> str:
    """What determines the descriptors besides the image itself: settings and versions."""
    cv2 = require("cv2", "vision", "Describing images")
    return repr((_VERSION, cv2.__version__, *settings))


def _key(content: bytes, settings: ExtractionSettings) -> str:
    """Name of the cache file for the descriptors of an image."""
    name = hashlib.sha256(identity(settings).encode() + b"\0" + content).hexdigest()
    return f"{name[:2]}/{name}.npy"


def _kept(file: Path) -> NDArray[np.uint8] | None:
    """Descriptors from the cache; None if they are missing or damaged."""
    try:
        with file.open("rb") as opened:
            kept: NDArray[np.uint8] = np.load(opened, allow_pickle=False)
    except Exception:  # a damaged header can fail in any way; the image is then described again
        return None
    return kept if kept.dtype == np.uint8 and kept.ndim == 2 and kept.shape[1] == N_NUMBERS else None
