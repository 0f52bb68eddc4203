"""Parts of docstrings that baselines share."""

from __future__ import annotations

from boostmetric.estimators.docstrings import documenting

_OF_SEVERAL = {
    "rank": """
    n_components : int, default=None
        Rank of the metric: the best approximation. None keeps all.
    """,
    "rows": """
    n_components : int, default=None
        Number of rows of the linear map. None means the number of features.
    """,
    "prior": """
    prior : {"standardized", "identity"}, metric or array, default="standardized"
        Metric to stay close to: the Euclidean distance of standardized features, or of features as they are; a
        `MahalanobisMetric`, or the array of its linear map. It must have full rank.
    """,
    "n_pairs": """
    n_pairs : int, default=None
        From labels, pairs of either kind to draw at random. None draws 20 times the square of the number of classes.
    """,
    "max_iter": """
    max_iter : int, default=@max_iter
        Maximum number of L-BFGS iterations.
    """,
    "tol": """
    tol : float, default=@tol
        Stop when the objective is within this fraction of its minimum.
    """,
    "threshold": """
    threshold_ : float
        After a fit to pairs, the squared distance that best separates the similar from the dissimilar ones; see
        `predict`.
    """,
    "duality_gap": """
    duality_gap_ : float
        Bound on how much lower the objective of any other metric may be.
    """,
    "n_iter": """
    n_iter_ : int
        Number of iterations run.
    """,
    "history": """
    history_ : list of Iteration
        Objective and trace of each iteration.
    """,
}

documented = documenting(_OF_SEVERAL)
