"""The choice of "auto": where to start, what to compare, how to learn, and after how many passes to stop.

A *recipe* says where a fit starts, how many targets and impostors it compares, and what an iteration does. Its *trial*
learns from a part of the data in passes; the metric after each pass is a candidate, and so is the start. Candidates are
judged on samples that the trial has not seen, by the errors of nearest neighbours and by soft neighbours: each sample
picks a neighbour at random, nearer ones more likely, and its loss is minus the logarithm of the probability that this
neighbour has its label (Goldberger et al., "Neighbourhood components analysis", 2004). That changes smoothly with the
metric, unlike counted errors, and so tells more metrics apart; by itself it favours few dimensions too much.

First the starts are judged, and whether fewer of their principal directions do better. Then trials begin from the best
of them, and after a few passes only the better half goes on (successive halving; Jamieson and Talwalkar, 2016). Each
metric may also be followed by unit length, which is judged as well. The best is so partly by chance, and the mean of
the best metrics, of other recipes, does better than each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count, islice, product
from typing import cast

import numpy as np

from boostmetric.arrays.errors import ParameterWarning
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import warn
from boostmetric.estimators.candidates import (
    STANDARD_ERRORS,
    STANDARD_ERRORS_OF_FEWER,
    Candidate,
    NImpostors,
    Recipe,
    best_of,
    choose,
    is_better,
)
from boostmetric.estimators.decision import block_of, is_auto
from boostmetric.estimators.folds import Fold, folds_of, judged
from boostmetric.evaluation.splitting import FEW_ROWS
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.starts import STARTS, Init, start_in_words
from boostmetric.solver.passes import Passes
from boostmetric.solver.plan import Plan, Settings, SolverName
from boostmetric.solver.result import Progress
from boostmetric.solver.sources import Labelled

# Targets and impostors of a sample, to choose from.
_SIZES: tuple[tuple[int, NImpostors], ...] = ((3, 3), (5, 10), (10, 20))
_SIZES_OF_LARGE: tuple[tuple[int, NImpostors], ...] = ((10, 50), (20, 100))
# The corrective solver is tried up to this many features, and if the metric has no more numbers than there are samples:
# beyond, it fits the training data too well, and takes long.
_MOST_FEATURES_CORRECTED = 32
# Trials begin from the best start, and from this one, with which most data do well.
_GOOD_START: Init = "standardized"
# Passes after which the worse half of the trials is given up.
_RUNGS, _RUNGS_OF_LARGE = (2, 4), (1,)
# The learning rate that is tried with the recipe that leads; and the number of impostors, where all are too many.
_SHORT_STEPS, _MANY_IMPOSTORS, _MOST_COMPARED_WITH_ALL = 0.3, 100, 500
# A trial ends after this many passes that are no better than an earlier one.
_PATIENCE = 3


class Trial:
    """A recipe on each fold, followed pass by pass.

    Attributes
    ----------
    recipe : Recipe
    candidates : list of Candidate
        The start, and the metric after each pass.
    """

    def __init__(self, recipe: Recipe, start: Candidate, paths: Sequence[Iterator[FloatArray]]) -> None:
        self.recipe = recipe
        self.candidates = [replace(start, recipe=recipe)]
        self._paths = paths

    @property
    def best(self) -> Candidate:
        """The best candidate so far."""
        return best_of(self.candidates)

    @property
    def is_over(self) -> bool:
        """Whether the last passes brought no improvement."""
        return len(self.candidates) - 1 - self.best.n_passes >= _PATIENCE

    def next_maps(self) -> list[FloatArray]:
        """Learn one more pass; return the linear maps of all folds."""
        return [next(path) for path in self._paths]


class Choice:
    """Tries recipes, judges them, and decides.

    Parameters
    ----------
    data : Labelled
        Training data.
    held_out : Labelled, optional
        Validation data; by default parts of the training data, of which the rest is learned from.
    init, solver, n_neighbors, n_impostors, block_size, learning_rate
        As in `boostmetric.BoostMetric`; what is "auto" is chosen.
    n_passes : int
        Most passes.
    max_iter : int
        Most single iterations of a pass.
    rank : int, optional
        Largest rank of the metrics.
    normalize : bool or "auto"
        Whether mapped samples are compared at unit length. "auto" does so if the metric of the smallest loss does. In
        large data only the best of the others is judged so.
    settings : Settings
        Its solver and block size do not count.
    """

    def __init__(
        self,
        data: Labelled,
        held_out: Labelled | None,
        *,
        init: Init,
        solver: str,
        n_neighbors: int | str,
        n_impostors: int | str,
        block_size: int | str,
        learning_rate: float | str,
        n_passes: int,
        max_iter: int,
        rank: int | None,
        normalize: bool | str,
        settings: Settings,
    ) -> None:
        self._data, self._held_out = data, held_out
        self._init = init
        self._ways = list(_ways(data.X.shape, solver, n_neighbors, n_impostors, block_size))
        self._n_impostors, self._learning_rate = n_impostors, learning_rate
        self._rate = 1.0 if isinstance(learning_rate, str) else learning_rate
        self._n_passes, self._max_iter, self._rank = n_passes, max_iter, rank
        self._is_large = is_large = len(data.y) >= FEW_ROWS
        rungs = _RUNGS_OF_LARGE if is_large else _RUNGS
        self._rungs = [*(rung for rung in rungs if rung < n_passes), n_passes]
        self._settings = settings
        # What to judge each metric with: at unit length or not.
        self._lengths = (normalize is True,) if is_large or not is_auto(normalize) else (False, True)
        self._normalize = normalize
        # The best candidate so far, and its linear maps.
        self._leader: tuple[Candidate, Sequence[FloatArray]] | None = None
        # Named starts, which trials begin from after they were judged, beside the samples, whose id stays theirs.
        self._begun: dict[tuple[int, str], tuple[Labelled, FloatArray | None]] = {}

    def decide(
        self,
        on_candidate: Callable[[Candidate], bool] = lambda candidate: False,
        on_step: Callable[[int, int, str], None] = lambda done, total, what: None,
    ) -> tuple[list[Candidate], list[Candidate]]:
        """Try candidates; return those to learn, the best first, and all.

        Parameters
        ----------
        on_candidate : callable
            Called with each candidate; returns whether to stop the search.
        on_step : callable
            Called with the number of steps made, the largest number there may be, and what is tried.
        """
        folds = self._folds()
        found = self.candidates(folds, on_candidate, on_step)
        if found:
            if is_auto(self._normalize) and len(self._lengths) == 1:
                found.append(self._at_unit_length(folds))
                on_candidate(found[-1])
            return choose(found), found
        warn(
            ParameterWarning(
                "{n} samples are not enough to validate on: one pass is made, from the Euclidean distance where "
                '{init} is "auto". Add samples, or set {init}, {n_neighbors} and {n_impostors}.',
                n=len(self._data.y),
            )
        )
        start = "identity" if is_auto(self._init) else self._init
        recipe, nothing = Recipe(start, *self._ways[0], learning_rate=self._rate), np.empty(0)
        return [Candidate(recipe, 1, nothing, nothing, self._normalize is True)], found

    def candidates(
        self,
        folds: Sequence[Fold],
        on_candidate: Callable[[Candidate], bool],
        on_step: Callable[[int, int, str], None],
    ) -> list[Candidate]:
        """All candidates, the Euclidean distance first; none if there are too few samples to validate on."""
        found: list[Candidate] = []
        for candidate in self._tried(folds, on_step) if folds else ():
            found.append(candidate)
            if on_candidate(candidate):
                break
        return found

    def _tried(self, folds: Sequence[Fold], on_step: Callable[[int, int, str], None]) -> Iterator[Candidate]:
        """Judge the starts, race trials from the best of them, and vary the recipe that leads."""
        inits: list[Init] = list(STARTS[1:]) if is_auto(self._init) else ["identity", self._init]
        if isinstance(self._init, str) and self._init == "identity":
            inits = ["identity"]
        n_trials = min(2, len(inits)) * len(self._ways)
        n_variations = len(list(self._variations(Recipe("identity", *self._ways[0]))))
        total = len(inits) + _n_passes_at_most(n_trials, self._rungs) + n_variations * self._rungs[-1] + 1
        done = count()

        def step(what: str) -> None:
            on_step(next(done), total, what)

        starts: list[Candidate] = []
        for init in inits:
            step(start_in_words(init))
            for start in self._begun_with(folds, init):
                starts.append(start)
                yield start
        whole = [start for start in starts if start.recipe.rank is None and start.normalize == self._lengths[0]]
        leading = whole[-1:]
        if is_auto(self._init):
            good = next(start for start in whole if start.recipe.init == _GOOD_START)
            leading = list({id(start): start for start in (best_of(whole), good)}.values())
        trials = [
            self._trial(folds, Recipe(start.recipe.init, *way, learning_rate=self._rate), start)
            for start, way in product(leading, self._ways)
        ]
        for rung in self._rungs:
            for trial in trials:
                yield from self._continued(folds, trial, rung, step)
            trials = sorted(trials, key=lambda trial: trial.best.loss)[: -(-len(trials) // 2)]
        leader = trials[0]
        if is_better(leader.best, starts[0], STANDARD_ERRORS):  # otherwise nothing that is learned will be chosen
            yield from self._varied(folds, leader, step)
        on_step(total, total, "")

    def _varied(self, folds: Sequence[Fold], leader: Trial, step: Callable[[str], None]) -> Iterator[Candidate]:
        """Vary the recipe that leads."""
        varied = [self._trial(folds, recipe, leader.candidates[0]) for recipe in self._variations(leader.recipe)]
        for trial in varied:
            yield from self._continued(folds, trial, self._rungs[-1], step)
        best = best_of([trial.best for trial in (leader, *varied)])
        if best.n_passes and not self._is_large:
            step(str(best.recipe.bagged))
            yield from self._bagged(folds, best)

    def _variations(self, recipe: Recipe) -> Iterator[Recipe]:
        """Recipes that differ from the leading one in a single thing, of those that are chosen."""
        if is_auto(self._learning_rate) and recipe.solver == "stagewise":
            yield recipe.varied(learning_rate=_SHORT_STEPS)
        if is_auto(self._n_impostors) and not self._is_large:
            yield recipe.varied(n_impostors="all" if len(self._data.y) < _MOST_COMPARED_WITH_ALL else _MANY_IMPOSTORS)

    def _folds(self) -> list[Fold]:
        if self._held_out is not None:
            return [Fold(self._data, self._held_out, np.arange(len(self._held_out.y)))]
        return list(folds_of(self._data, self._settings.rng))

    def _begun_with(self, folds: Sequence[Fold], init: Init) -> Iterator[Candidate]:
        """Judge a start, then half of its principal directions, and half of these, as long as that is better."""
        recipe, maps = Recipe(init, *self._ways[0]), self._starts(folds, init)
        better = self._judged(folds, recipe, 0, maps)
        yield from better
        rank = min(map(len, maps)) if is_auto(self._init) and self._rank is None else 1
        while better and rank > 1:
            rank = -(-rank // 2)
            maps = [fold.train.principal(each, rank) for fold, each in zip(folds, maps, strict=True)]
            fewer = self._judged(folds, replace(recipe, rank=rank), 0, maps)
            better = [
                candidate
                for candidate in fewer
                for more in better
                if candidate.normalize == more.normalize and is_better(candidate, more, STANDARD_ERRORS_OF_FEWER)
            ]
            yield from better

    def _starts(self, folds: Sequence[Fold], init: Init) -> list[FloatArray]:
        """Linear maps of a start."""
        maps = []
        for fold in folds:
            components = self._start(fold.train, init)
            base = np.eye(fold.train.n_features) if components is None else components
            maps.append(base if self._rank is None else MahalanobisMetric(base).truncate(self._rank).components)
        return maps

    def _start(self, train: Labelled, init: Init) -> FloatArray | None:
        """Linear map of a start, computed once for the samples of a fold."""
        if not isinstance(init, str):
            return train.start(init)
        key = id(train), init
        if key not in self._begun:
            self._begun[key] = train, train.start(init)
        return self._begun[key][1]

    def _trial(self, folds: Sequence[Fold], recipe: Recipe, start: Candidate) -> Trial:
        """A trial, which has made no pass."""
        return Trial(recipe, start, [self._follow(fold.train, recipe) for fold in folds])

    def _continued(
        self, folds: Sequence[Fold], trial: Trial, n_passes: int, step: Callable[[str], None]
    ) -> Iterator[Candidate]:
        """Judge the metric after each further pass, until so many are made or the last ones brought nothing."""
        while len(trial.candidates) <= n_passes and not trial.is_over:
            step(str(trial.recipe))
            candidates = self._judged(folds, trial.recipe, len(trial.candidates), trial.next_maps())
            trial.candidates.append(candidates[0])
            yield from candidates

    def _bagged(self, folds: Sequence[Fold], best: Candidate) -> list[Candidate]:
        """The best candidate learned from several parts of the samples, whose metrics are averaged."""
        recipe, maps = best.recipe.bagged, []
        for fold in folds:
            paths = [self._follow(bag, recipe) for bag in recipe.bags(fold.train)]
            mean = mean_map([list(islice(path, best.n_passes))[-1] for path in paths], fold.train.scatter)
            if mean is None:
                return []
            maps.append(mean)
        return self._judged(folds, recipe, best.n_passes, maps)

    def _follow(self, train: Labelled, recipe: Recipe) -> Iterator[FloatArray]:
        """Yield the linear map after each pass."""
        source = recipe.applied_to(train)
        plan = Plan(
            source,
            Progress.beginning(self._start(train, recipe.init), source.n_features),
            recipe.max_iter(self._max_iter, self._n_passes),
            replace(
                self._settings,
                solver=recipe.solver,
                block_size=recipe.block_size,
                learning_rate=recipe.learning_rate,
            ),
        )
        for boosted in Passes(plan):
            yield boosted.linear_map(self._rank)

    def _judged(
        self, folds: Sequence[Fold], recipe: Recipe, n_passes: int, maps: Sequence[FloatArray]
    ) -> list[Candidate]:
        """Candidates of the linear maps of all folds: with and without unit length, if both are judged."""
        found = [judged(folds, recipe, n_passes, maps, normalize=length) for length in self._lengths]
        if self._leader is None or self._leads(found[0], self._leader[0]):
            self._leader = found[0], maps
        return found

    @staticmethod
    def _leads(candidate: Candidate, leader: Candidate) -> bool:
        """Whether a candidate takes the lead: a variation only if it is clearly better, as for the result."""
        if candidate.recipe.origin:
            return is_better(candidate, leader, STANDARD_ERRORS)
        return best_of([leader, candidate]) is candidate

    def _at_unit_length(self, folds: Sequence[Fold]) -> Candidate:
        """The best metric, followed by unit length."""
        assert self._leader is not None
        best, maps = self._leader
        return judged(folds, best.recipe, best.n_passes, maps, normalize=True)


def mean_map(maps: Sequence[FloatArray | None], scatter: FloatArray) -> FloatArray | None:
    """Linear map of the mean of several metrics, each in units of its mean squared distance.

    Parameters
    ----------
    maps : sequence of ndarray of shape (n_rows, n_features) or None
        None is left out.
    scatter : ndarray of shape (n_features, n_features)
        Covariance of the points, up to a factor.

    Returns
    -------
    ndarray of shape (n_rows, n_features) or None
        None if all metrics are zero.
    """
    known = [rows for rows in maps if rows is not None]
    sizes = [float(np.vdot(rows @ scatter, rows)) for rows in known]
    scaled = [rows / np.sqrt(size) for rows, size in zip(known, sizes, strict=True) if size > 0]
    if not scaled:
        return None
    rows = np.concatenate(scaled)
    return rows if len(rows) <= rows.shape[1] else np.asarray(np.linalg.qr(rows, mode="r"))


def _ways(
    shape: tuple[int, ...], solver: str, n_neighbors: int | str, n_impostors: int | str, block_size: int | str
) -> Iterator[tuple[SolverName, int, NImpostors, int]]:
    """Solvers, targets, impostors and block sizes to try on data of this shape."""
    n_samples, n_features = shape
    few = n_features <= _MOST_FEATURES_CORRECTED and n_features * (n_features + 1) // 2 <= n_samples
    solvers: list[SolverName] = ["stagewise", "corrective"] if few else ["stagewise"]
    if not is_auto(solver):
        solvers = [cast(SolverName, solver)]
    sizes = dict.fromkeys(
        (
            near if isinstance(n_neighbors, str) else n_neighbors,
            far if is_auto(n_impostors) else cast(NImpostors, n_impostors),
        )
        for near, far in (_SIZES if n_samples < FEW_ROWS else _SIZES_OF_LARGE)
    )
    for name in solvers:
        # The corrective solver takes longer, and is tried with one size only.
        for near, far in list(sizes)[: 1 if name == "corrective" and len(solvers) > 1 else None]:
            yield name, near, far, block_of(n_features, name, block_size)[0]


def _n_passes_at_most(n_trials: int, rungs: Sequence[int]) -> int:
    """Passes of all trials together, if none ends early."""
    total, before = 0, 0
    for rung in rungs:
        total += n_trials * (rung - before)
        n_trials, before = -(-n_trials // 2), rung
    return total
