"""Local Fisher discriminant analysis."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from boostmetric.arrays.frame import Frame
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_choice, check_count
from boostmetric.baselines.baseline import Baseline, Journal
from boostmetric.baselines.descriptions import documented
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.metric.starts import spread
from boostmetric.solver.result import StopReason

LENGTHS = ("weighted", "plain", "orthonormal")


@documented
class LFDA(Baseline):
    """Local Fisher discriminant analysis: directions that separate classes and keep neighbours of a class together.

    Fisher's discriminants bring all samples of a class together, which harms classes of several clusters. Here pairs of
    a class count by their affinity, which is near 0 for samples far apart [1]_.

    Parameters
    ----------
    n_components : int, default=None
        Number of directions: those of the largest ratios of scatter between classes to local scatter within. None keeps
        all.
    n_neighbors : int, default=7
        The affinity of two samples is exp(-d^2 / (s t)) with s and t their distances from their `n_neighbors`-th
        nearest sample of the class; in smaller classes, from the farthest.
    lengths : {"weighted", "plain", "orthonormal"}, default="weighted"
        Lengths of the directions. ``"plain"``: the local scatter within classes becomes the identity. ``"weighted"``:
        these, times the square root of their ratio, so that directions that separate better count more, and those
        whose ratio is not positive count nothing. ``"orthonormal"``: an orthonormal basis of the same space, which
        makes sense with `n_components`.

    Attributes
    ----------
    %(components)s
    ratios_ : ndarray of shape (n_components,)
        Ratios of the scatter between classes to the local scatter within, of the directions chosen.
    %(about_the_fit)s

    Notes
    -----
    Directions in which the samples do not vary are left out. If the local scatter within classes is singular on the
    rest, it counts there as its smallest positive value.

    Cost: time and memory for a table of n x n for each class of n samples.

    References
    ----------
    .. [1] M. Sugiyama, "Dimensionality Reduction of Multimodal Labeled Data by Local Fisher Discriminant Analysis",
       Journal of Machine Learning Research 8, 2007.

    Examples
    --------
    >>> from boostmetric.baselines import LFDA
    >>> from sklearn.datasets import load_wine
    >>> LFDA(n_components=2).fit_transform(*load_wine(return_X_y=True)).shape
    (178, 2)
    """

    def __init__(self, n_components: int | None = None, *, n_neighbors: int = 7, lengths: str = "weighted") -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.lengths = lengths

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self
        """
        check_count("n_neighbors", self.n_neighbors)
        check_choice("lengths", self.lengths, LENGTHS)
        samples, labels = self._check_data(X, y)
        assert labels is not None
        rows, self.ratios_ = local_discriminants(
            samples, labels, n_components=self.n_components, n_neighbors=self.n_neighbors, lengths=self.lengths
        )
        self._finish(rows, Journal(), StopReason.CLOSED_FORM)
        return self


def local_discriminants(
    samples: FloatArray, labels: NDArray[Any], *, n_components: int | None, n_neighbors: int, lengths: str
) -> tuple[FloatArray, FloatArray]:
    """Linear map of LFDA, and its ratios, the largest first.

    Parameters
    ----------
    samples : ndarray of shape (n_samples, n_features)
    labels : ndarray of shape (n_samples,)
    n_components, n_neighbors, lengths
        As in `LFDA`.
    """
    frame = Frame.of(samples)
    points = np.asarray(frame.points)
    # Affinities are those of the given units; the rest is in units in which no feature is small by its name alone.
    unit = spread(points)
    within, missing = _scatters(points, points / unit, labels, n_neighbors)
    centred = (points - points.mean(axis=0)) / unit
    rows, ratios = _discriminants(within, centred.T @ centred - missing)
    count = len(rows) if n_components is None else min(n_components, len(rows))
    rows, ratios = rows[:count] / unit, ratios[:count]
    if lengths == "weighted":
        if not (ratios > 0).any():
            raise ValueError("No direction separates the classes: all ratios are 0. Use lengths='plain'.")
        rows = np.sqrt(np.maximum(ratios, 0.0))[:, None] * rows
    elif lengths == "orthonormal":
        rows = np.ldexp(np.linalg.qr(rows.T)[0].T, frame.exponent)
    return frame.as_map(rows), ratios


def _scatters(
    points: FloatArray, scaled: FloatArray, labels: NDArray[np.generic], n_neighbors: int
) -> tuple[FloatArray, FloatArray]:
    """Local scatter within classes; and by how much affinities lower the scatter of all pairs of samples.

    Implements the definitions of Sugiyama (2007), Eqs. (10) to (13): pairs of a class of n_c samples weigh A / n_c
    within, A (1 / n - 1 / n_c) between, all other pairs 1 / n between; both scatters together weigh them A / n and
    1 / n.
    """
    n, n_features = scaled.shape
    within, missing = np.zeros((n_features, n_features)), np.zeros((n_features, n_features))
    for label in np.unique(labels):
        chosen = labels == label
        members = scaled[chosen] - scaled[chosen].mean(axis=0)
        local = _laplacian(members, _affinity(points[chosen], n_neighbors))
        within += local / len(members)
        missing += (len(members) * members.T @ members - local) / n
    return within, missing


def _affinity(points: FloatArray, n_neighbors: int) -> FloatArray:
    """Affinities of the samples of a class; 1 for equal ones."""
    squares = cdist(points, points, "sqeuclidean")
    k = min(n_neighbors, len(points) - 1)
    reach = np.sqrt(np.partition(squares, k, axis=1)[:, k])
    affinity = np.outer(-reach, reach)
    nowhere = affinity == 0
    with np.errstate(divide="ignore", invalid="ignore"):
        np.divide(squares, affinity, out=affinity)
        np.exp(affinity, out=affinity)
    affinity[nowhere] = squares[nowhere] == 0
    return affinity


def _laplacian(points: FloatArray, weights: FloatArray) -> FloatArray:
    """Half the sum of w_ij (a_i - a_j)(a_i - a_j)' over all i and j."""
    return np.asarray(points.T @ (weights.sum(axis=1)[:, None] * points - weights @ points))


def _discriminants(within: FloatArray, both: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows v with v' within v = 1 and the ratios of v' (both - within) v to that, largest first."""
    eps = len(both) * np.finfo(np.float64).eps
    values, axes = np.linalg.eigh(both)
    varied = values > values[-1] * eps
    if not varied.any():
        raise ValueError("All samples are equal: nothing tells the classes apart. Check that X holds the samples.")
    axes = axes[:, varied] / np.sqrt(values[varied])
    shares, vectors = np.linalg.eigh(axes.T @ within @ axes)  # smallest share within first
    positive = shares > max(shares[-1], 1.0) * eps
    if not positive.any():
        raise ValueError(
            "The neighbours of each class are equal: LFDA needs some variation within classes. Use Euclidean()."
        )
    shares = np.maximum(shares, shares[positive].min())
    return np.asarray((vectors / np.sqrt(shares)).T @ axes.T), np.asarray((1.0 - shares) / shares)
