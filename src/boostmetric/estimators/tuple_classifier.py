"""Tuples of points as samples of a classifier.

Pairs are similar or dissimilar, by a threshold on the learned distance. In a triplet or quadruplet, one pair is closer.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_choice, check_number
from boostmetric.comparisons.thresholds import STRATEGIES, choose_threshold
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.closer_pair import as_tuples

_NO_THRESHOLD = (
    "There is no threshold between similar and dissimilar pairs. Call calibrate_threshold(pairs, y) or "
    "set_threshold(distance)."
)


def _classifies(metric: Any) -> bool:
    # After a fit to labels, scikit-learn would take these methods for those of samples, and call them with samples.
    if not (hasattr(metric, "threshold_") or metric._learned_order):
        raise AttributeError(
            f"{_NO_THRESHOLD} For triplets and quadruplets, which need none, call predict, decision_function and score "
            "of get_metric()."
        )
    return True


def _has_probabilities(metric: Any) -> bool:
    if not hasattr(metric, "probability_"):
        raise AttributeError("Probabilities are not calibrated. Call calibrate_probability(pairs, y).")
    return True


class TupleClassifierMixin:
    """Methods that tell similar from dissimilar pairs of points, and which pair of a triplet or quadruplet is closer.

    `predict`, `decision_function` and `score` exist once there is a threshold, or after a fit to comparisons.
    `predict_proba` exists once probabilities are calibrated. A new fit forgets all of this.
    """

    threshold_: float
    probability_: FloatArray
    _learned_order: bool = False  # whether the fit was to comparisons

    @abstractmethod
    def _plain_metric(self) -> MahalanobisMetric:
        """The learned metric."""

    @abstractmethod
    def pair_distance(self, pairs: ArrayLike) -> NDArray[np.floating[Any]]:
        """Learned distances of pairs of points."""

    def pair_score(self, pairs: ArrayLike) -> NDArray[np.floating[Any]]:
        """Similarities of pairs of points: the learned distances, negative.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)

        Returns
        -------
        ndarray of shape (n_pairs,)
        """
        return -self.pair_distance(pairs)

    def set_threshold(self, distance: float) -> Self:
        """Set the distance below which pairs are called similar.

        Parameters
        ----------
        distance : float

        Returns
        -------
        self
        """
        check_is_fitted(self, "components_")
        check_number("distance", distance)
        self.threshold_ = float(distance) ** 2
        return self

    def calibrate_threshold(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        *,
        strategy: str = "accuracy",
        beta: float = 1.0,
        min_rate: float = 0.0,
    ) -> Self:
        """Set the threshold that is best on these pairs, which should not be those of the fit.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
        y : array-like of shape (n_pairs,)
            1 for similar and -1 for dissimilar pairs.
        strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}, default="accuracy"
            What is to be largest: the number of right answers; the F-score; the rate of similar pairs that are called
            so, while that of dissimilar pairs called dissimilar is at least `min_rate`; or the latter rate, while the
            former is at least `min_rate`.
        beta : float, default=1.0
            Weight of recall in the F-score.
        min_rate : float, default=0.0
            Between 0 and 1.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from boostmetric import BoostMetric
        >>> from sklearn.datasets import load_wine
        >>> X, label = load_wine(return_X_y=True)
        >>> metric = BoostMetric(random_state=0).fit(X[::2], label[::2])
        >>> rng = np.random.default_rng(0)
        >>> pairs = np.array([rng.permutation(89)[:2] for _ in range(400)])
        >>> y = np.where(label[1::2][pairs[:, 0]] == label[1::2][pairs[:, 1]], 1, -1)
        >>> pairs = X[1::2][pairs]
        >>> metric = metric.calibrate_threshold(pairs[:200], y[:200])
        >>> bool(np.mean(metric.predict(pairs[200:]) == y[200:]) > 0.8)
        True
        """
        check_choice("strategy", strategy, STRATEGIES)
        check_number("beta", beta)
        check_number("min_rate", min_rate, at_most=1.0)
        distance, similar = self._squares_and_kinds(pairs, y)
        self.threshold_ = choose_threshold(distance, similar, strategy, beta=beta, min_rate=min_rate)
        return self

    def calibrate_probability(self, pairs: ArrayLike, y: ArrayLike) -> Self:
        """Fit the probability of being similar to held-out pairs, as a logistic function of the squared distance.

        This is Platt scaling, with his regularized targets.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
        y : array-like of shape (n_pairs,)
            1 for similar and -1 for dissimilar pairs, of both kinds.

        Returns
        -------
        self
        """
        distance, similar = self._squares_and_kinds(pairs, y)
        if similar.all() or not similar.any():
            raise ValueError(f"All of y is {1 if similar.all() else -1}. Give pairs of both kinds.")
        self.probability_ = _platt(distance, similar)
        return self

    @available_if(_classifies)
    def decision_function(self, tuples: ArrayLike) -> NDArray[np.floating[Any]]:
        """For pairs, `threshold_` minus their squared distance; else by how much the far pair is farther, squared.

        Parameters
        ----------
        tuples : array-like of shape (n_tuples, 2 to 4, n_features)
            Pairs, triplets (a, b, c) or quadruplets (a, b, c, d) of points.

        Returns
        -------
        ndarray of shape (n_tuples,)
            For triplets and quadruplets, the squared distance of c and d (or of a and c) minus that of a and b.
        """
        points = as_tuples(tuples)
        if points.shape[1] > 2:
            return self._plain_metric().decision_function(points)
        if not hasattr(self, "threshold_"):
            raise ValueError(_NO_THRESHOLD)
        return np.asarray(self.threshold_ - np.square(self.pair_distance(points)))

    @available_if(_classifies)
    def predict(self, tuples: ArrayLike) -> NDArray[np.int64]:
        """1 for pairs that are called similar, and where a and b are closer than c and d (or than a and c); else -1.

        Parameters
        ----------
        tuples : array-like
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (n_tuples,)
        """
        return np.where(self.decision_function(tuples) > 0, 1, -1)

    @available_if(_classifies)
    def score(self, tuples: ArrayLike, y: ArrayLike | None = None) -> float:
        """For pairs, area under the ROC curve; else the fraction of the tuples that the metric satisfies.

        Parameters
        ----------
        tuples : array-like
            As in `decision_function`.
        y : array-like of shape (n_tuples,), optional
            For pairs only: 1 for similar and -1 for dissimilar pairs.

        Returns
        -------
        float
            For pairs, how often a similar pair is closer than a dissimilar one. For triplets and quadruplets, how often
            a and b are closer than c and d (or than a and c).
        """
        points = as_tuples(tuples)
        if (y is None) == (points.shape[1] == 2):
            raise ValueError(
                "Pairs need y: 1 for similar, -1 for dissimilar ones."
                if y is None
                else "y says which pairs are similar and is only for pairs. Leave it out."
            )
        if y is None:
            return self._plain_metric().score(points)
        distance, similar = self._squares_and_kinds(points, y)
        from sklearn.metrics import roc_auc_score  # with all other scores

        return float(roc_auc_score(similar, -distance))

    @available_if(_has_probabilities)
    def predict_proba(self, pairs: ArrayLike) -> NDArray[np.float64]:
        """Probabilities that pairs are dissimilar, and that they are similar.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)

        Returns
        -------
        ndarray of shape (n_pairs, 2)
        """
        offset, slope = self.probability_
        margin = offset - slope * np.square(self.pair_distance(pairs))
        return np.stack([expit(-margin), expit(margin)], axis=1)

    def _squares_and_kinds(self, pairs: ArrayLike, y: ArrayLike) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Squared distances of pairs, and whether each is similar."""
        distance = np.square(np.asarray(self.pair_distance(pairs), dtype=np.float64))
        kinds = np.asarray(y)
        if not len(distance):
            raise ValueError("There are no pairs: at least one is needed.")
        if kinds.shape != distance.shape or not np.isin(kinds, (-1, 1)).all():
            raise ValueError(
                f"y must hold 1 (similar) or -1 (dissimilar) for each of the {len(distance)} pairs. Got {kinds!r}."
            )
        return distance, kinds == 1


def _platt(distance: FloatArray, similar: NDArray[np.bool_]) -> FloatArray:
    """Offset and slope, at least 0, of the logistic function of minus the distance."""
    n, n_similar = len(similar), int(similar.sum())
    target = np.where(similar, (n_similar + 1) / (n_similar + 2), 1 / (n - n_similar + 2))
    unit = float(distance.mean()) or 1.0

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        offset, slope = parameters
        margin = offset - slope * distance / unit
        value = -np.sum(target * log_expit(margin) + (1 - target) * log_expit(-margin))
        error = expit(margin) - target
        return float(value), np.array([error.sum(), -(error @ distance) / unit])

    found = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B", bounds=[(None, None), (0, None)])
    return np.asarray(found.x / [1.0, unit])
