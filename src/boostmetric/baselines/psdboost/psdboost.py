"""PSDBoost: maximise the margin by linear programs over rank-one matrices."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from boostmetric.arrays.frame import Frame
from boostmetric.arrays.validation import check_count, check_number, warn
from boostmetric.baselines.baseline import Baseline, Journal
from boostmetric.baselines.descriptions import documented
from boostmetric.baselines.psdboost.margins import Margins, TraceOne, solve
from boostmetric.callbacks import Callback
from boostmetric.comparisons import Comparisons
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.estimators.sklearn_callbacks import with_callbacks
from boostmetric.metric.mahalanobis import with_fixed_signs
from boostmetric.solver.result import StopReason, scaled
from boostmetric.solver.sources import Labelled

# Every comparison is a variable, and an entry of 8 bytes in each of a few hundred columns.
_MOST_COMPARISONS = 200_000
# The second matrix of an iteration is computed at a point this far from the program's solution towards the best dual
# point. Vertices of the first programs are far from the optimum, and so are their eigenvectors: without this the gap on
# Vehicle is about five times as large after the same time.
_TOWARDS_BEST = 0.8
# Programs after which a column of zero weight is dropped. It is generated again if needed.
_PATIENCE = 3


@documented
class PSDBoost(Baseline):
    """PSDBoost: maximise the margin of the comparisons over all metrics of trace 1.

    A comparison says that one pair of points is closer than another; its *margin* is the difference of their squared
    distances. PSDBoost [1]_ finds the X that maximises ``rho - C * (sum of the shortfalls of margins below rho)`` over
    rho and all X of trace 1. With ``C = 1 / (nu * number of comparisons)`` this is the mean of the smallest margins,
    the share `nu` of all. X is a sum of rank-one matrices, found by a sequence of linear programs: the dual values of
    each weight the comparisons, and the leading eigenvectors of their weighted sum give the next matrices (column
    generation, as in LPBoost).

    Parameters
    ----------
    n_components : int, default=None
        Rank of the metric. None keeps the full rank that was learned.
    n_neighbors : int, default=3
        Number of targets of each sample: nearest samples of its class. Like `n_impostors`, only used with class labels.
    n_impostors : int or "all", default=3
        Number of impostors of each sample: nearest samples of other classes.
    nu : float, default=0.1
        Share of the comparisons, above 0 and at most 1, whose margins count: at most this share, by weight, can miss
        the margin rho. Close to 0 only the smallest margin counts; with 1 the mean of all margins, whose best X has
        rank one. It replaces the constant C of the paper, ``C = 1 / (nu * number of comparisons)``, and depends on
        neither the number of comparisons nor the units of the data.
    max_iter : int, default=500
        Maximum number of linear programs.
    tol : float, default=1e-3
        Stop when the duality gap is at most this fraction of the mean absolute margin. (Not of the objective, which
        may be zero.)
    %(callbacks)s
    %(verbose)s

    Attributes
    ----------
    %(components)s
    directions_ : ndarray of shape (n_directions, n_features)
        Unit vectors v with X = sum_j step_sizes_[j] * outer(v_j, v_j).
    step_sizes_ : ndarray of shape (n_directions,)
        Positive weights of the directions, which add up to 1, the trace of X in the original features.
    objective_ : float
        Mean of the smallest margins, in squared units of the data (before truncation to `n_components`).
    duality_gap_ : float
        Bound on how much larger the objective of any other metric of trace 1 may be.
    n_iter_ : int
        Number of linear programs solved.
    history_ : list of Iteration
        For each iteration: as loss the negative objective, and as eigenvalue an upper bound on the objective, both in
        squared units of the data; and the share of violated comparisons.
    %(about_the_fit)s

    Notes
    -----
    Differences from the paper: several eigenvectors per iteration, computed at the program's dual values and at a point
    between these and the best so far (Wentges' smoothing of column generation); and programs of only those comparisons
    whose margins are near rho, repeated until all others are on the right side. The optimum is the same.

    The trace is measured in the units of the data. Features in small units are cheap to stretch, so standardized
    features may give another metric.

    Cost: memory of 8 bytes per comparison and column; there are a few hundred columns in 20 dimensions. A metric of
    rank r has r (r + 1) / 2 parameters and needs about as many columns: PSDBoost is for few dimensions.

    References
    ----------
    .. [1] C. Shen, A. Welsh, L. Wang, "PSDBoost: Matrix-Generation Linear Programming for Positive Semidefinite
       Matrices Learning", Advances in Neural Information Processing Systems 21, 2008.

    Examples
    --------
    >>> from boostmetric.baselines import PSDBoost
    >>> from sklearn.datasets import load_iris
    >>> metric = PSDBoost().fit(*load_iris(return_X_y=True))
    >>> print(f"{metric.step_sizes_.sum():.6f}")
    1.000000
    >>> metric.stop_reason_.name
    'OPTIMAL'
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_neighbors: int = 3,
        n_impostors: int | Literal["all"] = 3,
        nu: float = 0.1,
        max_iter: int = 500,
        tol: float = 1e-3,
        callbacks: Sequence[Callback] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.n_impostors = n_impostors
        self.nu = nu
        self.max_iter = max_iter
        self.tol = tol
        self.callbacks = callbacks
        self.verbose = verbose

    @all_or_nothing
    @with_callbacks
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        comparisons: ArrayLike | Comparisons | None = None,
    ) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), optional
            Class labels.
        sample_weight : array-like, optional
            Weight of each sample, applied to the comparisons it anchors; or of each row, or group, of `comparisons`.
        comparisons : array-like of int of shape (n, 3) or (n, 4), or Comparisons, optional
            Used instead of labels: rows (i, j, k), sample i is closer to j than to k; or (i, j, k, l), i is closer to j
            than k to l.

        Returns
        -------
        self
        """
        self._check_parameters()
        samples, labels = self._check_data(X, y, comparisons=comparisons)
        if labels is None:
            problem = self._given(samples, comparisons, sample_weight)
        else:
            weights: Any = sample_weight  # checked with the labels
            data = Labelled(samples, labels, weights, self.n_neighbors, self.n_impostors)
            data.warn_of_small_classes()
            problem = data.problem().restricted()
        _check_size(problem.comparisons)
        frame = Frame.of(problem.points)
        with self._watched(self.max_iter, (X, y), self._attributes_so_far) as callbacks:
            journal = Journal(callbacks)
            stop_reason, best, bound = self._generate(Margins(frame, problem.comparisons, self.nu), frame, journal)
        self.directions_, self.step_sizes_ = with_fixed_signs(frame.lift(best.directions)), best.weights
        self.duality_gap_ = max(scaled(bound - best.objective, 2 * frame.exponent), 0.0)
        self.objective_ = scaled(best.objective, 2 * frame.exponent)
        self._finish(best.rows(frame), journal, stop_reason)
        if stop_reason is StopReason.SOLVER_FAILED:
            warn(f"{stop_reason} The duality gap is {self.duality_gap_:g}.", ConvergenceWarning)
        return self

    def _generate(self, margins: Margins, frame: Frame, journal: Journal) -> tuple[StopReason, TraceOne, float]:
        """Run column generation; return why it ended, the best metric, and a bound on all objectives."""
        closest = np.full(len(margins.share), float(self.nu))  # u proportional to the weights, which is feasible
        directions, bound = margins.leading(closest)
        growths = margins.along(directions)
        w, idle = np.eye(len(directions))[0], np.zeros(len(directions), dtype=np.int64)
        best = margins.metric(directions, growths, w)
        for _ in range(self.max_iter):
            solved = solve(growths, margins.share, margins.nu, w, unit=max(best.size, margins.least_unit))
            if solved is None:
                return StopReason.SOLVER_FAILED, best, bound
            x, w = solved
            best = max(best, margins.metric(directions, growths, w), key=lambda metric: metric.objective)
            eigenvalue, between, found = np.inf, _TOWARDS_BEST * closest + (1 - _TOWARDS_BEST) * x, []
            for point in (x, between):
                vectors, leading = margins.leading(point, above=best.objective)
                found.append(vectors)
                eigenvalue = min(eigenvalue, leading)
                if leading < bound:
                    bound, closest = leading, point
            loss, limit = (scaled(value, 2 * frame.exponent) for value in (-best.objective, eigenvalue))
            journal.add(loss, partial(best.rows, frame), trace=1.0, violated=best.violated, eigenvalue=limit)
            if bound - best.objective <= self.tol * best.size + margins.rounding:
                return StopReason.OPTIMAL, best, bound
            if journal.stopped is not None:
                return journal.stopped, best, bound
            idle = np.where(w > 0, 0, idle + 1)
            kept, new = idle < _PATIENCE, np.concatenate(found)
            directions = np.concatenate([directions[kept], new])
            growths = np.concatenate([growths[kept], margins.along(new)])
            w = np.append(w[kept], np.zeros(len(new)))
            idle = np.append(idle[kept], np.zeros(len(new), dtype=np.int64))
        return StopReason.ITERATION_LIMIT, best, bound

    def _check_parameters(self) -> None:
        real = isinstance(self.nu, numbers.Real) and not isinstance(self.nu, bool)
        if not (real and 0 < self.nu <= 1):
            raise ValueError(
                f"nu, the share of the comparisons whose margins count, must be above 0 and at most 1. Got {self.nu!r}."
            )
        check_count("max_iter", self.max_iter)
        check_number("tol", self.tol)
        self._check_callbacks()


def _check_size(comparisons: Comparisons) -> None:
    if comparisons.n_comparisons > _MOST_COMPARISONS:
        raise ValueError(
            f"There are {comparisons.n_comparisons:,} comparisons, each of them a variable of the linear programs; "
            f"PSDBoost takes at most {_MOST_COMPARISONS:,}. Lower n_impostors or n_neighbors, pass fewer comparisons, "
            "or use boostmetric.BoostMetric, which has no such limit."
        )
