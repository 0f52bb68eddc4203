"""Metric learning from relative comparisons by minimising squared residuals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_count
from boostmetric.baselines.descriptions import documented
from boostmetric.baselines.logdet import PriorCoordinates, prior_map
from boostmetric.baselines.near_prior import NearPrior
from boostmetric.baselines.pair_set import PairSet
from boostmetric.baselines.side_information import drawn_pairs
from boostmetric.callbacks import Callback
from boostmetric.comparisons import Comparisons
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.estimators.sklearn_callbacks import with_callbacks
from boostmetric.metric.starts import Init
from boostmetric.solver.problem import Problem


@documented
class LSML(NearPrior):
    """Least squared-residual metric learning: close to a prior, with few and small violations of comparisons.

    A comparison whose near pair is farther than its far pair costs the square of the difference of the two distances.
    The mean of these costs, plus the LogDet divergence from the prior, is minimised [1]_. The problem is convex, and
    the fit proves how close it is to the minimum, by `duality_gap_`.

    Parameters
    ----------
    %(rank)s
    %(prior)s
    n_comparisons : int, default=None
        From labels, comparisons of a similar with a dissimilar pair to draw at random. None draws 20 times the square
        of the number of classes.
    %(max_iter)s
    %(tol)s
    %(callbacks)s
    random_state : int, RandomState or None, default=None
        Random seed for drawing comparisons.
    %(verbose)s

    Attributes
    ----------
    %(components)s
    objective_ : float
        Mean cost plus divergence from the prior (before truncation to `n_components`).
    %(duality_gap)s
    %(n_iter)s
    %(history)s
    %(about_the_fit)s

    Notes
    -----
    The cost of two squared distances x > y is x + y - 2 sqrt(xy), a convex function, as the geometric mean is concave.
    The solver is that of the module `boostmetric.baselines.logdet`, where the authors follow the gradient and project
    on the cone of metrics.

    Cost: the time of an iteration is proportional to comparisons times features, plus features cubed.

    References
    ----------
    .. [1] E. Y. Liu, Z. Guo, X. Zhang, V. Jojic, W. Wang, "Metric Learning from Relative Comparisons by Minimizing
       Squared Residual", IEEE International Conference on Data Mining, 2012.

    Examples
    --------
    >>> from boostmetric.baselines import LSML
    >>> from sklearn.datasets import load_wine
    >>> metric = LSML(random_state=0).fit(*load_wine(return_X_y=True))
    >>> bool(metric.duality_gap_ <= 1e-4 * metric.objective_)
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        prior: Init = "standardized",
        n_comparisons: int | None = None,
        max_iter: int = 1000,
        tol: float = 1e-4,
        callbacks: Sequence[Callback] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.prior = prior
        self.n_comparisons = n_comparisons
        self.max_iter = max_iter
        self.tol = tol
        self.callbacks = callbacks
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    @with_callbacks
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        comparisons: ArrayLike | Comparisons | None = None,
        weights: ArrayLike | None = None,
    ) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), optional
            Class labels, from which comparisons are drawn.
        comparisons : array-like of int of shape (n, 3) or (n, 4), or Comparisons, optional
            Used instead of labels: rows (i, j, k), sample i is closer to j than to k; or (i, j, k, l), i is closer to j
            than k to l.
        weights : array-like, optional
            Weight of each row, or group, of `comparisons`.

        Returns
        -------
        self
        """
        self._check_parameters()
        samples, labels = self._check_data(X, y, comparisons=comparisons)
        if labels is None:
            problem = self._given(samples, comparisons, weights)
        elif weights is not None:
            raise ValueError("weights are those of comparisons, but comparisons are drawn from y. Leave them out.")
        else:
            drawn = _drawn_comparisons(labels, self.n_comparisons, check_random_state(self.random_state))
            problem = Problem(samples, drawn).restricted()
        inside = PriorCoordinates.of(np.asarray(problem.points), prior_map(self.prior, samples))
        listed = problem.comparisons.listed()
        residuals = Residuals(listed, 4.0**inside.frame.exponent)
        self._minimise(inside, PairSet.of(inside.points, listed.pairs), residuals, (X, y))
        return self

    def _check_parameters(self) -> None:
        self._check_search()
        if self.n_comparisons is not None:
            check_count("n_comparisons", self.n_comparisons, alternative=", or None")


class Residuals:
    """Mean of the squares by which near pairs are farther than far pairs.

    Parameters
    ----------
    comparisons : Comparisons
        Listed; all comparisons of a group have its weight.
    unit : float
        Squared distances are in this unit.
    """

    def __init__(self, comparisons: Comparisons, unit: float) -> None:
        self._near, self._far = comparisons.pair_numbers()
        self._weights = unit * comparisons.shares()

    def __call__(self, distances: FloatArray) -> tuple[float, FloatArray]:
        """Mean of the costs, and the derivative with respect to each squared distance."""
        near, far = np.sqrt(distances[self._near]), np.sqrt(distances[self._far])
        violated = near > far
        near, far, weights = near[violated], far[violated], self._weights[violated]
        value = float(weights @ (near - far) ** 2)
        apart = np.where(far > 0, far, 1.0)  # equal points stay equal under any metric
        slopes = np.zeros(len(distances))
        np.add.at(slopes, self._near[violated], weights * (1.0 - far / near))
        np.add.at(slopes, self._far[violated], weights * np.where(far > 0, 1.0 - near / apart, 0.0))
        return value, slopes


def _drawn_comparisons(labels: NDArray[np.generic], n: int | None, rng: np.random.RandomState) -> Comparisons:
    """Compare similar with dissimilar pairs, both drawn at random."""
    near, far = drawn_pairs(labels, n, rng)
    most = min(len(near), len(far))
    near, far = (pairs[rng.permutation(len(pairs))[:most]] for pairs in (near, far))
    return Comparisons.from_quadruplets(np.concatenate([near, far], axis=1))
