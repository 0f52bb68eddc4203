"""The estimator that learns from class labels."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import validate_data

from boostmetric.arrays.errors import ParameterError
from boostmetric.arrays.numbering import check_weights
from boostmetric.arrays.validation import check_choice, check_count, checked
from boostmetric.callbacks import Callback, Steps, tell
from boostmetric.comparisons.labels import check_labels, check_numbers
from boostmetric.estimators.boosting import Also, Boosting, Earlier, Watching
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.estimators.parameters import documented, extends
from boostmetric.estimators.selection import AUTO, Choice, Decision, max_iter_of_passes
from boostmetric.estimators.sklearn_callbacks import with_callbacks
from boostmetric.metric.starts import STARTS, check_init
from boostmetric.solver.learn import SOLVERS
from boostmetric.solver.plan import SolverName
from boostmetric.solver.result import Boosted
from boostmetric.solver.sources import Labelled

_RECOMMENDED: dict[str, Any] = {
    "loss": "logistic",
    "solver": AUTO,
    "init": AUTO,
    "n_passes": 10,
    "max_iter": 20,
    "tol": 1e-3,
}


@documented
class BoostMetric(Boosting):
    """Mahalanobis metric learned from class labels by boosting.

    Each sample's nearest samples of its own class (targets) should be closer than its nearest samples of other
    classes (impostors). The metric is a sum of rank-one matrices, added one at a time: the method, and the default
    values, of Shen, Kim, Wang and van den Hengel [1]_. `ComparisonBoostMetric` learns from other comparisons
    than those of labels.

    Parameters
    ----------
    %(n_components)s
    n_neighbors : int, default=3
        Targets of each sample.
    n_impostors : int or "all", default=3
        Impostors of each sample.
    n_passes : int, default=1
        Most passes. In each after the first, targets and impostors are searched again under the metric learned so far,
        and boosting continues with them for up to `max_iter` iterations. With more than one pass comparisons are held
        out as with `early_stopping`, and passes end when they no longer improve; with "auto" validation chooses how
        many there are.
    %(loss)s
    solver : {"stagewise", "corrective", "auto"}, default="stagewise"
        What an iteration does with its new direction. "stagewise" is the paper's algorithm: the direction gets its best
        weight, and all others stay as they are. "corrective" then optimises all of the metric, weights and directions,
        and so reaches the minimum of the objective; its iterations are fewer and longer, and the time grows faster with
        the number of features. "auto" chooses by validation, see `init`.
    %(regularization)s
    max_iter : int, default=500
        Most iterations of each pass; each adds one direction. With "auto", passes of the corrective solver have a fifth
        of them.
    %(optimisation)s
    init : {"zero", "identity", "standardized", "rca", "standardized-rca", "auto"}, metric or array, default="zero"
        The metric to start from. It is the first weak learner: its weight comes from the same line search as that of
        any direction. "identity" is the Euclidean distance, "standardized" that of features in units of their standard
        deviation, "rca" (relevant component analysis) that of samples whose covariance within the classes is made the
        identity, and "standardized-rca" the same for features of different units. Or a `MahalanobisMetric`, such as an
        earlier model's ``get_metric()``, or the array of its components. Targets and impostors are the nearest in this
        metric; with "zero" in the Euclidean distance. "auto" chooses among all named here but "zero", and how many
        passes are best, from none to `n_passes`, by the errors of nearest neighbours on samples that are left out in
        turn (or on the `eval_set`); then it learns from all samples.
    %(early_stopping)s
    validation_fraction : float, default=0.1
        Fraction of the anchors to hold out, see `Comparisons.split`; used with `early_stopping` and `n_passes`.
    n_iter_no_change : int, default=20
        Iterations to wait for an improvement; used with `early_stopping`, `n_passes` or an `eval_set`.
    %(normalize)s
    %(warm_start)s
    %(resources)s
    random_state : int, RandomState or None, default=None
        Random seed for which comparisons are held out, which samples "auto" validates on, and the start of the search
        for the first direction in more than 512 dimensions. Nothing else is random.
    %(verbose)s

    Attributes
    ----------
    %(metric_attributes)s
    n_passes_ : int
        Passes that led to the metric.
    init_, solver_ : str
        The start (or the metric or array given as such) and the solver used.
    candidates_ : list of Candidate
        What "auto" chose from: start, solver, number of passes, and validation error of each.
    %(fit_attributes)s

    References
    ----------
    .. [1] C. Shen, J. Kim, L. Wang, A. van den Hengel, "Positive Semidefinite Metric Learning with Boosting",
       Advances in Neural Information Processing Systems 22, 2009.

    Examples
    --------
    >>> from boostmetric import BoostMetric
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_wine(return_X_y=True)
    >>> knn = KNeighborsClassifier(3)
    >>> plain = cross_val_score(knn, X, y).mean()
    >>> learned = cross_val_score(make_pipeline(BoostMetric(), knn), X, y).mean()
    >>> print(f"{plain:.2f} {learned:.2f}")
    0.70 0.97
    """

    @extends(Boosting.__init__)
    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_neighbors: int = 3,
        n_impostors: int | Literal["all"] = 3,
        n_passes: int = 1,
        **shared: Any,
    ) -> None:
        super().__init__(n_components, **shared)
        self.n_neighbors = n_neighbors
        self.n_impostors = n_impostors
        self.n_passes = n_passes

    @classmethod
    def recommended(cls, **overrides: Any) -> Self:
        """The setting that does best without being tuned.

        Parameters
        ----------
        **overrides
            Parameters to override.

        Returns
        -------
        BoostMetric
            With the logistic loss, in up to ten passes of 20 iterations (a fifth of that with the corrective solver).
            The start, the solver and the number of passes are chosen by validation inside the training data
            (``"auto"``), with the Euclidean distance as a candidate. Then it learns from all of the data.

        Examples
        --------
        >>> from boostmetric import BoostMetric
        >>> from sklearn.datasets import load_wine
        >>> metric = BoostMetric.recommended(random_state=0).fit(*load_wine(return_X_y=True))
        >>> metric.init_
        'standardized-rca'
        """
        return cls(**{**_RECOMMENDED, **overrides})

    @all_or_nothing
    @with_callbacks
    def fit(
        self,
        X: ArrayLike | sparse.spmatrix | sparse.sparray,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        eval_set: tuple[Any, ArrayLike] | None = None,
        resume_from: str | Path | None = None,
    ) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor} of shape (n_samples, n_features)
            Samples. Torch tensors, here and below, may lie on any device; they are copied to the host once.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the comparisons in which a sample is the anchor. A sample of weight 0 can still be a target or an
            impostor of others; leave it out of `X` if it should not be. "auto" counts errors without weights.
        eval_set : tuple (X, y), optional
            Held-out samples: stops early and keeps the metric that satisfies most of their comparisons, as
            `early_stopping` does with a part of the training comparisons. With "auto", the samples to validate on: the
            fit itself is then validated, watched by callbacks, and not repeated on more data.
        resume_from : str or Path, optional
            Continue from a file that `boostmetric.callbacks.Checkpoint` wrote in a fit to the same data. "auto" chooses
            again: set `random_state` so that it makes the same choice.

        Returns
        -------
        self
        """
        self.check_parameters()
        samples = self._labelled(X, y, sample_weight, reset=not self._continues(resume_from))
        held_out = None if eval_set is None else self._held_out(eval_set)
        check_labels(samples.y)
        samples.warn_of_small_classes()
        return self._fit(samples, held_out, resume_from, (X, y))

    @property
    def _is_auto(self) -> bool:
        """Whether validation chooses something."""
        return self.solver == AUTO or (isinstance(self.init, str) and self.init == AUTO)

    def _decide(self, source: Any, held_out: Any, earlier: Earlier, watching: Watching) -> Decision:
        """As the parameters say, or by validation."""
        if not self._is_auto:
            return super()._decide(source, held_out, earlier, watching)
        if earlier.fit is not None and hasattr(self, "init_"):
            solver = cast(SolverName, self.solver_)
            max_iter = max_iter_of_passes(solver, self.max_iter, self.n_passes_)
            return Decision(self.init_, solver, max_iter, is_validated=True)
        if held_out is not None and not np.isin(held_out.y, source.y).any():
            raise ValueError(
                f"None of the labels of eval_set, such as {held_out.y.tolist()[0]!r}, is among those of y, such "
                f"as {source.y.tolist()[0]!r}. Give labels of the same kind."
            )
        with ExitStack() as stack:
            # With an eval_set callbacks watch the fit itself; trials on parts of the data are not watched.
            callbacks: Sequence[Callback] = self.callbacks or []
            if held_out is not None:
                callbacks = stack.enter_context(watching(self.n_passes * self.max_iter))
            steps = stack.enter_context(Steps("Choosing", visible=bool(self.verbose) and held_out is None))
            choice = Choice(
                source,
                held_out,
                init=self.init,
                solver=self.solver,
                n_passes=self.n_passes,
                max_iter=self.max_iter,
                rank=self.n_components,
                settings=self._settings(source, "stagewise", check_random_state(self.random_state)),
                before=earlier.checkpoint,
                watchers=() if held_out is None else tuple(callback.on_iteration for callback in callbacks),
            )
            return choice.decide(lambda candidate: tell(callbacks, candidate), steps.update)

    def _conclude(self, decision: Decision, boosted: Boosted, also: Also) -> None:
        super()._conclude(decision, boosted, also)
        self.n_passes_: int = len({0, *boosted.pass_ends, len(boosted.history)}) - 1

    def _held_out(self, eval_set: Any) -> Labelled:
        if not isinstance(eval_set, (tuple, list)) or len(eval_set) != 2:
            length = f" of length {len(eval_set)}" if isinstance(eval_set, (tuple, list)) else ""
            raise ValueError(f"eval_set must be a tuple (X, y). Got {type(eval_set).__name__}{length}.")
        X, y = eval_set
        return self._labelled(X, y, None, reset=False)

    @all_or_nothing
    def partial_fit(
        self, X: ArrayLike | sparse.spmatrix | sparse.sparray, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from one batch of a stream, starting from the metric so far, and forget the batch.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor} of shape (n_samples, n_features)
            Samples of the batch, from at least two classes.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), optional
            As in `fit`.

        Returns
        -------
        self

        Notes
        -----
        A few rounds of projected gradient steps on the comparisons within the batch; the metric is an average over the
        batches (`boostmetric.solver.online`). A metric from `fit` counts as the first batch. Callbacks, early stopping,
        `max_iter` and `tol` belong to `fit`. Memory does not grow with the number of batches.
        """
        self.check_parameters()
        batch = self._labelled(X, y, sample_weight, reset=not hasattr(self, "components_"))
        check_labels(batch.y)
        batch.warn_of_small_classes()
        self._follow(batch.problem())
        return self

    def _labelled(self, X: Any, y: Any, sample_weight: ArrayLike | None, *, reset: bool) -> Labelled:
        """Validated samples and labels."""
        samples, labels = checked(
            validate_data,
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_min_samples=2,
            reset=reset,
        )
        self._check_n_components(samples.shape[1])
        weights = (
            None if sample_weight is None else check_weights("sample_weight", sample_weight, len(labels), "sample")
        )
        return Labelled(samples, labels, weights, self.n_neighbors, self.n_impostors, self.device)

    def check_parameters(self) -> None:
        """Raise what `fit` would raise about the parameters, without data."""
        super().check_parameters()
        check_count("n_passes", self.n_passes)
        check_choice("solver", self.solver, [*SOLVERS, AUTO])
        check_init(self.init, [*STARTS, AUTO])
        check_numbers(self.n_neighbors, self.n_impostors)
        if self.early_stopping and self._is_auto:
            raise ParameterError(
                '{early_stopping}=True and "auto" exclude each other: to choose {init} or {solver} is to validate, and '
                "stops as early as that says. Leave {early_stopping} out, or set both {init} and {solver}."
            )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
