"""SDML."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.exceptions import ConvergenceWarning

from boostmetric.baselines.graphical_lasso import sparse_inverse
from boostmetric.metric_learn.base_metric import MahalanobisMixin, _PairsClassifierMixin
from boostmetric.metric_learn.matrices import _initialize_metric_mahalanobis, components_from_metric
from boostmetric.metric_learn.tuples import check_both_kinds, pairs_from_labels
from boostmetric.parallel.blas import single_threaded_blas

# scikit-learn's, of which metric-learn takes the defaults, often ends closer to the minimum than its tolerance of 1e-4.
_GAP, _MOST_SWEEPS = 1e-8, 1000


class _BaseSDML(MahalanobisMixin):
    """SDML of pairs."""

    _tuple_size = 2

    def __init__(
        self,
        balance_param: float = 0.5,
        sparsity_param: float = 0.01,
        prior: Any = "identity",
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(preprocessor)
        self.balance_param = balance_param
        self.sparsity_param = sparsity_param
        self.prior = prior
        self.verbose = verbose
        self.random_state = random_state

    def _fit(self, pairs: Any, y: Any) -> Self:
        n_features = pairs.shape[2]
        if n_features < 2:
            raise ValueError(f"Cannot fit SDML with {n_features} feature(s)")
        _, inverse = _initialize_metric_mahalanobis(
            pairs, self.prior, self.random_state, return_inverse=True, strict_pd=True, matrix_name="prior"
        )
        difference = pairs[:, 0] - pairs[:, 1]
        given = inverse + self.balance_param * (difference.T * y) @ difference
        if np.linalg.eigvalsh(given)[0] < 0:
            warnings.warn(
                "Warning, the input matrix of graphical lasso is not positive semi-definite (PSD). The algorithm may "
                "diverge, and lead to degenerate solutions. To prevent that, try to decrease the balance parameter "
                "`balance_param` and/or to set prior='identity'.",
                ConvergenceWarning,
                stacklevel=3,
            )
        check_both_kinds(y)
        with single_threaded_blas():
            found = sparse_inverse(given, self.sparsity_param, tol=_GAP, max_iter=_MOST_SWEEPS)
        if found is None:
            raise RuntimeError(
                "There was a problem in SDML: the distances of dissimilar pairs can grow without limit. Lower balance, "
                f"or raise sparsity. Here balance_param is {self.balance_param:g}, times the number of pairs, and "
                f"sparsity_param is {self.sparsity_param:g}."
            )
        self.components_ = components_from_metric(found.precision)
        return self


class SDML(_PairsClassifierMixin, _BaseSDML):
    """See `boostmetric.baselines.SDML`.

    Parameters
    ----------
    balance_param : float, default=0.5
        Its `balance`, divided by the number of pairs.
    sparsity_param : float, default=0.01
    prior : {"identity", "covariance", "random"} or array, default="identity"
    verbose : bool, default=False
    preprocessor : array-like or callable, default=None
    random_state : int, RandomState or None, default=None
    """

    def fit(self, pairs: Any, y: Any, calibration_params: dict[str, Any] | None = None) -> Self:
        """Learn the metric from pairs, and calibrate the threshold on them."""
        return self._calibrated(pairs, y, calibration_params)


class SDML_Supervised(TransformerMixin, _BaseSDML):  # noqa: N801
    """SDML of pairs that are drawn from labels.

    Parameters
    ----------
    balance_param : float, default=0.5
    sparsity_param : float, default=0.01
    prior : {"identity", "covariance", "random"} or array, default="identity"
    n_constraints : int, default=None
        Number of pairs of either kind; by default 20 for each pair of classes.
    verbose : bool, default=False
    preprocessor : array-like or callable, default=None
    random_state : int, RandomState or None, default=None
    """

    def __init__(
        self,
        balance_param: float = 0.5,
        sparsity_param: float = 0.01,
        prior: Any = "identity",
        n_constraints: int | None = None,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(balance_param, sparsity_param, prior, verbose, preprocessor, random_state)
        self.n_constraints = n_constraints

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the metric from points and labels; -1 is unknown."""
        points, labels = self._prepare_inputs(X, y, ensure_min_samples=2)
        return self._fit(*pairs_from_labels(points, labels, self.n_constraints, self.random_state))
