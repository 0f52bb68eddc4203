"""Keep the learned metric only if it beats the base on held-out data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from boostmetric.arrays.validation import check_choice
from boostmetric.evaluation.compare import Random, compare
from boostmetric.evaluation.task import Task
from boostmetric.evaluation.verdict import Evaluation
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.mahalanobis import as_metric


@dataclass(frozen=True)
class Kept:
    """The metric to use, and its evaluation.

    Attributes
    ----------
    metric : MahalanobisMetric
    evaluation : Evaluation
        Evaluation of this metric against the base.
    is_base : bool
        Whether the metric is the base, because the learned one did not beat it.
    rejected : Evaluation or None
        Evaluation of the learned metric, if the base is kept instead and it is another one.
    """

    metric: MahalanobisMetric
    evaluation: Evaluation
    is_base: bool
    rejected: Evaluation | None = None


def keep_better(
    metric: Any,
    task: Task,
    *,
    headline: str | None = None,
    beside: Sequence[Task] = (),
    ties: Literal["base", "learned"] = "base",
    random_state: Random = 0,
) -> Kept:
    """Keep a learned metric if its headline score beats that of the base and nothing important contradicts it.

    Parameters
    ----------
    metric : fitted learner or MahalanobisMetric
    task : LabelTask, RankingTask or ComparisonTask
        Task on held-out data. Test the metric that is kept on other data.
    headline : str, optional
        The score that decides; by default the headline of the task.
    beside : sequence of tasks
        Further tasks, which may contradict the headline.
    ties : {"base", "learned"}, default="base"
        What to keep if both score the same. "learned" is for metrics that validation has already chosen over the base,
        as `BoostMetric.recommended` does.
    random_state : int, RandomState or None, default=0
        Random seed of the bootstrap.

    Returns
    -------
    Kept

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric import Comparisons, MahalanobisMetric
    >>> from boostmetric.evaluation import ComparisonTask, keep_better
    >>> points = np.array([[0.0, 0.0], [0.0, 1.0], [2.0, 0.0]])
    >>> task = ComparisonTask.of(Comparisons.from_triplets([[0, 1, 2]]), points)
    >>> keep_better(MahalanobisMetric([[1.0, 0.0]]), task).is_base  # the base is right already
    True
    """
    check_choice("ties", ties, ("base", "learned"))
    learned = as_metric(metric)
    if learned is None:
        raise TypeError("metric must be a fitted learner or a MahalanobisMetric. Got None.")
    evaluation = compare(learned, task, headline=headline, beside=beside, random_state=random_state)
    if evaluation.prefers_learned(ties):
        return Kept(learned, evaluation, is_base=False)
    base = base_of(learned)
    same = compare(base, task, headline=headline, beside=beside, random_state=random_state)
    return Kept(base, same, is_base=True, rejected=None if is_base(learned) else evaluation)


def base_of(metric: MahalanobisMetric) -> MahalanobisMetric:
    """The Euclidean distance as a metric, with the feature names and description of `metric`."""
    return MahalanobisMetric(np.eye(metric.components.shape[1]), feature_names=metric.feature_names, about=metric.about)


def is_base(metric: MahalanobisMetric) -> bool:
    """Whether all distances are the Euclidean ones, or one multiple of them.

    Examples
    --------
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.evaluation.keeping import is_base
    >>> is_base(MahalanobisMetric([[2.0, 0.0], [0.0, 2.0]])), is_base(MahalanobisMetric([[1.0, 0.0]]))
    (True, False)
    """
    components = metric.components
    if metric.normalize or len(components) < components.shape[1]:
        return False
    gram = metric.matrix
    scale = float(np.trace(gram)) / len(gram)
    return bool(scale > 0 and np.allclose(gram / scale, np.eye(len(gram)), rtol=0.0, atol=1e-12))
