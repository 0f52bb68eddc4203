"""How the score on held-out data grew while a metric was boosted."""

from __future__ import annotations

from boostmetric.evaluation.task import Task
from boostmetric.metric import MahalanobisMetric


def scores_by_direction(metric: MahalanobisMetric, task: Task, score: str) -> list[tuple[int, float]]:
    """Score a boosted metric of its first 1, 2, 4, ... directions, and of all.

    They are in the order in which they were found; those of the start come first.

    Parameters
    ----------
    metric : MahalanobisMetric
    task : LabelTask, RankingTask or ComparisonTask
    score : str
        Name of the score.

    Returns
    -------
    list of tuple (number of directions, score)
        Empty if the metric does not know its directions. They are those before the metric was cut to a lower rank.

    Notes
    -----
    Cost: one search of the task for each number.

    Examples
    --------
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.evaluation import LabelTask
    >>> from boostmetric.evaluation.stages import scores_by_direction
    >>> task = LabelTask.of([[0, 0], [1, 0], [0, 5], [1, 5]], ["a", "b", "a", "b"], k=1, n_neighbors=1)
    >>> metric = MahalanobisMetric([[6, 0], [0, 1]], directions=[[0, 1], [1, 0]], step_sizes=[1, 36])
    >>> scores_by_direction(metric, task, "1-NN accuracy")
    [(1, 0.0), (2, 1.0)]
    """
    directions, weights = metric.directions, metric.step_sizes
    if directions is None or weights is None or not len(weights):
        return []
    n = len(weights)
    numbers = [*(2**power for power in range(n.bit_length()) if 2**power < n), n]
    column, found = task.names.index(score), []
    for number in numbers:
        components = MahalanobisMetric.from_directions(directions[:number], weights[:number]).components
        stage = MahalanobisMetric(components, normalize=metric.normalize)
        (sample, *_) = task.measure([stage.transform(points) for points in task.points])
        found.append((number, float(sample.mean[column])))
    return found
