"""Which way to go, and how far: settings chosen by validation inside the training data.

A *path* begins with a metric and goes on in passes with a solver; every pass ends with a candidate, and the metric at
the beginning is one too. Candidates are judged by the errors of a nearest-neighbour classifier on samples that the path
has not seen: parts of the training data, or samples set aside for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.types import FloatArray
from boostmetric.estimators.labelled import Labelled
from boostmetric.evaluation.knn import neighbor_labels, vote
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.starts import STARTS, Init
from boostmetric.solver.learn import SolverName

AUTO: Literal["auto"] = "auto"

# In large data, one sample in so many is validated on. In small data all of them are in turn, in so many folds, and in
# the smallest data twice.
_LARGE = 1500
_VALIDATED_OF_LARGE = 4
_N_FOLDS = 5
_SMALLEST = 500
# By how many standard errors a candidate must be better than a simpler one to be chosen: the best of many is so in part
# by chance. In large data the standard error is small itself.
_DOUBT, _DOUBT_OF_LARGE = 2.0, 1.0
# The corrective solver is tried in no more features than these, and if the metric has no more numbers than there are
# samples: beyond, it fits the training data too well, and takes long.
_MOST_FEATURES_CORRECTED = 32
# An iteration of it stands for so many stagewise ones.
_CORRECTIVE_DOES = 5
# A path is given up after so many passes that are no better than an earlier one; where the path is the fit itself, and
# its user waits for it, a little sooner.
_PATIENCE, _PATIENCE_OF_A_FIT = 3, 2
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
    errors : ndarray of shape (n_validated,)
        How often nearest neighbours get each validation sample wrong, averaged over 1, 3 and 5 neighbours.
    """

    path: Path
    n_passes: int
    errors: FloatArray = field(repr=False, compare=False)

    @property
    def error(self) -> float:
        """Mean over the samples."""
        return float(self.errors.mean())

    def is_clearly_better(self, other: Candidate, doubt: float) -> bool:
        """Whether its errors are fewer, by more than so many standard errors."""
        fewer = other.errors - self.errors
        return bool(fewer.sum() > doubt * np.sqrt(np.square(fewer).sum()))


# Linear maps of the metrics of a path, learned from some data: at the beginning, and after each pass.
Follow = Callable[[Labelled, Path], Iterator[FloatArray]]


class Part(NamedTuple):
    """Samples to learn from, samples to validate on, and the numbers of the latter."""

    train: Labelled
    test: Labelled
    numbers: NDArray[np.int64]


