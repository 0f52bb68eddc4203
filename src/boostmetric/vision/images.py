"""Read images from files or arrays, in grey and of a bounded size; errors name the images that cannot be used."""

from __future__ import annotations

import io
import os
import stat
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.optional import require

Image = NDArray[np.uint8]
Given = str | os.PathLike[str] | NDArray[Any]

_SMALLEST_SIDE = 16  # pixels; a smaller picture has no regions
_MOST_PIXELS = 10**8  # a larger one is a mistake, or an attempt to exhaust memory
_MOST_BYTES = 2**30  # per file; _MOST_PIXELS with four channels of two bytes take less


class UnusableImageError(ValueError):
    """An image cannot be used; the message names it and says what is wrong and what to do."""


def as_images(X: Any) -> list[Given]:
    """Convert images to a list of paths and arrays.

    Parameters
    ----------
    X : sequence of paths or arrays, or array of shape (n_images, height, width[, n_channels])
        May also be a column of paths, for example of a data frame.
    """
    if isinstance(X, str | bytes | os.PathLike):
        raise ValueError(f"A list of images is expected. Got one path, {os.fspath(X)!r}: put it into a list.")
    if isinstance(X, np.ndarray) and X.dtype.kind in "buif":
        if X.ndim not in (3, 4):
            raise ValueError(
                f"An array of images must have shape (n_images, height, width), optionally with channels last. Got "
                f"{X.shape}. Put a single image into a list."
            )
        return list(X)
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if isinstance(X, np.ndarray):
        X = X.ravel() if X.ndim == 2 and X.shape[1] == 1 else X
        if X.ndim != 1:
            raise ValueError(f"Paths of images must be one column. Got an array of shape {X.shape}.")
    if not isinstance(X, Sequence | np.ndarray):
        raise ValueError(f"Images must be a list of paths or arrays, or an array. Got {type(X).__name__}.")
    items = list(X)
    for number, item in enumerate(items):
        if not isinstance(item, str | os.PathLike | np.ndarray):
            raise ValueError(f"An image must be a path or an array; number {number} has type {type(item).__name__}.")
    return items


def name_of(item: Given, number: int) -> str:
    """Name of an image for messages: its path, or its number."""
    return f"image number {number}" if isinstance(item, np.ndarray) else os.fspath(item)


def content_of(item: Given, name: str) -> bytes:
    """Bytes that identify an image: the file's contents, or the array with its type and shape."""
    if isinstance(item, np.ndarray):
        if item.ndim in (2, 3):
            _check_pixels(item.shape[1], item.shape[0], name)  # before it is copied
        return f"{item.dtype.str}{item.shape}".encode() + np.ascontiguousarray(item).tobytes()
    try:
        path = Path(item)
        about = path.stat()
        # Anything else, such as a pipe, may never end.
        if not stat.S_ISREG(about.st_mode):
            raise UnusableImageError(f"{name} is not a file{' but a folder' if path.is_dir() else ''}.")
        if about.st_size > _MOST_BYTES:
            raise UnusableImageError(
                f"{name} is too large: {about.st_size:,} bytes; the limit is {_MOST_BYTES:,}. Make it smaller."
            )
        content = path.read_bytes()
    except UnusableImageError:
        raise
    except OSError as error:
        raise UnusableImageError(f"{name} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise UnusableImageError(f"{name!r} is not a valid path: {error}.") from None
    if not content:
        raise UnusableImageError(f"{name} is an empty file.")
    return content


def read(item: Given, content: bytes, name: str, max_side: int | None) -> Image:
    """Read an image in shades of grey, with no side longer than `max_side`.

    Parameters
    ----------
    item : path or array
    content : bytes
        Contents of the file, see `content_of`.
    name : str
    max_side : int or None
    """
    picture = _of_array(item, name) if isinstance(item, np.ndarray) else _of_file(content, name, max_side)
    reduced = ""
    if max_side is not None and max(picture.size) > max_side:
        reduced = f" after reduction to max_side={max_side}"
        picture.thumbnail((max_side, max_side), require("PIL.Image", "vision", "Reading images").Resampling.LANCZOS)
    grey = np.asarray(picture, dtype=np.uint8)
    if min(grey.shape) < _SMALLEST_SIDE:
        raise UnusableImageError(
            f"{name} has {grey.shape[1]} x {grey.shape[0]} pixels{reduced}; regions need {_SMALLEST_SIDE} on each side."
        )
    return grey


def _of_file(content: bytes, name: str, max_side: int | None) -> Any:
    image = require("PIL.Image", "vision", "Reading images")
    turned = require("PIL.ImageOps", "vision", "Reading images").exif_transpose
    try:
        with warnings.catch_warnings():
            # They do not name the file, and this module has its own limit on the size.
            warnings.simplefilter("ignore")
            with image.open(io.BytesIO(content)) as opened:
                width, height = opened.size
                _check_pixels(width, height, name)
                if opened.format == "EPS":
                    raise UnusableImageError(f"{name} is not a picture but a program (EPS), which is not run.")
                if max_side is not None:
                    opened.draft("L", (max_side, max_side))  # decodes a JPEG file at a smaller size
                return _in_bytes(turned(opened), name).convert("L")
    except image.DecompressionBombError:
        raise UnusableImageError(_too_large(name, "more than can be read safely")) from None
    except UnusableImageError:
        raise
    except Exception as error:  # a damaged file can fail anywhere in a decoder
        reason = "its format is not known" if isinstance(error, image.UnidentifiedImageError) else str(error)
        raise UnusableImageError(f"{name} cannot be read as a picture: {reason}.") from None


def _in_bytes(picture: Any, name: str) -> Any:
    """Convert a picture of larger numbers to bytes; leave others as they are. Pillow would clip values above 255."""
    if not picture.mode.startswith(("I", "F")):
        return picture
    pixels = np.asarray(picture)
    if picture.mode == "F":
        return _of_array(pixels, name)
    if pixels.min() < 0 or pixels.max() > 0xFFFF:
        raise UnusableImageError(f"{name} holds numbers outside 0 to 65,535. Save it with 8 or 16 bits.")
    return _of_array((pixels // 256).astype(np.uint8), name)


def _of_array(pixels: NDArray[Any], name: str) -> Any:
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in (1, 3, 4)) or not pixels.size:
        raise UnusableImageError(
            f"{name} has shape {pixels.shape}; it must be (height, width), or (height, width, channels) with 1, 3 or "
            "4 channels."
        )
    if pixels.dtype.kind == "f":
        # A comparison with NaN is false.
        if not ((pixels >= 0) & (pixels <= 1)).all():
            raise UnusableImageError(
                f"{name} holds numbers outside 0 to 1. Scale them to this range, or pass bytes (uint8)."
            )
        pixels = np.rint(pixels * 255).astype(np.uint8)
    elif pixels.dtype.kind == "b":
        pixels = pixels.astype(np.uint8) * 255
    elif pixels.dtype != np.uint8:
        raise UnusableImageError(
            f"{name} has dtype {pixels.dtype}; an image must hold bytes (uint8), or floats from 0 to 1."
        )
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    return require("PIL.Image", "vision", "Reading images").fromarray(np.ascontiguousarray(pixels)).convert("L")


def _check_pixels(width: int, height: int, name: str) -> None:
    if width * height > _MOST_PIXELS:
        raise UnusableImageError(_too_large(name, f"{width:,} x {height:,} pixels"))


def _too_large(name: str, size: str) -> str:
    return f"{name} is too large: {size}; the limit is {_MOST_PIXELS:,} pixels. Make it smaller."
