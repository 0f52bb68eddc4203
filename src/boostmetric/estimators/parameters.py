"""Docstrings and constructor arguments that the two boosting estimators share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from boostmetric.estimators.docstrings import documenting

Constructor = TypeVar("Constructor", bound=Callable[..., None])

_SHARED = {
    "n_components": """
    n_components : int, default=None
        Largest rank of the metric, and so the number of features that `transform` returns. The best approximation of
        that rank is kept. None keeps the metric as learned.
    """,
    "loss": """
    loss : {"exponential", "logistic", "smooth-hinge"}, default=@loss
        What to minimise. "exponential" is the paper's loss. "logistic" grows only linearly with the distances of an
        unsatisfied comparison, so mislabelled points do less harm. "smooth-hinge" also does, and ignores what is
        satisfied by a margin of 1. In these two, a group of comparisons, such as those of one anchor, counts once.
    """,
    "regularization": """
    regularization : float, default=1e-7
        The factor v of the trace of X in the objective.
    """,
    "optimisation": """
    tol : float, default=0.0
        When to stop. With the stagewise solver: when the slope of the loss along the best direction has fallen to this
        fraction of its value at the start. With the corrective solver: when the duality gap has fallen to this fraction
        of the loss, or of its decrease since X = 0 if that is larger. 0 runs to `max_iter` unless nothing is left to
        gain.
    line_search : {"exact", "bisection"}, default="exact"
        How the step along a direction is found: exactly, from one pass over the comparisons or by Newton's method, or
        by the paper's bisection. The steps are the same; bisection takes about ten times as many evaluations.
    block_size : int or "auto", default=@block_size
        Directions that an iteration of the stagewise solver adds at once: the leading eigenvectors of A_hat, with the
        weights that lower the loss most together. 1 is the paper's iteration. "auto" is 1 below 128 features; from
        there on it is 32, with a tenth of `max_iter`.
    """,
    "early_stopping": """
    early_stopping : bool, default=False
        Hold out comparisons, stop when no more of them are satisfied for `n_iter_no_change` iterations, and keep the
        metric of the best iteration.
    """,
    "warm_start": """
    warm_start : bool, default=False
        Continue from the metric of the last fit, whose iterations count for `max_iter`, as in scikit-learn's boosting.
    """,
    "resources": """
    device : {"cpu", "cuda", "cuda:N", "auto"}, default="cpu"
        Where to search for neighbours and to boost. A GPU needs the extra ``gpu`` (torch) and dense points, and works
        in their precision: pass float32 unless the last digits matter. "auto" uses a GPU if there is one.
    engine : "ray", RayEngine, another `Backend` or None, default=None
        A cluster to boost on (`boostmetric.engines.ray.RayEngine`). "ray" is one on this machine, or the one that this
        process is connected to. Needs the extra ``ray``. The search for neighbours stays in this process.
    n_jobs : int, default=None
        Threads for boosting. None means 1 unless in a joblib context, -1 all processors. The result is the same, bit
        for bit, for every number of threads. The search for neighbours always uses all processors.
    """,
    "metric_attributes": """
    directions_ : ndarray of shape (n_directions, n_features)
        Unit vectors xi_j, in the order they were found. After `partial_fit` the axes of the metric; with the
        corrective solver as many as its rank.
    step_sizes_ : ndarray of shape (n_directions,)
        Their weights w_j; X = sum_j w_j xi_j xi_j' before `n_components` is applied.
    normalize_ : bool
        Whether `transform` scales to unit length.
    n_iter_ : int
        Iterations that led to the metric.
    """,
    "fit_attributes": """
    history_ : list of Iteration
        Loss, eigenvalue, step size, trace and violated fraction of each iteration, and the held-out score.
    duality_gap_ : float
        max(v, lambda_max) Tr X - sum_r u_r rho_r, where lambda_max is the largest eigenvalue of A_hat at the end. Where
        lambda_max <= v, the objective is within this gap of its minimum; otherwise it is within this gap of that of any
        metric of no larger trace, and the same X within this gap of the minimum for a regularization of lambda_max. NaN
        after `partial_fit`.
    n_batches_ : int
        Batches seen by `partial_fit`; only present after it.
    """,
}

documented = documenting(_SHARED)


def extends(constructor: Callable[..., None]) -> Callable[[Constructor], Constructor]:
    """Show the keywords of another constructor in the signature of one that hands them on.

    scikit-learn reads the parameters of an estimator from that signature, and so do editors and ``help``.
    """

    def shown(own: Constructor) -> Constructor:
        mine = inspect.signature(own)
        named = [p for p in mine.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        known = {parameter.name for parameter in named}
        others = [p for p in inspect.signature(constructor).parameters.values() if p.name not in known]
        changed: Any = own
        changed.__signature__ = mine.replace(parameters=[*named, *others])
        return own

    return shown
