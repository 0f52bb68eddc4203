"""Sources of comparisons: labels or positives, from which each pass finds its own, or given comparisons.

A *source* provides a problem under a metric. With labels, each sample is compared with the nearest ones in that metric;
with positives alone, each query with the nearest documents of which nothing is known. Given comparisons, in memory or
in files, are the same under every metric.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.frame import Given
from boostmetric.arrays.numbering import check_weights
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.comparisons import Comparisons
from boostmetric.comparisons.labelled import weighed
from boostmetric.comparisons.labels import mine, warn_of_small_classes
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.mapped_points import mapped_points
from boostmetric.metric.starts import Init, scatter, starting_components
from boostmetric.solver.problem import Learnable, Problem


class Source(Protocol):
    """A source of problems."""

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        ...

    @property
    def points_at_hand(self) -> Given:
        """The points that are in the memory of this process."""
        ...

    def problem(self, under: FloatArray | None, n_passes: int) -> Learnable:
        """Find comparisons under the metric of a linear map; None is the Euclidean distance.

        `n_passes` is how many passes were made: a source that draws a sample for each draws another for each number.
        """
        ...

    def start(self, init: Init) -> FloatArray | None:
        """Linear map of the metric to start from, see `starting_components`."""
        ...


class DrawnAnchors(NamedTuple):
    """A sample of the anchors, drawn again for every pass.

    Attributes
    ----------
    n : int
        Number of anchors.
    seed : int
        Random seed.
    n_passes : int, optional
        How many passes draw a sample; those after them compare all anchors. By default all do.
    """

    n: int
    seed: int
    n_passes: int | None = None

    def drawn(self, n_samples: int, weights: NDArray[Any] | None, n_passes: int) -> NDArray[Any] | None:
        """Weights of the samples in the pass after `n_passes` others: zero unless drawn."""
        if n_samples <= self.n or (self.n_passes is not None and n_passes >= self.n_passes):
            return weights
        is_drawn = np.random.default_rng((self.seed, n_passes)).permutation(n_samples) < self.n
        return np.where(is_drawn, 1.0 if weights is None else weights, 0.0)


@dataclass(frozen=True)
class Labelled:
    """Samples with class labels.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
    weights : ndarray of shape (n_samples,), optional
        Weight of each sample's comparisons, those that have it as their anchor.
    n_neighbors : int
        Number of targets per sample.
    n_impostors : int or "all"
        Number of impostors per sample.
    device : str, default="cpu"
        Where to search targets and impostors, see `boostmetric.parallel.devices`.
    sample : DrawnAnchors, optional
        Which samples to compare with others, in each pass; by default all.
    start_rank : int, optional
        How many principal directions of a start are used; by default all.
    """

    X: Given
    y: NDArray[Any]
    weights: NDArray[Any] | None
    n_neighbors: int
    n_impostors: int | Literal["all"]
    device: str = "cpu"
    sample: DrawnAnchors | None = None
    start_rank: int | None = None

    @property
    def n_features(self) -> int:
        """Number of features of the samples."""
        return int(self.X.shape[1])

    @property
    def points_at_hand(self) -> Given:
        """The samples."""
        return self.X

    @property
    def is_comparable(self) -> bool:
        """Whether there are several classes, and an anchor in one of several samples."""
        _, label, sizes = np.unique(self.y, return_inverse=True, return_counts=True)
        is_anchor = sizes[label] > 1 if self.weights is None else (sizes[label] > 1) & (self.weights > 0)
        return len(sizes) > 1 and bool(is_anchor.any())

    def take(self, rows: IntArray) -> Labelled:
        """Select some of the samples."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, X=self.X[rows], y=self.y[rows], weights=weights)

    def problem(self, under: FloatArray | None = None, n_passes: int = 0) -> Problem:
        """Find comparisons with the targets and impostors that are nearest under a metric."""
        mapped = self.X if under is None else mapped_points(MahalanobisMetric(under), self.X)[0]
        drawn = self.weights if self.sample is None else self.sample.drawn(len(self.y), self.weights, n_passes)
        weights = check_weights("sample_weight", drawn, len(self.y), "sample")
        found = mine(
            mapped,
            self.y,
            n_neighbors=self.n_neighbors,
            n_impostors=self.n_impostors,
            asked=weighed(weights),
            quiet=True,
            device=self.device,
        )
        del mapped  # before the comparisons take memory
        # Samples are tested on the classes that they are learned from.
        return Problem(self.X, Comparisons._of_neighbors(*found, weights), split_by="anchors")

    def start(self, init: Init) -> FloatArray | None:
        """Linear map of the metric to start from."""
        components = starting_components(init, self.X, self.y)
        if components is None or self.start_rank is None:
            return components
        return self.principal(components, self.start_rank)

    def principal(self, components: FloatArray, rank: int) -> FloatArray:
        """A linear map followed by the projection onto the principal directions of the mapped samples."""
        _, vectors = np.linalg.eigh(components @ self.scatter @ components.T)
        return np.asarray(vectors[:, ::-1][:, :rank].T @ components)

    @cached_property
    def scatter(self) -> FloatArray:
        """Covariance of the features, up to a factor."""
        return scatter(self.X)

    def warn_of_small_classes(self) -> None:
        """Warn about classes with too few samples for `n_neighbors` targets."""
        warn_of_small_classes(*np.unique(self.y, return_counts=True), self.n_neighbors)


@dataclass(frozen=True)
class Compared:
    """Given comparisons.

    Attributes
    ----------
    given : Learnable
    """

    given: Learnable

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        return self.given.n_features

    @property
    def points_at_hand(self) -> Given:
        """The points that are in the memory of this process."""
        return self.given.points_at_hand

    def problem(self, under: FloatArray | None = None, n_passes: int = 0) -> Learnable:
        """The given comparisons, under every metric."""
        return self.given

    def start(self, init: Init) -> FloatArray | None:
        """Linear map of the metric to start from."""
        return starting_components(init, self.points_at_hand)


def can_find_again(problem: Learnable) -> bool:
    """Whether the far sides of a problem's comparisons can be found again under another metric."""
    return isinstance(problem, Problem) and problem.comparisons.search is not None


@dataclass(frozen=True)
class Searched:
    """Comparisons whose far sides are found again, such as those of `Comparisons.from_positives`.

    Attributes
    ----------
    given : Problem
        The comparisons as found under the Euclidean distance.
    """

    given: Problem

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        return self.given.n_features

    @property
    def points_at_hand(self) -> Given:
        """All points."""
        return self.given.points

    def problem(self, under: FloatArray | None = None, n_passes: int = 0) -> Problem:
        """The comparisons with the far sides that are nearest under a metric."""
        if under is None:
            return self.given
        points, comparisons, _ = self.given
        mapped = mapped_points(MahalanobisMetric(under), points)[0]
        return self.given._replace(comparisons=comparisons.found_again(points, mapped))

    def start(self, init: Init) -> FloatArray | None:
        """Linear map of the metric to start from."""
        return starting_components(init, self.given.points)
