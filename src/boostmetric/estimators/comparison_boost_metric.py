"""The estimator that learns from comparisons."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from boostmetric.arrays.errors import ParameterError
from boostmetric.arrays.tensors import as_numpy
from boostmetric.arrays.validation import check_choice, n_dimensions
from boostmetric.callbacks import Steps, tell
from boostmetric.comparisons import Comparisons, Points
from boostmetric.comparisons.forms import as_rows, best_threshold, hold_points, squared_distance
from boostmetric.estimators.boosting import Also, Earlier
from boostmetric.estimators.comparison_classifier import ComparisonClassifier
from boostmetric.estimators.comparison_selection import (
    COMPARED_STARTS,
    LEARNING_RATES,
    ComparisonCandidate,
    ComparisonChoice,
)
from boostmetric.estimators.decision import AUTO, Decision, block_of, is_auto
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.estimators.parameters import documented
from boostmetric.estimators.sklearn_callbacks import with_callbacks
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.starts import PLAIN_STARTS, check_init
from boostmetric.solver.learn import SOLVERS
from boostmetric.solver.plan import SolverName
from boostmetric.solver.problem import Learnable, Problem
from boostmetric.solver.result import Boosted, StopReason
from boostmetric.solver.sources import Compared, Searched, Source, can_find_again
from boostmetric.tables.comparison_files import ComparisonFiles

_RECOMMENDED: dict[str, Any] = {"loss": "logistic", "init": AUTO, "learning_rate": AUTO, "normalize": AUTO}


@documented
class ComparisonBoostMetric(ComparisonClassifier):
    """Mahalanobis metric learned from comparisons of pairs of points by boosting.

    The samples are comparisons, which name their points by number: cross-validation and grid search hold out
    comparisons, and the points stay whole. In them, pass ``points=Points(X)``.

    Parameters
    ----------
    %(n_components)s
    %(loss)s
    solver : {"stagewise", "corrective"}, default="stagewise"
        What an iteration does with its new direction. "stagewise" is the paper's algorithm: the direction gets its best
        weight, and all others stay as they are. "corrective" then optimises all of the metric, weights and directions,
        and so reaches the minimum of the objective; its iterations are fewer and longer, and the time grows faster with
        the number of features.
    %(regularization)s
    max_iter : int, default=500
        Most iterations of a pass; each adds one direction.
    n_passes : int or "auto", default=1
        Largest number of passes. In each, what is far from the queries is found again under the metric so far, and
        comparisons that are held out judge it: the first pass that does not improve them is dropped. Only the far
        sides of `Comparisons.from_positives` can be found again; other comparisons are the same in every pass, and
        more than one is an error. "auto" is one pass, or the same number of iterations in three if that is clearly
        better, see `init`.
    %(optimisation)s
    learning_rate : float or "auto", default=1.0
        Fraction of the best step that is made, at most 1. Used by the stagewise solver. Short steps learn better from
        few or contradictory judgements. "auto" chooses among 1 and 0.3, and takes 0.3 if it gains about as much, see
        `init`.
    init : {"zero", "identity", "standardized", "auto"}, metric or array-like, default="zero"
        The metric to start from. It is the first weak learner: its weight comes from the same line search as that of
        any direction. "identity" is the Euclidean distance, "standardized" that of features in units of their standard
        deviation. Or a `MahalanobisMetric`, such as an earlier model's ``get_metric()``, or its components. "auto"
        chooses between "identity" and "standardized", and how many iterations are best, from none to `max_iter`, by
        comparisons that are held out (or by the `eval_set`); then it learns from all comparisons. On a cluster nothing
        is tried: it starts from "identity".
    %(early_stopping)s
    validation_fraction : float, default=0.1
        Fraction of the anchors to hold out, see `Comparisons.split`; used with `early_stopping` only.
    n_iter_no_change : int, default=20
        Iterations to wait for an improvement; used with `early_stopping` or an `eval_set`.
    normalize : bool or "auto", default=False
        Whether `transform` scales each mapped point to unit length, for indexes that compare by cosine. Learning is not
        affected. "auto" does so if the chosen metric is clearly better then, on comparisons that are held out.
    %(warm_start)s
    %(resources)s
    %(callbacks)s
    random_state : int, RandomState or None, default=None
        Random seed for which comparisons are held out, and for the start of the search for the first direction in more
        than 512 dimensions. Nothing else is random.
    %(verbose)s

    Attributes
    ----------
    %(components)s
    %(metric_attributes)s
    init_, solver_ : str
        The start (or the metric or array given as such) and the solver used.
    learning_rate_ : float
        The learning rate used.
    n_passes_ : int
        Passes that led to the metric.
    candidates_ : list of ComparisonCandidate
        What "auto" chose from.
    chosen_ : list of ComparisonCandidate
        What it chose: one.
    %(fit_attributes)s
    %(about_the_fit)s
    threshold_ : float
        After a fit to pairs: squared distance below which `predict` calls a pair similar, the one that is right most
        often on those pairs.

    See Also
    --------
    Comparisons : Builders for rankings, clicks, groups and more.
    BoostMetric : The same from class labels.

    Examples
    --------
    >>> import numpy as np
    >>> from boostmetric import ComparisonBoostMetric
    >>> points = np.random.RandomState(0).standard_normal((100, 3))
    >>> points[:, 2] *= 0.1  # what matters is small
    >>> i, j, k = np.random.RandomState(1).randint(100, size=(3, 500))
    >>> closer = abs(points[i, 2] - points[j, 2]) < abs(points[i, 2] - points[k, 2])
    >>> triplets = np.stack([i, j, k], axis=1)[closer & (i != j) & (i != k) & (j != k)]
    >>> metric = ComparisonBoostMetric(max_iter=20).fit(triplets[:150], points=points)
    >>> bool(metric.score(triplets[150:]) > 0.95)
    True
    """

    _chosen = ("init", "n_passes", "learning_rate", "normalize")

    @classmethod
    def paper(cls, **overrides: Any) -> Self:
        """The paper's method, with its setting, which is also the default.

        Parameters
        ----------
        **overrides
            Parameters to override.

        Returns
        -------
        ComparisonBoostMetric
            With the exponential loss, starting from zero, and adding one direction in each of 500 iterations.

        Examples
        --------
        >>> from boostmetric import ComparisonBoostMetric
        >>> ComparisonBoostMetric.paper(max_iter=100)
        ComparisonBoostMetric(max_iter=100)
        """
        return cls(**overrides)

    @classmethod
    def recommended(cls, **overrides: Any) -> Self:
        """The setting that does best without being tuned.

        Parameters
        ----------
        **overrides
            Parameters to override.

        Returns
        -------
        ComparisonBoostMetric
            With the logistic loss. The start, the learning rate, the number of iterations, and whether to scale to unit
            length are chosen by comparisons that are held out (``"auto"``), with the Euclidean distance as a candidate.
            Then it learns from all of them.

        Examples
        --------
        >>> import numpy as np
        >>> from boostmetric import ComparisonBoostMetric
        >>> points = np.random.RandomState(0).standard_normal((100, 3))
        >>> triplets = np.random.RandomState(1).randint(100, size=(300, 3))  # answers at random
        >>> triplets = triplets[[len(set(triplet)) == 3 for triplet in triplets.tolist()]]
        >>> metric = ComparisonBoostMetric.recommended(random_state=0).fit(triplets, points=points)
        >>> print(metric.stop_reason_)
        Kept the start: boosting did not lower the validation error further.
        """
        return cls(**{**_RECOMMENDED, **overrides})

    @all_or_nothing
    @with_callbacks
    def fit(
        self,
        comparisons: ArrayLike | Comparisons | ComparisonFiles,
        y: ArrayLike | None = None,
        *,
        points: Any = None,
        sample_weight: ArrayLike | None = None,
        eval_set: Any = None,
        resume_from: str | Path | None = None,
    ) -> Self:
        """Learn the metric.

        Parameters
        ----------
        comparisons : array-like of int, Comparisons, array-like of shape (n, 2 to 4, n_features) or ComparisonFiles
            Rows (i, j, k): i is closer to j than to k; rows (i, j, k, l): i is closer to j than k to l; or rows (i, j)
            with `y`: similar or dissimilar. In a three-dimensional array the points themselves stand in place of their
            numbers, as in metric-learn. Torch tensors, here and below, may lie on any device; they are copied to the
            host once. `boostmetric.tables.ComparisonFiles` bring their points too; with ``engine="ray"`` the workers
            read them.
        y : array-like of shape (n,), optional
            For pairs only: 1 for similar points, -1 for dissimilar ones.
        points : {array-like, sparse matrix, tensor} of shape (n_points, n_features) or Points
            The points that the comparisons name, counted from 0; not with a three-dimensional array. A clone of an
            estimator, which cross-validation may be using, takes as many points as comparisons as `Points` only.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, or of the groups of `Comparisons`; not for pairs.
        eval_set : as `comparisons`, or a tuple (pairs, y), optional
            Held-out comparisons of the same points (in files: of any points of the same features): stops early and
            keeps the metric that satisfies most of them.
        resume_from : str or Path, optional
            Continue from a file that `boostmetric.callbacks.Checkpoint` wrote in a fit to the same data.

        Returns
        -------
        self
        """
        self.check_parameters()
        reset = not self._continues(resume_from)
        self._forget("threshold_")
        if isinstance(comparisons, ComparisonFiles):
            _refuse_beside_files(y=y, points=points, sample_weight=sample_weight)
            if eval_set is not None and not isinstance(eval_set, ComparisonFiles):
                raise TypeError(f"eval_set must be ComparisonFiles too. Got {type(eval_set).__name__}.")
            problem = self._problem_in(comparisons, reset=reset)
            held_out = None if eval_set is None else self._held_out_source(self._problem_in(eval_set, reset=False))
            return self._fit(self._source(problem), held_out, resume_from, (comparisons, None), _without_points)
        comparisons, y = as_numpy(comparisons), as_numpy(y)
        given = self._given_points(comparisons, points)
        in_memory = self._problem(comparisons, y, given, sample_weight, reset=reset)
        held_out = None if eval_set is None else self._held_out_source(self._held_out(eval_set, given))
        also = self._also(comparisons, y, in_memory, in_memory.points if given is None else given)
        return self._fit(self._source(in_memory), held_out, resume_from, (comparisons, y), also)

    @all_or_nothing
    @with_callbacks
    def refit(
        self,
        comparisons: ArrayLike | Comparisons,
        y: ArrayLike | None = None,
        *,
        points: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from other comparisons, such as more of them, as the last fit did and for as many iterations.

        Nothing is held out, and nothing continued, not even with `warm_start`.

        Parameters
        ----------
        comparisons, y, points, sample_weight
            As in `fit`; the points have the same features.

        Returns
        -------
        self
        """
        check_is_fitted(self, "components_")
        self.check_parameters()
        comparisons, y = as_numpy(comparisons), as_numpy(y)
        given = self._given_points(comparisons, points)
        problem = self._problem(comparisons, y, given, sample_weight, reset=False)
        also = self._also(comparisons, y, problem, problem.points if given is None else given)
        decision = Decision(
            self._source_of_passes(problem, self.n_passes_),
            self.init_,
            cast(SolverName, self.solver_),
            self.block_size_,
            self.learning_rate_,
            self._boosted.iterations_of_passes or (0,),
            self.normalize_,
            is_validated=True,
        )
        validated = self.chooses or self.stop_reason_ in (StopReason.VALIDATED, StopReason.HELD_OUT)
        self._fit(decision.source, None, None, (comparisons, y), also, decision)
        if self.stop_reason_ is StopReason.VALIDATED and not validated:
            self.stop_reason_ = StopReason.ITERATION_LIMIT
        return self

    def _decide(self, source: Any, held_out: Any, earlier: Earlier) -> Decision:
        """As the parameters say, or by validation."""
        if not self.chooses:
            return super()._decide(source, held_out, earlier)
        inits = COMPARED_STARTS if is_auto(self.init) else (self.init,)
        rates = LEARNING_RATES if isinstance(self.learning_rate, str) else (self.learning_rate,)
        block_size, does = block_of(source.n_features, self.solver, self.block_size)
        max_iter = -(-self.max_iter // does)
        decision = Decision(
            source, inits[0], cast(SolverName, self.solver), block_size, rates[0], (max_iter,), self.normalize is True
        )
        if self.engine is not None:
            return decision
        if earlier.fit is not None and hasattr(self, "chosen_"):
            again = self._source_of_passes(source.given, self.chosen_[0].n_passes)
            return replace(decision, source=again, learning_rate=self.learning_rate_, normalize=self.normalize_)
        settings = self._settings(source, check_random_state(self.random_state))
        choice = ComparisonChoice(
            source.given,
            None if held_out is None else held_out.given,
            inits,
            rates,
            max_iter,
            self.n_passes,
            self.normalize,
            replace(settings, solver=decision.solver, block_size=block_size),
        )
        with Steps("Choosing", visible=bool(self.verbose)) as steps:
            chosen, found = choice.decide(lambda candidate: tell(self.callbacks or [], candidate), steps.update)
        self.chosen_: list[ComparisonCandidate] = [chosen]
        self.candidates_: list[ComparisonCandidate] = found
        return replace(
            decision,
            source=chosen.source(source.given),
            init=chosen.init,
            learning_rate=chosen.learning_rate,
            max_iter=chosen.max_iter,
            normalize=chosen.normalize,
            is_validated=True,
        )

    def _source(self, problem: Learnable) -> Source:
        """Where the comparisons of each pass come from, if that is no choice."""
        return self._source_of_passes(problem, 1 if isinstance(self.n_passes, str) else self.n_passes)

    def _held_out_source(self, problem: Learnable) -> Source:
        """The same for held-out comparisons, of any kind."""
        return self._source(problem) if can_find_again(problem) else Compared(problem)

    def _source_of_passes(self, problem: Learnable, n_passes: int) -> Source:
        if n_passes == 1:
            return Compared(problem)
        if not can_find_again(problem):
            raise ParameterError(
                "{n_passes}={value} would find comparisons again in every pass, but these are given. Leave {n_passes} "
                "out. Only positives alone (Comparisons.from_positives), which were neither concatenated with others "
                "nor left to the workers of a cluster, can be found again.",
                value=n_passes,
            )
        return Searched(cast(Problem, problem))

    def _conclude(self, decision: Decision, boosted: Boosted, also: Also) -> None:
        super()._conclude(decision, boosted, also)
        if not decision.is_validated:
            self._forget("candidates_", "chosen_")

    def _held_out(self, eval_set: Any, given: Any) -> Problem:
        """Held-out comparisons, of the same points as the fit."""
        held, y = eval_set, None
        if isinstance(eval_set, tuple) and len(eval_set) == 2 and not isinstance(eval_set[0], Comparisons):
            held, y = eval_set if n_dimensions(eval_set[0]) > 1 else (eval_set, None)
        if given is None and not hold_points(held):
            raise ValueError(
                "eval_set names points by number, but the fit is to tuples of points: give tuples in both."
            )
        return self._problem(held, y, None if hold_points(held) else given, None, reset=False)

    def fit_transform(
        self, comparisons: Any, y: ArrayLike | None = None, *, points: Any = None, **arguments: Any
    ) -> Any:
        """Fit to the comparisons, and map the points.

        Parameters
        ----------
        comparisons, y, points, **arguments
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_points, rank)
        """
        if hold_points(comparisons) or isinstance(comparisons, ComparisonFiles):
            raise ValueError(
                "fit_transform maps `points`, and tuples and files have none: call fit, then transform what you need."
            )
        self.fit(comparisons, y, points=points, **arguments)
        return self.transform(points.X if isinstance(points, Points) else points)

    @all_or_nothing
    def partial_fit(
        self,
        comparisons: ArrayLike | Comparisons,
        y: ArrayLike | None = None,
        *,
        points: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from one batch of a stream, starting from the metric so far, and forget the batch.

        Parameters
        ----------
        comparisons, y, points, sample_weight
            As in `fit`. The points may differ between batches.

        Returns
        -------
        self

        Notes
        -----
        A few rounds of projected gradient steps on the batch; the metric is an average over the batches
        (`boostmetric.solver.online`). A metric from `fit` counts as the first batch. Callbacks, early stopping,
        `max_iter` and `tol` belong to `fit`. Memory does not grow with the number of batches.
        """
        self.check_parameters()
        comparisons, y = as_numpy(comparisons), as_numpy(y)
        given = self._given_points(comparisons, points)
        batch = self._problem(comparisons, y, given, sample_weight, reset=not hasattr(self, "components_"))
        self._forget("threshold_")
        self._follow(batch, self._also(comparisons, y, batch, None))  # the next batch may have other points
        return self

    def check_parameters(self) -> None:
        """Raise what `fit` would raise about the parameters, without data."""
        super().check_parameters()
        check_choice("solver", self.solver, SOLVERS)
        check_init(self.init, [*PLAIN_STARTS, AUTO])

    def _also(self, comparisons: Any, y: Any, problem: Problem, points: Any) -> Also:
        """Fitted attributes besides those of the metric: the points to score with, and for pairs the threshold."""
        if y is None:
            return lambda metric: {"_points": points}
        rows, _ = as_rows(comparisons, None)
        assert isinstance(rows, np.ndarray)
        similar = np.asarray(y) == 1

        def also(metric: MahalanobisMetric) -> dict[str, Any]:
            distance = squared_distance(metric.transform(problem.points), rows)
            return {"_points": points, "threshold_": best_threshold(distance, similar)}

        return also

    def __sklearn_clone__(self) -> Self:
        copy: Self = super().__sklearn_clone__()
        copy._is_clone = True
        return copy

    def __getstate__(self) -> dict[str, Any]:
        # The points are only for scoring in this process, and a stored model is small.
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_points"}


def _refuse_beside_files(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} is given beside files, which bring their own. Leave it out.")


def _without_points(metric: MahalanobisMetric) -> dict[str, Any]:
    """The points of the fit are not held."""
    return {"_points": None}
