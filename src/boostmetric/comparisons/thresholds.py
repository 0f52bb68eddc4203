"""Thresholds between the distances of similar pairs and those of dissimilar ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.types import FloatArray

STRATEGIES = ("accuracy", "f_beta", "max_tpr", "max_tnr")


def choose_threshold(
    distance: NDArray[np.float64],
    similar: NDArray[np.bool_],
    strategy: str = "accuracy",
    *,
    beta: float = 1.0,
    min_rate: float = 0.0,
) -> float:
    """The threshold under which calling the pairs below it similar is best; never between equal distances.

    Parameters
    ----------
    distance : ndarray of shape (n_pairs,)
    similar : ndarray of bool of shape (n_pairs,)
    strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}, default="accuracy"
        What is to be largest: the number of right answers; the F-score; the rate of similar pairs that are found (true
        positives), while the rate of dissimilar pairs that are told (true negatives) is at least `min_rate`; or the
        rate of true negatives, while that of true positives is at least `min_rate`.
    beta : float, default=1.0
        Weight of recall in the F-score.
    min_rate : float, default=0.0

    Returns
    -------
    float
        Halfway between two distances, or outside of all.
    """
    order = np.argsort(distance, kind="stable")
    ordered = distance[order]
    # If the first n pairs are called similar, n = 0, 1, ...
    found = np.concatenate([[0], np.cumsum(similar[order])])
    wrong = np.concatenate([[0], np.cumsum(~similar[order])])
    possible = np.concatenate([[True], np.diff(ordered) > 0, [True]])
    recall, told = _share(found, found[-1]), _share(wrong[-1] - wrong, wrong[-1])
    score: FloatArray
    if strategy == "accuracy":
        score = (found - wrong).astype(np.float64)
    elif strategy == "f_beta":
        weighted = (1 + beta**2) * found
        score = _share(weighted, weighted + beta**2 * (found[-1] - found) + wrong)
    elif strategy == "max_tpr":
        score = np.where(told >= min_rate, recall, -1.0)
    else:
        score = np.where(recall >= min_rate, told, -1.0)
    n = int(np.argmax(np.where(possible, score, -np.inf)))
    return float(0.5 * (_edge_below(ordered, n) + _edge_above(ordered, n)))


def _share(part: NDArray[Any], whole: NDArray[Any]) -> FloatArray:
    """Ratios; 0 for 0 / 0."""
    return np.asarray(part / np.maximum(whole, np.finfo(np.float64).tiny))


def _edge_below(ordered: FloatArray, n: int) -> float:
    if n:
        return float(ordered[n - 1])
    return 0.0 if ordered[0] > 0 else float(ordered[0]) - 2.0


def _edge_above(ordered: FloatArray, n: int) -> float:
    if n < len(ordered):
        return float(ordered[n])
    return 2 * float(ordered[-1]) if ordered[-1] > 0 else float(ordered[-1]) + 2.0
