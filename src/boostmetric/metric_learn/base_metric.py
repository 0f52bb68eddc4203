"""Base classes: the preprocessor, distances of pairs, and tuples as a classifier."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.utils import ClassifierTags, Tags
from sklearn.utils.validation import _is_arraylike, check_is_fitted

from boostmetric.arrays.types import FloatArray
from boostmetric.comparisons.thresholds import STRATEGIES, choose_threshold
from boostmetric.metric_learn.inputs import ArrayIndexer, check_input, validate_vector
from boostmetric.metric_learn.matrices import components_from_metric

# Tolerance of L-BFGS that metric-learn uses where `tol` is None.
SCIPY_TOLERANCE = 2.2e-9


class BaseMetricLearner(BaseEstimator):
    """Base class of all learners.

    Parameters
    ----------
    preprocessor : array-like of shape (n_samples, n_features) or callable, default=None
        Forms points from indicators: the array is indexed, the callable is called.
    """

    preprocessor_: Any
    n_features_in_: int

    def __init__(self, preprocessor: Any = None) -> None:
        self.preprocessor = preprocessor

    def _check_preprocessor(self) -> None:
        if _is_arraylike(self.preprocessor):
            self.preprocessor_ = ArrayIndexer(self.preprocessor)
        elif self.preprocessor is None or callable(self.preprocessor):
            self.preprocessor_ = self.preprocessor
        else:
            raise ValueError(
                f"Invalid type for the preprocessor: {type(self.preprocessor)}. You should provide either None, an "
                "array-like object, or a callable."
            )

    def _prepare_inputs(self, X: Any, y: Any = None, type_of_inputs: str = "classic", **kwargs: Any) -> Any:
        """Check inputs, forming them by the preprocessor."""
        self._check_preprocessor()
        checked = self._checked(X, type_of_inputs, y=y, tuple_size=getattr(self, "_tuple_size", None), **kwargs)
        self.n_features_in_ = (checked if y is None else checked[0]).shape[-1]
        return checked

    def _prepare_pairs(self, pairs: Any, y: Any) -> tuple[Any, Any]:
        """Check pairs, which need labels."""
        if y is None:
            raise ValueError("Pairs need y: 1 for similar points, -1 for dissimilar ones.")
        checked: tuple[Any, Any] = self._prepare_inputs(pairs, y, type_of_inputs="tuples")
        return checked

    def _checked(self, X: Any, type_of_inputs: str, **kwargs: Any) -> Any:
        return check_input(X, type_of_inputs=type_of_inputs, preprocessor=self.preprocessor_, estimator=self, **kwargs)


class MahalanobisMixin(BaseMetricLearner):
    """Learners of a Mahalanobis distance."""

    components_: FloatArray

    def transform(self, X: Any) -> FloatArray:
        """Map points so that their Euclidean distances are the learned ones.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or indicators

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self, ["preprocessor_", "components_"])
        points = self._checked(X, "classic", accept_sparse=True)
        if points.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {points.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input."
            )
        mapped: FloatArray = points @ self.components_.T
        return mapped

    def pair_distance(self, pairs: Any) -> FloatArray:
        """Learned distances of pairs of points.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features), or indicators of shape (n_pairs, 2)

        Returns
        -------
        ndarray of shape (n_pairs,)
        """
        check_is_fitted(self, "preprocessor_")
        points = self._checked(pairs, "tuples", tuple_size=2)
        difference = self.transform(points[:, 1] - points[:, 0])
        return np.asarray(np.sqrt(np.sum(difference**2, axis=-1)))

    def pair_score(self, pairs: Any) -> FloatArray:
        """The learned distances of pairs, negative."""
        return -1 * self.pair_distance(pairs)

    def score_pairs(self, pairs: Any) -> FloatArray:
        """Same as `pair_distance`, with metric-learn's announcement that the name will go."""
        warnings.warn(
            "score_pairs will be deprecated in release 0.7.0. Use pair_score to compute similarity scores, or "
            "pair_distances to compute distances.",
            FutureWarning,
            stacklevel=2,
        )
        return self.pair_distance(pairs)

    def get_metric(self) -> Callable[..., float]:
        """Function of two points: their learned distance, with ``squared=True`` its square."""
        check_is_fitted(self, "components_")
        rows = self.components_.copy()

        def metric(u: Any, v: Any, squared: bool = False) -> float:
            mapped = (validate_vector(u) - validate_vector(v)) @ rows.T
            square: float = np.dot(mapped, mapped)
            return square if squared else np.sqrt(square)

        return metric

    def get_mahalanobis_matrix(self) -> FloatArray:
        """The matrix X = L'L."""
        check_is_fitted(self, "components_")
        return self.components_.T @ self.components_

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Hide warnings of ours that metric-learn does not have, as of reaching `max_iter`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            yield

    def _take_matrix(self, rows: FloatArray) -> Self:
        """Keep the matrix of a learned map, as a square map."""
        self.components_ = components_from_metric(rows.T @ rows)
        return self

    def _take_map(self, rows: FloatArray, n_components: int) -> Self:
        """Keep a learned map, with as many rows as were asked for."""
        self.components_ = np.vstack([rows, np.zeros((n_components - len(rows), rows.shape[1]))])
        return self


class _TuplesClassifier(BaseMetricLearner, ClassifierMixin):
    """Tuples as a classifier."""

    classes_ = np.array([0, 1])
    _tuple_size: int

    def _tuples(self, tuples: Any) -> NDArray[Any]:
        check_is_fitted(self, "preprocessor_")
        checked: NDArray[Any] = self._checked(tuples, "tuples", tuple_size=self._tuple_size)
        return checked

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        tags.classifier_tags = ClassifierTags()
        return tags


