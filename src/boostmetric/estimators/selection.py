"""The choice of "auto": where to start, which solver to use, and after how many passes to stop.

A *path* begins with a metric and goes on in passes with a solver. The metric at its beginning is a candidate, and so is
the one after each pass. Candidates are judged by the errors of a nearest-neighbour classifier on samples that the path
has not seen: parts of the training data, in turn, or samples set aside for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.arrays.validation import warn
from boostmetric.evaluation.knn import neighbor_labels, vote
from boostmetric.evaluation.splitting import FEW_ROWS
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.starts import STARTS, Init
from boostmetric.solver.passes import Passes
from boostmetric.solver.plan import Plan, Settings, SolverName, Watcher
from boostmetric.solver.result import Boosted, Progress, StopReason
from boostmetric.solver.sources import Labelled

AUTO: Literal["auto"] = "auto"

# In large data, one sample in four is validated on. In small data all of them are in turn, in five folds, and in the
# smallest data twice.
_VALIDATED_OF_LARGE = 4
_N_FOLDS = 5
_SMALLEST = 500
# By how many standard errors a candidate must be better than a simpler one to be chosen: the best of many is so in part
# by chance. In large data the standard error is small itself.
_DOUBT, _DOUBT_OF_LARGE = 2.0, 1.0
# The corrective solver is tried up to this many features, and if the metric has no more numbers than there are samples:
# beyond, it fits the training data too well, and takes long.
_MOST_FEATURES_CORRECTED = 32
# Stagewise iterations that one of its iterations stands for.
_CORRECTIVE_DOES = 5
# A path is given up after this many passes that are no better than an earlier one; where the path is the fit itself,
# and its user waits for it, a little sooner.
_PATIENCE, _PATIENCE_OF_A_FIT = 3, 2
# Numbers of neighbours whose errors are averaged: less noisy than one number, when candidates are close.
_NEIGHBORS = (1, 3, 5)


class Path(NamedTuple):
    """Where to start and how to go on."""

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
        """Whether its errors are fewer, by more than `doubt` standard errors."""
        fewer = other.errors - self.errors
        return bool(fewer.sum() > doubt * np.sqrt(np.square(fewer).sum()))


@dataclass(frozen=True)
class Decision:
    """Where a fit starts, with which solver it goes on, and for how long.

    Attributes
    ----------
    init : Init
    solver : str
    max_iter : tuple of int
        Most iterations of each pass.
    is_validated : bool
        Whether it was chosen by validation.
    was_watched : bool
        Whether callbacks have seen the fit already, since it was validated itself.
    candidates : list of Candidate, optional
        What it was chosen from.
    boosted : Boosted, optional
        The result, where the fit was validated itself.
    """

    init: Init
    solver: SolverName
    max_iter: tuple[int, ...]
    is_validated: bool = False
    was_watched: bool = False
    candidates: list[Candidate] | None = None
    boosted: Boosted | None = None


def max_iter_of_passes(solver: str, max_iter: int, n_passes: int) -> tuple[int, ...]:
    """Most iterations of each pass: those of the corrective solver do more, and a few are enough before the next."""
    return (max_iter if solver == "stagewise" else -(-max_iter // _CORRECTIVE_DOES),) * n_passes or (0,)


class Fold(NamedTuple):
    """Samples to learn from, samples to validate on, and the numbers of the latter."""

    train: Labelled
    test: Labelled
    numbers: IntArray


class Choice:
    """Finds candidates, judges them, and decides.

    Parameters
    ----------
    data : Labelled
        Training data.
    held_out : Labelled, optional
        Validation data; by default parts of the training data, of which the rest is learned from. Validated on other
        samples than those learned from, a path is the fit itself; else only a trial of it.
    init, solver
        As in `boostmetric.BoostMetric`; "auto" tries all that suit the data.
    n_passes : int
        Most passes of a path.
    max_iter : int
        Most iterations of a stagewise pass.
    rank : int, optional
        Largest rank of the metrics.
    settings : Settings
        Its solver does not count.
    before : Progress, optional
        An interrupted fit, to continue where the path is the fit itself.
    watchers : tuple of callables
        See the iterations of a path that is the fit itself.
    """

    def __init__(
        self,
        data: Labelled,
        held_out: Labelled | None,
        *,
        init: Init,
        solver: str,
        n_passes: int,
        max_iter: int,
        rank: int | None,
        settings: Settings,
        before: Progress | None = None,
        watchers: tuple[Watcher, ...] = (),
    ) -> None:
        self._data, self._held_out = data, held_out
        self._init, self._solver = init, solver
        self._n_passes, self._max_iter, self._rank = n_passes, max_iter, rank
        self._settings, self._before, self._watchers = settings, before, watchers
        # By solver and number of passes: what was learned, and passes made before a checkpoint, up to a factor.
        self._learned: dict[tuple[str, int], Boosted] = {}
        self._resumed: dict[tuple[str, int], Boosted] = {}

    def decide(
        self,
        on_candidate: Callable[[Candidate], bool] = lambda candidate: False,
        on_pass: Callable[[int, int], None] = lambda done, total: None,
    ) -> Decision:
        """Try the candidates and choose one.

        Parameters
        ----------
        on_candidate : callable
            Sees each candidate; returns whether to look for no more.
        on_pass : callable
            Is told how many passes were made, or given up, and how many there are.
        """
        found = self.candidates(on_candidate, on_pass)
        if not found:
            warn(
                f"{len(self._data.y)} samples are not enough to validate on: one pass is made, from the Euclidean "
                'distance where init is "auto". Give an eval_set, or set init, solver and n_passes=1.'
            )
            solver = "stagewise" if self._solver == AUTO else cast(SolverName, self._solver)
            path = Path("identity" if _is_auto(self._init) else self._init, solver)
            return self._decision(Candidate(path, 1, np.empty(0)), found)
        return self._decision(choose(found, len(self._data.y)), found)

    def _decision(self, chosen: Candidate, found: list[Candidate]) -> Decision:
        (init, solver), n_passes = chosen.path, chosen.n_passes
        return Decision(
            init,
            solver,
            max_iter_of_passes(solver, self._max_iter, n_passes),
            is_validated=True,
            was_watched=self._held_out is not None,
            candidates=found,
            boosted=None if self._held_out is None else self._fit(solver, n_passes),
        )

    def _fit(self, solver: str, n_passes: int) -> Boosted | None:
        """The fit that was validated itself, if it need not be learned again."""
        fit = self._learned.get((solver, n_passes))
        if self._was_stopped:
            # Whoever stops a fit does not wait for the pass to be learned again, to the very factor.
            fit = fit or self._resumed.get((solver, n_passes))
            return None if fit is None else replace(fit, stop_reason=StopReason.CALLBACK)
        if fit is not None and (solver, n_passes + 1) in self._learned:
            return replace(fit, stop_reason=StopReason.VALIDATED)
        return fit

    @property
    def _was_stopped(self) -> bool:
        """Whether a callback has ended the fit."""
        return self._held_out is not None and any(
            boosted.stop_reason is StopReason.CALLBACK for boosted in self._learned.values()
        )

    def candidates(
        self, on_candidate: Callable[[Candidate], bool], on_pass: Callable[[int, int], None]
    ) -> list[Candidate]:
        """All candidates, with their errors; none if there are too few samples to validate on.

        First the starts are judged as they are; then paths are followed from the best of them, one with each solver.
        """
        data, held_out, n_passes = self._data, self._held_out, self._n_passes
        if held_out is None:
            parts = list(_parts(data, self._settings.rng))
        else:
            parts = [Fold(data, held_out, np.arange(len(held_out.y)))]
        if not parts:
            return []
        patience = _PATIENCE if held_out is None else _PATIENCE_OF_A_FIT
        solvers = _solvers(*data.X.shape) if self._solver == AUTO else [cast(SolverName, self._solver)]
        inits: list[Init] = list(STARTS[1:]) if _is_auto(self._init) else ["identity", self._init]
        if isinstance(self._init, str) and self._init == "identity":
            inits = ["identity"]
        found = []
        for path in (Path(init, solvers[0]) for init in inits):
            found.append(Candidate(path, 0, next(self._errors(parts, path))))
            if on_candidate(found[-1]):
                return found
        start = _best(found).path.init if _is_auto(self._init) else self._init
        for number, path in enumerate([Path(start, solver) for solver in solvers]):
            along: list[Candidate] = []
            begun = next(
                (known.errors for known in found if known.n_passes == 0 and _same(known.path.init, start)), None
            )
            for errors in self._errors(parts, path, begun):
                along.append(Candidate(path, len(along), errors))
                if len(along) > 1 and on_candidate(along[-1]):
                    return found + along[1:]
                on_pass(number * n_passes + len(along) - 1, len(solvers) * n_passes)
                if len(along) - 1 - _best(along).n_passes >= patience:
                    break
            found += along[1:]
        on_pass(len(solvers) * n_passes, len(solvers) * n_passes)
        return found

    def _errors(self, parts: Sequence[Fold], path: Path, begun: FloatArray | None = None) -> Iterator[FloatArray]:
        """Errors of the metrics of a path, on each sample that is validated on; `begun` are those of the first."""
        numbers = np.concatenate([part.numbers for part in parts])
        _, place, times = np.unique(numbers, return_inverse=True, return_counts=True)
        for number, maps in enumerate(zip(*[self._follow(part.train, path) for part in parts], strict=True)):
            if number == 0 and begun is not None:
                yield begun
                continue
            wrong = [_wrong(part.train, part.test, components) for part, components in zip(parts, maps, strict=True)]
            yield np.bincount(place, np.concatenate(wrong, axis=1).mean(axis=0)) / times

    def _follow(self, part: Labelled, path: Path) -> Iterator[FloatArray]:
        """Linear maps of the metrics of a path: at the beginning, and after each pass."""
        init = part.start(path.init)
        base = np.eye(part.n_features) if init is None else init
        yield base if self._rank is None else MahalanobisMetric(base).truncate(self._rank).components
        if self._was_stopped:
            return
        start = Progress.beginning(init, part.n_features)
        if self._held_out is not None and self._before is not None and self._before.is_of(path.solver):
            start = self._before
        plan = Plan(
            part,
            start,
            max_iter_of_passes(path.solver, self._max_iter, self._n_passes),
            replace(self._settings, solver=path.solver),
            watchers=self._watchers,
        )
        for earlier in start.earlier_passes():
            self._resumed[path.solver, len(earlier.pass_ends) + 1] = earlier
            yield earlier.linear_map(self._rank)
        for boosted in Passes(plan):
            self._learned[path.solver, len(boosted.pass_ends) + 1] = boosted
            yield boosted.linear_map(self._rank)


def choose(found: Sequence[Candidate], n_samples: int) -> Candidate:
    """The Euclidean distance, unless the best start is clearly better; or that, unless the best of all is.

    Parameters
    ----------
    found : sequence of Candidate
        The first being the Euclidean distance.
    n_samples : int
        Number of training samples.
    """
    doubt = _DOUBT if n_samples < FEW_ROWS else _DOUBT_OF_LARGE
    chosen = found[0]
    for best in (_best([start for start in found if start.n_passes == 0]), _best(found)):
        if best.is_clearly_better(chosen, doubt):
            chosen = best
    return chosen


def _best(found: Sequence[Candidate]) -> Candidate:
    """The candidate of the smallest error; among equals that of fewest passes, and the first of these."""
    return min(found, key=lambda candidate: (candidate.error, candidate.n_passes))


def _is_auto(init: Init) -> bool:
    return isinstance(init, str) and init == AUTO


def _solvers(n_samples: int, n_features: int) -> list[SolverName]:
    few = n_features <= _MOST_FEATURES_CORRECTED and n_features * (n_features + 1) // 2 <= n_samples
    return ["stagewise", "corrective"] if few else ["stagewise"]


def _same(one: Init, other: Init) -> bool:
    """Whether two starts are the same; arrays and metrics only if they are one object."""
    return one is other or (isinstance(one, str) and isinstance(other, str) and one == other)


def _wrong(train: Labelled, test: Labelled, components: FloatArray) -> NDArray[np.bool_]:
    """Which samples are classified wrongly, for each number of neighbours."""
    metric = MahalanobisMetric(components)
    n_neighbors = min(max(_NEIGHBORS), len(train.y))
    labels = neighbor_labels(metric.transform(train.X), train.y, metric.transform(test.X), n_neighbors, train.device)
    return np.array([vote(labels[:, :k]) != test.y for k in _NEIGHBORS])


def _parts(data: Labelled, rng: np.random.RandomState) -> Iterator[Fold]:
    """Parts to learn from with parts to validate on; classes are spread over the parts evenly."""
    n = len(data.y)
    n_parts, n_used = (_N_FOLDS, _N_FOLDS) if n < FEW_ROWS else (_VALIDATED_OF_LARGE, 1)
    for _ in range(2 if n < _SMALLEST else 1):
        part = np.empty(n, dtype=np.int64)
        part[np.lexsort((rng.permutation(n), data.y))] = np.arange(n) % n_parts
        for i in range(n_used):
            train, test = np.flatnonzero(part != i), np.flatnonzero(part == i)
            _, label, sizes = np.unique(data.y[train], return_inverse=True, return_counts=True)
            compared = sizes[label] > 1 if data.weights is None else (sizes[label] > 1) & (data.weights[train] > 0)
            if len(test) and len(sizes) > 1 and compared.any():
                yield Fold(data.take(train), data.take(test), test)
