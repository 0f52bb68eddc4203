"""Compare a learned metric with the base, the Euclidean distance between the points as given, or an earlier metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from boostmetric.arrays.point_blocks import PointBlocks
from boostmetric.arrays.tensors import unit_vectors
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import as_list, check_choice, check_count
from boostmetric.evaluation.bootstrap import interval_of_difference
from boostmetric.evaluation.comparison_task import ComparisonTask
from boostmetric.evaluation.label_task import Clusters, LabelTask
from boostmetric.evaluation.query_side import query_side_points
from boostmetric.evaluation.ranking_scores import Gain
from boostmetric.evaluation.ranking_task import RankingTask
from boostmetric.evaluation.task import ScoreSample, Task
from boostmetric.evaluation.verdict import Evaluation, Row
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.mahalanobis import as_metric
from boostmetric.neighbors.in_blocks import OnProgress

Random = int | np.random.RandomState | None


def evaluate(
    metric: Any,
    X: Any,
    y: ArrayLike,
    *,
    reference: tuple[Any, ArrayLike] | None = None,
    k: int | Sequence[int] = (1, 5, 10),
    n_neighbors: int | Sequence[int] = 3,
    by: Clusters = "query",
    headline: str | None = None,
    against: Any = None,
    n_bootstrap: int = 1000,
    random_state: Random = 0,
) -> Evaluation:
    """Compare a metric with the base on labelled queries, whose nearest points should share their class.

    Parameters
    ----------
    metric : fitted learner, MahalanobisMetric or None
        None measures the base alone.
    X : {array-like, sparse matrix} of shape (n_queries, n_features)
        Queries that the metric was not learned from.
    y : array-like of shape (n_queries,)
        Labels of the queries.
    reference : tuple (X, y), optional
        Points to search, and their labels. None searches the other queries; a query that is alone in its class is then
        skipped, with a warning.
    k : int or sequence of int, default=(1, 5, 10)
        Number of results to score. MRR, MAP and nDCG use the largest.
    n_neighbors : int or sequence of int, default=3
        Number of neighbours that vote; the nearest breaks ties.
    by : {"query", "class"}, default="query"
        What the bootstrap resamples. "class" tests whether the difference would hold for other classes too.
    headline : str, optional
        The score that decides the verdict; by default the mean of the k-NN accuracy (the first, if there are several)
        and MAP. See `Evaluation.verdict` for when another score overrules it.
    against : fitted learner or MahalanobisMetric, optional
        An earlier metric to compare with, in place of the base.
    n_bootstrap : int, default=1000
        Number of bootstrap draws.
    random_state : int, RandomState or None, default=0
        Random seed of the bootstrap.

    Returns
    -------
    Evaluation
        Scores: k-NN accuracy, recall@k (any: whether one of the k nearest has the same class), precision@k, MRR, MAP,
        nDCG, and the mean of k-NN accuracy and MAP.

    Notes
    -----
    Cost: one search of the queries among all points, for each of the two metrics.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.evaluation import evaluate
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(200) % 2
    >>> X = np.stack([y + 0.1 * rng.standard_normal(200), 3 * rng.standard_normal(200)], axis=1)
    >>> result = evaluate(MahalanobisMetric([[1.0, 0.0]]), X, y, k=5)
    >>> result.verdict
    'better'
    >>> result.sentence
    'Better: mean of 3-NN and MAP@5 0.974 -> 1.000, difference 0.026 (95 % interval 0.010 to 0.046, 200 queries).'
    """
    task = LabelTask.of(X, y, reference=reference, k=k, n_neighbors=n_neighbors, by=by)
    return compare(metric, task, headline=headline, against=against, n_bootstrap=n_bootstrap, random_state=random_state)


def evaluate_rankings(
    metric: Any,
    queries: Any,
    documents: Any,
    relevance: Any,
    *,
    k: int | Sequence[int] = (1, 5, 10),
    gain: Gain = "linear",
    relevant_above: float = 0.0,
    only_judged: bool = False,
    headline: str | None = None,
    against: Any = None,
    n_bootstrap: int = 1000,
    random_state: Random = 0,
) -> Evaluation:
    """Compare a metric with the base on queries with graded documents, where better documents should be nearer.

    Parameters
    ----------
    metric : fitted learner, MahalanobisMetric or None
        None measures the base alone.
    queries : {array-like, sparse matrix} of shape (n_queries, n_features)
    documents : {array-like, sparse matrix} of shape (n_documents, n_features) or None
        None searches the other queries.
    relevance : sparse matrix of shape (n_queries, n_documents), or array-like of shape (n_judgements, 3)
        Grades, at least 0; or rows (query, document, grade), with row numbers in the two arrays. Documents without a
        judgement have grade 0. Queries without a relevant document are left out, with a warning.
    k : int or sequence of int, default=(1, 5, 10)
        Number of results to score. MRR and MAP use the largest.
    gain : {"linear", "exponential"}, default="linear"
        Gain of a grade g in nDCG: g, or 2**g - 1.
    relevant_above : float, default=0.0
        For all scores but nDCG, a document is relevant if its grade is larger than this.
    only_judged : bool, default=False
        Whether to rank only the documents that were judged for a query, where one ranking decided what was judged:
        another finds documents of which nothing is known, and would seem worse.
    headline : str, optional
        The score that decides the verdict; by default nDCG at the largest k.
    against, n_bootstrap, random_state
        As in `evaluate`. Queries are resampled.

    Returns
    -------
    Evaluation
        Scores: nDCG@k, recall@k (any: whether a relevant document is among the k nearest; share: the fraction of the
        relevant documents that are), precision@k, MRR, MAP; and nDCG with unchanged documents, where only the queries
        are mapped and compared by inner product (query side).

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric.evaluation import evaluate_rankings
    >>> queries, documents = np.array([[0.0], [10.0]]), np.array([[1.0], [2.0], [8.0], [9.0]])
    >>> result = evaluate_rankings(None, queries, documents, [[0, 0, 2], [0, 1, 1], [1, 2, 1]], k=2)
    >>> round(result["nDCG@2"].base, 3)
    0.815
    """
    task = RankingTask.of(
        queries, documents, relevance, k=k, gain=gain, relevant_above=relevant_above, only_judged=only_judged
    )
    return compare(metric, task, headline=headline, against=against, n_bootstrap=n_bootstrap, random_state=random_state)


def evaluate_comparisons(
    metric: Any,
    comparisons: Any,
    points: Any,
    *,
    y: ArrayLike | None = None,
    against: Any = None,
    n_bootstrap: int = 1000,
    random_state: Random = 0,
) -> Evaluation:
    """Compare a metric with the base by the comparisons that each satisfies.

    Parameters
    ----------
    metric : fitted learner, MahalanobisMetric or None
        None measures the base alone.
    comparisons : Comparisons, or array-like of int
        Rows (i, j, k), (i, j, k, l) or, with `y`, (i, j) of point numbers, as in `ComparisonBoostMetric.fit`. The
        comparisons that `Comparisons.split` holds out share no anchor and no pair with the training comparisons.
    points : {array-like, sparse matrix} of shape (n_points, n_features), or Points
    y : array-like of shape (n_pairs,), optional
        For rows (i, j): 1 for similar, -1 for dissimilar.
    against, n_bootstrap, random_state
        As in `evaluate`. Anchors are resampled with all their comparisons; if there is one anchor or none, pairs are.

    Returns
    -------
    Evaluation
        Score: the weighted fraction of comparisons whose near pair is closer than the far pair. As in
        `ComparisonBoostMetric.score`, pairs of equal length do not satisfy a comparison.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.evaluation import evaluate_comparisons
    >>> points = np.random.default_rng(0).standard_normal((200, 2))
    >>> t = np.random.default_rng(1).integers(200, size=(500, 3))
    >>> t = t[(np.diff(np.sort(t)) > 0).all(axis=1)]
    >>> near, far = (abs(points[t[:, 0], 0] - points[t[:, c], 0]) for c in (1, 2))
    >>> t[near > far] = t[near > far][:, [0, 2, 1]]
    >>> evaluate_comparisons(MahalanobisMetric([[1.0, 0.0]]), t, points).verdict
    'better'
    """
    task = ComparisonTask.of(comparisons, points, y)
    return compare(metric, task, against=against, n_bootstrap=n_bootstrap, random_state=random_state)


def compare(
    metric: Any,
    task: Task,
    *,
    headline: str | None = None,
    beside: Sequence[Task] = (),
    against: Any = None,
    n_bootstrap: int = 1000,
    random_state: Random = 0,
    on_progress: OnProgress | None = None,
) -> Evaluation:
    """Compare a metric with the base, or an earlier one, on any task; see `evaluate`, which builds one from labels.

    Parameters
    ----------
    metric, headline, against, n_bootstrap, random_state
        As in `evaluate`.
    task : LabelTask, RankingTask or ComparisonTask
    beside : sequence of tasks
        Further tasks, whose scores are reported beside those of `task`, and may contradict its headline.
    on_progress : callable, optional
        Called with the number of points read and the number to read, for each metric, if points are read in blocks.

    Returns
    -------
    Evaluation
    """
    learned, earlier = as_metric(metric), as_metric(against)
    if learned is None and earlier is not None:
        raise ValueError("metric is None, so there is nothing to compare `against` with. Pass a metric.")
    check_count("n_bootstrap", n_bootstrap)
    rng = check_random_state(random_state)
    names = [name for one in (task, *beside) for name in one.names]
    if headline is not None:
        check_choice("headline", headline, names)
    base = task.measure(_mapped(task, earlier), on_progress)
    after = None if learned is None else task.measure(_mapped(task, learned), on_progress)
    evaluation = Evaluation(
        rows=_rows(task, base, after, n_bootstrap, rng),
        headline=task.headline,
        size=task.size,
        clusters=task.clusters,
        n_clusters=min(int(sample.cluster.max()) + 1 for sample in base),
        n_left_out=task.n_left_out,
        n_bootstrap=n_bootstrap,
        asked=task.rows,
        base_values=base[0].values,
        learned_values=None if after is None else after[0].values,
        important=task.important,
        other="base" if earlier is None else "earlier",
    )
    if isinstance(task, RankingTask) and learned is not None:
        if earlier is not None:
            base = task.measure(query_side_points(earlier, task.points[0], task.points[-1]), on_progress)
        mapped = task.measure(query_side_points(learned, task.points[0], task.points[-1]), on_progress)
        column = task.names.index(task.headline)
        row = _rows(task, base, mapped, n_bootstrap, rng)[column]
        evaluation = evaluation.beside([replace(row, name=f"{row.name} (query side)")])
    for other in beside:
        also = compare(learned, other, against=earlier, n_bootstrap=n_bootstrap, random_state=rng)
        evaluation = evaluation.beside(also.rows, also.important)
    return evaluation if headline is None else evaluation.judged_by(headline)


def _mapped(task: Task, metric: MahalanobisMetric | None) -> Sequence[Any]:
    """The points of a task under a metric; as given without one."""
    if metric is None:
        return task.points
    return [
        points.map(metric.transform, len(metric.components))
        if isinstance(points, PointBlocks)
        else metric.transform(points)
        for points in task.points
    ]


def _rows(
    task: Task,
    base: list[ScoreSample],
    learned: list[ScoreSample] | None,
    n_bootstrap: int,
    rng: np.random.RandomState,
) -> tuple[Row, ...]:
    """Scores with the intervals of their differences."""
    columns: list[list[Any]] = [list(task.names), base[0].mean.tolist()]
    if learned is None:
        columns += [[None] * len(task.names)] * 4
    else:
        low, high = interval_of_difference(base, learned, n_bootstrap, rng)
        difference = learned[0].mean - base[0].mean
        columns += [values.tolist() for values in (learned[0].mean, difference, low, high)]
    columns += [task.ceilings.tolist(), task.chances.tolist()]
    return tuple(Row(*cells) for cells in zip(*columns, strict=True))


def scores_by_rank(
    metric: Any, task: Task, *, ranks: Sequence[int] | None = None, score: str | None = None
) -> list[tuple[int, float]]:
    """Score the metric truncated to each rank, to see how short the vectors can be.

    Parameters
    ----------
    metric : fitted learner or MahalanobisMetric
    task : LabelTask, RankingTask or ComparisonTask
    ranks : sequence of int, optional
        Numbers of dimensions to keep, at most the rank of the metric. By default 1, 2, 4, ... and the rank itself.
    score : str, optional
        Name of the score; by default the headline of the task.

    Returns
    -------
    list of tuple (rank, score)
        In ascending order of rank.

    Notes
    -----
    Cost: one singular value decomposition, and one search for each rank.

    Examples
    --------
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.evaluation import LabelTask, scores_by_rank
    >>> task = LabelTask.of([[0, 0], [1, 0], [0, 5], [1, 5]], ["a", "b", "a", "b"], k=1, n_neighbors=1)
    >>> scores_by_rank(MahalanobisMetric([[3.0, 0.0], [0.0, 1.0]]), task)  # rank 1 keeps the first feature
    [(1, 1.0), (2, 0.0)]
    """
    learned = as_metric(metric)
    if learned is None:
        raise ValueError("metric is None, but only a learned metric can be truncated. Pass a learned metric.")
    if score is not None:
        check_choice("score", score, task.names)
    column = task.names.index(score or task.headline)
    orthogonal = learned.truncate()  # longest rows first: a metric of lower rank is a prefix of them
    full = len(orthogonal.components)
    if ranks is None:
        ranks = [*(2**power for power in range(full.bit_length()) if 2**power < full), full]
    ranks = as_list("ranks", ranks)
    for rank in ranks:
        check_count("ranks", rank)
        if rank > full:
            raise ValueError(f"ranks contains {rank}, but the metric has rank {full}. Leave out larger ranks.")
    mapped = [orthogonal.transform(points) for points in task.points]

    def cut(points: FloatArray, rank: int) -> FloatArray:
        shorter = points[:, :rank]
        return unit_vectors(shorter) if learned.normalize else shorter

    return [
        (rank, float(task.measure([cut(points, rank) for points in mapped])[0].mean[column]))
        for rank in sorted({int(rank) for rank in ranks})
    ]
