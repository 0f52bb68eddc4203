"""A Mahalanobis metric, stored as a linear map."""

from __future__ import annotations

import copy
import math
import reprlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from boostmetric.arrays.tensors import (
    as_floats,
    check_pairs,
    difference,
    finite,
    is_tensor,
    lengths,
    mapped,
    unit_vectors,
)
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import as_list, as_numbers, check_count, check_flag
from boostmetric.metric.closer_pair import CloserPairMixin

if TYPE_CHECKING:  # a loaded model maps points with NumPy alone
    from scipy import sparse


def with_fixed_signs(rows: FloatArray) -> FloatArray:
    """Flip the sign of rows so that the entry of largest absolute value is positive."""
    largest = rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)]
    return np.where(largest[:, None] < 0, -rows, rows)


class MahalanobisMetric(CloserPairMixin):
    """The distance ``sqrt((a - b)' X (a - b))`` with X = L'L.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        The linear map L: the distance is the Euclidean distance after ``points @ components.T``.
    feature_names : sequence of str, optional
        Names of the features, in order. If given, tables with other columns are rejected.
    directions : array-like of shape (n_directions, n_features), optional
        Directions that a boosted metric is a sum of, before truncation to a lower rank. Only kept for reference.
    step_sizes : array-like of shape (n_directions,), optional
        Weights of the directions.
    about : mapping, optional
        Where the metric comes from, as saved in a file: strings, finite numbers, booleans, None, and lists and
        dictionaries of these. Metrics of the estimators have the entries "estimator" (its "name" and "parameters"),
        "library" (the version of boostmetric) and "training" (its fitted attributes: "n_iter", "stop_reason",
        "duality_gap" and others).
    normalize : bool, default=False
        Whether points are scaled to unit length after the linear map, for indexes that compare by cosine. The distance
        is then the Euclidean distance of unit vectors, ``sqrt(2 - 2 cos)``, which orders points as the cosine of their
        mapped vectors does. Points that the map takes to zero stay there. Nothing is centred: the map is linear, and
        embeddings are used as they come.

    Attributes
    ----------
    components : ndarray of shape (n_components, n_features)
    feature_names : list of str, or None
    directions, step_sizes : ndarray, or None
    about : dict
    normalize : bool

    Examples
    --------
    >>> from boostmetric import MahalanobisMetric
    >>> metric = MahalanobisMetric([[2.0, 0.0]])
    >>> float(metric.distance([0.0, 0.0], [1.0, 5.0]))
    2.0
    >>> metric.matrix
    array([[4., 0.],
           [0., 0.]])

    Ask whether points are closer to their second point than to their third:

    >>> metric.predict([[[0.0, 0.0], [1.0, 9.0], [2.0, 0.0]]])
    array([1])

    Save it to a file, and load it again:

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> MahalanobisMetric([[2.0, 0.0]], feature_names=["height", "width"]).save(path)
    >>> MahalanobisMetric.load(path).feature_names
    ['height', 'width']

    Compare by cosine after the linear map:

    >>> MahalanobisMetric([[1.0, 0.0], [0.0, 2.0]], normalize=True).transform([[3.0, 2.0]])
    array([[0.6, 0.8]])
    """

    normalize: bool = False  # for metrics that were pickled before there was this attribute

    def __init__(
        self,
        components: ArrayLike,
        *,
        feature_names: Sequence[str] | None = None,
        directions: ArrayLike | None = None,
        step_sizes: ArrayLike | None = None,
        about: Mapping[str, Any] | None = None,
        normalize: bool = False,
    ) -> None:
        L = as_numbers("components", components)
        if L.ndim != 2 or 0 in L.shape:
            raise ValueError(f"components must have shape (n_components, n_features), both positive. Got {L.shape}.")
        if not np.isfinite(L).all():
            raise ValueError("components must be finite numbers; some are NaN or infinite.")
        with np.errstate(over="ignore"):
            trace = float(np.square(L).sum())
        if trace == math.inf:
            raise ValueError(
                f"components go up to {np.abs(L).max():.3g}, and their squares, which make up X = L'L, overflow. "
                "Divide them by a power of two, which changes no neighbours."
            )
        self.components: FloatArray = L
        self.feature_names = _checked_names(feature_names, L.shape[1])
        self.directions, self.step_sizes = _checked_directions(directions, step_sizes, L.shape[1])
        if about is not None and not isinstance(about, Mapping):
            raise ValueError(f"about must be a dictionary. Got {about!r}.")
        self.about: dict[str, Any] = copy.deepcopy(dict(about or {}))
        check_flag("normalize", normalize)
        self.normalize = bool(normalize)

    @classmethod
    def load(cls, path: str | Path) -> MahalanobisMetric:
        """Load a metric that was saved by `save` of this class or of an estimator.

        Needs only NumPy and safetensors, and executes no code in the file.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If the file is not a model file, is damaged, or has a newer format; the message says which.
        """
        from boostmetric.metric.model_file import load_model

        return load_model(path, cls)

    def save(self, path: str | Path) -> None:
        """Save the metric and its metadata to a safetensors file, atomically.

        Parameters
        ----------
        path : str or Path
            File to write, usually ending with ``.safetensors``. Replaced if it exists.
        """
        from boostmetric.metric.model_file import save_model

        save_model(self, path)

    @classmethod
    def from_directions(
        cls,
        directions: FloatArray,
        step_sizes: FloatArray,
        rank: int | None = None,
        coordinates: FloatArray | None = None,
    ) -> MahalanobisMetric:
        """Build X = sum_j step_sizes[j] * outer(directions[j], directions[j]), with no more components than its rank.

        Parameters
        ----------
        directions : ndarray of shape (n_directions, n_features)
        step_sizes : ndarray of shape (n_directions,)
        rank : int, optional
            Keep only the best approximation of this rank.
        coordinates : ndarray of shape (n_directions, n_dimensions), optional
            The directions in an orthonormal basis of a space that contains them, if it has fewer dimensions.

        Notes
        -----
        Without directions, the result is the zero metric, as a single row of zeros.
        """
        if not len(step_sizes):
            return cls(np.zeros((1, directions.shape[1])))
        weights = np.sqrt(step_sizes)[:, None]
        narrow = None if coordinates is None else weights * coordinates
        return cls(_principal(cls(weights * directions).components, rank, narrow))

    @property
    def matrix(self) -> FloatArray:
        """The matrix X = L'L of the linear map, of shape (n_features, n_features)."""
        return self.components.T @ self.components

    @property
    def eigenvalues(self) -> FloatArray:
        """Eigenvalues of X that may be nonzero, largest first."""
        singular = np.linalg.svd(self.components, compute_uv=False)
        return np.asarray(singular**2)

    def transform(self, X: ArrayLike | sparse.sparray) -> FloatArray:
        """Map points so that their Euclidean distance is this distance; with `normalize`, to unit length.

        Parameters
        ----------
        X : array-like or tensor of shape (..., n_features), or sparse matrix of shape (n_points, n_features)

        Returns
        -------
        ndarray of shape (..., n_components)
            For a torch tensor, a tensor on the same device and in the same precision (float32 for shorter floats,
            float64 for integers), through which gradients flow.
        """
        answer: FloatArray = finite(self._mapped(X))
        return answer

    def _mapped(self, X: ArrayLike | sparse.sparray) -> FloatArray:
        """Same as `transform`, but without an error if the result is not finite."""
        answer: FloatArray = mapped(self._check(X), self.components)
        return unit_vectors(answer) if self.normalize else answer

    def distance(self, a: ArrayLike, b: ArrayLike) -> FloatArray:
        """Distances between points of `a` and points of `b`, row by row.

        Parameters
        ----------
        a, b : array-like or tensor of shape (..., n_features)
            Points of equal shape, or of shapes that broadcast. Tensors must be on the same device.

        Returns
        -------
        ndarray of shape (...)
            A tensor if one of them is a tensor, as in `transform`.
        """
        first, second = self._check(a), self._check(b)
        answer: FloatArray
        if self.normalize:
            check_pairs(first, second)
            units = [unit_vectors(finite(mapped(points, self.components))) for points in (first, second)]
            answer = lengths(difference(*units))
        else:
            answer = lengths(finite(mapped(difference(first, second), self.components)))
        return answer

    def __call__(self, a: ArrayLike, b: ArrayLike) -> float:
        """Distance between two points, so that scikit-learn's neighbour searches accept this metric."""
        distance = self.distance(a, b)
        if distance.ndim:
            raise ValueError(
                f"A metric called as a function takes two points, but got {distance.shape} pairs. Use `distance`."
            )
        return float(distance)

    def truncate(self, rank: int | None = None) -> MahalanobisMetric:
        """Approximate X by a metric of at most the given rank, optimally in the Frobenius norm.

        Parameters
        ----------
        rank : int, optional
            Maximum rank. None keeps the metric and only drops components that are rounding errors.

        Returns
        -------
        MahalanobisMetric
            Its components are orthogonal, longest first. It keeps `feature_names`, `about` and `normalize`.
        """
        if rank is not None:
            check_count("rank", rank, alternative=", or None")
        return MahalanobisMetric(
            _principal(self.components, rank),
            feature_names=self.feature_names,
            about=self.about,
            normalize=self.normalize,
        )

    def reorder(self, feature_names: Sequence[str]) -> MahalanobisMetric:
        """The same metric for features in another order.

        Parameters
        ----------
        feature_names : sequence of str
            The names of its features, in the order that points will have them in.

        Examples
        --------
        >>> from boostmetric import MahalanobisMetric
        >>> MahalanobisMetric([[2.0, 0.5]], feature_names=["height", "width"]).reorder(["width", "height"]).components
        array([[0.5, 2. ]])
        """
        wanted = _checked_names(feature_names, self.components.shape[1])
        names = self.feature_names
        if wanted is None or names is None or sorted(names) != sorted(wanted):
            missing = [name for name in names or [] if name not in (wanted or [])]
            found = f"{missing[0]!r} is missing" if missing else f"the metric has {'names' if names else 'no names'}"
            raise ValueError(f"feature_names must be the names of the metric's features, in any order: {found}.")
        if len(set(names)) < len(names):
            raise ValueError("Some features of the metric have the same name, so they cannot be ordered by name.")
        order = [names.index(name) for name in wanted]
        directions = None if self.directions is None else self.directions[:, order]
        return MahalanobisMetric(
            self.components[:, order],
            feature_names=wanted,
            directions=directions,
            step_sizes=self.step_sizes,
            about=self.about,
            normalize=self.normalize,
        )

    def _check(self, X: Any) -> Any:
        check_columns(X, self.feature_names)
        sparse = sys.modules.get("scipy.sparse")  # if it is not imported, X cannot be sparse
        is_sparse = sparse is not None and sparse.issparse(X)
        points: Any
        if is_tensor(X):
            points = as_floats(X)
        elif sparse is not None and is_sparse:
            rows = sparse.csr_array(X)
            numbers = as_numbers("The points", rows.data)
            points = sparse.csr_array((numbers, rows.indices, rows.indptr), shape=rows.shape)
        else:
            points = as_numbers("The points", X)
        n_features = self.components.shape[1]
        if points.ndim == 0 or points.shape[-1] != n_features:
            raise ValueError(f"The metric has {n_features} features, but the points have shape {tuple(points.shape)}.")
        return points

    def __repr__(self) -> str:
        rank, n_features = self.components.shape
        unit = ", normalize=True" if self.normalize else ""
        return f"MahalanobisMetric(n_components={rank}, n_features={n_features}{unit})"


