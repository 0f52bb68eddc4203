"""Select negatives from candidates: guards remove some, and a choice is made among the rest."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import ParameterError, refusal
from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.mining.space import Space
from boostmetric.mining.window import Candidates, are_in

Flags = NDArray[np.bool_]
Limits = float | tuple[float | None, float | None] | None

# Why candidates are rejected, in order of precedence: the first reason counts.
REASONS = ("same group", "near-duplicate", "too near", "too far", "over the cap")


class Margin(NamedTuple):
    """Limits on how much farther a negative is than the positive; infinite if there is no limit."""

    least: float
    most: float

    @classmethod
    def of(cls, name: str, limits: Limits, smallest: float = -math.inf) -> Margin:
        """Check a number, a pair, or None, and convert it to a margin."""
        pair = limits if isinstance(limits, tuple | list) else (limits, None)
        if len(pair) != 2 or not all(one is None or _is_finite(one, smallest) for one in pair):
            above = "" if smallest == -math.inf else f" of at least {smallest:g}"
            pair_of_them = "a pair (least, most) of such numbers, of which one may be None, or None"
            raise refusal(name, f"must be a finite number{above}, {pair_of_them}", limits)
        least, most = pair
        margin = cls(-math.inf if least is None else float(least), math.inf if most is None else float(most))
        if margin.least > margin.most:
            raise ParameterError(
                f"{{{name}}}={{limits!r}} keeps nothing: the first number must not be above the second.", limits=limits
            )
        return margin


def _is_finite(value: object, smallest: float) -> bool:
    """Whether a value is a finite number of at least `smallest`."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value >= smallest  # type: ignore[arg-type, operator]


@dataclass(frozen=True, eq=False)
class Guards:
    """Conditions on a candidate to be a negative.

    Attributes
    ----------
    margin : Margin
        Absolute margin, in units of the points in the `Space`.
    relative_margin : Margin
        Margin in units of the positive's distance.
    near_duplicate : float or None
        A candidate is a copy of a positive if their distance is at most this share of the positive's distance from the
        query.
    groups : ndarray of shape (n_documents,) or None
        Group number of each document.
    """

    margin: Margin
    relative_margin: Margin
    near_duplicate: float | None
    groups: IntArray | None

    def reasons(
        self,
        space: Space,
        found: Candidates,
        distance: FloatArray,
        row: IntArray,
        positive: IntArray,
        apart: FloatArray,
    ) -> NDArray[np.int8]:
        """First reason to reject each candidate of each pair: an index into REASONS, or -1.

        Parameters
        ----------
        space : Space
        found : Candidates
        distance : ndarray of shape (n_queries, n_ranks)
            Distances of the candidates from the query.
        row : ndarray of shape (n_pairs,)
            Row of `found` for each pair of a query and a positive, in ascending order; all rows occur.
        positive : ndarray of shape (n_pairs,)
            Document number of each positive.
        apart : ndarray of shape (n_pairs,)
            Distances of the positives from the query.

        Returns
        -------
        ndarray of shape (n_pairs, n_ranks)
            Undefined where there is no candidate.
        """
        against = np.full((len(row), found.documents.shape[1]), -1, dtype=np.int8)
        off = distance[row]
        # From the last reason to the first, which overwrites the others.
        for margin, unit in ((self.margin, np.ones(len(row))), (self.relative_margin, apart)):
            if margin.most < math.inf:
                limit = apart + margin.most * unit + space.rounding
                against[off > limit[:, None]] = REASONS.index("too far")
        for margin, unit in ((self.margin, np.ones(len(row))), (self.relative_margin, apart)):
            if margin.least > -math.inf:
                limit = apart + margin.least * unit - space.rounding
                against[off < limit[:, None]] = REASONS.index("too near")
        if self.near_duplicate is not None:
            against[self._copies(space, found, off, row, positive, apart)[row]] = REASONS.index("near-duplicate")
        if self.groups is not None:
            against[self._of_same_group(found, row, positive)[row]] = REASONS.index("same group")
        return against

    def _copies(
        self, space: Space, found: Candidates, off: FloatArray, row: IntArray, positive: IntArray, apart: FloatArray
    ) -> Flags:
        """Whether each candidate is a copy of a positive of its query, of shape (n_queries, n_ranks)."""
        assert self.near_duplicate is not None
        reach = self.near_duplicate * apart + space.rounding
        # By the triangle inequality no others can be this close; the second rounding is for the distances themselves.
        pair, column = np.nonzero(np.abs(off - apart[:, None]) <= reach[:, None] + space.rounding)
        close = space.of_documents(positive[pair], found.documents[row[pair], column]) <= reach[pair]
        copies = np.zeros(found.documents.shape, dtype=bool)
        copies[row[pair][close], column[close]] = True
        return copies

    def _of_same_group(self, found: Candidates, row: IntArray, positive: IntArray) -> Flags:
        """Whether each candidate is in the group of a positive of its query, of shape (n_queries, n_ranks)."""
        assert self.groups is not None
        n_groups = int(self.groups.max()) + 1
        keys = np.unique(row * n_groups + self.groups[positive])
        return are_in(keys, np.arange(len(found.queries))[:, None] * n_groups + self.groups[found.documents])


def chosen(
    kept: Flags,
    query: IntArray,
    per_positive: int | None,
    per_query: int | None,
    random: np.random.RandomState | None,
) -> Flags:
    """Choose negatives among the remaining candidates.

    Parameters
    ----------
    kept : ndarray of shape (n_pairs, n_ranks)
        Candidates of each pair that no guard removed.
    query : ndarray of shape (n_pairs,)
        Query of each pair; the pairs of a query are in the order given.
    per_positive, per_query : int or None
        Maximum number of negatives of a pair, and of all pairs of a query.
    random : RandomState or None
        None chooses the nearest.

    Returns
    -------
    ndarray of shape (n_pairs, n_ranks)
    """
    turn = np.arange(len(kept), dtype=np.float64)
    if random is None:
        place = np.cumsum(kept, axis=1) - 1
    else:
        # One draw for places and turns, so that the result does not depend on how pairs are split into parts.
        drawn = random.random_sample((len(kept), kept.shape[1] + 1))
        turn, drawn = drawn[:, -1], drawn[:, :-1]
        place = np.argsort(np.argsort(np.where(kept, drawn, 2.0), axis=1), axis=1)
    if per_positive is not None:
        kept = kept & (place < per_positive)
    if per_query is not None:
        # In turn: the first negative of each pair, then the second of each, and so on.
        pair, column = np.nonzero(kept)
        order = np.lexsort((turn[pair], place[pair, column], query[pair]))
        _, first, size = np.unique(query[pair][order], return_index=True, return_counts=True)
        over = order[np.arange(len(order)) - np.repeat(first, size) >= per_query]
        kept = kept.copy()
        kept[pair[over], column[over]] = False
    return kept
