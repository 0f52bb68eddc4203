"""Parts of labelled samples to learn from and to validate on, and how metrics are judged on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.estimators.candidates import MOST_ANCHORS, Candidate, Recipe
from boostmetric.evaluation.knn import vote
from boostmetric.evaluation.splitting import FEW_ROWS
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.mapped_points import mapped_points
from boostmetric.neighbors import distances_to, nearest, rounding_of_distances
from boostmetric.solver.sources import DrawnAnchors, Labelled

# In large data, one sample in four is validated on, up to this many. In small data all samples are validated on in
# turn, in three folds, and in the smallest data in ten: with a fifth less to learn from, other metrics do best.
_VALIDATED_OF_LARGE, _MOST_VALIDATED = 4, 2500
_N_FOLDS, _N_FOLDS_OF_SMALLEST, _SMALLEST = 3, 10, 500
# Nearest samples that soft neighbours are picked from; the widths to pick them with, as fractions of the mean squared
# distance of the ten nearest, of which the best is used; the probability that any label is right; and the weight of
# their loss beside the error.
_N_NEIGHBORS = 20
_WIDTHS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, np.inf)
_LEAST_PROBABILITY = 0.05
_WEIGHT_OF_SOFT = 0.5
# Numbers of neighbours whose errors are averaged.
_VOTERS = (1, 3, 5)


class Fold(NamedTuple):
    """Samples to learn from, samples to validate on, and the numbers of the latter."""

    train: Labelled
    test: Labelled
    numbers: IntArray


def folds_of(data: Labelled, rng: np.random.RandomState) -> Iterator[Fold]:
    """Parts to learn from with parts to validate on; classes are spread over the parts evenly."""
    n = len(data.y)
    is_large = n >= FEW_ROWS
    n_parts = _VALIDATED_OF_LARGE if is_large else _N_FOLDS_OF_SMALLEST if n < _SMALLEST else _N_FOLDS
    part = np.empty(n, dtype=np.int64)
    part[np.lexsort((rng.permutation(n), data.y))] = np.arange(n) % n_parts
    for i in range(1 if is_large else n_parts):
        train, test = np.flatnonzero(part != i), np.flatnonzero(part == i)
        if is_large and len(test) > _MOST_VALIDATED:
            test = np.sort(rng.permutation(test)[:_MOST_VALIDATED])
        learned = data.take(train)
        if len(test) and learned.is_comparable:
            if is_large:
                learned = replace(learned, sample=DrawnAnchors(MOST_ANCHORS, rng.randint(2**31 - 1)))
            yield Fold(learned, data.take(test), test)


def judged(
    folds: Sequence[Fold], recipe: Recipe, n_passes: int, maps: Sequence[FloatArray], *, normalize: bool
) -> Candidate:
    """The candidate of the linear maps of all folds."""
    metrics = [MahalanobisMetric(components, normalize=normalize) for components in maps]
    found = [soft_losses(fold.train, fold.test, metric) for fold, metric in zip(folds, metrics, strict=True)]
    order = np.argsort(np.concatenate([fold.numbers for fold in folds]), kind="stable")
    losses = np.concatenate([soft for soft, _ in found], axis=1)[:, order]
    errors = np.concatenate([wrong for _, wrong in found])[order]
    softly = losses[losses.mean(axis=1).argmin()]
    return Candidate(recipe, n_passes, errors + _WEIGHT_OF_SOFT * softly, errors, normalize)


def soft_losses(train: Labelled, test: Labelled, metric: MahalanobisMetric) -> tuple[FloatArray, FloatArray]:
    """Losses of the test samples by soft neighbours, for each width, and their errors by nearest neighbours."""
    known, asked = mapped_points(metric, train.X, test.X)
    n_neighbors = min(_N_NEIGHBORS, len(known))
    found = nearest(known, asked, n_neighbors, rounding_of_distances(known), device=train.device)
    labels = train.y[found]
    is_same = labels == test.y[:, None]
    squares = np.square(distances_to(known, asked, found))
    unit = squares[:, :10].mean() or 1.0
    beyond = (squares - squares[:, :1]) / unit
    losses = []
    for width in _WIDTHS:
        weights = np.exp(-beyond / width)
        probability = (weights * is_same).sum(axis=1) / weights.sum(axis=1)
        losses.append(-np.log(_LEAST_PROBABILITY + (1 - _LEAST_PROBABILITY) * probability))
    wrong = [vote(labels[:, :k]) != test.y for k in _VOTERS]
    return np.array(losses), np.mean(wrong, axis=0)