def find_candidates(
    data: Labelled,
    held_out: Labelled | None,
    *,
    init: Init,
    solver: str,
    n_passes: int,
    follow: Follow,
    rng: np.random.RandomState,
    on_pass: Callable[[int, int], None],
    on_candidate: Callable[[Candidate], bool] = lambda candidate: False,
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
    n_passes : int
        Passes of a path.
    follow : callable
    rng : RandomState
        For the parts.
    on_pass : callable
        Told how many passes have been made, or given up, and how many there are.
    on_candidate : callable, optional
        Told of each candidate; answers whether to look for no more.
    """
    parts = list(_parts(data, rng)) if held_out is None else [Part(data, held_out, np.arange(len(held_out.y)))]
    if not parts:
        return []
    patience = _PATIENCE if held_out is None else _PATIENCE_OF_A_FIT
    solvers = _solvers(*data.X.shape) if solver == AUTO else [cast(SolverName, solver)]
    init_is_free = isinstance(init, str) and init == AUTO
    inits: list[Init] = list(STARTS[1:]) if init_is_free else ["identity", init]
    if isinstance(init, str) and init == "identity":
        inits = ["identity"]
    found = []
    for path in (Path(i, solvers[0]) for i in inits):
        found.append(Candidate(path, 0, next(_errors(parts, follow, path))))
        if on_candidate(found[-1]):
            return found
    start = _best(found).path.init if init_is_free else init
    for number, path in enumerate([Path(start, solver) for solver in solvers]):
        along: list[Candidate] = []
        begun = next((known.errors for known in found if known.n_passes == 0 and _same(known.path.init, start)), None)
        for errors in _errors(parts, follow, path, begun):
            along.append(Candidate(path, len(along), errors))
            if len(along) > 1 and on_candidate(along[-1]):
                return found + along[1:]
            on_pass(number * n_passes + len(along) - 1, len(solvers) * n_passes)
            if len(along) - 1 - _best(along).n_passes >= patience:
                break
        found += along[1:]
    on_pass(len(solvers) * n_passes, len(solvers) * n_passes)
    return found


def choose(found: Sequence[Candidate], n_samples: int) -> Candidate:
    """The Euclidean distance, unless the best start is clearly better; or that, unless the best of all is.

    Parameters
    ----------
    found : sequence of Candidate
        The first being the Euclidean distance.
    n_samples : int
        Of the training data.
    """
    doubt = _DOUBT if n_samples < _LARGE else _DOUBT_OF_LARGE
    chosen = found[0]
    for best in (_best([start for start in found if start.n_passes == 0]), _best(found)):
        if best.is_clearly_better(chosen, doubt):
            chosen = best
    return chosen


def _best(found: Sequence[Candidate]) -> Candidate:
    """The candidate of the smallest error; among equals that of fewest passes, and the first of these."""
    return min(found, key=lambda candidate: (candidate.error, candidate.n_passes))


def iterations(solver: str, max_iter: int) -> int:
    """Iterations of a pass: those of the corrective solver do more, and a few are enough before the next pass."""
    return max_iter if solver == "stagewise" else -(-max_iter // _CORRECTIVE_DOES)


def _solvers(n_samples: int, n_features: int) -> list[SolverName]:
    few = n_features <= _MOST_FEATURES_CORRECTED and n_features * (n_features + 1) // 2 <= n_samples
    return ["stagewise", "corrective"] if few else ["stagewise"]


def _same(one: Init, other: Init) -> bool:
    """Whether two starts are the same; arrays and metrics only if they are one object."""
    return one is other or (isinstance(one, str) and isinstance(other, str) and one == other)


def _errors(parts: Sequence[Part], follow: Follow, path: Path, begun: FloatArray | None = None) -> Iterator[FloatArray]:
    """Errors of the metrics of a path, on each sample that is validated on; `begun` are those of the first."""
    numbers = np.concatenate([part.numbers for part in parts])
    _, place, times = np.unique(numbers, return_inverse=True, return_counts=True)
    for number, metrics in enumerate(zip(*[follow(part.train, path) for part in parts], strict=True)):
        if number == 0 and begun is not None:
            yield begun
            continue
        wrong = [_wrong(part.train, part.test, metric) for part, metric in zip(parts, metrics, strict=True)]
        yield np.bincount(place, np.concatenate(wrong, axis=1).mean(axis=0)) / times


def _wrong(train: Labelled, test: Labelled, components: FloatArray) -> NDArray[np.bool_]:
    """Which samples are classified wrongly, for each number of neighbours."""
    metric = MahalanobisMetric(components)
    n_neighbors = min(max(_NEIGHBORS), len(train.y))
    labels = neighbor_labels(metric.transform(train.X), train.y, metric.transform(test.X), n_neighbors, train.device)
    return np.array([vote(labels[:, :k]) != test.y for k in _NEIGHBORS])


def _parts(data: Labelled, rng: np.random.RandomState) -> Iterator[Part]:
    """Parts to learn from with parts to validate on; classes are spread over the parts evenly."""
    n = len(data.y)
    n_parts, n_used = (_N_FOLDS, _N_FOLDS) if n < _LARGE else (_VALIDATED_OF_LARGE, 1)
    for _ in range(2 if n < _SMALLEST else 1):
        part = np.empty(n, dtype=np.int64)
        part[np.lexsort((rng.permutation(n), data.y))] = np.arange(n) % n_parts
        for i in range(n_used):
            train, test = np.flatnonzero(part != i), np.flatnonzero(part == i)
            _, label, sizes = np.unique(data.y[train], return_inverse=True, return_counts=True)
            compared = sizes[label] > 1 if data.weights is None else (sizes[label] > 1) & (data.weights[train] > 0)
            if len(test) and len(sizes) > 1 and compared.any():
                yield Part(data.take(train), data.take(test), test)
