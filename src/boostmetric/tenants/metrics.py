"""One shared metric, and for each tenant of a service a few further directions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from boostmetric.arrays.types import FloatArray
from boostmetric.metric.mahalanobis import as_metric
from boostmetric.tenants.directions import TenantDirections, TenantFit
from boostmetric.tenants.file import load_tenants, save_tenants

if TYPE_CHECKING:  # loading, and mapping queries, need NumPy alone
    from scipy import sparse


class TenantMetrics:
    """One metric for all tenants of a service, and for each of them a few further directions.

    The documents of all tenants are mapped by the shared metric, so that one index serves everybody. What a tenant has
    of its own changes its queries only. How many directions that are is chosen by its own validation, and none is the
    answer unless they clearly help.

    Parameters
    ----------
    shared : MahalanobisMetric or fitted learner
        The metric of the index, learned from the data of all tenants.

    Attributes
    ----------
    shared : MahalanobisMetric

    See Also
    --------
    boostmetric.evaluation.evaluate_rankings : Scores on queries with graded documents.

    Examples
    --------
    A tenant with four kinds of documents, which the first two of sixteen numbers tell apart:

    >>> import numpy as np
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.tenants import TenantMetrics
    >>> rng = np.random.default_rng(0)
    >>> kind, points = rng.integers(2, size=(400, 2)), rng.standard_normal((400, 16))
    >>> points[:, :2] += 3 * kind
    >>> documents, queries = points[:300], points[300:]
    >>> same = (kind[300:, None] == kind[:300]).all(axis=2)
    >>> relevance = np.column_stack([np.argwhere(same), np.ones(same.sum())])
    >>> tenants = TenantMetrics(MahalanobisMetric(np.eye(16)))
    >>> fit = tenants.fit("picky", queries, documents, relevance)
    >>> print(f"{fit.score} {fit.base:.2f} -> {fit.learned:.2f}")
    nDCG@10 0.65 -> 0.77
    >>> index = tenants.transform_documents(documents)  # one for all tenants
    >>> tenants.transform_queries(queries, "picky").shape
    (100, 16)
    """

    def __init__(self, shared: Any) -> None:
        metric = as_metric(shared)
        if metric is None:
            raise TypeError("shared must be a fitted learner or a MahalanobisMetric. Got None.")
        self.shared = metric
        self._tenants: dict[str, TenantDirections] = {}

    @property
    def names(self) -> list[str]:
        """Tenants that were fitted, those without directions of their own included."""
        return list(self._tenants)

    def n_directions(self, tenant: str) -> int:
        """Number of directions of a tenant; 0 if it has the shared metric."""
        return len(self._of(tenant).centre)

    def fit(
        self,
        tenant: str,
        queries: ArrayLike | sparse.sparray,
        documents: ArrayLike | sparse.sparray,
        relevance: Any,
        *,
        max_directions: int = 16,
        random_state: int | np.random.RandomState | None = 0,
    ) -> TenantFit:
        """Learn the directions of one tenant, and replace those it had.

        Parameters
        ----------
        tenant : str
        queries : {array-like, sparse matrix} of shape (n_queries, n_features)
            Queries of this tenant, not mapped. With fewer than 20 the tenant keeps the shared metric.
        documents : {array-like, sparse matrix} of shape (n_documents, n_features)
            The documents this tenant searches, not mapped.
        relevance : sparse matrix of shape (n_queries, n_documents), or array-like of shape (n_judgements, 3)
            Grades, as in `boostmetric.evaluation.evaluate_rankings`: documents with a grade above 0 are relevant.
        max_directions : int, default=16
            Most directions. Tried are 1, 2, 4, ... and this number.
        random_state : int, RandomState or None, default=0
            Random seed of the folds and of the bootstrap.

        Returns
        -------
        TenantFit
            What five-fold cross-validation over the queries said.

        Notes
        -----
        Queries of different folds may share relevant documents. Where the documents of tomorrow's queries are others,
        the gain may be smaller than what is reported.

        Cost: six fits of `max_directions` iterations, and one search of the queries for each number of directions.
        """
        from boostmetric.tenants.learning import learn_directions

        if not isinstance(tenant, str):
            raise TypeError(f"tenant must be a string. Got {tenant!r}.")
        asked, searched = self.shared.transform(queries), self.shared.transform(documents)
        found, fit = learn_directions(asked, searched, relevance, max_directions, random_state)
        self._tenants[tenant] = found
        return fit

    def remove(self, tenant: str) -> None:
        """Forget a tenant."""
        self._of(tenant)
        del self._tenants[tenant]

    def transform_documents(self, documents: ArrayLike | sparse.sparray) -> FloatArray:
        """Map documents by the shared metric, for the index that serves all tenants.

        Parameters
        ----------
        documents : {array-like, sparse matrix} of shape (n_documents, n_features)

        Returns
        -------
        ndarray of shape (n_documents, n_components)
            To be searched by Euclidean distance; also by cosine or inner product if the shared metric scales points to
            unit length.
        """
        return self.shared.transform(documents)

    def transform_queries(self, queries: ArrayLike | sparse.sparray, tenant: str | None) -> FloatArray:
        """Map queries of one tenant, to search among the documents of `transform_documents`.

        Parameters
        ----------
        queries : {array-like, sparse matrix} of shape (n_queries, n_features)
        tenant : str or None
            None for somebody who was never fitted: the shared metric.

        Returns
        -------
        ndarray of shape (n_queries, n_components)
        """
        mapped = self.shared.transform(queries)
        return mapped if tenant is None else self._of(tenant).move(mapped)

    def save(self, path: str | Path) -> None:
        """Write the shared metric and all tenants to one safetensors file, atomically.

        Directions are kept in float32.

        Parameters
        ----------
        path : str or Path
            Replaced if it exists.
        """
        save_tenants(path, self.shared, self._tenants)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote, without running any code from the file.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If the file does not hold tenants, is damaged, or has a newer format; the message says which.
        """
        shared, tenants = load_tenants(path)
        loaded = cls(shared)
        loaded._tenants = tenants
        return loaded

    def _of(self, tenant: str) -> TenantDirections:
        try:
            return self._tenants[tenant]
        except KeyError:
            raise KeyError(
                f"There is no tenant {tenant!r} among {len(self)}. Fit it, or pass None for the shared metric."
            ) from None

    def __contains__(self, tenant: object) -> bool:
        return tenant in self._tenants

    def __len__(self) -> int:
        return len(self._tenants)

    def __repr__(self) -> str:
        own = sum(len(one.centre) > 0 for one in self._tenants.values())
        return f"TenantMetrics({len(self)} tenants, {own} with directions of their own, shared={self.shared!r})"
