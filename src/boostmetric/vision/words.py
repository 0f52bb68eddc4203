"""Represent images as counts of visual words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from boostmetric.arrays.validation import check_choice, check_count, check_threads, warn
from boostmetric.vision.descriptors import root
from boostmetric.vision.extraction import DETECTORS, ExtractionSettings, describe_images
from boostmetric.vision.images import UnusableImageError, as_images

# Sample size for k-means, so that each center is a mean of many; more take longer and change little.
_DESCRIPTORS_PER_WORD = 400
_LEAST_SAMPLE = 40_000


class VisualWords(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Histograms of visual words: how often each of `n_words` kinds of image region occurs.

    Interest regions are found in each image and described by SIFT; the descriptors of the images passed to `fit` are
    clustered by k-means, and the centers are the words. This is the bag of visual words of the paper's section 3.3.

    Parameters
    ----------
    n_words : int, default=100
        Size of the codebook, and the number of features that `transform` returns.
    detector : {"harris-affine", "harris-laplace", "sift", "dense"}, default="harris-affine"
        Interest regions: corners with an affine shape, as in the paper; the same with circles; the blobs of Lowe's
        SIFT; or a regular grid of circles in three sizes, which gives the most regions and takes longest.
    descriptor : {"sift", "rootsift"}, default="sift"
        SIFT, or the square roots of its normalized values, whose Euclidean distance is the Hellinger distance.
    upright : bool, default=False
        Describe all regions upright, instead of rotated to the dominant direction of their gradients. For pictures that
        are never rotated.
    weighting : {"count", "sqrt", "share"}, default="count"
        Counts as in the paper, their square roots, in which frequent words count less, or counts divided by their sum.
    max_side : int or None, default=640
        Images whose longer side has more pixels are reduced to this size first; None leaves them as they are.
    errors : {"warn", "raise"}, default="warn"
        What to do with an image that cannot be used (because it is broken, empty or much too large): name it in a
        warning and return a row of zeros for it, or raise an error.
    cache_dir : str or Path, default=None
        Folder in which to cache descriptors, keyed by the image's contents and the extraction settings. None caches
        nothing.
    n_jobs : int or None, default=-1
        Number of processes that describe images; -1 uses all processors.
    random_state : int, RandomState or None, default=None
        Random seed of the clustering.
    verbose : int, default=0
        1 shows a progress bar on standard error.

    Attributes
    ----------
    words_ : ndarray of shape (n_words, 128)
        The centers.
    n_descriptors_ : int
        Number of descriptors of the images passed to `fit`.
    skipped_ : dict of int to str
        Numbers of the images that `fit` could not use, and what is wrong with each.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric.vision import VisualWords
    >>> rng = np.random.default_rng(0)
    >>> images = rng.integers(0, 256, (6, 8, 8), dtype=np.uint8).repeat(12, axis=1).repeat(12, axis=2)
    >>> histograms = VisualWords(n_words=5, random_state=0, n_jobs=1).fit_transform(images)
    >>> histograms.shape
    (6, 5)
    """

    def __init__(
        self,
        n_words: int = 100,
        *,
        detector: str = "harris-affine",
        descriptor: str = "sift",
        upright: bool = False,
        weighting: str = "count",
        max_side: int | None = 640,
        errors: str = "warn",
        cache_dir: str | os.PathLike[str] | None = None,
        n_jobs: int | None = -1,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_words = n_words
        self.detector = detector
        self.descriptor = descriptor
        self.upright = upright
        self.weighting = weighting
        self.max_side = max_side
        self.errors = errors
        self.cache_dir = cache_dir
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the words.

        Parameters
        ----------
        X : sequence of paths or arrays, or array of shape (n_images, height, width[, n_channels])
            Images; bytes, or floats from 0 to 1. Colours are converted to grey.
        y : ignored
        """
        self._learn(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> NDArray[np.float64]:
        """Learn the words and count them in the same images, describing each image once.

        Parameters
        ----------
        X, y
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_images, n_words)
        """
        return self._histograms(self._learn(X))

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Count the words in images.

        Parameters
        ----------
        X : sequence of paths or arrays
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_images, n_words)
        """
        check_is_fitted(self, "words_")
        self._check_form()
        return self._histograms(self._described(X)[0])

    def describe(self, X: Any) -> list[NDArray[np.uint8]]:
        """Compute SIFT descriptors of the regions of images; works without `fit`.

        Parameters
        ----------
        X : sequence of paths or arrays
            As in `fit`.

        Returns
        -------
        list of ndarray of shape (n_regions, 128)
        """
        return self._described(X)[0]

    def _learn(self, X: Any) -> list[NDArray[np.uint8]]:
        check_count("n_words", self.n_words)
        self._check_form()
        rng = check_random_state(self.random_state)
        descriptors, skipped = self._described(X)
        n_descriptors = sum(map(len, descriptors))
        if n_descriptors < self.n_words:
            more = "" if self.detector == "dense" else ", or use detector='dense'"
            raise ValueError(
                f"n_words={self.n_words} words cannot be learned from the {n_descriptors} regions found in "
                f"{len(descriptors)} images. Pass more images, or lower n_words{more}."
            )
        size = max(_LEAST_SAMPLE, _DESCRIPTORS_PER_WORD * self.n_words)
        kmeans = KMeans(self.n_words, n_init=1, max_iter=50, random_state=rng)
        self.words_ = kmeans.fit(self._as_features(_some_of(descriptors, size, rng))).cluster_centers_
        self.n_descriptors_, self.skipped_ = n_descriptors, skipped
        return descriptors

    def _check_form(self) -> None:
        """Check `weighting` and `descriptor`; also before `transform`, since parameters may be set after `fit`."""
        check_choice("weighting", self.weighting, ("count", "sqrt", "share"))
        check_choice("descriptor", self.descriptor, ("sift", "rootsift"))

    def _described(self, X: Any) -> tuple[list[NDArray[np.uint8]], dict[int, str]]:
        """Descriptors of each image, and what is wrong with images that cannot be used."""
        check_choice("detector", self.detector, DETECTORS)
        check_choice("errors", self.errors, ("warn", "raise"))
        check_threads("n_jobs", self.n_jobs)
        if self.max_side is not None:
            check_count("max_side", self.max_side, alternative=", or None")
        images = as_images(X)
        if not images:
            raise ValueError("There are no images. Pass at least one.")
        found = describe_images(
            images,
            ExtractionSettings(self.detector, bool(self.upright), self.max_side),
            cache=None if self.cache_dir is None else Path(self.cache_dir),
            n_jobs=self.n_jobs,
            visible=bool(self.verbose),
        )
        if found.troubles:
            message = _said(found.troubles, len(images))
            if self.errors == "raise" or len(found.troubles) == len(images):
                raise UnusableImageError(message)
            warn(f"{message} Their rows are zeros.")
        if found.not_kept:
            warn(
                f"Descriptors cannot be saved in cache_dir={str(self.cache_dir)!r} ({found.not_kept}), so they are "
                "computed again next time. Use a folder that can be written to."
            )
        return found.descriptors, found.troubles

    def _histograms(self, descriptors: list[NDArray[np.uint8]]) -> NDArray[np.float64]:
        """Count the words of each image."""
        counts = np.zeros((len(descriptors), len(self.words_)))
        half_norms = (self.words_**2).sum(axis=1) / 2
        for row, of_image in zip(counts, descriptors, strict=True):
            nearest = (self._as_features(of_image) @ self.words_.T - half_norms).argmax(axis=1)
            row += np.bincount(nearest, minlength=len(row))
        if self.weighting == "sqrt":
            return np.asarray(np.sqrt(counts))
        if self.weighting == "share":
            return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))
        return counts

    def _as_features(self, descriptors: NDArray[np.uint8]) -> NDArray[np.float32]:
        return root(descriptors) if self.descriptor == "rootsift" else descriptors.astype(np.float32)

    @property
    def _n_features_out(self) -> int:
        return len(self.words_)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        return tags


def _some_of(descriptors: list[NDArray[np.uint8]], size: int, rng: np.random.RandomState) -> NDArray[np.uint8]:
    """Random sample of `size` descriptors from all images, in order; all of them if there are no more."""
    ends = np.cumsum([len(of_image) for of_image in descriptors])
    if ends[-1] <= size:
        return np.concatenate(descriptors)
    # Image by image: copying all of them into one array would double the memory.
    chosen = np.sort(rng.choice(ends[-1], size, replace=False))
    of_images = np.split(chosen, np.searchsorted(chosen, ends[:-1]))
    starts = np.concatenate([[0], ends[:-1]])
    return np.concatenate(
        [of_image[rows - start] for of_image, rows, start in zip(descriptors, of_images, starts, strict=True)]
    )


def _said(troubles: dict[int, str], n_images: int) -> str:
    shown = list(troubles.values())[:5]
    more = f" And {len(troubles) - len(shown)} more." if len(troubles) > len(shown) else ""
    return f"{len(troubles)} of {n_images} images cannot be used. {' '.join(shown)}{more}"
