"""Interest regions of an image: ellipses around points that can be found again in other pictures of the same object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.types import FloatArray
from boostmetric.optional import require
from boostmetric.vision.images import Image

# Affine adaptation: maximum number of iterations, and how isotropic the gradients must be at the end (ratio of the two
# eigenvalues).
_MOST_ROUNDS = 15
_ROUND = 0.8
# Ellipses more elongated than this are edges, not corners.
_MOST_ELONGATED = 6.0
# Side of the window in which gradients are compared, in its own pixels: the region with its fading border.
_WINDOW = 25
# Step and radii of the regular grid, in pixels.
_GRID_STEP = 8
_GRID_RADII = (8.0, 12.0, 16.0)


@dataclass(frozen=True)
class Regions:
    """Ellipses in an image.

    Attributes
    ----------
    centers : ndarray of shape (n_regions, 2)
        x and y of each center.
    shapes : ndarray of shape (n_regions, 2, 2)
        Map from the unit circle to the ellipse relative to its center, in pixels.
    """

    centers: FloatArray
    shapes: FloatArray

    def __len__(self) -> int:
        return len(self.centers)


def _circles(centers: FloatArray, radii: FloatArray) -> Regions:
    return Regions(centers.reshape(-1, 2), radii.reshape(-1, 1, 1) * np.eye(2))


def harris_laplace(image: Image) -> Regions:
    """Detect corners at the scale at which they are most distinct (Mikolajczyk and Schmid, IJCV 2004), as circles."""
    cv2 = require("cv2", "vision", "Finding interest regions")
    if not hasattr(cv2, "xfeatures2d"):
        raise ImportError(
            "The detectors harris-affine and harris-laplace need OpenCV with its contributed modules, which the "
            "installed one lacks. Replace it: pip uninstall opencv-python opencv-python-headless, then pip install "
            "'boostmetric[vision]'. Or use detector='sift' or 'dense'."
        )
    found = cv2.xfeatures2d.HarrisLaplaceFeatureDetector_create().detect(image)
    centers = np.array([point.pt for point in found], dtype=np.float64)
    return _circles(centers, np.array([point.size / 2 for point in found], dtype=np.float64))


def harris_affine(image: Image) -> Regions:
    """Detect Harris-Laplace regions and adapt their shape until gradients are equally strong in all directions.

    The ellipse around a corner seen from another viewpoint then maps to the same circle, up to a rotation (Mikolajczyk
    and Schmid, IJCV 2004). Center and scale stay those of Harris-Laplace. Regions that do not converge, or that become
    long and thin, are left out.
    """
    circles = harris_laplace(image)
    if not len(circles):
        return circles
    shapes, settled = _adapted(image, circles)
    # Several maps take the circle to the same ellipse, up to a rotation. Choose the one that keeps vertical lines
    # vertical (Perdoch, Chum and Matas, CVPR 2009), for descriptors that are not rotated.
    upright = np.linalg.cholesky(shapes[settled] @ shapes[settled].transpose(0, 2, 1))
    return Regions(circles.centers[settled], np.asarray(upright, dtype=np.float64))


def _adapted(image: Image, circles: Regions) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Shapes that make the second moments of the gradients isotropic, and whether each converged."""
    place = np.linspace(-1.0, 1.0, _WINDOW)
    weight = np.exp(-(place[:, None] ** 2 + place**2) / (2 * 0.5**2))
    shapes, settled = circles.shapes.copy(), np.zeros(len(circles), dtype=bool)
    active = np.arange(len(circles))
    for _ in range(_MOST_ROUNDS):
        window = sample(image, circles.centers[active], shapes[active], _WINDOW)
        down, right = np.gradient(window, axis=(1, 2))
        products = np.stack([right * right, right * down, down * down], axis=-1) * weight[..., None]
        xx, xy, yy = products.sum(axis=(1, 2)).T
        values, vectors = np.linalg.eigh(np.stack([xx, xy, xy, yy], axis=-1).reshape(-1, 2, 2))
        flat = values[:, 0] <= 1e-9 * values[:, 1]  # an edge, or nothing at all
        values = np.where(flat[:, None], 1.0, values)
        round_now = ~flat & (values[:, 0] >= _ROUND * values[:, 1])
        settled[active[round_now]] = True
        # Half of the correction, on a log scale, with the area unchanged.
        stretch = (values / np.sqrt(values.prod(axis=1, keepdims=True))) ** -0.25
        correction = (vectors * stretch[:, None, :]) @ vectors.transpose(0, 2, 1)
        going_on = ~flat & ~round_now
        moved = shapes[active] @ correction
        singular = np.linalg.svd(moved, compute_uv=False)
        going_on &= singular[:, 0] <= _MOST_ELONGATED * singular[:, 1]
        shapes[active[going_on]] = moved[going_on]
        active = active[going_on]
        if not len(active):
            break
    return shapes, settled


def sample(image: Image, centers: FloatArray, shapes: FloatArray, side: int) -> NDArray[np.float32]:
    """Sample square windows of an image: the square [-1, 1] in the coordinates of each region.

    Large regions are sampled from a smaller copy of the image, so that no detail is skipped between two samples.

    Returns
    -------
    ndarray of shape (n_regions, side, side)
    """
    cv2 = require("cv2", "vision", "Reading image regions")
    place = np.linspace(-1.0, 1.0, side)
    inside = np.stack(np.meshgrid(place, place), axis=-1).reshape(-1, 2)
    step = np.sqrt(np.abs(np.linalg.det(shapes))) * 2 / (side - 1)
    level = np.clip(np.floor(np.log2(np.maximum(step, 1.0) * 1.4)), 0, 6).astype(int)
    windows = np.empty((len(centers), side, side), dtype=np.float32)
    smaller = image.astype(np.float32)
    for depth in range(level.max(initial=0) + 1):
        rows = np.flatnonzero(level == depth)
        if len(rows):
            at = (centers[rows, None] + inside @ shapes[rows].transpose(0, 2, 1)) / 2**depth
            mapped = at.reshape(-1, side, 2).astype(np.float32)
            windows[rows] = _remap(cv2, smaller, mapped).reshape(-1, side, side)
        if min(smaller.shape) > 1:
            smaller = cv2.pyrDown(smaller)
    return windows


def _remap(cv2: Any, image: NDArray[np.float32], places: NDArray[np.float32]) -> NDArray[np.float32]:
    """Image values at given positions; in pieces, because OpenCV counts rows in 15 bits."""
    pieces = [
        cv2.remap(image, piece, None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        for piece in np.array_split(places, max(1, -(-len(places) // 30_000)))
    ]
    return np.concatenate(pieces)


def grid(image: Image) -> Regions:
    """Circles of three sizes on a regular grid."""
    height, width = image.shape
    centers, radii = [], []
    for radius in _GRID_RADII:
        x, y = np.meshgrid(*(np.arange(radius, side - radius + 1, _GRID_STEP) for side in (width, height)))
        centers.append(np.stack([x.ravel(), y.ravel()], axis=1))
        radii.append(np.full(x.size, radius))
    return _circles(np.concatenate(centers), np.concatenate(radii))