class _PairsClassifierMixin(_TuplesClassifier):
    """Pairs: 1 if similar, -1 if not."""

    _tuple_size = 2
    components_: FloatArray
    threshold_: float

    def predict(self, pairs: Any) -> NDArray[np.int64]:
        """1 for pairs whose distance is at most `threshold_`, else -1."""
        check_is_fitted(self, "preprocessor_")
        if "threshold_" not in vars(self):
            raise AttributeError(
                "A threshold for this estimator has not been set, call its set_threshold or calibrate_threshold method."
            )
        return np.where(-self.decision_function(pairs) <= self.threshold_, 1, -1)

    def decision_function(self, pairs: Any) -> FloatArray:
        """The learned distances of pairs, negative."""
        score: FloatArray = self.pair_score(self._tuples(pairs))
        return score

    def score(self, pairs: Any, y: Any) -> float:
        """Area under the ROC curve."""
        return float(roc_auc_score(y, self.decision_function(pairs)))

    def set_threshold(self, threshold: float) -> Self:
        """Set the largest distance of pairs that are called similar."""
        check_is_fitted(self, "preprocessor_")
        try:
            self.threshold_ = float(threshold)
        except (TypeError, ValueError) as error:
            raise ValueError(f"Parameter threshold must be a real number. Got {type(threshold)} instead.") from error
        return self

    def calibrate_threshold(
        self, pairs_valid: Any, y_valid: Any, strategy: str = "accuracy", min_rate: Any = None, beta: Any = 1.0
    ) -> Self:
        """Set the threshold that is best on these pairs: see `boostmetric.BoostMetric.calibrate_threshold`."""
        check_is_fitted(self, "preprocessor_")
        self._validate_calibration_params(strategy, min_rate, beta)
        pairs, y = self._prepare_pairs(pairs_valid, y_valid)
        return self._choose_threshold(-self.decision_function(pairs), y, strategy, min_rate, beta)

    def _choose_threshold(
        self, distance: FloatArray, y: NDArray[Any], strategy: str = "accuracy", min_rate: Any = None, beta: Any = 1.0
    ) -> Self:
        """Set the threshold that is best for these distances."""
        self.threshold_ = choose_threshold(distance, y == 1, strategy, beta=beta, min_rate=min_rate or 0.0)
        return self

    @staticmethod
    def _validate_calibration_params(strategy: str = "accuracy", min_rate: Any = None, beta: Any = 1.0) -> None:
        if strategy not in STRATEGIES:
            raise ValueError(
                f'Strategy can either be "accuracy", "f_beta" or "max_tpr" or "max_tnr". Got "{strategy}" instead.'
            )
        if strategy in ("max_tpr", "max_tnr") and not (isinstance(min_rate, int | float) and 0 <= min_rate <= 1):
            raise ValueError(f"Parameter min_rate must be a number in[0, 1]. Got {min_rate} instead.")
        if strategy == "f_beta" and not isinstance(beta, int | float):
            raise ValueError(f"Parameter beta must be a real number. Got {type(beta)} instead.")

    def _calibrated(self, pairs: Any, y: Any, calibration_params: dict[str, Any] | None, **fit: Any) -> Self:
        """Fit, and calibrate the threshold on the pairs of the fit."""
        calibration = calibration_params or {}
        self._validate_calibration_params(**calibration)
        pairs, y = self._prepare_pairs(pairs, y)
        self._fit(pairs, y, **fit)
        # The pairs are checked, so their distances are computed here.
        distance = np.linalg.norm((pairs[:, 0] - pairs[:, 1]) @ self.components_.T, axis=1)
        return self._choose_threshold(distance, y, **calibration)


class _ComparisonsClassifier(_TuplesClassifier):
    """Triplets or quadruplets: 1 if the first pair is the closer one, else -1."""

    _second: tuple[int, int]

    def _margins(self, tuples: Any) -> FloatArray:
        """Distance of the second pair minus that of the first."""
        points = self._tuples(tuples)
        pair_score: Callable[..., FloatArray] = self.pair_score
        return pair_score(points[:, :2]) - pair_score(points[:, list(self._second)])

    def _first_is_closer(self, tuples: Any) -> NDArray[np.int64]:
        return np.where(self._margins(tuples) > 0, 1, -1)


class _TripletsClassifierMixin(_ComparisonsClassifier):
    """Triplets (a, b, c): a is closer to b than to c."""

    _tuple_size = 3
    _second = (0, 2)

    def predict(self, triplets: Any) -> NDArray[np.int64]:
        """1 where a is closer to b than to c, else -1."""
        return self._first_is_closer(triplets)

    def decision_function(self, triplets: Any) -> FloatArray:
        """Distance of a and c minus that of a and b."""
        return self._margins(triplets)

    def score(self, triplets: Any) -> float:
        """Fraction of the triplets in which a is closer to b than to c."""
        return float(np.mean(self._first_is_closer(triplets) == 1))


class _QuadrupletsClassifierMixin(_ComparisonsClassifier):
    """Quadruplets (a, b, c, d): a is closer to b than c to d."""

    _tuple_size = 4
    _second = (2, 3)

    def predict(self, quadruplets: Any) -> NDArray[np.int64]:
        """1 where a is closer to b than c to d, else -1."""
        return self._first_is_closer(quadruplets)

    def decision_function(self, quadruplets: Any) -> FloatArray:
        """Distance of c and d minus that of a and b."""
        return self._margins(quadruplets)

    def score(self, quadruplets: Any) -> float:
        """Fraction of the quadruplets in which a is closer to b than c to d."""
        return float(np.mean(self._first_is_closer(quadruplets) == 1))