def _principal(components: FloatArray, rank: int | None, narrow: FloatArray | None = None) -> FloatArray:
    """Components of `truncate`; `narrow` holds the given ones in an orthonormal basis of a smaller space."""
    left, singular, right = np.linalg.svd(components if narrow is None else narrow, full_matrices=False)
    noise = singular[0] * max(components.shape) * np.finfo(singular.dtype).eps
    kept = max(1, int((singular > noise).sum()))
    kept = kept if rank is None else min(kept, rank)
    return with_fixed_signs(singular[:kept, None] * right[:kept] if narrow is None else left[:, :kept].T @ components)


def check_columns(X: Any, feature_names: list[str] | None) -> None:
    """Raise an error if a table's columns differ from the features of a metric in name or order."""
    columns = getattr(X, "columns", None)
    if columns is None or feature_names is None:
        return
    names = list(columns)
    if names != feature_names and all(isinstance(name, str) for name in names):
        wrong = next(((a, b) for a, b in zip(names, feature_names, strict=False) if a != b), None)
        raise ValueError(
            "The columns of the points must be the features of the metric, in the same order: "
            + (f"found {wrong[0]!r} instead of {wrong[1]!r}." if wrong else f"there are {len(names)}.")
            + " Select them: points[metric.feature_names]."
        )


