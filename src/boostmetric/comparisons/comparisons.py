"""Comparisons "this pair is closer than that pair", as pairs and groups.

A *pair* is two point numbers. A *group* has near pairs, far pairs and a weight, and represents every comparison of one
of its near pairs with one of its far pairs. A triplet is a group with one near and one far pair; three targets and all
impostors of a point also form one group. The loss of a group factorises into a sum over its near pairs times a sum over
its far pairs, so the cost of learning grows with the number of members, not with the number of comparisons.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from boostmetric.arrays.numbering import (
    as_array,
    check_numbers,
    check_rows,
    check_weights,
    check_weights_of_anchors,
    number_pairs,
    refuse_rows,
)
from boostmetric.arrays.ragged import Ragged
from boostmetric.arrays.tensors import as_numpy
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import as_list
from boostmetric.comparisons.classes import Classes
from boostmetric.comparisons.grouping import (
    answered,
    cancelled,
    check_pairs,
    check_side,
    full_products,
    near_then_far,
    shared_points,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from boostmetric.comparisons.examination import ClickModel
    from boostmetric.comparisons.grouping import Contradictions
    from boostmetric.comparisons.split import SplitBy

    Int32Array = NDArray[np.int32]

# A subset with fewer members than this fraction of all pairs is numbered by sorting, not by a pass over the pairs.
_SMALL_SUBSET = 0.1


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Pairs of points, and groups that compare near pairs with far pairs.

    Use a builder such as `from_labels` or `from_triplets` rather than this constructor, which does not validate.

    Attributes
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Distinct pairs of points, each with its smaller number first, in ascending order.
    members : ndarray of shape (n_members,)
        Pair numbers, group after group, near pairs before far pairs.
    bounds : ndarray of shape (2 * n_groups + 1,)
        Near pairs of group g are ``members[bounds[2g]:bounds[2g + 1]]``, its far pairs
        ``members[bounds[2g + 1]:bounds[2g + 2]]``. A far side without members is *open*: it represents the pairs of the
        anchor with all points of other classes.
    weights : ndarray of shape (n_groups,)
        Positive weights of the groups; weight 2 is the same as giving every comparison of the group twice.
    anchors : ndarray of shape (n_groups,)
        The point, or query, that each group is about; `split` never puts it on both sides. Groups that are not about
        a single point have distinct negative numbers.
    classes : Classes, optional
        The class of each point; None if no far side is open.

    Notes
    -----
    The comparisons are a sequence of groups. ``comparisons[numbers]`` returns a `subset`, so scikit-learn's
    cross-validation can use them as samples.

    Examples
    --------
    >>> from boostmetric import Comparisons
    >>> Comparisons.from_triplets([[0, 1, 2], [0, 1, 3], [4, 5, 6]])
    Comparisons(n_comparisons=3, n_pairs=5, n_groups=2)
    """

    pairs: Int32Array
    members: Int32Array
    bounds: NDArray[np.int64]
    weights: FloatArray
    anchors: NDArray[np.int64]
    classes: Classes | None = None

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_neighbors: int = 3,
        n_impostors: int | Literal["all"] = 3,
        sample_weight: ArrayLike | None = None,
        *,
        unlabelled: bool = False,
        device: str = "cpu",
    ) -> Comparisons:
        """Compare each point's nearest points of its class with its nearest points of other classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points.
        y : array-like of shape (n_samples,)
            Their class labels.
        n_neighbors : int, default=3
            Number of targets of each point: nearest points of the same class. Points of a smaller class have fewer
            targets, and a point alone in its class is only used as an impostor; both cause a warning.
        n_impostors : int or "all", default=3
            Number of impostors of each point: nearest points of other classes. "all" uses all of them.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the points' groups. A point of weight 0 has no group; it is only a target or impostor of others.
        unlabelled : bool, default=False
            Whether points may have no label: None, NaN, an empty text or, as in scikit-learn, -1. They keep their
            numbers, and are neither targets nor impostors. Otherwise a missing label is an error, and -1 is a class.
        device : {"cpu", "cuda", "auto"} or str, default="cpu"
            Where to search nearest points: "cuda" (or "cuda:1" and so on) is a GPU, which takes dense points; "auto"
            uses a GPU if there is one and the points are dense, else the CPU. The comparisons are the same.

        Returns
        -------
        Comparisons
            One group for each point: its targets against its impostors.

        Notes
        -----
        Cost: for every class, one search among its own points and one among all others. With ``n_impostors="all"`` the
        impostors are not listed and take no memory here; a fit then takes 16 bytes for every ordered pair of samples.

        Examples
        --------
        >>> from boostmetric import Comparisons
        >>> X, y = [[0.0], [1.0], [5.0], [6.0]], ["a", "a", "b", "b"]
        >>> Comparisons.from_labels(X, y, n_neighbors=1, n_impostors=2)
        Comparisons(n_comparisons=8, n_pairs=6, n_groups=4)
        """
        return cls._mined(X, y, n_neighbors, n_impostors, sample_weight, unlabelled=unlabelled, device=device)

    @classmethod
    def _mined(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_neighbors: int,
        n_impostors: int | Literal["all"],
        sample_weight: ArrayLike | None,
        *,
        unlabelled: bool = False,
        quiet: bool = False,
        device: str = "cpu",
    ) -> Comparisons:
        """Same as `from_labels`, but without the warning about small classes if `quiet`."""
        from boostmetric.comparisons.labels import mine

        y = as_numpy(y)
        weights = check_weights("sample_weight", sample_weight, np.size(y), "sample")
        asked = weights > 0 if (weights == 0).any() else None
        anchors, targets, impostors = mine(
            X,
            y,
            n_neighbors=n_neighbors,
            n_impostors=n_impostors,
            asked=asked,
            unlabelled=unlabelled,
            quiet=quiet,
            device=device,
        )
        check_weights_of_anchors(weights[anchors])
        if isinstance(impostors, Classes):
            nobody = Ragged.from_sizes(np.empty(0, dtype=np.int32), np.zeros(len(anchors), dtype=np.int64))
            return cls._from_anchors(anchors, targets, nobody, weights[anchors], impostors)
        return cls._from_anchors(anchors, targets, impostors, weights[anchors])

    @classmethod
    def from_triplets(
        cls,
        triplets: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        grouped: bool = True,
        answers: ArrayLike | None = None,
    ) -> Comparisons:
        """Compare by triplets (i, j, k): point i is closer to j than to k.

        Parameters
        ----------
        triplets : array-like of int of shape (n_triplets, 3)
            Point numbers, counted from 0. The three points of a triplet must differ.
        weights : array-like of shape (n_triplets,), optional
            Weights of the triplets; 2 is the same as giving the triplet twice, 0 leaves it out.
        grouped : bool, default=True
            Whether triplets may form groups, see below. Otherwise each is a separate comparison, even if it is given
            several times. Groups are faster. With the logistic loss, where a group counts once, the learned metric
            depends on this choice.
        answers : array-like of shape (n_triplets,), optional
            Answers to "is i closer to j than to k?": 1 for yes, -1 for no (k is closer), 0 for a tie or "cannot say".
            Ties say nothing about which is closer, and are left out. Triplets that contradict each other are weighed
            against each other by the loss.

        Returns
        -------
        Comparisons
            The triplets of an anchor i that have the same weight and are exactly all combinations of some j with some
            k form one group; all other triplets are single comparisons. The weights of a triplet given several times
            are added up.

        Examples
        --------
        >>> from boostmetric import Comparisons
        >>> Comparisons.from_triplets([[0, 1, 3], [0, 1, 4], [0, 2, 3], [0, 2, 4]])
        Comparisons(n_comparisons=4, n_pairs=4, n_groups=1)
        """
        t = check_rows("triplets", triplets, 3, "(i, j, k) for i closer to j than to k")
        same = (t[:, 0] == t[:, 1]) | (t[:, 0] == t[:, 2]) | (t[:, 1] == t[:, 2])
        refuse_rows("triplets", t, same, "its three points must differ", "Remove these rows.")
        weight = check_weights("weights", weights, len(t), "triplet")
        q, weight = answered(t[:, [0, 1, 0, 2]], weight, answers)
        return cls._from_single(q, weight, grouped)

    @classmethod
    def from_quadruplets(
        cls,
        quadruplets: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        grouped: bool = True,
        answers: ArrayLike | None = None,
    ) -> Comparisons:
        """Compare by quadruplets (i, j, k, l): points i and j are closer to each other than k and l are.

        Parameters
        ----------
        quadruplets : array-like of int of shape (n_quadruplets, 4)
            Point numbers, counted from 0.
        weights : array-like of shape (n_quadruplets,), optional
            Weights of the quadruplets; 2 is the same as giving the quadruplet twice, 0 leaves it out.
        grouped : bool, default=True
            As in `from_triplets`.
        answers : array-like of shape (n_quadruplets,), optional
            As in `from_triplets`.

        Returns
        -------
        Comparisons
            Single comparisons. Those whose two pairs share a point are triplets and form groups as in `from_triplets`.

        Examples
        --------
        >>> from boostmetric import Comparisons
        >>> Comparisons.from_quadruplets([[0, 1, 2, 3], [0, 1, 4, 5]])
        Comparisons(n_comparisons=2, n_pairs=3, n_groups=2)
        """
        q = check_rows("quadruplets", quadruplets, 4, "(i, j, k, l) for i closer to j than k to l")
        point = (q[:, 0] == q[:, 1]) | (q[:, 2] == q[:, 3])
        refuse_rows("quadruplets", q, point, "a point is paired with itself", "Remove these rows.")
        same = (np.sort(q[:, :2]) == np.sort(q[:, 2:])).all(axis=1)
        refuse_rows("quadruplets", q, same, "a pair is compared with itself", "Remove these rows.")
        weight = check_weights("weights", weights, len(q), "quadruplet")
        q, weight = answered(q, weight, answers)
        return cls._from_single(q, weight, grouped)

    @classmethod
    def from_pairs(
        cls, similar: ArrayLike, dissimilar: ArrayLike, *, contradictions: Contradictions = "weigh"
    ) -> Comparisons:
        """Compare every pair of similar points with every pair of dissimilar points (the input of Xing et al.).

        Parameters
        ----------
        similar, dissimilar : array-like of int of shape (n, 2)
            Pairs of point numbers, counted from 0. A pair that is given twice counts twice.
        contradictions : {"weigh", "refuse"}, default="weigh"
            What to do with pairs that are both similar and dissimilar. "weigh": they count as often as one side has
            them more often than the other, and not at all if both have them equally often. "refuse": an error.

        Returns
        -------
        Comparisons
            One group.

        Examples
        --------
        >>> from boostmetric import Comparisons
        >>> Comparisons.from_pairs(similar=[[0, 1], [2, 3]], dissimilar=[[0, 2], [1, 3], [1, 2]])
        Comparisons(n_comparisons=6, n_pairs=5, n_groups=1)
        """
        near, far = cancelled(check_pairs("similar", similar), check_pairs("dissimilar", dissimilar), contradictions)
        sides = Ragged.from_sizes(np.concatenate([near, far]), np.array([len(near), len(far)]))
        return cls._from_pairs(sides, np.ones(1), -np.ones(1, dtype=np.int64))

    @classmethod
    def from_groups(
        cls,
        near: Sequence[ArrayLike] | NDArray[Any],
        far: Sequence[ArrayLike] | NDArray[Any],
        weights: ArrayLike | None = None,
        *,
        anchors: ArrayLike | None = None,
    ) -> Comparisons:
        """Compare every near pair of a group with every far pair of that group.

        Parameters
        ----------
        near, far : sequence of array-like
            One array per group: of shape (n, 2) with pairs of point numbers or, with `anchors`, of shape (n,) with the
            points that the anchor should be near to or far from. Arrays of equal size may be stacked.
        weights : array-like of shape (n_groups,), optional
            Weights of the groups; 2 is the same as giving the group twice, 0 leaves it out.
        anchors : array-like of int of shape (n_groups,), optional
            The point that each group is about.

        Returns
        -------
        Comparisons

        Examples
        --------
        >>> from boostmetric import Comparisons
        >>> Comparisons.from_groups(anchors=[0, 5], near=[[1, 2], [6]], far=[[3, 4], [7, 8, 9]])
        Comparisons(n_comparisons=7, n_pairs=8, n_groups=2)
        """
        about = None if anchors is None else check_numbers("anchors", anchors).reshape(-1)
        near_pairs, far_pairs = check_side("near", near, about), check_side("far", far, about)
        if len(near_pairs) != len(far_pairs):
            raise ValueError(
                f"near has {len(near_pairs)} groups, but far has {len(far_pairs)}. Give both for each group."
            )
        n_groups = len(near_pairs)
        comparisons = cls._from_pairs(
            near_then_far(near_pairs, far_pairs),
            np.ones(n_groups),
            -1 - np.arange(n_groups) if about is None else about,
        )
        for group, (i, j) in comparisons._on_both_sides():
            raise ValueError(
                f"The pair ({i}, {j}) is both near and far in group {group}. Remove it from one of the two."
            )
        return comparisons if weights is None else comparisons.reweighted(weights)

    @classmethod
    def from_odd_one_out(cls, shown: ArrayLike, odd: ArrayLike, weights: ArrayLike | None = None) -> Comparisons:
        """Compare by answers to "which of these three is the odd one out?".

        Parameters
        ----------
        shown : array-like of int of shape (n_answers, 3)
            Point numbers of the three points of each question.
        odd : array-like of int of shape (n_answers,)
            Point number of the odd one of each; -1 where the answer was "cannot say", which gives no comparison.
        weights : array-like of shape (n_answers,), optional
            Weights of the answers; 2 is the same as giving the answer twice, 0 leaves it out.

        Returns
        -------
        Comparisons
            One group for each answer: the pair that is not odd against its two pairs with the odd point.

        Examples
        --------
        >>> from boostmetric import Comparisons
        >>> Comparisons.from_odd_one_out([[0, 1, 2], [3, 4, 5]], odd=[2, -1])
        Comparisons(n_comparisons=2, n_pairs=3, n_groups=1)
        """
        from boostmetric.comparisons.choices import groups_from_odd_ones

        sides, weight = groups_from_odd_ones(shown, odd, weights)
        return cls._from_pairs(sides, weight, -1 - np.arange(len(weight)))

    @classmethod
    def from_choices(
        cls,
        heads: ArrayLike,
        shown: Sequence[ArrayLike] | NDArray[Any],
        chosen: Sequence[ArrayLike] | NDArray[Any],
        weights: ArrayLike | None = None,
    ) -> Comparisons:
        """Compare by answers to "which of these are most like this one?".

        Parameters
        ----------
        heads : array-like of int of shape (n_answers,)
            Point number that each question is about.
        shown : sequence of n_answers array-likes of int
            Point numbers to choose from.
        chosen : sequence of n_answers array-likes of int
            Those that were chosen. An answer that chose none or all gives no comparison.
        weights : array-like of shape (n_answers,), optional
            Weights of the answers; 2 is the same as giving the answer twice, 0 leaves it out.

        Returns
        -------
        Comparisons
            One group for each answer: what was chosen against what was shown and not chosen.

        Examples
        --------
        >>> from boostmetric import Comparisons
        >>> Comparisons.from_choices([0], shown=[[1, 2, 3, 4, 5, 6, 7, 8]], chosen=[[4, 7]])
        Comparisons(n_comparisons=12, n_pairs=8, n_groups=1)
        """
        from boostmetric.comparisons.choices import groups_from_choices

        return cls._from_anchors(*groups_from_choices(heads, shown, chosen, weights))

    @classmethod
    def from_rankings(
        cls,
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

    @classmethod
    def from_clicks(
        cls,
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

        A document that is clicked more often per look than the average result should be nearer to the query than all
        others that were shown for it, above and below. Each look counts by the chance that the place was looked at:
        what is shown low is clicked less, whatever it is.

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
            How many documents to draw for each query from those that were never shown for it.
        corpus : array-like of int, optional
            The documents to draw from; by default those in the log.
        pooled : bool, default=True
            Whether clicks and looks count for the queries that were clicked on the same documents, too. Otherwise each
            list is compared by itself, and a click has the inverse of its propensity as its weight.
        random_state : int, RandomState or None, default=0
            Random seed for drawing documents.

        Returns
        -------
        Comparisons
            One group for each query and document that is near; or, if not `pooled`, for each query, set of documents
            shown together, and clicked one of them.

        Notes
        -----
        Pooling is one step of a random walk on the click graph (Craswell and Szummer, SIGIR 2007), see
        `boostmetric.comparisons.click_graph`. A document is near if it has more clicks than the average result has for
        as many looks, and few looks do not suffice for that.

        Without pooling, the weights are those of Joachims, Swaminathan and Schnabel (WSDM 2017): in expectation the
        comparisons are those of the documents that users find relevant once they look at them, if the propensities are
        right. Two relevant documents are compared both ways, with equal weights in expectation.

        What a log cannot tell, is assumed. "position" compares the clicks of documents that were shown at several
        positions. Where none moved, the propensity is between the rate of clicks at its position (relative to the best
        one), if documents further down are not more relevant, and 1: the geometric mean is used. "cascade" and
        "dependent" take everything down to the last click as looked at. See `boostmetric.comparisons.examination`.

        Cost: the number of groups times the documents they are compared with; with pooling also the sum, over clicked
        documents, of the results shown for the queries that were clicked on each.

        Examples
        --------
        >>> from boostmetric import Comparisons
        >>> clicks = Comparisons.from_clicks(
        ...     [0, 0, 0], [4, 7, 5], [1, 2, 3], [0, 1, 0], propensities=[1, 0.5, 0.25], corpus=range(1, 10), n_unseen=2
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

    @classmethod
    def from_positives(
        cls,
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
            The points, to find the documents that are nearest to a query. Mapped by a metric, they give those that are
            nearest under it: learn, build again from ``metric.transform(points)``, and learn again.
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

        groups = groups_from_positives(
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
        return cls._from_anchors(*groups)

    @classmethod
    def concatenate(cls, parts: Sequence[Comparisons]) -> Comparisons:
        """Concatenate the groups of several comparisons of the same points."""
        parts = as_list("parts", parts)
        if not parts:
            raise ValueError("There is nothing to concatenate: parts is empty.")
        for part in parts:
            if not isinstance(part, cls):
                raise TypeError(f"parts must be Comparisons. Got {reprlib.repr(part)}.")
        classes = next((part.classes for part in parts if part.classes is not None), None)
        parts = [part if part.classes is None or part.classes == classes else part.listed() for part in parts]
        bounds, anchors, n_members, n_unanchored = [np.zeros(1, dtype=np.int64)], [], 0, 0
        for part in parts:
            bounds.append(part.bounds[1:] + n_members)
            anchors.append(np.where(part.anchors < 0, part.anchors - n_unanchored, part.anchors))
            n_members += len(part.members)
            n_unanchored -= int(part.anchors.min(initial=0))
        first, second = np.concatenate([part.pairs[part.members] for part in parts]).T
        weights = np.concatenate([part.weights for part in parts])
        return cls._build(first, second, np.concatenate(bounds), weights, np.concatenate(anchors), classes)

    @classmethod
    def _from_single(cls, quadruplets: NDArray[np.int64], weights: FloatArray, grouped: bool) -> Comparisons:
        """Build single comparisons; if `grouped`, merge those of one anchor and weight that form a full product."""
        q, weights = quadruplets[weights > 0], weights[weights > 0]
        pairs, number = number_pairs(q[:, ::2].ravel(), q[:, 1::2].ravel())
        near_and_far = number.reshape(-1, 2)
        if not grouped:
            return cls(pairs, number, np.arange(len(number) + 1), weights, shared_points(pairs, *near_and_far.T))
        sides, weights, anchors = full_products(pairs, near_and_far.astype(np.int64), weights)
        return cls(pairs, sides.values.astype(np.int32), sides.bounds, weights, anchors)

    @classmethod
    def _from_anchors(
        cls, anchors: NDArray[Any], near: Ragged, far: Ragged, weights: FloatArray, classes: Classes | None = None
    ) -> Comparisons:
        """Build one group per anchor: its pairs with the near points against its pairs with the far points."""
        sides = near_then_far(near, far)
        anchor = np.repeat(anchors, near.sizes + far.sizes)
        return cls._build(anchor, sides.values, sides.bounds, weights, anchors.astype(np.int64), classes)

    @classmethod
    def _from_pairs(cls, sides: Ragged, weights: FloatArray, anchors: NDArray[np.int64]) -> Comparisons:
        """Build groups whose near and far sides are rows of pairs of point numbers."""
        return cls._build(sides.values[:, 0], sides.values[:, 1], sides.bounds, weights, anchors)

    @classmethod
    def _build(
        cls,
        first: NDArray[Any],
        second: NDArray[Any],
        bounds: NDArray[np.int64],
        weights: FloatArray,
        anchors: NDArray[np.int64],
        classes: Classes | None = None,
    ) -> Comparisons:
        """Number the pairs of all members and drop groups of weight 0."""
        pairs, members = number_pairs(first, second)
        comparisons = cls(pairs, members, bounds, weights, anchors, classes)
        return comparisons if weights.all() else comparisons.subset(weights > 0)

    @property
    def n_pairs(self) -> int:
        """Number of distinct pairs of points."""
        if self.classes is None:
            return len(self.pairs)
        anchors = self.anchors[self.is_open]
        return int(self.classes.n_pairs(anchors) + np.sum(~self.classes.contain(self.pairs, anchors)))

    @property
    def n_groups(self) -> int:
        """Number of groups, including single comparisons."""
        return len(self.weights)

    @property
    def is_open(self) -> NDArray[np.bool_]:
        """Mask of the groups whose far side is all points of other classes."""
        return np.asarray(self.bounds[1::2] == self.bounds[2::2])

    @property
    def side_sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Number of near pairs and number of far pairs of each group."""
        near, far = np.diff(self.bounds).reshape(-1, 2).T
        if self.classes is not None:
            far = np.where(self.is_open, self.classes.n_others(np.where(self.is_open, self.anchors, 0)), far)
        return near, far

    @property
    def n_comparisons(self) -> int:
        """Number of comparisons "near pair closer than far pair" that the groups represent."""
        return int(np.dot(*self.side_sizes))

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all comparisons; their number if no weights were given."""
        near, far = self.side_sizes
        return float(np.dot(self.weights, near * far))

    @property
    def points(self) -> NDArray[np.int64]:
        """Numbers of the points that occur, in ascending order."""
        label = np.empty(0, dtype=np.int32) if self.classes is None else self.classes.label
        occurs = np.zeros(max(int(self.pairs.max(initial=-1)) + 1, len(label)), dtype=bool)
        occurs[: len(label)] = label >= 0
        own = np.unique(label[self.anchors[self.is_open]])
        if len(own) == 1:  # no anchor has impostors of this class
            occurs[: len(label)] &= label != own
        occurs[self.pairs] = True
        return np.flatnonzero(occurs)

    @property
    def n_points(self) -> int:
        """Number of points needed for the pairs: one more than the largest point number."""
        points = self.points
        return int(points[-1]) + 1 if len(points) else 0

    @property
    def shape(self) -> tuple[int]:
        """``(n_groups,)``, from which scikit-learn takes the number of samples."""
        return (self.n_groups,)

    def __len__(self) -> int:
        return self.n_groups

    def __getitem__(self, groups: Any) -> Comparisons:
        if isinstance(groups, tuple):  # scikit-learn indexes with (numbers, ...)
            groups = groups[0]
        return self.subset(np.arange(self.n_groups)[groups])

    def __repr__(self) -> str:
        return f"Comparisons(n_comparisons={self.n_comparisons}, n_pairs={self.n_pairs}, n_groups={self.n_groups})"

    def quadruplets(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield every comparison as (i, j, k, l): pair (i, j) closer than pair (k, l). Linear in `n_comparisons`."""
        for g in range(self.n_groups):
            low, middle, high = self.bounds[2 * g : 2 * g + 3]
            far_pairs = self.pairs[self.members[middle:high]]
            if self.classes is not None and middle == high:
                others = self.classes.others(self.anchors[g])
                far_pairs = np.stack([np.full_like(others, self.anchors[g]), others], axis=1)
            for near in self.pairs[self.members[low:middle]].tolist():
                for far in np.sort(far_pairs).tolist():
                    yield (*near, *far)

    def listed(self) -> Comparisons:
        """List all far pairs that are given by classes. Linear in their number."""
        if self.classes is None:
            return self
        groups = np.flatnonzero(self.is_open)
        others = [self.classes.others(anchor) for anchor in self.anchors[groups]]
        sizes = np.diff(self.bounds)
        sizes[2 * groups + 1] = [len(points) for points in others]
        pairs = np.empty((sizes.sum(), 2), dtype=np.int64)
        is_open = np.repeat(np.isin(np.arange(len(sizes)), 2 * groups + 1), sizes)
        pairs[~is_open] = self.pairs[self.members]
        pairs[is_open, 0] = np.repeat(self.anchors[groups], sizes[2 * groups + 1])
        pairs[is_open, 1] = np.concatenate(others)
        return self._from_pairs(Ragged.from_sizes(pairs, sizes), self.weights, self.anchors)

    def pair_numbers(self) -> tuple[Int32Array, Int32Array]:
        """Near and far pair of every comparison, as indices into `pairs`, in the order of `quadruplets`.

        All far pairs must be `listed`.
        """
        if self.classes is not None:
            raise ValueError("Some far pairs are given by classes and have no numbers. Use listed().pair_numbers().")
        n_near, n_far = np.diff(self.bounds).reshape(-1, 2).T
        group = np.repeat(np.arange(self.n_groups), n_near * n_far)
        place = np.arange(len(group)) - np.repeat(np.cumsum(n_near * n_far) - n_near * n_far, n_near * n_far)
        near, far = np.divmod(place, n_far[group])
        return self.members[self.bounds[2 * group] + near], self.members[self.bounds[2 * group + 1] + far]

    def shares(self) -> FloatArray:
        """Weight of every comparison, that of its group, in the order of `quadruplets`; they add up to 1.

        All far pairs must be `listed`.

        Examples
        --------
        >>> from boostmetric import Comparisons
        >>> Comparisons.from_quadruplets([[0, 1, 2, 3], [4, 5, 6, 7]], [1.0, 3.0]).shares()
        array([0.25, 0.75])
        """
        n_near, n_far = self.side_sizes
        weights = np.repeat(self.weights, n_near * n_far)
        return np.asarray(weights / weights.sum())

    def reweighted(self, weights: ArrayLike) -> Comparisons:
        """Multiply the weights of the groups.

        Parameters
        ----------
        weights : array-like of shape (n_groups,)
            Factor for each group; 0 leaves it out.
        """
        factors = check_weights("weights", weights, self.n_groups, "group")
        product = check_weights("weights, multiplied,", self.weights * factors, self.n_groups, "group")
        return replace(self, weights=product).subset(product > 0)

    def renumbered(self) -> Comparisons:
        """Renumber the points that occur from 0, in the order of `points`."""
        used = self.points
        number = np.full(max(int(used[-1]), int(self.anchors.max())) + 1, -1, dtype=np.int32)
        number[used] = np.arange(len(used))
        # An anchor that does not occur, such as a query, has no number here.
        anchors = np.where(self.anchors >= 0, number[np.maximum(self.anchors, 0)], -1)
        anchors = np.where(anchors >= 0, anchors, -1 - np.arange(len(self)))
        renumbered = replace(self, pairs=number[self.pairs], anchors=anchors)
        if self.classes is None:
            return renumbered
        label = np.append(self.classes.label, np.full(len(number), -1, dtype=np.int32))[used]
        return replace(renumbered, classes=Classes(label))

    def subset(self, groups: ArrayLike) -> Comparisons:
        """Select the given groups, in the given order.

        Parameters
        ----------
        groups : array-like of int, or of bool of shape (n_groups,)
            Group numbers, or a mask of the groups to keep.
        """
        numbers = as_array("groups", groups)
        try:
            chosen = np.atleast_1d(np.arange(self.n_groups)[numbers if numbers.size else numbers.astype(int)])
        except (IndexError, TypeError, ValueError) as error:
            raise ValueError(
                f"groups must be numbers from 0 to {self.n_groups - 1}, or {self.n_groups} booleans: {error}. Got "
                f"{reprlib.repr(groups)}."
            ) from None
        if chosen.ndim != 1:
            raise ValueError(f"groups must be a list of numbers. Got shape {numbers.shape}.")
        sides = self._sides.take(np.stack([2 * chosen, 2 * chosen + 1], axis=1).ravel())
        return self._with(sides, self.weights[chosen], self.anchors[chosen])

    def split(
        self,
        test_size: float = 0.1,
        random_state: int | np.random.RandomState | None = None,
        *,
        by: SplitBy = "components",
    ) -> tuple[Comparisons, Comparisons]:
        """Split into training and held-out comparisons that have no pair and no anchor in common.

        Parameters
        ----------
        test_size : float, default=0.1
            Fraction of the anchors (or queries) to hold out. Groups without an anchor are held out individually. If all
            groups have the same anchor, as after `from_pairs`, its pairs are split instead.
        random_state : int, RandomState or None, default=None
            Random seed for choosing the anchors.
        by : {"components", "anchors"}, default="components"
            "components" also keeps anchors on one side that share points they should be near to, such as queries with a
            relevant document in common, directly or through others: else remembering the document looks like learning.
            If nearly all anchors are connected, it is the same as "anchors".

        Returns
        -------
        train, test : Comparisons
            Held-out pairs are removed from the training groups, which lose those comparisons.
        """
        from boostmetric.comparisons.split import split

        return split(self, test_size, random_state, by)

    @property
    def _sides(self) -> Ragged:
        """Near and far pairs of each group, as rows 2g and 2g + 1."""
        return Ragged(self.members, self.bounds)

    @property
    def _group_sizes(self) -> NDArray[np.int64]:
        return np.diff(self.bounds[::2])

    def _on_both_sides(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield each group that has a pair on both sides, and that pair."""
        n_pairs = len(self.pairs)
        key = self._sides.row // 2 * n_pairs + self.members
        far = self._sides.row % 2 == 1
        for both in key[far][np.isin(key[far], key[~far], kind="sort")].tolist():
            i, j = self.pairs[both % n_pairs].tolist()
            yield both // n_pairs, (i, j)

    def _without_empty(self, sides: Ragged) -> Comparisons | None:
        """Keep the groups that still have both near and far pairs; None if there are none."""
        near, far = sides.sizes.reshape(-1, 2).T
        if self.classes is not None:
            in_class = self.classes.label[np.where(self.is_open, self.anchors, 0)] >= 0
            far = np.where(self.is_open, in_class * self.side_sizes[1], far)
        whole = np.flatnonzero((near > 0) & (far > 0))
        if not len(whole):
            return None
        kept = sides.take(np.stack([2 * whole, 2 * whole + 1], axis=1).ravel())
        return self._with(kept, self.weights[whole], self.anchors[whole])

    def _with(self, sides: Ragged, weights: FloatArray, anchors: NDArray[np.int64]) -> Comparisons:
        """Build groups with the given sides, renumbering the pairs they need."""
        members: NDArray[Any]
        if len(sides.values) < _SMALL_SUBSET * len(self.pairs):
            needed, members = np.unique(sides.values, return_inverse=True)
        else:
            needed = np.zeros(len(self.pairs), dtype=bool)
            needed[sides.values] = True
            members = (np.cumsum(needed, dtype=np.int32) - 1)[sides.values]
        some_open = not sides.sizes[1::2].all()
        classes = self.classes if some_open else None
        return Comparisons(self.pairs[needed], members.astype(np.int32), sides.bounds, weights, anchors, classes)
