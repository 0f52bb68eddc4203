"""The builder of comparisons from class labels, a class method of `boostmetric.Comparisons`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from boostmetric.arrays.numbering import check_weights, check_weights_of_anchors
from boostmetric.arrays.ragged import Ragged
from boostmetric.arrays.tensors import as_numpy
from boostmetric.arrays.types import FloatArray
from boostmetric.comparisons.classes import Classes

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from boostmetric.comparisons.comparisons import Comparisons


def from_labels(
    cls: type[Comparisons],
    X: ArrayLike,
    y: ArrayLike,
    n_neighbors: int = 3,
    n_impostors: int | Literal["all"] = 3,
    sample_weight: ArrayLike | None = None,
    *,
    unlabelled: bool = False,
    device: str = "cpu",
) -> Comparisons:
    """Compare each point's nearest points of its class with its nearest points of other classes.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The points.
    y : array-like of shape (n_samples,)
        Their class labels.
    n_neighbors : int, default=3
        Number of targets of each point: nearest points of the same class. Points of a smaller class have fewer
        targets, and a point alone in its class is only used as an impostor; both cause a warning.
    n_impostors : int or "all", default=3
        Number of impostors of each point: nearest points of other classes. "all" uses all of them.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the points' groups. A point of weight 0 has no group; it is only a target or impostor of others.
    unlabelled : bool, default=False
        Whether points may have no label: None, NaN, an empty text or, as in scikit-learn, -1. They keep their
        numbers, and are neither targets nor impostors. Otherwise a missing label is an error, and -1 is a class.
    device : {"cpu", "cuda", "auto"} or str, default="cpu"
        Where to search nearest points: "cuda" (or "cuda:1" and so on) is a GPU, which takes dense points; "auto"
        uses a GPU if there is one and the points are dense, else the CPU. The comparisons are the same.

    Returns
    -------
    Comparisons
        One group for each point: its targets against its impostors.

    Notes
    -----
    Cost: for every class, one search among its own points and one among all others. With ``n_impostors="all"`` the
    impostors are not listed and take no memory here; a fit then takes 16 bytes for every ordered pair of samples.

    Examples
    --------
    >>> from boostmetric import Comparisons
    >>> X, y = [[0.0], [1.0], [5.0], [6.0]], ["a", "a", "b", "b"]
    >>> Comparisons.from_labels(X, y, n_neighbors=1, n_impostors=2)
    Comparisons(n_comparisons=8, n_pairs=6, n_groups=4)
    """
    from boostmetric.comparisons.labels import mine

    y = as_numpy(y)
    weights = check_weights("sample_weight", sample_weight, np.size(y), "sample")
    found = mine(
        X,
        y,
        n_neighbors=n_neighbors,
        n_impostors=n_impostors,
        asked=weighed(weights),
        unlabelled=unlabelled,
        device=device,
    )
    return of_neighbors(cls, *found, weights)


def weighed(weights: FloatArray) -> NDArray[np.bool_] | None:
    """Mask of the points of positive weight; None if all are."""
    return None if weights.all() else weights > 0


def of_neighbors(
    cls: type[Comparisons],
    anchors: NDArray[np.int64],
    targets: Ragged,
    impostors: Ragged | Classes,
    weights: FloatArray,
) -> Comparisons:
    """Build one group for each anchor from what `boostmetric.comparisons.labels.mine` found, and weights of points."""
    own = weights[anchors]
    check_weights_of_anchors(own)
    if isinstance(impostors, Classes):
        nobody = Ragged.from_sizes(np.empty(0, dtype=np.int32), np.zeros(len(anchors), dtype=np.int64))
        return cls._from_anchors(anchors, targets, nobody, own, impostors)
    return cls._from_anchors(anchors, targets, impostors, own)
