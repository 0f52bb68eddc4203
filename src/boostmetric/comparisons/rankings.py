"""Groups from rankings, graded results and clicks: results that should be near against results that should be far.

A *list* holds the results of one query in order, with grades or clicks. A *cut* divides a list into near and far
results: those above and below a step between two grades, or a clicked result and those skipped above it. Every cut
becomes one group, or several if its near results have different weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boostmetric.arrays.numbering import check_lists, check_numbers, check_weights
from boostmetric.arrays.ragged import Ragged, run_starts
from boostmetric.arrays.types import IntArray
from boostmetric.arrays.validation import as_list, check_choice, check_count, n_dimensions, warn
from boostmetric.comparisons.grouping import CONTRADICTIONS, Contradictions


class Groups(NamedTuple):
    """Groups with one anchor each, and the points that it should be near to and far from."""

    anchors: IntArray
    near: Ragged
    far: Ragged
    weights: NDArray[np.float64]


class _Side(NamedTuple):
    """One side of every cut: `sizes[c]` results starting at ``order[starts[c]]``, those closest to the cut first."""

    order: IntArray
    starts: IntArray
    sizes: IntArray

    def rows(self) -> Ragged:
        return Ragged.from_ranges(self.order, self.starts, self.sizes)

    def of(self, cuts: IntArray) -> _Side:
        return _Side(self.order, self.starts[cuts], self.sizes[cuts])


@dataclass(frozen=True)
class Cuts:
    """Cuts of the lists.

    Attributes
    ----------
    of_list : ndarray of shape (n_cuts,)
        The list that each cut divides.
    near, far : _Side
        Results on both sides, as positions in the table of all results.
    """

    of_list: IntArray
    near: _Side
    far: _Side

    def capped(self, query: IntArray, cap: int) -> Cuts:
        """Keep at most `cap` comparisons per query, shared evenly among its cuts; keep the results closest to a cut."""
        order = np.argsort(query[self.of_list], kind="stable")
        first = run_starts(query[self.of_list][order])
        n_cuts = np.diff(np.append(first, len(order)))
        rank = np.arange(len(order)) - np.repeat(first, n_cuts)  # rank of each cut within its query
        n_cuts = np.repeat(n_cuts, n_cuts)
        share = (rank + 1) * cap // n_cuts - rank * cap // n_cuts  # sums to the cap; some are 0 if it is small
        order, share = order[share > 0], share[share > 0]
        n_near, n_far = self.near.sizes[order], self.far.sizes[order]
        # Equally many on both sides, as far as each side has enough.
        half = np.minimum(n_near, np.maximum(1, np.sqrt(share).astype(np.int64)))
        n_far = np.minimum(n_far, share // half)
        n_near = np.minimum(n_near, share // n_far)
        near, far = self.near.of(order)._replace(sizes=n_near), self.far.of(order)._replace(sizes=n_far)
        return Cuts(self.of_list[order], near, far)


def groups_from_rankings(
    queries: ArrayLike,
    results: Sequence[ArrayLike] | NDArray[Any],
    grades: Sequence[ArrayLike] | NDArray[Any] | None,
    clicks: Sequence[ArrayLike] | NDArray[Any] | None,
    weights: Sequence[ArrayLike] | NDArray[Any] | None,
    max_per_query: int | None,
    contradictions: Contradictions = "weigh",
) -> Groups:
    """Build the groups of `boostmetric.Comparisons.from_rankings`."""
    if grades is not None and clicks is not None:
        raise ValueError("Both grades and clicks are given. Pass one of them, or neither for lists ordered best first.")
    if max_per_query is not None:
        check_count("max_per_query", max_per_query, alternative=", or None")
    check_choice("contradictions", contradictions, CONTRADICTIONS)
    query, lists, order = _check_lists(queries, results)
    grade = _check_values("grades", grades, lists, order)
    weight = check_weights("weights", _check_values("weights", weights, lists, order), len(lists.values), "result")

    if grade is not None:
        lists, grade, weight = _merged(query, lists, grade, weight, contradictions)
    _check_results(query, lists)

    if clicks is not None:
        clicked = _check_values("clicks", clicks, lists, order)
        assert clicked is not None
        if not np.isin(clicked, (0, 1)).all():
            odd = clicked[~np.isin(clicked, (0, 1))][0]
            raise ValueError(f"clicks must be True or False, or 1 or 0. Got {odd}.")
        cuts = cuts_of(lists, None, clicked.astype(bool))
    else:
        cuts = cuts_of(lists, grade, None)
    _check_useful(query, lists, cuts, clicks is not None)

    if max_per_query is not None:
        cuts = cuts.capped(query, max_per_query)
    of_list, near, far, weight_of_group = _groups_by_weight(cuts, weight)
    return Groups(
        anchors=query[of_list],
        near=Ragged(lists.values[near.values], near.bounds),
        far=Ragged(lists.values[far.values], far.bounds),
        weights=weight_of_group,
    )


def _check_lists(
    queries: ArrayLike, results: Sequence[ArrayLike] | NDArray[Any]
) -> tuple[IntArray, Ragged, IntArray | None]:
    """The query and results of each list and, for a flat table, the order that sorts its rows into lists."""
    query = check_numbers("queries", queries)
    if not isinstance(results, np.ndarray) or results.ndim == 0:
        results = as_list("results", results)
    if query.ndim != 1 or len(query) != len(results):
        raise ValueError(
            f"queries must hold one point number for each list of results, or for each row of a table. Got shape "
            f"{query.shape} for {len(results)} lists or rows."
        )
    if len(query) == 0:
        raise ValueError("There are no rankings: at least one is needed.")
    if n_dimensions(results[0]) > 0:
        return query, check_lists("results", results), None
    point = check_numbers("results", results)
    order = np.argsort(query, kind="stable")
    distinct, sizes = np.unique(query, return_counts=True)
    return distinct, Ragged.from_sizes(point[order], sizes), order


def _check_results(query: IntArray, lists: Ragged) -> None:
    """Raise an error if a list contains its query, or a result twice."""
    of_list, point = lists.row, lists.values
    itself = point == query[of_list]
    if itself.any():
        bad = int(query[of_list[itself][0]])
        raise ValueError(f"The results of query {bad} contain the query itself, whose distance is always 0. Remove it.")
    order = np.lexsort((point, of_list))
    twice = (np.diff(point[order]) == 0) & (np.diff(of_list[order]) == 0)
    if twice.any():
        row = order[np.flatnonzero(twice)[0]]
        raise ValueError(
            f"The results of query {query[of_list[row]]} contain {point[row]} twice. Keep one of them; if the query "
            "was run several times, give several lists."
        )


def _merged(
    query: IntArray,
    lists: Ragged,
    grade: NDArray[np.float64],
    weight: NDArray[np.float64],
    contradictions: Contradictions,
) -> tuple[Ragged, NDArray[np.float64], NDArray[np.float64]]:
    """Merge results that are graded twice in a list: the mean of their grades by weight, and the sum of weights."""
    of_list = lists.row
    order = np.lexsort((lists.values, of_list))
    first = run_starts(of_list[order], lists.values[order])
    if len(first) == len(order):
        return lists, grade, weight
    if contradictions == "refuse":
        lowest, highest = (ufunc.reduceat(grade[order], first) for ufunc in (np.minimum, np.maximum))
        if (lowest < highest).any():
            row = order[first[np.argmax(lowest < highest)]]
            raise ValueError(
                f"The results of query {query[of_list[row]]} grade {lists.values[row]} twice, and differ. Keep one "
                'grade, or have them weighed against each other (contradictions="weigh").'
            )
    # Of results without any weight, the plain mean.
    total = np.add.reduceat(weight[order], first)
    counts = np.diff(np.append(first, len(order)))
    share = np.where(np.repeat(total, counts) > 0, weight[order], 1.0)
    mean = np.add.reduceat(share * grade[order], first) / np.add.reduceat(share, first)
    kept = order[first]
    merged = Ragged.from_sizes(lists.values[kept], np.bincount(of_list[kept], minlength=len(lists)))
    return merged, mean, total


def _check_values(
    name: str, values: Sequence[ArrayLike] | NDArray[Any] | None, lists: Ragged, order: IntArray | None
) -> NDArray[np.float64] | None:
    """Validate one number per result, and return them in the order of the lists."""
    if values is None:
        return None
    try:
        rows = [np.asarray(row, dtype=np.float64) for row in (values if order is None else [values])]
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers in the same form as results, one for each result.") from None
    if order is not None:
        (flat,) = rows
        if flat.shape != order.shape:
            raise ValueError(f"{name} must hold one number for each of the {len(order)} rows. Got shape {flat.shape}.")
        flat = flat[order]
    else:
        if len(rows) != len(lists):
            raise ValueError(
                f"{name} must have one list for each of the {len(lists)} lists of results. Got {len(rows)}."
            )
        for number, (row, size) in enumerate(zip(rows, lists.sizes.tolist(), strict=True)):
            if row.shape != (size,):
                raise ValueError(f"{name}[{number}] must hold one number for each of {size} results. Got {row.shape}.")
        flat = np.concatenate(rows)
    if not np.isfinite(flat).all():
        raise ValueError(f"{name} must be finite numbers; one of them is {flat[~np.isfinite(flat)][0]}.")
    return flat


def cuts_of(lists: Ragged, grade: NDArray[np.float64] | None, clicked: NDArray[np.bool_] | None) -> Cuts:
    """Cut lists at clicks, at steps between grades or, if they are ordered best first, between any two results."""
    if clicked is not None:
        return _cuts_at_clicks(lists, clicked)
    place = np.arange(len(lists.values)) - lists.bounds[lists.row]
    return _cuts_between_grades(lists, -place if grade is None else grade)


def _cuts_between_grades(lists: Ragged, grade: NDArray[np.number[Any]]) -> Cuts:
    """Make one cut at every step from one grade to the next in a list: all above against all below."""
    of_list = lists.row
    best_first = np.lexsort((-grade, of_list))  # stable: equal grades stay in the order given
    level = grade[best_first]
    cut = np.flatnonzero((np.diff(level) != 0) & (np.diff(of_list) == 0)) + 1  # first position below the cut
    start, end = lists.bounds[of_list[cut]], lists.bounds[of_list[cut] + 1]
    # Read backwards, the results above begin with the one closest to the cut.
    near = _Side(best_first[::-1], len(best_first) - cut, cut - start)
    return Cuts(of_list[cut], near, _Side(best_first, cut, end - cut))


def _cuts_at_clicks(lists: Ragged, clicked: NDArray[np.bool_]) -> Cuts:
    """Make one cut for all clicks that have the same skipped results above them."""
    of_list = lists.row
    skipped = np.flatnonzero(~clicked)
    skipped_before = np.concatenate([[0], np.cumsum(~clicked)])  # number in the table before each result
    click = np.flatnonzero(clicked)
    n_above = skipped_before[click] - skipped_before[lists.bounds[of_list[click]]]
    click, n_above = click[n_above > 0], n_above[n_above > 0]
    # Clicks are in table order, so those of one list with equally many skipped results above are adjacent.
    first = run_starts(of_list[click], n_above)
    near = _Side(click, first, np.diff(np.append(first, len(click))))
    far = _Side(skipped[::-1], len(skipped) - skipped_before[click[first]], n_above[first])
    return Cuts(of_list[click[first]], near, far)


def _check_useful(query: IntArray, lists: Ragged, cuts: Cuts, by_click: bool) -> None:
    """Raise an error if no ranking gives a comparison; warn if some give none, except for clicks."""
    useless = np.setdiff1d(np.arange(len(lists)), cuts.of_list)
    if not len(useless):
        return
    first = int(useless[0])
    size = int(lists.sizes[first])
    if size < 2:
        reason = (
            f"has {size} result{'s' * (size != 1)}, but a comparison needs two. Give at least two results per query."
        )
    elif by_click:
        reason = (
            f"has {size} results, but none was skipped above a clicked one. Give all results that were shown, in the "
            "order shown."
        )
    else:
        reason = (
            f"has {size} results of the same grade, so none should be farther than another. Add results of a lower "
            "grade, for example random points as negatives."
        )
    if len(useless) == len(lists):
        raise ValueError(f"No ranking gives a comparison: query {query[first]} {reason}")
    if not by_click:
        warn(
            f"{len(useless)} of {len(lists)} rankings give no comparison and are left out. The first is for query "
            f"{query[first]}, which {reason}"
        )


def _groups_by_weight(cuts: Cuts, weight: NDArray[np.float64]) -> Groups:
    """Make one group for each cut and weight of its near results; near results of weight 0 are dropped."""
    near = cuts.near.rows()
    near = near.where(weight[near.values] > 0)
    cut, value = near.row, weight[near.values]
    order = np.lexsort((value, cut))
    cut, value = cut[order], value[order]
    first = run_starts(cut, value)
    if not len(first):
        raise ValueError("weights are 0 for every result that should be near. Give a positive weight to some.")
    return Groups(
        anchors=cuts.of_list[cut[first]],
        near=Ragged.from_starts(near.values[order], first),
        far=cuts.far.of(cut[first]).rows(),
        weights=value[first],
    )
