"""Learn the directions of one tenant, and choose by cross-validation how many it gets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.arrays.validation import check_count
from boostmetric.comparisons import Comparisons
from boostmetric.estimators import ComparisonBoostMetric
from boostmetric.evaluation import RankingTask
from boostmetric.evaluation.bootstrap import interval_of_difference
from boostmetric.evaluation.task import ScoreSample
from boostmetric.tenants.directions import TenantDirections, TenantFit

# With fewer queries the interval of a difference says little, and a tenant keeps the shared metric.
FEWEST_QUERIES = 20
_N_FOLDS = 5
_N_BOOTSTRAP = 1000
# Share of the weight of a direction that a change of the query takes, since nothing balances it at the documents.
# Chosen among 0.05, 0.1 and 0.25 on training and validation rows of HWU64 and CLINC150, cut into tenants by topic. With
# 0.25, two tenants of CLINC150 were worse on its test rows.
_SHARE = 0.1


def learn_directions(
    queries: FloatArray,
    documents: FloatArray,
    relevance: Any,
    max_directions: int,
    random_state: int | np.random.RandomState | None,
) -> tuple[TenantDirections, TenantFit]:
    """Learn directions from queries and documents that the shared metric has mapped.

    Parameters
    ----------
    queries : ndarray of shape (n_queries, n_components)
    documents : ndarray of shape (n_documents, n_components)
    relevance : as in `boostmetric.evaluation.evaluate_rankings`
    max_directions : int
    random_state : int, RandomState or None

    Notes
    -----
    Cost: six fits of `max_directions` iterations, and a search of the queries for each number of directions.
    """
    check_count("max_directions", max_directions)
    rng = check_random_state(random_state)
    task = RankingTask.of(queries, documents, relevance, k=min(10, len(documents)))
    query, document = np.divmod(task.judged[task.grades > 0], len(documents))
    positives = np.stack([query, document], axis=1)
    none = TenantDirections.none(documents.shape[1])
    n_queries = len(task.rows)
    if n_queries < FEWEST_QUERIES:
        return none, TenantFit(n_queries, 0, task.headline)

    fold = np.full(len(queries), -1)
    fold[task.rows] = rng.permutation(n_queries) % _N_FOLDS
    numbers = _numbers(max_directions)
    moved = np.repeat(queries[None], len(numbers), axis=0)
    for held_out in range(_N_FOLDS):
        others = positives[fold[query] != held_out]
        found = _directions(queries, documents, others, max_directions)
        asked = fold == held_out
        for place, number in enumerate(numbers):
            moved[place, asked] = found.first(number).move(queries[asked])
    base = _headline(task, (queries, documents))
    samples = [_headline(task, (points, documents)) for points in moved]
    best = int(np.argmax([sample.mean[0] for sample in samples]))  # of equal ones that with fewer directions
    low, high = (float(bound[0]) for bound in interval_of_difference([base], [samples[best]], _N_BOOTSTRAP, rng))
    chosen = numbers[best] if low > 0 else 0
    fit = TenantFit(n_queries, chosen, task.headline, float(base.mean[0]), float(samples[best].mean[0]), low, high)
    return (_directions(queries, documents, positives, max_directions).first(chosen) if chosen else none), fit


def _numbers(most: int) -> list[int]:
    """Numbers of directions to try: 1, 2, 4, ... and the most."""
    return [*(2**power for power in range(most.bit_length()) if 2**power < most), most]


def _headline(task: RankingTask, points: tuple[FloatArray, FloatArray]) -> ScoreSample:
    """The headline score of each query."""
    (sample,) = task.measure(points)
    column = task.names.index(task.headline)
    return sample._replace(sums=sample.sums[:, [column]])


def _directions(
    queries: FloatArray, documents: FloatArray, positives: IntArray, max_directions: int
) -> TenantDirections:
    """Boost the shared metric by directions that bring queries nearer to their relevant documents."""
    n_documents, n_components = documents.shape
    points: NDArray[Any] = np.concatenate([documents, queries])
    query, document = positives.T
    comparisons = Comparisons.from_positives(
        query + n_documents, document, points=points, corpus=np.arange(n_documents)
    )
    fitted = ComparisonBoostMetric(loss="logistic", init="identity", max_iter=max_directions).fit(
        comparisons, points=points
    )
    # The first directions are the start: the shared metric, with one weight.
    start, weights = fitted.step_sizes_[0], fitted.step_sizes_[n_components:]
    if not start > 0:
        return TenantDirections.none(n_components)
    directions = np.sqrt(_SHARE * weights / start)[:, None] * fitted.directions_[n_components:]
    return TenantDirections(directions, directions @ documents.mean(axis=0))
