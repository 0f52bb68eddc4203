"""Wrapper that keeps cross-validation from splitting the points that comparisons refer to."""

from __future__ import annotations

from typing import Any


class Points:
    """Points that comparisons refer to by number, protected from being split.

    scikit-learn's cross-validation splits every array that has as many rows as there are samples. If there happen to be
    as many points as comparisons, it would split the points too, and the numbers in the comparisons would refer to
    other points. This wrapper has no length, so it is passed on as it is.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_points, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric import ComparisonBoostMetric, Points
    >>> from sklearn.model_selection import cross_val_score
    >>> rng = np.random.RandomState(0)
    >>> X = rng.standard_normal((200, 4))
    >>> t = np.array([rng.permutation(200)[:3] for _ in range(200)])
    >>> swap = abs(X[t[:, 0], 0] - X[t[:, 1], 0]) > abs(X[t[:, 0], 0] - X[t[:, 2], 0])
    >>> t[swap] = t[swap][:, [0, 2, 1]]  # by the first feature, i is closer to j than to k
    >>> scores = cross_val_score(ComparisonBoostMetric(max_iter=20), t, params={"points": Points(X)})
    >>> bool(scores.mean() > 0.9)
    True
    """

    def __init__(self, X: Any) -> None:
        self.X = X

    def __repr__(self) -> str:
        return f"Points({type(self.X).__name__} of shape {getattr(self.X, 'shape', '?')})"
