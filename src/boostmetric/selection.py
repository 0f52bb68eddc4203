"""Which way to go, and how far: settings chosen by validation inside the training data.

A *path* begins with a metric and goes on in passes with a solver; every pass ends with a candidate, and the metric at
the beginning is one too. Candidates are judged by the errors of a nearest-neighbour classifier on samples that the path
has not seen: parts of the training data, or samples set aside for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from boostmetric.labelled import Labelled
from boostmetric.metric import MahalanobisMetric
from boostmetric.scoring import neighbor_labels, vote
from boostmetric.solver.learn import SolverName
from boostmetric.starts import STARTS, Init

FloatArray = NDArray[np.float64]

AUTO: Literal["auto"] = "auto"

# In small data all samples are validated on in turn; in large data one in so many of them is.
_LARGE = 1500
_N_FOLDS = 5
_VALIDATED_OF_LARGE = 4
# The corrective solver is tried in no more features than these, and if the metric has no more numbers than there are
# samples: beyond, it fits the training data too well, and takes long.
_MOST_FEATURES_CORRECTED = 32
# An iteration of it stands for so many stagewise ones.
_CORRECTIVE_DOES = 5
# A path is given up after so many passes that are no better than an earlier one.
_PATIENCE = 3
# Numbers of neighbours whose errors are averaged: less noisy than one number, when candidates are close.
_NEIGHBORS = (1, 3, 5)


class Path(NamedTuple):
    """Where to begin and how to go on."""

    init: Init
    solver: SolverName


@dataclass(frozen=True)
class Candidate:
    """A metric that could be the result.

    Attributes
    ----------
    path : Path
    n_passes : int
        Passes of the path; 0 for the metric it begins with.
    error : float
        Share of the validation samples that nearest neighbours get wrong, averaged over 1, 3 and 5 neighbours.
    """

    path: Path
    n_passes: int
    error: float


# Linear maps of the metrics of a path, learned from some data: at the beginning, and after each pass.
Follow = Callable[[Labelled, Path], Iterator[FloatArray]]
Part = tuple[Labelled, Labelled]


def find_candidates(
    data: Labelled,
    held_out: Labelled | None,
    *,
    init: Init,
    solver: str,
    follow: Follow,
    rng: np.random.RandomState,
    on_path: Callable[[int, int], None],
) -> list[Candidate]:
    """All candidates, with their errors; none if there are too few samples to validate on.

    First the starts are judged as they are; then paths are followed from the best of them, one with each solver.

    Parameters
    ----------
    data : Labelled
        Training data.
    held_out : Labelled, optional
        Validation data; by default parts of the training data, of which the rest is learned from.
    init, solver
        As in `boostmetric.BoostMetric`; "auto" tries all that suit the data.
    follow : callable
    rng : RandomState
        For the parts.
    on_path : callable
        Told how many paths have been followed, and how many there are.
    """
    parts = [(data, held_out)] if held_out is not None else list(_parts(data, rng))
    if not parts:
        return []
    solvers = _solvers(*data.X.shape) if solver == AUTO else [cast(SolverName, solver)]
    init_is_free = isinstance(init, str) and init == AUTO
    inits: list[Init] = list(STARTS[1:]) if init_is_free else ["identity", init]
    found = [Candidate(path, 0, next(_errors(parts, follow, path))) for path in (Path(i, solvers[0]) for i in inits)]
    start = choose(found).path.init if init_is_free else init
    for number, path in enumerate([Path(start, solver) for solver in solvers]):
        on_path(number, len(solvers))
        errors: list[float] = []
        for error in _errors(parts, follow, path):
            errors.append(error)
            if len(errors) - 1 - errors.index(min(errors)) >= _PATIENCE:
                break
        found += [Candidate(path, n, error) for n, error in enumerate(errors) if n > 0]
    on_path(len(solvers), len(solvers))
    return found


def choose(found: Sequence[Candidate]) -> Candidate:
    """The candidate of the smallest error; among equals that of fewest passes, and the first of these."""
    return min(found, key=lambda candidate: (candidate.error, candidate.n_passes))


def iterations(solver: str, max_iter: int) -> int:
    """Iterations of a pass: those of the corrective solver do more, and a few are enough before the next pass."""
    return max_iter if solver == "stagewise" else -(-max_iter // _CORRECTIVE_DOES)


def _solvers(n_samples: int, n_features: int) -> list[SolverName]:
    few = n_features <= _MOST_FEATURES_CORRECTED and n_features * (n_features + 1) // 2 <= n_samples
    return ["stagewise", "corrective"] if few else ["stagewise"]


def _errors(parts: Sequence[Part], follow: Follow, path: Path) -> Iterator[float]:
    """Errors of the metrics of a path, over all parts."""
    learned = [follow(train, path) for train, _ in parts]
    for metrics in zip(*learned, strict=True):
        wrong = [_wrong(train, test, metric) for (train, test), metric in zip(parts, metrics, strict=True)]
        yield float(np.concatenate(wrong, axis=1).mean())


def _wrong(train: Labelled, test: Labelled, components: FloatArray) -> NDArray[np.bool_]:
    """Which samples are classified wrongly, for each number of neighbours."""
    metric = MahalanobisMetric(components)
    n_neighbors = min(max(_NEIGHBORS), len(train.y))
    labels = neighbor_labels(metric.transform(train.X), train.y, metric.transform(test.X), n_neighbors)
    return np.array([vote(labels[:, :k]) != test.y for k in _NEIGHBORS])


def _parts(data: Labelled, rng: np.random.RandomState) -> Iterator[Part]:
    """Parts to learn from with parts to validate on; classes are spread over the parts evenly."""
    n = len(data.y)
    n_parts, n_used = (_N_FOLDS, _N_FOLDS) if n < _LARGE else (_VALIDATED_OF_LARGE, 1)
    part = np.empty(n, dtype=np.int64)
    part[np.lexsort((rng.permutation(n), data.y))] = np.arange(n) % n_parts
    for i in range(n_used):
        train, test = np.flatnonzero(part != i), np.flatnonzero(part == i)
        _, sizes = np.unique(data.y[train], return_counts=True)
        if len(test) and len(sizes) > 1 and sizes.max() > 1:
            yield data.take(train), data.take(test)
