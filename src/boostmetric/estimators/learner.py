"""Base class of all metric learners: a scikit-learn transformer with a metric and callbacks."""

from __future__ import annotations

import functools
from abc import ABCMeta
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from boostmetric.arrays.errors import ParameterError
from boostmetric.arrays.tensors import check_finite, check_samples, finite, is_tensor, mapped, unit_vectors
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import as_numbers, check_count, checked
from boostmetric.callbacks import Callback, ProgressBar
from boostmetric.estimators.sklearn_callbacks import CallbackSupportMixin, Method, SklearnCallbacks, is_watched
from boostmetric.estimators.summary import summary
from boostmetric.estimators.tuple_classifier import TupleClassifierMixin
from boostmetric.metric import MahalanobisMetric
from boostmetric.parallel.blas import single_threaded_blas
from boostmetric.solver.result import Progress


def all_or_nothing(fit: Method) -> Method:
    """Make a fit leave the learner unchanged if it ends in an error or a keyboard interrupt.

    It runs with one BLAS thread, since the last bits of the metric would depend on the number of threads.
    """

    @functools.wraps(fit)
    def whole(self: Any, *arguments: Any, **options: Any) -> Any:
        before = dict(vars(self))  # attributes are replaced, never changed in place
        if fit.__name__ == "fit":  # what was calibrated belongs to the metric so far
            for name in ("threshold_", "probability_", "_learned_order"):
                self.__dict__.pop(name, None)
        try:
            with single_threaded_blas():
                return fit(self, *arguments, **options)
        except BaseException:
            self.__dict__ = before
            raise

    return cast(Method, whole)


class MetricLearner(
    TupleClassifierMixin,
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
    metaclass=ABCMeta,
):
    """A transformer by a learned metric."""

    n_components: int | None
    callbacks: Sequence[Callback] | None
    verbose: int
    components_: FloatArray
    normalize_: bool = False  # learners without the parameter `normalize` leave it so

    def transform(self, X: ArrayLike | sparse.spmatrix | sparse.sparray) -> NDArray[np.floating[Any]]:
        """Map samples so that their Euclidean distances are the learned distances; with `normalize`, to unit length.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, rank)
            For a torch tensor, a tensor on its device and in its precision (float32 for shorter numbers, float64 for
            whole ones), computed there, through which gradients flow.
        """
        return self._mapped(self._check_samples(X), self.components_)

    def _mapped(self, samples: Any, components: FloatArray) -> NDArray[np.floating[Any]]:
        """Samples after a linear map and, if the fit says so, at unit length."""
        answer: NDArray[np.floating[Any]] = finite(mapped(samples, components))
        return unit_vectors(answer) if self.normalize_ else answer

    def get_metric(self) -> MahalanobisMetric:
        """The learned metric with a summary of its fit; callable on two points, as scikit-learn expects of a metric."""
        check_is_fitted(self, "components_")
        return MahalanobisMetric(
            self.components_,
            feature_names=getattr(self, "feature_names_in_", None),
            directions=getattr(self, "directions_", None),
            step_sizes=getattr(self, "step_sizes_", None),
            about=summary(self),
            normalize=self.normalize_,
        )

    def save(self, path: str | Path) -> None:
        """Write the learned metric to a model file, which `MahalanobisMetric.load` reads.

        The file holds `components_`, the directions and step sizes of a boosted metric, names of features, the
        parameters, and a summary of the training; not the training data. It is written as a whole or not at all.

        Parameters
        ----------
        path : str or Path
            Usually ends with ``.safetensors``. Replaced if it is there.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from boostmetric import BoostMetric, MahalanobisMetric
        >>> from sklearn.datasets import load_wine
        >>> path = Path(tempfile.mkdtemp()) / "wine.safetensors"
        >>> BoostMetric.paper(max_iter=20).fit(*load_wine(return_X_y=True)).save(path)
        >>> metric = MahalanobisMetric.load(path)
        >>> metric
        MahalanobisMetric(n_components=13, n_features=13)
        >>> metric.about["training"]["n_iter"]
        20
        """
        self.get_metric().save(path)

    def get_mahalanobis_matrix(self) -> NDArray[np.floating[Any]]:
        """The matrix X of the learned distance, of shape (n_features, n_features); that of the linear map alone."""
        return self._plain_metric().matrix

    def pair_distance(self, pairs: ArrayLike) -> NDArray[np.floating[Any]]:
        """Learned distances of pairs of points.

        Parameters
        ----------
        pairs : array-like or tensor of shape (n_pairs, 2, n_features)

        Returns
        -------
        ndarray of shape (n_pairs,)
            For a torch tensor, a tensor, as `transform` has it.
        """
        points: Any = pairs if is_tensor(pairs) else as_numbers("pairs", pairs)
        if points.ndim != 3 or points.shape[1] != 2:
            raise ValueError(f"pairs must have shape (n_pairs, 2, n_features). Got shape {tuple(points.shape)}.")
        return self._plain_metric().distance(points[:, 0], points[:, 1])

    def _plain_metric(self) -> MahalanobisMetric:
        """The learned metric without its summary."""
        check_is_fitted(self, "components_")
        return MahalanobisMetric(self.components_, normalize=self.normalize_)

    @contextmanager
    def _watched(
        self, max_iter: int, fit_data: tuple[object, object], attributes: Callable[[Progress], dict[str, Any]]
    ) -> Iterator[list[Callback]]:
        """The user's callbacks and those that parameters ask for; context managers are entered and left.

        Parameters
        ----------
        max_iter : int
            Most iterations.
        fit_data : tuple
            What was given to `fit`.
        attributes : callable
            The fitted attributes, if the fit ended there.
        """
        callbacks: list[Callback] = list(self.callbacks or [])
        if self.verbose:
            callbacks.append(ProgressBar(max_iter))
        if is_watched(self):
            callbacks.append(SklearnCallbacks(self, *fit_data, max_iter, attributes))
        with ExitStack() as stack:
            for callback in callbacks:
                if isinstance(callback, AbstractContextManager):
                    stack.enter_context(callback)
            yield callbacks

    def _set(self, attributes: dict[str, Any]) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)

    def _check_samples(self, X: object) -> Any:
        check_is_fitted(self, "components_")
        if is_tensor(X):
            samples = check_samples(X)
            validate_data(self, samples, skip_check_array=True, reset=False)  # names and number of features
            if not get_config()["assume_finite"]:
                check_finite(samples)
            return samples
        return checked(validate_data, self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)

    def _check_callbacks(self) -> None:
        callbacks = self.callbacks if self.callbacks is not None else []
        if not isinstance(callbacks, (list, tuple)):
            raise TypeError(f"callbacks must be a list. Got {callbacks!r}.")
        for callback in callbacks:
            if not isinstance(callback, Callback) or isinstance(callback, type):
                raise TypeError(f"Every callback needs a method on_iteration(record). Got {callback!r}.")

    def _check_n_components(self, n_features: int) -> None:
        if self.n_components is not None:
            check_count("n_components", self.n_components, alternative=", or None")
            if self.n_components > n_features:
                raise ParameterError(
                    "{n_components}={value} is more than the {n} features of X.", value=self.n_components, n=n_features
                )

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
