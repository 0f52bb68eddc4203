"""What estimators learned from comparisons have in common with classifiers: they answer comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.utils import ClassifierTags, Tags
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from boostmetric.arrays.errors import ParameterError
from boostmetric.arrays.frame import Given
from boostmetric.arrays.numbering import as_array, check_in_range
from boostmetric.arrays.tensors import as_numpy
from boostmetric.arrays.validation import checked
from boostmetric.comparisons import Comparisons, Points
from boostmetric.comparisons.forms import as_comparisons, as_rows, hold_points, squared_distance
from boostmetric.engines.backend import Backend, SharingBackend
from boostmetric.engines.threads import ONE_THREAD
from boostmetric.estimators.boosting import Boosting
from boostmetric.estimators.file_evaluation import MappedFiles
from boostmetric.metric.closer_pair import near_and_far
from boostmetric.solver.file_problem import FileProblem
from boostmetric.solver.problem import Learnable, Problem, satisfied
from boostmetric.tables.comparison_files import ComparisonFiles

# Factor of the decision function in the log-odds, by loss.
_SHARPNESS = {"logistic": 1.0, "exponential": 2.0}


class ComparisonClassifier(Boosting):
    """A metric that answers "is this pair closer than that pair?", given by number, by their points or in files."""

    threshold_: float

    def decision_function(self, comparisons: ArrayLike | Comparisons, *, points: Any = None) -> NDArray[np.float64]:
        """Squared distance of the far pair minus that of the near pair, for each comparison.

        Parameters
        ----------
        comparisons : as in `fit`
            For `Comparisons`, the answers come in the order of `Comparisons.quadruplets`. For pairs, the answer is
            `threshold_` minus their squared distance.
        points : as in `fit`, optional
            By default the points of the fit.

        Returns
        -------
        ndarray of shape (n,)
        """
        check_is_fitted(self, "components_")
        rows, given = as_rows(comparisons, self._given_points(comparisons, points, fitted=True))
        mapped = self._map(given)
        if isinstance(rows, Comparisons):
            rows = rows.listed()
            distance = squared_distance(mapped, rows.pairs)
            near_pair, far_pair = rows.pair_numbers()
            return np.asarray(distance[far_pair] - distance[near_pair])
        check_in_range(int(rows.max()), len(mapped))
        if rows.shape[1] == 2:
            if not hasattr(self, "threshold_"):
                raise ValueError(
                    "The metric was not fitted to pairs, so there is no threshold between similar and dissimilar. Fit "
                    "to pairs, or ask pair_distance."
                )
            return np.asarray(self.threshold_ - squared_distance(mapped, rows))
        near, far = near_and_far(rows)
        return squared_distance(mapped, far) - squared_distance(mapped, near)

    def predict(self, comparisons: ArrayLike | Comparisons, *, points: Any = None) -> NDArray[np.int64]:
        """1 where the near pair of a comparison is closer than the far one (or a pair is similar), else -1.

        Parameters
        ----------
        comparisons, points
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.where(self.decision_function(comparisons, points=points) > 0, 1, -1)

    def predict_proba(self, comparisons: ArrayLike | Comparisons, *, points: Any = None) -> NDArray[np.float64]:
        """Probability of both answers to each comparison.

        Parameters
        ----------
        comparisons, points
            As in `decision_function`, but not pairs.

        Returns
        -------
        ndarray of shape (n, 2)
            Columns as in `classes_`: that the far pair is closer, and that the near pair is.

        Notes
        -----
        The probability that the loss implies: with m = `decision_function`, 1 / (1 + exp(-m)) for the logistic loss,
        and 1 / (1 + exp(-2m)) for the exponential loss (Friedman, Hastie and Tibshirani, "Additive logistic
        regression", 2000). With few iterations it is cautious; a metric that fits contradictory answers too well is
        too sure. With the logistic loss a group counts once, so give answers ungrouped (``grouped=False`` in
        `Comparisons.from_triplets`), or one group for each answer.
        """
        check_is_fitted(self, "components_")
        pairs = not isinstance(comparisons, Comparisons) and as_array("comparisons", comparisons).shape[1:2] == (2,)
        if pairs and hold_points(comparisons) and hasattr(self, "probability_"):
            return np.asarray(super().predict_proba(comparisons))  # calibrated on pairs of points
        if self.loss not in _SHARPNESS:
            raise ValueError(
                f"loss={self.loss!r} gives no probabilities: fit with {' or '.join(map(repr, _SHARPNESS))}, or ask "
                "decision_function."
            )
        if self.normalize_:
            raise ValueError(
                "Distances between vectors of unit length have another scale than those the metric was learned with, "
                "and give no probabilities. Fit with normalize=False, or ask decision_function."
            )
        if pairs:
            raise ValueError(
                "Pairs have no probabilities by the loss, only comparisons of two pairs have. Call "
                "calibrate_probability with pairs of points, or ask decision_function."
            )
        near = expit(_SHARPNESS[self.loss] * self.decision_function(comparisons, points=points))
        return np.stack([1.0 - near, near], axis=1)

    def score(
        self, comparisons: ArrayLike | Comparisons | ComparisonFiles, y: ArrayLike | None = None, *, points: Any = None
    ) -> float:
        """Fraction of the comparisons that the metric satisfies, by weight.

        Parameters
        ----------
        comparisons, y
            As in `fit`. For pairs, every similar pair is compared with every dissimilar one.
        points : as in `fit`, optional
            By default the points of the fit.

        Returns
        -------
        float
        """
        check_is_fitted(self, "components_")
        if isinstance(comparisons, ComparisonFiles):
            files = self._problem_in(comparisons, reset=False)
            return self._satisfied(files, self._backend(files.points_at_hand))
        given = self._given_points(comparisons, points, fitted=True)
        rows, _ = as_rows(comparisons, given)
        if y is None and isinstance(rows, np.ndarray) and rows.shape[1] > 2:
            return float(np.mean(self.decision_function(comparisons, points=points) > 0))
        return self._satisfied(self._problem(comparisons, y, given, None, reset=False))

    @property
    def classes_(self) -> NDArray[np.int64]:
        """The labels that `predict` returns."""
        return np.array([-1, 1])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"  # so that cross-validation stratifies similar and dissimilar pairs
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags

    def _satisfied(self, problem: Learnable, backend: Backend = ONE_THREAD) -> float:
        """Fraction of the comparisons that the metric satisfies."""
        if not self.normalize_:
            return satisfied(problem, self.components_, backend)
        # Unit length is no part of a linear map: the points are mapped first, and then compared as they are.
        metric, mapped = self._plain_metric(), problem
        if isinstance(problem, Problem):
            mapped = problem._replace(points=metric.transform(problem.points))
        elif isinstance(problem, FileProblem):
            mapped = FileProblem(MappedFiles(problem.files, metric))
        return satisfied(mapped, np.eye(len(self.components_)), backend)

    def _given_points(self, comparisons: object, points: Any, *, fitted: bool = False) -> Any:
        """The points that comparisons refer to, or an error; None for tuples, which contain theirs."""
        if isinstance(comparisons, ComparisonFiles):
            raise TypeError(
                "ComparisonFiles are for fit and score. Read them for anything else: boostmetric.tables.read_points, "
                "read_comparisons."
            )
        if hold_points(comparisons):
            if points is not None:
                raise ValueError("points are given beside tuples of points: leave them out, or name points by number.")
            return None
        if points is None:
            if fitted and getattr(self, "_points", None) is not None:
                return self._points
            raise ValueError(
                "points are missing: pass points=X, the array whose rows the comparisons name by number."
                + (" A copy, a loaded model, or one learned from batches does not hold them." if fitted else "")
            )
        if isinstance(points, Points):
            return self._given_points(comparisons, points.X, fitted=True)
        if not fitted and getattr(self, "_is_clone", False) and _num_samples(points) == _num_samples(comparisons):
            raise ValueError(
                f"There are {_num_samples(points)} points and as many comparisons, in a clone of the estimator: "
                "cross-validation may have cut the points. Pass points=Points(X), which it leaves whole (from "
                "boostmetric import Points)."
            )
        return as_numpy(points)

    def _problem(
        self, comparisons: Any, y: Any, given: Any, sample_weight: ArrayLike | None, *, reset: bool
    ) -> Problem:
        """Points with comparisons, from any of the forms that `fit` takes."""
        rows, points = as_rows(comparisons, given)
        points = self._check_points(points, reset=reset)
        return Problem(points, as_comparisons(rows, as_numpy(y), sample_weight, by_number=not hold_points(comparisons)))

    def _problem_in(self, files: ComparisonFiles, *, reset: bool) -> Learnable:
        """The problem in files, read by this process or left to the workers of a cluster."""
        if not isinstance(self.engine, (str, SharingBackend)):
            given, comparisons = files.read()
            return Problem(self._check_points(given, reset=reset), comparisons)
        if isinstance(self.init, str) and self.init == "standardized":
            raise ParameterError(
                '{init}="standardized" needs the spread of all points, which lie with the workers. Standardize the '
                'points before they are written, or set {init}="identity".'
            )
        opened = files.opened()
        self._check_features(opened.n_features, opened.feature_names, reset=reset)
        return FileProblem(opened)

    def _check_features(self, n_features: int, names: list[str] | None, *, reset: bool) -> None:
        """Check features as `validate_data` does, since only the workers have the points."""
        if reset:
            self.n_features_in_ = n_features
            self._forget("feature_names_in_")
            if names is not None:
                self.feature_names_in_ = np.array(names, dtype=object)
        elif names is not None and hasattr(self, "feature_names_in_") and names != self.feature_names_in_.tolist():
            raise ParameterError(
                "The points have the features {found}, but the metric was learned with {expected}. Name the columns in "
                "the same order ({columns}).",
                found=names,
                expected=self.feature_names_in_.tolist(),
            )
        else:
            self._refuse_other_features(n_features)
        self._check_n_components(n_features)

    def _refuse_other_features(self, n_features: int) -> None:
        if n_features != self.n_features_in_:
            raise ValueError(
                f"The points have {n_features} features, but the metric was learned with {self.n_features_in_}. Give "
                "the points in the same features."
            )

    def _check_points(self, points: Any, *, reset: bool) -> Given:
        shape = getattr(points, "shape", None)
        if not isinstance(shape, tuple):
            shape = as_array("points", points).shape
        if not reset and len(shape) == 2:
            self._refuse_other_features(shape[1])
        dtype = [np.float64, np.float32]
        samples: Given = checked(validate_data, self, points, accept_sparse="csr", dtype=dtype, reset=reset)
        self._check_n_components(samples.shape[1])
        return samples

    def _map(self, given: Any) -> NDArray[np.float64]:
        return self._plain_metric().transform(self._check_points(given, reset=False))
