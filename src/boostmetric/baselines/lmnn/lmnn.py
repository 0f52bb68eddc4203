"""Large margin nearest neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boostmetric.arrays.numbering import check_weights
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_choice, check_count, check_number
from boostmetric.baselines.baseline import Baseline, Journal, check_not_zero
from boostmetric.baselines.descriptions import documented
from boostmetric.baselines.lmnn.impostors import Given, Neighborhoods
from boostmetric.baselines.lmnn.large_margin import LargeMargin, Minimum, Value, minimise
from boostmetric.baselines.lmnn.pull import PullCoordinates
from boostmetric.callbacks import Callback
from boostmetric.comparisons import Comparisons
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.estimators.sklearn_callbacks import with_callbacks
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.starts import PLAIN_STARTS, STARTS, Init, starting_components
from boostmetric.solver.result import StopReason

# Least length of a row of the initial map, relative to the longest: L-BFGS never leaves zero.
_LEAST_LENGTH = 1e-4


@documented
class LMNN(Baseline):
    """Large margin nearest neighbours: pull targets close, and push impostors out of the margin around them.

    The objective is (1 - push) times the squared distances of all samples from their targets, plus push times the hinge
    loss of all comparisons "a target is closer than a sample of another class, by a margin of 1" [1]_. It is convex in
    the matrix X, and the fit gives a bound on its distance from the minimum, `duality_gap_`.

    Parameters
    ----------
    n_components : int, default=None
        Number of rows of the linear map. None means the number of features; with fewer, the problem is no longer
        convex, and the fit starts from the principal components of the samples under the initial metric.
    n_neighbors : int, default=3
        Number of targets of each sample: its nearest samples of the same class.
    push : float, default=0.5
        Weight of the hinge loss, between 0 and 1.
    init : {"identity", "standardized", "rca", "standardized-rca"}, metric or array, default="identity"
        Metric under which targets are the nearest, and from which the search starts (up to a factor): see
        `boostmetric.BoostMetric`. Without `n_components` the minimum depends on it only through the targets. To resume
        from a checkpoint, pass ``Checkpoint.load(path).metric()``.
    n_passes : int, default=1
        Number of passes. In each pass after the first, targets are found again under the metric learned so far.
    max_iter : int, default=1000
        Maximum number of L-BFGS iterations in each pass.
    tol : float, default=1e-3
        Stop when the objective is within this fraction of its minimum, or has fallen to this fraction of its initial
        value. With `n_components`, and in the rare cases where no bound on the minimum comes close: when it no longer
        improves by this fraction.
    %(callbacks)s
    %(verbose)s

    Attributes
    ----------
    %(components)s
    objective_ : float
        The objective, with all impostors.
    duality_gap_ : float
        Bound on how much lower the minimum over all metrics may be. It always holds, but with `n_components` it may be
        loose.
    %(n_iter)s
    history_ : list of Iteration
        Objective (with the impostors known at the time), trace and violated fraction of each iteration.
    %(about_the_fit)s

    Notes
    -----
    Cost: the time of an iteration grows with the number of pairs of a sample and an impostor near its margin; about
    once in ten or twenty iterations, impostors are searched among all samples. Memory grows with these pairs. The
    result is the same, bit for bit, for any number of threads.

    References
    ----------
    .. [1] K. Weinberger, L. Saul, "Distance Metric Learning for Large Margin Nearest Neighbor Classification", Journal
       of Machine Learning Research 10, 2009.

    Examples
    --------
    >>> from boostmetric.baselines import LMNN
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = LMNN().fit(X, y)
    >>> bool(metric.duality_gap_ < 1e-3 * metric.objective_)
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_neighbors: int = 3,
        push: float = 0.5,
        init: Init = "identity",
        n_passes: int = 1,
        max_iter: int = 1000,
        tol: float = 1e-3,
        callbacks: Sequence[Callback] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.push = push
        self.init = init
        self.n_passes = n_passes
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
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each sample, applied to the terms it anchors; or, with `comparisons`, of shape (n_comparisons,).
        comparisons : array-like of int or Comparisons, optional
            Used instead of labels: rows (i, j, k), sample i is closer to j than to k; rows (i, j, k, l), i is closer to
            j than k to l; or `Comparisons`. Near pairs are pulled once per anchor, with the largest of their weights.

        Returns
        -------
        self
        """
        self._check_parameters()
        samples, labels = self._check_data(X, y, comparisons=comparisons)
        with self._watched(self.n_passes * self.max_iter, (X, y), self._attributes_so_far) as callbacks:
            journal = Journal(callbacks)
            if labels is None:
                components, passes = self._from_comparisons(samples, comparisons, sample_weight, journal)
            else:
                components, passes = self._from_labels(samples, labels, sample_weight, journal)
        last = passes[-1]
        self.objective_, self.duality_gap_ = last.value.exact, max(last.value.exact - last.bound, 0.0)
        limited = any(minimum.stop_reason is StopReason.ITERATION_LIMIT for minimum in passes)
        self._finish(components, journal, journal.stopped or last.stop_reason, limited=limited)
        return self

    def _from_labels(
        self, samples: FloatArray, labels: NDArray[Any], sample_weight: ArrayLike | None, journal: Journal
    ) -> tuple[FloatArray, list[Minimum]]:
        weights = check_weights("sample_weight", sample_weight, len(labels), "sample")
        under = self._start(samples, labels)
        passes: list[Minimum] = []
        while len(passes) < self.n_passes and journal.stopped is None:
            mapped = samples if under is None else MahalanobisMetric(under).transform(samples)
            around = Neighborhoods.of(mapped, labels, self.n_neighbors, weights, quiet=bool(passes))
            under, minimum = self._minimise(samples, under, around, journal)
            passes.append(minimum)
        assert under is not None
        return under, passes

    def _from_comparisons(
        self, samples: FloatArray, comparisons: Any, sample_weight: ArrayLike | None, journal: Journal
    ) -> tuple[FloatArray, list[Minimum]]:
        if self.n_passes > 1:
            raise ValueError(
                f"n_passes={self.n_passes} would find targets again, but comparisons fix them. Use n_passes=1."
            )
        if isinstance(self.init, str):
            check_choice("init, without labels,", self.init, PLAIN_STARTS[1:])
        problem = self._given(samples, comparisons, sample_weight)
        given, under = Given(problem.comparisons.listed()), self._start(samples, None)
        components, minimum = self._minimise(np.asarray(problem.points), under, given, journal)
        return components, [minimum]

    def _start(self, samples: FloatArray, labels: NDArray[Any] | None) -> FloatArray | None:
        """Initial linear map, in its own units; None for the identity, which may be large."""
        if isinstance(self.init, str) and self.init == "identity":
            return None
        components = starting_components(self.init, samples, labels)
        assert components is not None
        return np.ldexp(check_not_zero(components), -int(np.frexp(np.abs(components).max())[1]))

    def _minimise(
        self, samples: FloatArray, under: FloatArray | None, around: Neighborhoods | Given, journal: Journal
    ) -> tuple[FloatArray, Minimum]:
        """Linear map, in the features, that minimises the objective; and the minimum."""
        pairs, weights = around.target_pairs()
        unit = float(weights.mean())  # L-BFGS behaves differently for objectives far from 1
        inside = PullCoordinates.of(samples, pairs, weights / unit)
        points = inside.points
        rows = _with_rows(inside.lower(under), points, self.n_components)

        def lighter(comparisons: Comparisons) -> Comparisons:
            return replace(comparisons, weights=comparisons.weights / unit)

        def find(rows: FloatArray, reach: float, most: int | None = None) -> Comparisons | None:
            found = around.find(points @ rows.T, reach, most)
            return None if found is None else lighter(found)

        sample = lighter(around.sample(points @ rows.T))
        share = float(sample.weights @ sample.side_sizes[0]) / len(weights)
        rows *= LargeMargin(points, sample, inside.pull, self.push).best_scale(rows, share)

        def on_iteration(rows: FloatArray, value: Value) -> bool:
            loss, violated = unit * value.exact, unit * value.violated / around.total_weight
            return journal.add(loss, lambda: inside.lift(rows), trace=inside.trace(rows), violated=violated)

        minimum = minimise(
            points,
            find,
            rows,
            pull=inside.pull,
            push=self.push,
            tol=self.tol,
            max_iter=self.max_iter,
            on_iteration=on_iteration,
        )
        value = minimum.value._replace(exact=unit * minimum.value.exact)
        return inside.lift(minimum.rows), minimum._replace(value=value, bound=unit * minimum.bound)

    def _check_parameters(self) -> None:
        check_count("n_neighbors", self.n_neighbors)
        check_number("push", self.push, above=0.0, below=1.0)
        if isinstance(self.init, str):
            check_choice("init", self.init, STARTS[1:])
        check_count("n_passes", self.n_passes)
        check_count("max_iter", self.max_iter)
        check_number("tol", self.tol, above=0.0, below=1.0)
        self._check_callbacks()


def _with_rows(rows: FloatArray, points: FloatArray, n_rows: int | None) -> FloatArray:
    """Map with as many rows as features, none zero; or with `n_rows` rows, along which the points vary most."""
    _, lengths, axes = np.linalg.svd(rows)
    square = np.full(len(axes), _LEAST_LENGTH * lengths[0])
    square[: len(lengths)] = np.maximum(lengths, square[: len(lengths)])
    whole = square[:, None] * axes
    if n_rows is None or n_rows >= len(whole):
        return np.asarray(whole)
    mapped = points @ whole.T
    _, _, directions = np.linalg.svd(mapped - mapped.mean(axis=0), full_matrices=False)
    return np.asarray(directions[:n_rows] @ whole)
