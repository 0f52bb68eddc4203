"""What a learned metric gains and loses in each class."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from boostmetric.arrays.validation import check_choice
from boostmetric.evaluation.bootstrap import CONFIDENCE
from boostmetric.evaluation.label_task import LabelTask
from boostmetric.evaluation.verdict import Evaluation

# Queries' worth of the variance within all classes that is mixed into that of each class.
_PRIOR = 4.0


class ClassGain(NamedTuple):
    """Mean score of the queries of one class under the base and the learned metric.

    Attributes
    ----------
    label : object
    n_queries : int
    base, learned : float
    low, high : float
        Bounds of the 95 % interval of the difference.
    """

    label: Any
    n_queries: int
    base: float
    learned: float
    low: float
    high: float

    @property
    def difference(self) -> float:
        """How much the score rose."""
        return self.learned - self.base


def class_gains(evaluation: Evaluation, task: LabelTask) -> list[ClassGain]:
    """Compare the metrics class by class, by the headline of the evaluation.

    Parameters
    ----------
    evaluation : Evaluation
        Of a learned metric on `task`.
    task : LabelTask

    Returns
    -------
    list of ClassGain
        One for each class that has queries, the largest gain first.

    Notes
    -----
    Each interval is for its class alone: of many classes in which nothing changes, one in twenty seems to change. A
    class has few queries, often with equal differences, of which a bootstrap would say that they are certain.
    So the intervals are those of moderated t statistics (Smyth, "Linear models and empirical Bayes methods for
    assessing differential expression in microarray experiments", 2004): the variance within a class is mixed with
    that within all classes, which counts as much as 4 queries.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.evaluation import LabelTask, class_gains, compare
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> task = LabelTask.of(X, y, k=5)
    >>> gains = class_gains(compare(MahalanobisMetric(np.diag(1 / X.std(axis=0))), task), task)
    >>> [(gain.label, gain.n_queries, round(gain.difference, 2)) for gain in gains]
    [(2, 48, 0.47), (1, 71, 0.21), (0, 59, 0.15)]
    """
    if evaluation.learned_values is None:
        raise ValueError("evaluation is of the base alone, which gains nothing. Evaluate a learned metric.")
    check_choice("headline", evaluation.headline, task.names)
    column = task.names.index(evaluation.headline)
    base, learned = evaluation.base_values[:, column], evaluation.learned_values[:, column]
    difference = learned - base
    numbers, place, count = np.unique(task.right, return_inverse=True, return_counts=True)
    mean = np.bincount(place, difference) / count
    squares = np.bincount(place, np.square(difference - mean[place]))
    several = len(place) - len(numbers)  # 0 if every class has one query
    within = squares.sum() / several if several else difference.var()
    freedom = _PRIOR + count - 1
    error = np.sqrt((_PRIOR * within + squares) / freedom / count)
    half = stats.t.ppf(0.5 + CONFIDENCE / 2, freedom) * error
    low, high = np.clip([mean - half, mean + half], -1.0, 1.0)
    before, after = (np.bincount(place, values) / count for values in (base, learned))
    columns = (task.classes[numbers].tolist(), count.tolist(), *(v.tolist() for v in (before, after, low, high)))
    gains = [ClassGain(*cells) for cells in zip(*columns, strict=True)]
    return sorted(gains, key=lambda gain: (-gain.difference, -gain.n_queries))
