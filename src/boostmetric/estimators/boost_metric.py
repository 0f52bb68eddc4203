"""The estimator that learns from class labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from boostmetric.arrays.numbering import check_weights
from boostmetric.arrays.validation import check_choice, check_flag, checked
from boostmetric.callbacks import Steps, tell
from boostmetric.comparisons.labels import check_labels, check_numbers, known_labels
from boostmetric.estimators.boosting import Also, Boosting, Earlier
from boostmetric.estimators.candidates import Candidate, decided
from boostmetric.estimators.decision import AUTO, Decision, sizes_of
from boostmetric.estimators.learner import all_or_nothing
from boostmetric.estimators.parameters import documented, extends
from boostmetric.estimators.sklearn_callbacks import with_callbacks
from boostmetric.metric.starts import STARTS, Init, check_init
from boostmetric.oracles.losses import LossName
from boostmetric.solver.learn import SOLVERS
from boostmetric.solver.result import Boosted
from boostmetric.solver.sources import Labelled

_PAPER: dict[str, Any] = {
    "n_neighbors": 3,
    "n_impostors": 3,
    "n_passes": 1,
    "loss": "exponential",
    "max_iter": 500,
    "init": "zero",
    "block_size": 1,
}
_AUTO = ("n_neighbors", "n_impostors", "init", "normalize", "learning_rate")
_RECOMMENDED: dict[str, Any] = {**dict.fromkeys(_AUTO, AUTO), "max_iter": 20}


@documented
class BoostMetric(Boosting):
    """Mahalanobis metric learned from class labels by boosting.

    Each sample's nearest samples of its own class (targets) should be closer than its nearest samples of other
    classes (impostors). The metric is a sum of rank-one matrices, added one or a few at a time: the method of Shen,
    Kim, Wang and van den Hengel [1]_. The defaults are the best single setting we know, `paper` has the paper's, and
    `recommended` chooses one by validation. `ComparisonBoostMetric` learns from other comparisons than those of labels.

    Parameters
    ----------
    %(n_components)s
    n_neighbors : int or "auto", optional
        Targets of each sample; by default 5, and 10 from 128 features. "auto" chooses by validation, see `init`.
    n_impostors : int, "all" or "auto", optional
        Impostors of each sample; by default 10, and 50 from 128 features. "auto" chooses by validation, see `init`.
    n_passes : int, default=10
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
    max_iter : int, default=40
        Most iterations of each pass; each adds one direction, or `block_size`. Where validation chooses, passes of the
        corrective solver have a fifth of them, and passes with blocks a tenth.
    %(optimisation)s
    learning_rate : float or "auto", default=1.0
        Fraction of the best step that is made, at most 1. "auto" chooses by validation, see `init`. Used by the
        stagewise solver.
    init : str, metric or array, default="standardized"
        The metric to start from. It is the first weak learner: its weight comes from the same line search as that of
        any direction. "zero" is none. "identity" is the Euclidean distance, "standardized" that of features in units of
        their standard deviation, "rca" (relevant component analysis) that of samples whose covariance within the
        classes is made the identity, "lda" (linear discriminant analysis) the part of RCA in which the means of classes
        differ, "standardized-rca" and "standardized-lda" are the same for features of different units, and
        "geometric-mean" lies halfway between the inverse of the scatter within the classes and the scatter between
        them. Or a `MahalanobisMetric`, such as an earlier model's ``get_metric()``, or the array of its
        components. Targets and impostors are the nearest in this metric; with "zero" in the Euclidean distance. "auto"
        chooses among all named here but "zero", and how many passes are best, from none to `n_passes`, by the
        neighbours of samples that are left out (or of the `eval_set`); then it learns from all samples. If no passes
        are best, it keeps the start, perhaps only some of its principal directions.
    %(early_stopping)s
    validation_fraction : float, default=0.1
        Fraction of the anchors to hold out, see `Comparisons.split`; used with `early_stopping` and `n_passes`.
    n_iter_no_change : int, default=20
        Iterations to wait for an improvement; used with `early_stopping`, `n_passes` or an `eval_set`.
    normalize : bool or "auto", default=False
        Whether `transform` scales each mapped sample to unit length, for indexes that compare by cosine. Learning is
        not affected. "auto" does so if the best metric on samples that are left out does.
    unlabelled : bool, default=False
        Whether samples may have no label: None, NaN, an empty text or, as in scikit-learn, -1. Nothing is learned from
        them: they are neither targets nor impostors, and "auto" and `early_stopping` do not validate on them. Otherwise
        a missing label is an error, and -1 is a class.
    %(warm_start)s
    %(resources)s
    %(callbacks)s
    random_state : int, RandomState or None, default=None
        Random seed for which comparisons are held out, which samples "auto" validates on, and the start of the search
        for the first direction in more than 512 dimensions. Nothing else is random.
    %(verbose)s

    Attributes
    ----------
    %(components)s
    %(metric_attributes)s
    n_passes_ : int
        Passes that led to the metric.
    init_, solver_ : str
        The start (or the metric or array given as such) and the solver used.
    start_rank_ : int or None
        How many principal directions of the start were used; None for all.
    n_neighbors_, n_impostors_, block_size_ : int
        The numbers of targets and impostors, and the block size used.
    learning_rate_ : float
        The learning rate used.
    n_bags_ : int
        How many metrics of the same recipe were averaged, each learned without another part of the samples.
    candidates_ : list of Candidate
        What "auto" chose from: recipe, number of passes, and validation error of each.
    chosen_ : list of Candidate
        What it chose: up to three, the mean of whose metrics is the result.
    %(fit_attributes)s
    %(about_the_fit)s

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
    >>> learned = cross_val_score(make_pipeline(BoostMetric(random_state=0), knn), X, y).mean()
    >>> print(f"{plain:.2f} {learned:.2f}")
    0.70 0.94
    """

    @extends(Boosting.__init__)
    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_neighbors: int | Literal["auto"] | None = None,
        n_impostors: int | Literal["all", "auto"] | None = None,
        n_passes: int = 10,
        loss: LossName = "logistic",
        max_iter: int = 40,
        init: Init = "standardized",
        block_size: int | Literal["auto"] = "auto",
        unlabelled: bool = False,
        **shared: Any,
    ) -> None:
        super().__init__(
            n_components, loss=loss, max_iter=max_iter, n_passes=n_passes, init=init, block_size=block_size, **shared
        )
        self.n_neighbors = n_neighbors
        self.n_impostors = n_impostors
        self.unlabelled = unlabelled

    _chosen = ("init", "solver", "n_neighbors", "n_impostors", "learning_rate", "normalize")

    @classmethod
    def paper(cls, **overrides: Any) -> Self:
        """The paper's method, with its setting.

        Parameters
        ----------
        **overrides
            Parameters to override.

        Returns
        -------
        BoostMetric
            With the exponential loss, 3 targets and 3 impostors of each sample, nearest in the Euclidean distance,
            starting from zero, and adding one direction in each of 500 iterations.

        Examples
        --------
        >>> from boostmetric import BoostMetric
        >>> from sklearn.datasets import load_iris
        >>> BoostMetric.paper(max_iter=10).fit(*load_iris(return_X_y=True)).n_iter_
        10
        """
        return cls(**{**_PAPER, **overrides})

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
            With the logistic loss, in up to ten passes of 20 iterations. The start, the numbers of targets and
            impostors, the number of passes, and whether to scale to unit length are chosen by validation inside the
            training data (``"auto"``), with the Euclidean distance as a candidate. Then it learns from all of the data.

        Examples
        --------
        >>> from boostmetric import BoostMetric
        >>> from sklearn.datasets import load_wine
        >>> metric = BoostMetric.recommended(random_state=0).fit(*load_wine(return_X_y=True))
        >>> metric.init_
        'standardized-lda'
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
            `early_stopping` does with a part of the training comparisons. With "auto", the samples to validate on.
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
        if not self.chooses:
            samples.warn_of_small_classes()
        return self._fit(samples, held_out, resume_from, (X, y))

    @all_or_nothing
    @with_callbacks
    def refit(
        self, X: ArrayLike | sparse.spmatrix | sparse.sparray, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from other samples, such as more of them, with what "auto" chose in the last fit.

        Nothing is continued, not even with `warm_start`.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor} of shape (n_samples, n_features)
            Samples, with the same features.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), optional
            As in `fit`.

        Returns
        -------
        self
        """
        check_is_fitted(self, "components_")
        self.check_parameters()
        samples = self._labelled(X, y, sample_weight, reset=False)
        check_labels(samples.y)
        chosen = hasattr(self, "chosen_")
        decision = self._decided(samples, self.chosen_) if chosen else super()._decide(samples, None, Earlier())
        return self._fit(samples, None, None, (X, y), decision=decision)

    def _decide(self, source: Any, held_out: Any, earlier: Earlier) -> Decision:
        """As the parameters say, or by validation."""
        if not self.chooses:
            return super()._decide(source, held_out, earlier)
        if earlier.fit is not None and hasattr(self, "chosen_"):
            best = self.chosen_[0]
            return self._decided(source, [replace(best, recipe=replace(best.recipe, n_bags=1))])
        if held_out is not None and not np.isin(held_out.y, source.y).any():
            raise ValueError(
                f"None of the labels of eval_set, such as {held_out.y.tolist()[0]!r}, is among those of y, such "
                f"as {source.y.tolist()[0]!r}. Give labels of the same kind."
            )
        from boostmetric.estimators.selection import Choice  # it imports what evaluates metrics

        near, far = self._wanted(source.n_features)
        choice = Choice(
            source,
            held_out,
            init=self.init,
            solver=self.solver,
            n_neighbors=near,
            n_impostors=far,
            block_size=self.block_size,
            learning_rate=self.learning_rate,
            n_passes=cast(int, self.n_passes),
            max_iter=self.max_iter,
            rank=self.n_components,
            normalize=self.normalize,
            settings=self._settings(source, check_random_state(self.random_state)),
        )
        with Steps("Choosing", visible=bool(self.verbose)) as steps:
            chosen, found = choice.decide(lambda candidate: tell(self.callbacks or [], candidate), steps.update)
        self.chosen_: list[Candidate] = chosen
        self.candidates_: list[Candidate] = found
        return self._decided(source, chosen)

    def _decided(self, source: Labelled, chosen: Sequence[Candidate]) -> Decision:
        """Learn what was chosen."""
        return decided(source, chosen, self.max_iter)

    def _conclude(self, decision: Decision, boosted: Boosted, also: Also) -> None:
        super()._conclude(decision, boosted, also)
        source = cast(Labelled, decision.source)
        self.n_neighbors_, self.n_impostors_ = source.n_neighbors, source.n_impostors
        self.start_rank_: int | None = source.start_rank
        self.n_bags_: int = decision.n_bags
        if not decision.is_validated:
            self._forget("candidates_", "chosen_")

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
        """Validated samples and labels, of the samples that have one."""
        y, known = known_labels(y, unlabelled=bool(self.unlabelled))
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
        if known is not None:
            samples, labels = samples[known], labels[known]
            weights = None if weights is None else weights[known]
        return Labelled(samples, labels, weights, *self._sizes(samples.shape[1]), self.device)

    def _wanted(self, n_features: int) -> tuple[int | Literal["auto"], int | Literal["all", "auto"]]:
        """Targets and impostors as given, or those that do best by themselves."""
        near, far = sizes_of(n_features)
        given = self.n_neighbors, self.n_impostors
        return near if given[0] is None else given[0], far if given[1] is None else given[1]

    def _sizes(self, n_features: int) -> tuple[int, int | Literal["all"]]:
        """Targets and impostors; for "auto" those of a stream, until a choice is made."""
        (near, far), best = self._wanted(n_features), sizes_of(n_features)
        return best[0] if isinstance(near, str) else near, best[1] if far == AUTO else far

    def check_parameters(self) -> None:
        """Raise what `fit` would raise about the parameters, without data."""
        super().check_parameters()
        check_flag("unlabelled", self.unlabelled)
        check_choice("solver", self.solver, [*SOLVERS, AUTO])
        check_init(self.init, [*STARTS, AUTO])
        if self.n_neighbors not in (None, AUTO):
            check_numbers(self.n_neighbors, 1)
        if self.n_impostors not in (None, AUTO):
            check_numbers(1, cast(int, self.n_impostors))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
