"""Pictures drawn for tests, the same for the same seed, and known maps of them; without OpenCV, tests are skipped."""

import numpy as np
import pytest
from PIL import Image

cv2 = pytest.importorskip("cv2")

SIDE = 96


def rotation(degrees):
    """As a matrix; on a picture, whose second axis points down, it turns from right to down."""
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[cos, -sin], [sin, cos]])


def rectangles(seed, side=SIDE, n=12):
    """Turned rectangles in shades of grey, one over the other, a little out of focus."""
    rng = np.random.default_rng(seed)
    places = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1)
    picture = np.full((side, side), 128, dtype=np.uint8)
    for _ in range(n):
        inside = (
            (places - rng.uniform(0, side, 2)) @ rotation(rng.uniform(0, 180)) / rng.uniform(side / 16, side / 5, 2)
        )
        picture[abs(inside).max(axis=-1) < 1] = rng.integers(256)
    return cv2.GaussianBlur(picture, (0, 0), 1.0)


def checks(seed, side=SIDE, cell=8):
    """Squares of a grid, each of a random shade."""
    shades = np.random.default_rng(seed).integers(0, 256, (side // cell, side // cell), dtype=np.uint8)
    return shades.repeat(cell, axis=0).repeat(cell, axis=1)


def warped(picture, matrix):
    """A picture under a linear map about its middle, whole; and what to add to mapped places."""
    corners = np.array([[x, y] for x in (0, picture.shape[1] - 1) for y in (0, picture.shape[0] - 1)]) @ matrix.T
    size = np.ceil(np.ptp(corners, axis=0) - 1e-6).astype(int) + 1
    shift = (size - 1) / 2 - corners.mean(axis=0)
    linear = {"flags": cv2.INTER_LINEAR, "borderMode": cv2.BORDER_REPLICATE}
    return cv2.warpAffine(picture, np.column_stack([matrix, shift]), tuple(map(int, size)), **linear), shift


def save(folder, pictures, suffix="png"):
    """Files of pictures; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"image_{number:04d}.{suffix}" for number in range(len(pictures))]
    for path, picture in zip(paths, pictures, strict=True):
        Image.fromarray(picture).save(path)
    return paths
