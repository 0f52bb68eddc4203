"""Paired bootstrap over clusters: how much of a difference between scores may be chance.

All queries (or classes, or anchors) are resampled with replacement. Each brings its score under both metrics, so that a
query that is hard for both does not blur the difference. Rows of one cluster are drawn together: ten comparisons of one
anchor are not ten independent answers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.types import FloatArray
from boostmetric.evaluation.task import ScoreSample

CONFIDENCE = 0.95
_CHUNK = 2**22  # numbers held at once


def interval_of_difference(
    base: Sequence[ScoreSample], learned: Sequence[ScoreSample], n_bootstrap: int, rng: np.random.RandomState
) -> tuple[FloatArray, FloatArray]:
    """Percentile intervals of the differences between scores, at the level `CONFIDENCE`.

    Parameters
    ----------
    base, learned : sequence of ScoreSample
        The same rows, weights and clusters under two metrics. Several samples are drawn independently of each other.
    n_bootstrap : int
        Number of draws.
    rng : RandomState

    Returns
    -------
    low, high : ndarray of shape (n_scores,)

    Notes
    -----
    Cost: one random number per draw and cluster; memory does not grow with the number of draws.

    Where near pairs and far pairs are two samples, the score is a mean over their product. To first order its deviation
    is the sum of the deviations of its row means and its column means, so no draw needs the product again.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric.evaluation.bootstrap import interval_of_difference
    >>> from boostmetric.evaluation.task import ScoreSample
    >>> right = np.random.RandomState(0).random_sample((400, 2)) < [0.8, 0.9]
    >>> base, learned = (ScoreSample(1.0 * right[:, [c]], np.ones(400), np.arange(400)) for c in (0, 1))
    >>> low, high = interval_of_difference([base], [learned], 1000, np.random.RandomState(0))
    >>> bool(0 < low[0] < 0.1 < high[0] < 0.2)
    True
    """
    overall = learned[0].mean - base[0].mean
    drawn = np.zeros((n_bootstrap, len(overall)))
    for before, after in zip(base, learned, strict=True):
        columns = [*(after.sums - before.sums).T, before.weight]
        by_cluster = np.stack([np.bincount(before.cluster, column) for column in columns], axis=1).astype(np.float64)
        sums = _drawn_sums(by_cluster, n_bootstrap, rng)
        drawn += sums[:, :-1] / sums[:, -1:] - overall
    tail = (1.0 - CONFIDENCE) / 2
    low, high = np.quantile(overall + drawn, [tail, 1.0 - tail], axis=0)
    return low, high


def _drawn_sums(values: FloatArray, n_bootstrap: int, rng: np.random.RandomState) -> NDArray[np.float64]:
    """Sum n rows drawn with replacement from the n rows of `values`, for each draw."""
    n = len(values)
    size = max(1, _CHUNK // n)
    answer = np.empty((n_bootstrap, values.shape[1]))
    for begin in range(0, n_bootstrap, size):
        count = min(size, n_bootstrap - begin)
        rows = rng.randint(n, size=(count, n)) + n * np.arange(count)[:, None]
        times = np.bincount(rows.ravel(), minlength=count * n).reshape(count, n)
        answer[begin : begin + count] = times.astype(np.float64) @ values
    return answer
