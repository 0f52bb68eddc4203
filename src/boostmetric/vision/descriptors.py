"""SIFT descriptors (Lowe, IJCV 2004) of image regions, computed with OpenCV."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.types import FloatArray
from boostmetric.optional import require
from boostmetric.vision.images import Image
from boostmetric.vision.regions import Regions, grid, sample

N_NUMBERS = 128
"""Length of a descriptor."""

# A region is drawn with this many pixels across. Its descriptor covers a square of that side, at any rotation, and one
# bin beyond it, which is why the cell of a region is larger. The cell has an odd side, because OpenCV rounds the
# positions of points: half a pixel off the middle, descriptors would change when the picture is rotated.
_ACROSS = 32
_CELL = 65
# Cells in a row of the sheet passed to OpenCV.
_COLUMNS = 16
# Regions on a sheet: several thousand regions of one picture at once would take a gigabyte.
_PER_SHEET = 16 * _COLUMNS
# OpenCV's bins are 1.5 times as wide as the size of a point, and there are four in a row.
_SIZE_OF_POINT = 1 / 6
_N_DIRECTIONS = 36


def describe(image: Image, regions: Regions, *, upright: bool) -> NDArray[np.uint8]:
    """Compute SIFT descriptors of regions, each mapped to a circle first.

    Regions are drawn side by side on a sheet, and OpenCV describes the middle of each cell.

    Parameters
    ----------
    image : ndarray of shape (height, width)
    regions : Regions
    upright : bool
        Do not rotate regions to the dominant direction of their gradients.

    Returns
    -------
    ndarray of shape (n_regions, 128)
    """
    described = [np.empty((0, N_NUMBERS), dtype=np.uint8)]
    for start in range(0, len(regions), _PER_SHEET):
        some = slice(start, start + _PER_SHEET)
        described.append(_describe_sheet(image, Regions(regions.centers[some], regions.shapes[some]), upright=upright))
    return np.concatenate(described)


def _describe_sheet(image: Image, regions: Regions, *, upright: bool) -> NDArray[np.uint8]:
    cells = sample(image, regions.centers, regions.shapes * ((_CELL - 1) / _ACROSS), _CELL)
    angles = np.zeros(len(cells)) if upright else directions(cells)
    n_rows = -(-len(cells) // _COLUMNS)
    drawn = np.zeros((n_rows * _COLUMNS, _CELL, _CELL), dtype=np.float32)
    drawn[: len(cells)] = cells
    sheet = drawn.reshape(n_rows, _COLUMNS, _CELL, _CELL).swapaxes(1, 2).reshape(n_rows * _CELL, -1)
    row, column = np.divmod(np.arange(len(cells)), _COLUMNS)
    middles = np.stack([column, row], axis=1) * _CELL + _CELL // 2
    return _compute(np.clip(np.rint(sheet), 0, 255).astype(np.uint8), middles, np.full(len(cells), _ACROSS), angles)


def directions(cells: NDArray[np.float32]) -> FloatArray:
    """Dominant direction of the gradients in the middle of each cell, in radians from right to down."""
    down, right = np.gradient(cells, axis=(1, 2))
    place = (np.arange(_CELL) - (_CELL - 1) / 2) / (_ACROSS / 2)
    strength = np.hypot(right, down) * np.exp(-2 * (place[:, None] ** 2 + place**2))
    turn = np.arctan2(down, right) * (_N_DIRECTIONS / (2 * np.pi))
    low = np.floor(turn)
    share = turn - low
    # Votes for the two nearest directions; the first follows the last.
    first = low.astype(np.int64) % _N_DIRECTIONS
    of_cell = np.arange(len(cells))[:, None, None] * _N_DIRECTIONS
    counted = np.zeros(len(cells) * _N_DIRECTIONS)
    for bins, weight in ((first, 1 - share), ((first + 1) % _N_DIRECTIONS, share)):
        counted += np.bincount((bins + of_cell).ravel(), (strength * weight).ravel(), len(counted))
    votes = counted.reshape(-1, _N_DIRECTIONS)
    for _ in range(2):
        votes = (np.roll(votes, 1, axis=1) + votes + np.roll(votes, -1, axis=1)) / 3
    # Vertex of the parabola through the largest vote and its two neighbours.
    largest = votes.argmax(axis=1)
    before, top, after = (votes[np.arange(len(votes)), (largest + shift) % _N_DIRECTIONS] for shift in (-1, 0, 1))
    curvature = before - 2 * top + after
    shift = np.where(curvature < 0, (before - after) / (2 * np.where(curvature < 0, curvature, -1)), 0.0)
    return np.asarray((largest + shift) * (2 * np.pi / _N_DIRECTIONS))


def describe_grid(image: Image) -> NDArray[np.uint8]:
    """Compute upright SIFT descriptors on a regular grid."""
    circles = grid(image)
    return _compute(image, circles.centers, 2 * circles.shapes[:, 0, 0], np.zeros(len(circles)))


def describe_blobs(image: Image, *, upright: bool) -> NDArray[np.uint8]:
    """Compute SIFT descriptors of the blobs that SIFT itself detects."""
    sift = _sift()
    points = sift.detect(image, None)
    if upright:
        # OpenCV returns a blob with several directions as several points.
        points = list({(point.pt, point.size): point for point in points}.values())
        for point in points:
            point.angle = 0.0
    return _as_bytes(sift.compute(image, points)[1] if points else None)


def _compute(image: Image, centers: FloatArray, across: NDArray[Any], angles: FloatArray) -> NDArray[np.uint8]:
    """Descriptors of squares with the given centers, sides and directions."""
    cv2 = require("cv2", "vision", "Describing image regions")
    points = [
        cv2.KeyPoint(x=float(x), y=float(y), size=float(side * _SIZE_OF_POINT), angle=float(angle % 360), octave=0)
        for (x, y), side, angle in zip(centers, across, np.degrees(angles), strict=True)
    ]
    return _as_bytes(_sift().compute(image, points)[1] if points else None)


def _sift() -> Any:
    return require("cv2", "vision", "Describing image regions").SIFT_create()


def _as_bytes(descriptors: NDArray[np.float32] | None) -> NDArray[np.uint8]:
    """Convert OpenCV's descriptors, which are whole numbers from 0 to 255 as floats, or None if there are none."""
    return np.empty((0, N_NUMBERS), dtype=np.uint8) if descriptors is None else descriptors.astype(np.uint8)


def root(descriptors: NDArray[np.uint8]) -> NDArray[np.float32]:
    """RootSIFT (Arandjelovic and Zisserman, CVPR 2012): square roots of the shares of a descriptor's sum."""
    total = descriptors.sum(axis=1, keepdims=True, dtype=np.float32)
    return np.asarray(np.sqrt(descriptors / np.maximum(total, 1)), dtype=np.float32)
