"""SCML."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils import check_array, check_random_state

from boostmetric import baselines
from boostmetric.arrays.types import FloatArray
from boostmetric.baselines.scml.basis import discriminants
from boostmetric.metric_learn.base_metric import MahalanobisMixin, _TripletsClassifierMixin
from boostmetric.metric_learn.constraints import Constraints
from boostmetric.metric_learn.tuples import compared, warn_of_default_basis


class _BaseSCML(MahalanobisMixin):
    """SCML of triplets."""

    _tuple_size = 3
    _authorized_basis: tuple[str, ...] = ("triplet_diffs",)

    def __init__(
        self,
        beta: float = 1e-5,
        basis: Any = "triplet_diffs",
        n_basis: int | None = None,
        gamma: float = 5e-3,
        max_iter: int = 10000,
        output_iter: int = 500,
        batch_size: int = 10,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(preprocessor)
        self.beta = beta
        self.basis = basis
        self.n_basis = n_basis
        self.gamma = gamma
        self.max_iter = max_iter
        self.output_iter = output_iter
        self.batch_size = batch_size
        self.verbose = verbose
        self.random_state = random_state

    def _fit(self, triplets: Any, basis: FloatArray | None = None) -> Self:
        self._check_whole("max_iter", "output_iter", "batch_size")
        if self.output_iter > self.max_iter:
            raise ValueError("The value of output_iter must be equal or smaller than max_iter.")
        triplets = self._prepare_inputs(triplets, type_of_inputs="tuples")
        points, comparisons = compared(triplets)
        if basis is None:
            basis = self._given_basis(points.shape[1])
        n_basis = (
            self._number_of_directions(len(triplets), points.shape[1], 80 * points.shape[1]) if basis is None else 1
        )
        learner = baselines.SCML(
            beta=self.beta,
            basis=basis,
            n_basis=n_basis,
            max_iter=self.max_iter,
            random_state=self.random_state,
            verbose=int(self.verbose),
        )
        with self._quiet():
            learner.fit(points, comparisons=comparisons)
        self.n_iter_ = learner.n_iter_
        rank, n_features = learner.components_.shape
        if rank < n_features:
            warnings.warn(
                "The number of bases with nonzero weight is less than the number of features of the input, in "
                f"consequence the learned transformation reduces the dimension to {rank}.",
                stacklevel=3,
            )
            return self._take_map(learner.components_, rank)
        return self._take_matrix(learner.components_)

    def _given_basis(self, n_features: int) -> FloatArray | None:
        """The array of directions; None for a name."""
        if isinstance(self.basis, np.ndarray):
            given = check_array(self.basis, copy=True)
            if given.shape[1] != n_features:
                raise ValueError(
                    f"The dimensionality ({given.shape[1]}) of the provided bases must match the dimensionality of the "
                    f"data ({n_features})."
                )
            return np.asarray(given, dtype=np.float64)
        if self.basis not in self._authorized_basis:
            names = "', '".join(self._authorized_basis)
            raise ValueError(
                f"`basis` must be one of the options '{names}' or an array of shape (n_basis, n_features)."
            )
        return None

    def _number_of_directions(self, n_triplets: int, n_features: int, default: int) -> int:
        if self.n_basis is None:
            warn_of_default_basis(default)
        else:
            self._check_whole("n_basis")
        if n_features > n_triplets:
            raise ValueError(
                f"Number of features ({n_features}) is greater than the number of triplets({n_triplets}).\nConsider "
                "using dimensionality reduction or using another basis generation scheme."
            )
        return default if self.n_basis is None else self.n_basis

    def _check_whole(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not isinstance(value, int):
                raise ValueError(f"{name} should be an integer, instead it is of type {type(value)}")


class SCML(_TripletsClassifierMixin, _BaseSCML):
    """See `boostmetric.baselines.SCML`.

    Parameters
    ----------
    beta : float, default=1e-5
    basis : "triplet_diffs" or array, default="triplet_diffs"
        Its `basis`: by name, directions made from the triplets.
    n_basis : int, default=None
        By default 80 for each feature.
    gamma, output_iter, batch_size : float, int, int, default=5e-3, 500, 10
        Without effect: the minimum is found, and proved, without stochastic steps.
    max_iter : int, default=10000
    verbose : bool, default=False
    preprocessor : array-like or callable, default=None
    random_state : int, RandomState or None, default=None
    """

    def fit(self, triplets: Any) -> Self:
        """Learn the metric from triplets."""
        return self._fit(triplets)


class SCML_Supervised(TransformerMixin, _BaseSCML):  # noqa: N801
    """SCML of the triplets of nearest neighbours.

    Parameters
    ----------
    k_genuine, k_impostor : int, default=3, 10
        Numbers of nearest samples of the same label, and of others.
    beta : float, default=1e-5
    basis : {"lda", "triplet_diffs"} or array, default="lda"
    n_basis : int, default=None
    gamma, output_iter, batch_size : float, int, int, default=5e-3, 500, 10
        Without effect.
    max_iter : int, default=10000
    verbose : bool, default=False
    preprocessor : array-like or callable, default=None
    random_state : int, RandomState or None, default=None
    """

    _authorized_basis = ("triplet_diffs", "lda")

    def __init__(
        self,
        k_genuine: int = 3,
        k_impostor: int = 10,
        beta: float = 1e-5,
        basis: Any = "lda",
        n_basis: int | None = None,
        gamma: float = 5e-3,
        max_iter: int = 10000,
        output_iter: int = 500,
        batch_size: int = 10,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            beta, basis, n_basis, gamma, max_iter, output_iter, batch_size, verbose, preprocessor, random_state
        )
        self.k_genuine = k_genuine
        self.k_impostor = k_impostor

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the metric from points and labels; -1 is unknown."""
        points, labels = self._prepare_inputs(X, y, ensure_min_samples=2)
        self._check_whole("k_genuine", "k_impostor")
        triplets = Constraints(labels).generate_knntriplets(points, self.k_genuine, self.k_impostor)
        basis = None
        if isinstance(self.basis, str) and self.basis == "lda":
            basis = self._discriminants(points, np.asarray(labels))
        return self._fit(points[triplets], basis)

    def _discriminants(self, points: FloatArray, labels: NDArray[Any]) -> FloatArray:
        known = np.asanyarray(labels, dtype=int) >= 0
        points, labels = points[known], labels[known]
        n_samples, n_features = points.shape
        n_classes = len(np.unique(labels))
        if self.n_basis is None:
            n_basis = min(20 * n_features, n_samples * 2 * min(n_classes - 1, n_features) - 1)
            warn_of_default_basis(n_basis)
        else:
            self._check_whole("n_basis")
            n_basis = self.n_basis
        return discriminants(points, labels, n_basis, check_random_state(self.random_state))