def _checked_names(names: Sequence[str] | None, n_features: int) -> list[str] | None:
    if names is None:
        return None
    listed = [
        str(name) if isinstance(name, str) else name for name in as_list("feature_names", names, of=" of strings")
    ]
    if not all(isinstance(name, str) for name in listed):
        raise ValueError(f"feature_names must be a list of strings. Got {names!r}.")
    if len(listed) != n_features:
        raise ValueError(f"There are {len(listed)} feature_names, but the metric has {n_features} features.")
    return listed


def _checked_directions(
    directions: ArrayLike | None, step_sizes: ArrayLike | None, n_features: int
) -> tuple[FloatArray | None, FloatArray | None]:
    if directions is None and step_sizes is None:
        return None, None
    if directions is None or step_sizes is None:
        raise ValueError("directions and step_sizes belong together. Give both, or neither.")
    rows, weights = as_numbers("directions", directions), as_numbers("step_sizes", step_sizes)
    if weights.ndim != 1 or rows.shape != (len(weights), n_features):
        raise ValueError(
            "directions must have shape (n_directions, n_features) and step_sizes (n_directions,). Got "
            f"{rows.shape} and {weights.shape}; the metric has {n_features} features."
        )
    if not np.isfinite(rows).all() or not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError("directions and step_sizes must be finite, and step_sizes not negative.")
    return rows, weights


def as_metric(metric: Any) -> MahalanobisMetric | None:
    """Return the metric of a fitted learner; return a metric or None unchanged."""
    if metric is None or isinstance(metric, MahalanobisMetric):
        return metric
    if not isinstance(metric, type) and callable(getattr(metric, "get_metric", None)):
        learned = metric.get_metric()
        if isinstance(learned, MahalanobisMetric):
            return learned
    raise TypeError(
        f"metric must be a fitted learner, a MahalanobisMetric or None. Got {reprlib.repr(metric)}. "
        "MahalanobisMetric(components) makes a metric from an array of shape (n_components, n_features)."
    )
