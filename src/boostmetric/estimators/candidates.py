"""Candidates for the result: recipes after so many passes, judged on samples that they have not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from boostmetric.arrays.types import FloatArray
from boostmetric.estimators.decision import BLOCK_DOES, CORRECTIVE_DOES, Decision
from boostmetric.metric.starts import Init, start_in_words
from boostmetric.solver.plan import SolverName
from boostmetric.solver.sources import DrawnAnchors, Labelled

NImpostors = int | Literal["all"]

# Anchors that a pass compares in large data, drawn again for each.
MOST_ANCHORS = 3000
# The result is learned from as many anchors, and in its last passes from all. Its seed is always the same, so that a
# fit that is resumed draws the same anchors.
_WHOLE_PASSES, _SEED_OF_RESULT = 3, 0
# Metrics that a bagged recipe learns, each without another part of so many.
_N_BAGS, _N_PARTS = 3, 5
# The result is the mean of so many metrics at most.
_MOST_AVERAGED = 3
# By how many standard errors the loss must be smaller than that of the Euclidean distance, than that of a start with
# more directions, and than that of a metric to be left out of the mean.
STANDARD_ERRORS, STANDARD_ERRORS_OF_FEWER, STANDARD_ERRORS_OF_AVERAGED = 1.3, 0.5, 2.0


@dataclass(frozen=True)
class Recipe:
    """How to learn.

    Attributes
    ----------
    init : Init
    solver : str
    n_neighbors : int
    n_impostors : int or "all"
    block_size : int
    rank : int, optional
        How many of the principal directions of the start are used; by default all.
    learning_rate : float
    n_bags : int
        How many metrics are learned, if more than one, each without another fifth of the samples; their mean is the
        result (bagging without replacement; Breiman, "Bagging predictors", 1996; Parmanto, Munro and Doyle,
        "Reducing variance of committee prediction with resampling techniques", 1996).
    origin : Recipe, optional
        What this is a variation of.
    """

    init: Init
    solver: SolverName
    n_neighbors: int
    n_impostors: NImpostors
    block_size: int
    rank: int | None = None
    learning_rate: float = 1.0
    n_bags: int = 1
    origin: Recipe | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        start = start_in_words(self.init, self.rank)
        rate = "" if self.learning_rate == 1.0 else f", learning rate {self.learning_rate:g}"
        bags = "" if self.n_bags == 1 else f", mean of {self.n_bags}"
        return f"{start}, {self.n_neighbors} targets, {self.n_impostors} impostors, {self.solver}{rate}{bags}"

    def max_iter(self, single: int, n_passes: int) -> tuple[int, ...]:
        """Most iterations of each pass, if single stagewise iterations were `single`."""
        does = CORRECTIVE_DOES if self.solver == "corrective" else BLOCK_DOES if self.block_size > 1 else 1
        return (-(-single // does),) * n_passes or (0,)

    def applied_to(self, data: Labelled) -> Labelled:
        """The samples, compared as the recipe says."""
        return replace(data, n_neighbors=self.n_neighbors, n_impostors=self.n_impostors, start_rank=self.rank)

    def varied(self, **changes: Any) -> Recipe:
        """A variation, which differs in what is given."""
        return replace(self, origin=self.family, **changes)

    @property
    def bagged(self) -> Recipe:
        """The same, learned several times."""
        return self.varied(n_bags=_N_BAGS)

    @property
    def family(self) -> Recipe:
        """What this is a variation of, or itself."""
        return self.origin or self

    def bags(self, data: Labelled) -> list[Labelled]:
        """The samples, or parts of them to learn one metric from each: every part leaves out other samples.

        Classes are spread evenly. A part that has nothing to compare is left out.
        """
        if self.n_bags == 1:
            return [data]
        n = len(data.y)
        place = np.empty(n, dtype=np.int64)
        place[np.lexsort((np.random.default_rng(_SEED_OF_RESULT).permutation(n), data.y))] = np.arange(n)
        bags = [data.take(np.flatnonzero(place % _N_PARTS != bag)) for bag in range(self.n_bags)]
        return [bag for bag in bags if bag.is_comparable] or [data]

    def to_learn(self, data: Labelled, n_passes: int) -> Labelled:
        """The samples, compared as the recipe says, to learn the result from in so many passes.

        In large data only the last passes compare all anchors, which makes the metric that the others lead to no worse.
        """
        sample = DrawnAnchors(MOST_ANCHORS, _SEED_OF_RESULT, max(n_passes - _WHOLE_PASSES, 0))
        return replace(self.applied_to(data), sample=sample)


@dataclass(frozen=True)
class Candidate:
    """A metric that could be the result.

    Attributes
    ----------
    recipe : Recipe
    n_passes : int
        Passes of the recipe; 0 for the metric it begins with.
    losses : ndarray of shape (n_validated,)
        For each validation sample, its error plus half of minus the log-likelihood of its label by soft neighbours.
    errors : ndarray of shape (n_validated,)
        How often nearest neighbours get each of them wrong, averaged over 1, 3 and 5 neighbours.
    normalize : bool
        Whether mapped samples are compared at unit length.
    """

    recipe: Recipe
    n_passes: int
    losses: FloatArray = field(repr=False, compare=False)
    errors: FloatArray = field(repr=False, compare=False)
    normalize: bool = False

    def __str__(self) -> str:
        return str(self.recipe) if self.n_passes else start_in_words(self.recipe.init, self.recipe.rank)

    @property
    def loss(self) -> float:
        """Mean loss of the samples, by which candidates are chosen."""
        return float(self.losses.mean())

    @property
    def error(self) -> float:
        """Mean error of the samples."""
        return float(self.errors.mean())


def choose(found: Sequence[Candidate]) -> list[Candidate]:
    """The candidate of the smallest loss; if it is to be averaged, with the best of two other recipes.

    A variation takes part if it is better than its origin by more than 1.3 standard errors, in whose place it then is:
    what is alike gains little from being averaged, and some of what a variation gains, the mean gains as well.

    The candidate of the smallest loss says whether mapped samples are scaled to unit length. Of those that do the same,
    candidates that are not better than the Euclidean distance by more than 1.3 standard errors are left out: among
    many, one is a little better by chance (Breiman et al., "Classification and regression trees", 1984, take one). What
    is clearly worse than the best is not averaged with it.

    Parameters
    ----------
    found : sequence of Candidate
        The Euclidean distance first.
    """
    found = [candidate for candidate in found if not candidate.recipe.origin or _is_firm(candidate, found)]
    base, normalize = found[0], best_of(found).normalize
    alike = [candidate for candidate in found if candidate.normalize == normalize]
    better = [candidate for candidate in alike if is_better(candidate, base, STANDARD_ERRORS)]
    best = best_of([base, *better])
    # Starts are averaged at unit length only: there the best is often one of them.
    if best is base or not (best.n_passes or normalize):
        return [best]
    averaged = [
        candidate
        for candidate in better
        if (candidate.n_passes or normalize) and not is_better(best, candidate, STANDARD_ERRORS_OF_AVERAGED)
    ]
    chosen: list[Candidate] = []
    while averaged and len(chosen) < _MOST_AVERAGED:
        chosen.append(best_of(averaged))
        averaged = [candidate for candidate in averaged if candidate.recipe.family is not chosen[-1].recipe.family]
    return chosen


def _is_firm(variation: Candidate, found: Sequence[Candidate]) -> bool:
    """Whether a variation is clearly better than the best candidate of its origin."""
    of_origin = [candidate for candidate in found if candidate.recipe is variation.recipe.origin]
    return is_better(variation, best_of(of_origin), STANDARD_ERRORS)


def is_better(candidate: Candidate, other: Candidate, standard_errors: float) -> bool:
    """Whether the mean loss is smaller by more than this many standard errors of the difference."""
    gains = other.losses - candidate.losses
    return bool(gains.mean() > standard_errors * gains.std() / np.sqrt(len(gains)))


def best_of(found: Sequence[Candidate]) -> Candidate:
    """The candidate of the smallest loss; among equals that of fewest passes, and the first of these."""
    return min(found, key=lambda candidate: (candidate.loss, candidate.n_passes))


def decided(source: Labelled, chosen: Sequence[Candidate], max_iter: int) -> Decision:
    """Decide to learn what was chosen, and to average it.

    Parameters
    ----------
    source : Labelled
        All samples.
    chosen : sequence of Candidate
        The best first.
    max_iter : int
        Most single iterations of a pass.
    """
    best, *others = [
        Decision(
            candidate.recipe.to_learn(bag, candidate.n_passes),
            candidate.recipe.init,
            candidate.recipe.solver,
            candidate.recipe.block_size,
            candidate.recipe.learning_rate,
            candidate.recipe.max_iter(max_iter, candidate.n_passes),
            candidate.normalize,
            is_validated=True,
            n_bags=len(bags),
        )
        for candidate in chosen
        for bags in [candidate.recipe.bags(source)]
        for bag in bags
    ]
    return replace(best, beside=tuple(others))
