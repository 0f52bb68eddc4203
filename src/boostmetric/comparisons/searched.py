"""Builders of comparisons from searches: rankings and graded results, logs of clicks, and positives alone.

Each is a class method of `boostmetric.Comparisons`, which lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from boostmetric.comparisons.comparisons import Comparisons
    from boostmetric.comparisons.examination import ClickModel
    from boostmetric.comparisons.grouping import Contradictions


def from_rankings(
    cls: type[Comparisons],
    queries: ArrayLike,
    results: Sequence[ArrayLike] | NDArray[Any],
    grades: Sequence[ArrayLike] | NDArray[Any] | None = None,
    *,
    clicks: Sequence[ArrayLike] | NDArray[Any] | None = None,
    weights: Sequence[ArrayLike] | NDArray[Any] | None = None,
    max_per_query: int | None = None,
    contradictions: Contradictions = "weigh",
) -> Comparisons:
    """Compare the results of queries: better results should be nearer to the query.

    Parameters
    ----------
    queries : array-like of int of shape (n_lists,) or (n_rows,)
        Point number of the query of each list of results; a query may occur several times. Or the query of each row
        of a table, in which rows with the same query form one list.
    results : sequence of n_lists array-likes of int, or array-like of shape (n_rows,)
        Point numbers, in the order shown; without grades and clicks, best first.
    grades : same form as `results`, optional
        Grade of each result; larger is better. At every step from one grade to the next in a list, all results
        above are compared with all results below, so a comparison counts once for every step between its grades.
    clicks : same form as `results`, optional
        Whether each result was clicked. A clicked result is compared with the unclicked ones above it: they were
        seen and skipped (Joachims, KDD 2002). Lists without such a comparison are left out. All of these
        comparisons contradict the order shown, so that a good distance that made it can only get worse by them: for
        a log of the ranking that is to be improved, use `from_clicks`.
    weights : same form as `results`, optional
        Weights of the results. A comparison has the weight of its better result.
    max_per_query : int, optional
        Maximum number of comparisons per query, so that a few long lists do not dominate. They are shared evenly
        among its groups; in each group, the results listed closest to the cut are kept.
    contradictions : {"weigh", "refuse"}, default="weigh"
        What to do with a result that is graded twice in a list. "weigh": it has the mean of its grades, and the sum
        of their weights. "refuse": an error, if its grades differ.

    Returns
    -------
    Comparisons
        One group for each list and cut (and each distinct weight of the results above it).

    Examples
    --------
    >>> from boostmetric import Comparisons
    >>> Comparisons.from_rankings([0], [[4, 7, 5]])  # 4 over 7 and 5; 4 and 7 over 5
    Comparisons(n_comparisons=4, n_pairs=3, n_groups=2)
    >>> Comparisons.from_rankings([0], [[4, 7, 5, 6]], grades=[[1, 0, 0, 1]])
    Comparisons(n_comparisons=4, n_pairs=4, n_groups=1)
    >>> Comparisons.from_rankings([0], [[4, 7, 5, 6]], clicks=[[0, 0, 1, 0]])
    Comparisons(n_comparisons=2, n_pairs=3, n_groups=1)
    """
    from boostmetric.comparisons.rankings import groups_from_rankings

    groups = groups_from_rankings(queries, results, grades, clicks, weights, max_per_query, contradictions)
    return cls._from_anchors(*groups)


def from_clicks(
    cls: type[Comparisons],
    queries: ArrayLike,
    documents: ArrayLike,
    positions: ArrayLike,
    clicked: ArrayLike,
    *,
    sessions: ArrayLike | None = None,
    propensities: ArrayLike | None = None,
    model: ClickModel | None = None,
    min_propensity: float = 0.1,
    weights: ArrayLike | None = None,
    max_per_query: int | None = None,
    n_unseen: int = 10,
    corpus: ArrayLike | None = None,
    pooled: bool = True,
    random_state: int | np.random.RandomState | None = 0,
) -> Comparisons:
    """Compare what was clicked with what else was shown, and with documents that were not.

    A document whose clicks say that it is relevant should be nearer to the query than all others that were shown
    for it, above and below; and nearer to it than to other queries. Each look counts by the chance that the place was
    looked at: what is shown low is clicked less, whatever it is.

    Parameters
    ----------
    queries, documents : array-like of int of shape (n_rows,)
        Point numbers of the query and of the document that was shown, for each row of the log. Give all rows, those
        without a click too.
    positions : array-like of shape (n_rows,)
        Where the document was shown; smaller is higher up.
    clicked : array-like of shape (n_rows,)
        Whether it was clicked.
    sessions : array-like of shape (n_rows,), optional
        Tells apart the occasions on which a query was asked. Rows of one query and session are one list.
    propensities : array-like of shape (n_rows,), optional
        Chance that each row was looked at, above 0 and at most 1.
    model : {"position", "cascade", "dependent"}, optional
        How to estimate it from the log; by default "position". "position": it depends on the position alone.
        "cascade": users read from the top and leave after a click. "dependent": they leave after a click with some
        chance. See Notes.
    min_propensity : float, default=0.1
        Results with a smaller propensity are taken as not shown, so that no click counts more than 1 /
        `min_propensity` times.
    weights : array-like of shape (n_rows,), optional
        Weights of the rows; without `pooled`, those of clicks are used.
    max_per_query : int, optional
        Largest number of clicks of a query that count in full. The weights of a query with more are scaled down.
    n_unseen : int, default=10
        How many documents to draw for each query from those that were never shown for it; with `pooled`, also queries
        for each document.
    corpus : array-like of int, optional
        The documents to draw from; by default those in the log.
    pooled : bool, default=True
        Whether clicks count for the queries that were clicked on the same documents, too. Otherwise each list is
        compared by itself, and a click has the inverse of its propensity as its weight.
    random_state : int, RandomState or None, default=0
        Random seed for drawing documents.

    Returns
    -------
    Comparisons
        Two groups for each query and document that is near, one about each of them; or, if not `pooled`, one for each
        query, set of documents shown together, and clicked one of them.

    Notes
    -----
    A document is near if its clicks are much likelier to come from a relevant result than from another, and far if
    they are less likely to; where the log says little, it is neither. How often users click each kind is estimated
    from the log (Agarwal et al., WWW 2019), see `boostmetric.comparisons.click_evidence`. Pooling adds the mean
    evidence of queries up to two steps of a random walk on the click graph away (Craswell and Szummer, SIGIR 2007), see
    `boostmetric.comparisons.click_graph`.

    Without pooling, the weights are those of Joachims, Swaminathan and Schnabel (WSDM 2017): in expectation the
    comparisons are those of the documents that users find relevant once they look at them, if the propensities are
    right. Two relevant documents are compared both ways, with equal weights in expectation.

    What a log cannot tell, is assumed. "position" compares the clicks of documents that were shown at several
    positions. Where none moved, the propensity is between the rate of clicks at its position (relative to the best
    one), if documents further down are not more relevant, and 1: the geometric mean is used. "cascade" and
    "dependent" take everything down to the last click as looked at. See `boostmetric.comparisons.examination`.

    Cost: the number of groups times the documents they are compared with; with pooling also the sum, over the
    documents that a walk passes, of the results shown for the queries that were clicked on each.

    Examples
    --------
    >>> from boostmetric import Comparisons
    >>> clicks = Comparisons.from_clicks(
    ...     [0, 0, 0], [4, 7, 5], [1, 2, 3], [0, 1, 0], propensities=[1, 0.5, 0.5], corpus=range(1, 10), n_unseen=2
    ... )
    >>> clicks  # 7 over 4, 5 and two others
    Comparisons(n_comparisons=4, n_pairs=5, n_groups=1)
    >>> Comparisons.from_clicks([0, 0], [4, 7], [1, 2], [0, 1], propensities=[1, 0.5], pooled=False).weights
    array([2.])
    """
    from boostmetric.comparisons.clicks import groups_from_clicks

    groups = groups_from_clicks(
        queries,
        documents,
        positions,
        clicked,
        sessions=sessions,
        propensities=propensities,
        model=model,
        min_propensity=min_propensity,
        weights=weights,
        max_per_query=max_per_query,
        n_unseen=n_unseen,
        corpus=corpus,
        pooled=pooled,
        random_state=random_state,
    )
    return cls._from_anchors(*groups)


def from_positives(
    cls: type[Comparisons],
    queries: ArrayLike,
    documents: ArrayLike,
    *,
    points: ArrayLike,
    weights: ArrayLike | None = None,
    corpus: ArrayLike | None = None,
    n_nearest: int = 50,
    n_random: int = 50,
    near_duplicate: float = 0.1,
    random_state: int | np.random.RandomState | None = 0,
) -> Comparisons:
    """Compare documents known to be relevant to a query with others, of which nothing is known.

    Parameters
    ----------
    queries, documents : array-like of int of shape (n_positives,)
        Point numbers of a query and of a document that is relevant to it, in each row.
    points : {array-like, sparse matrix} of shape (n_points, n_features)
        The points, to find the documents that are nearest to a query. `found_again` finds those that are nearest under
        a metric, as ``ComparisonBoostMetric(n_passes=3)`` does.
    weights : array-like of shape (n_positives,), optional
        Weights of the rows.
    corpus : array-like of int, optional
        The documents that there are; by default those that are relevant to some query.
    n_nearest : int, default=50
        How many of the documents nearest to a query it should be far from.
    n_random : int, default=50
        How many random ones.
    near_duplicate : float, default=0.1
        A document is a copy of a positive, and left out, if their distance is at most this share of that positive's
        distance from the query. 0 leaves out only equal points.
    random_state : int, RandomState or None, default=0
        Random seed for drawing documents.

    Returns
    -------
    Comparisons
        One group for each query (and each distinct weight of its positives).

    See Also
    --------
    boostmetric.mining.mine_triplets : Hard negatives with more guards, as triplets.

    Notes
    -----
    Among the nearest documents are others that are relevant. Left out are those that other queries connect with a
    positive: documents that share a query with it or, where queries and documents fall into many parts that nothing
    connects, all documents of its part (see `boostmetric.comparisons.positives`).

    Cost: one exact search of the queries among the documents.

    Examples
    --------
    >>> from boostmetric import Comparisons
    >>> points = [[0.0], [2.0], [1.0], [3.0], [9.0]]
    >>> Comparisons.from_positives([0], [1], points=points, corpus=[1, 2, 3, 4], n_nearest=2, n_random=0)
    Comparisons(n_comparisons=2, n_pairs=3, n_groups=1)
    """
    from boostmetric.comparisons.positives import groups_from_positives

    groups, search = groups_from_positives(
        queries,
        documents,
        points,
        weights=weights,
        corpus=corpus,
        n_nearest=n_nearest,
        n_random=n_random,
        near_duplicate=near_duplicate,
        random_state=random_state,
    )
    return replace(cls._from_anchors(*groups), search=search)
