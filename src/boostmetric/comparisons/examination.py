"""How likely users were to look at each result of a click log, estimated from the log by a model of users.

A click needs a look. What is shown low is looked at less often, so its clicks count for more: by the inverse of its
*propensity*, the chance that it was examined. Three models of users say what that chance depends on:

- *position*: on the position alone (Richardson, Dominowska and Ragno, WWW 2007). A document that was shown at several
  positions gives the ratio of their propensities, since its relevance is the same (Agarwal et al., WSDM 2019).
- *cascade*: users read from the top and leave after the first click (Craswell et al., WSDM 2008).
- *dependent*: users read from the top, and after each click go on with a chance that depends on its position (Guo, Liu
  and Wang, WSDM 2009). Propensities under such models are those of Vardasbi, de Rijke and Markov (CIKM 2020).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from boostmetric.arrays.ragged import Ragged
from boostmetric.arrays.types import FloatArray, IntArray

ClickModel = Literal["position", "cascade", "dependent"]
# Clicks that the prior of a position, and examinations that the mean attractiveness, weigh as much as.
_PRIOR_CLICKS = 1.0
_PRIOR_LOOKS = 1.0
_EM_ROUNDS = 100
# Positions are compared with each other, each with each.
_MOST_POSITIONS = 2000


class ClickLog(NamedTuple):
    """Lists of results that were shown.

    Attributes
    ----------
    query : ndarray of shape (n_lists,)
    documents : Ragged with n_lists rows
        The results of each list, from the top.
    position : ndarray of shape (n_rows,)
        Position of each result; need not be consecutive.
    clicked : ndarray of bool of shape (n_rows,)
    """

    query: IntArray
    documents: Ragged
    position: FloatArray
    clicked: NDArray[np.bool_]

    @property
    def result(self) -> IntArray:
        """Number of the combination of query and document in each row."""
        document = self.documents.values
        _, query = np.unique(self.query, return_inverse=True)
        _, number = np.unique(query[self.documents.row] * (document.max() + 1) + document, return_inverse=True)
        return number

    @property
    def place(self) -> IntArray:
        """Number of results above each result in its list."""
        return np.arange(len(self.clicked)) - self.documents.bounds[self.documents.row]


def by_position(log: ClickLog) -> FloatArray:
    """Propensity of each row if it depends on the position alone; that of one position is 1.

    Where no document moves, a log cannot tell "not looked at" from "not relevant". The rate of clicks at a position,
    relative to the largest, is then the least that the propensity can be, if documents further down are not more
    relevant, and 1 is the most. We take the geometric mean of both, and let documents that moved correct it.
    """
    values, position = np.unique(log.position, return_inverse=True)
    n = len(values)
    if n > _MOST_POSITIONS:
        raise ValueError(
            f"There are {n} different positions, and at most {_MOST_POSITIONS} are compared with each other. Number "
            "the results of each list from the top, 1, 2, 3 and so on, or give propensities."
        )
    shown = np.bincount(position, minlength=n)
    rate = (np.bincount(position, log.clicked, minlength=n) + 0.5) / (shown + 1.0)
    prior = 0.5 * np.log(rate / rate.max())
    result = log.result
    impressions = sparse.coo_array((np.ones(len(result)), (result, position)), dtype=np.float64).tocsr()
    clicks = sparse.coo_array((log.clicked.astype(np.float64), (result, position)), shape=impressions.shape).tocsr()
    share = sparse.diags_array(1.0 / impressions.sum(axis=1)) @ impressions
    # Entry (k, l): clicks at k of documents that were shown at l too. Entries (k, l) and (l, k) differ in the factor
    # of the propensities alone.
    both = (clicks.T @ share).toarray()
    np.fill_diagonal(both, 0.0)
    k, l = np.nonzero(np.triu((both > 0) & (both.T > 0)))  # noqa: E741
    up, down = both[k, l], both[l, k]
    # Least squares of the logarithms; the variance of that of a ratio of counts is about 1/up + 1/down.
    weight = up * down / (up + down)
    laplacian = np.diag(np.full(n, _PRIOR_CLICKS))
    np.add.at(laplacian, (k, k), weight)
    np.add.at(laplacian, (l, l), weight)
    np.add.at(laplacian, (k, l), -weight)
    np.add.at(laplacian, (l, k), -weight)
    target = _PRIOR_CLICKS * prior
    np.add.at(target, k, weight * np.log(up / down))
    np.add.at(target, l, -weight * np.log(up / down))
    logarithm = np.linalg.solve(laplacian, target)
    return np.asarray(np.exp(logarithm - logarithm.max())[position])


def until_first_click(log: ClickLog) -> FloatArray:
    """Whether each row was looked at if users leave after the first click, given the clicks."""
    several = np.add.reduceat(log.clicked, log.documents.bounds[:-1]) > 1
    if several.any():
        raise ValueError(
            f"{int(several.sum())} of {len(several)} lists have more than one click, and the cascade model has users "
            'leave after the first. Use the model "dependent", which has them go on or leave after each.'
        )
    last = _last_click(log)[log.documents.row]
    return np.where((log.place <= last) | (last < 0), 1.0, 0.0)


def after_first_click(log: ClickLog) -> FloatArray:
    """Propensity of each row if users leave after the first click."""
    return _reading_down(log, np.zeros(int(log.place.max()) + 1), until_first_click(log))


def while_reading(log: ClickLog) -> FloatArray:
    """Chance that each row was looked at if users may leave after each click, given the clicks."""
    return continuation(log)[1]


def after_every_click(log: ClickLog) -> FloatArray:
    """Propensity of each row if users leave after a click with a chance that depends on its position."""
    return _reading_down(log, *continuation(log))


def continuation(log: ClickLog) -> tuple[FloatArray, FloatArray]:
    """Estimate the chance to go on after a click at each place, and of a look at each row, given the clicks.

    By expectation maximisation: what is hidden is whether users went on after their last click and liked
    nothing further down. Each document has a chance of its own to be clicked for its query once it is examined, drawn
    towards the mean of all. With a chance for each place alone, users who leave look like users who go on and like
    nothing.
    """
    place, row, result = log.place, log.documents.row, log.result
    n, n_lists = int(place.max()) + 1, len(log.query)
    clicks = np.bincount(place[log.clicked], minlength=n)
    last = _last_click(log)
    some = last >= 0
    below = (place > last[row]) & some[row]
    not_last = clicks - np.bincount(last[some], minlength=n)
    chance, looks = np.full(n, 0.5), np.where(below, 0.5, 1.0)
    for _ in range(_EM_ROUNDS):
        passed = np.where(below, np.log1p(-np.minimum(_attraction(log, looks, result), 1.0 - 1e-9)), 0.0)
        stay = chance[last] * np.exp(np.bincount(row, passed, minlength=n_lists))
        posterior = np.where(some, stay / (1.0 - chance[last] + stay), 1.0)
        looks = np.where(below, posterior[row], 1.0)
        went_on = np.bincount(last[some], posterior[some], minlength=n)
        chance = np.minimum((not_last + went_on + 0.5) / (clicks + 1.0), 1.0 - 1e-9)
    return chance, looks


def _reading_down(log: ClickLog, chance: FloatArray, looks: FloatArray) -> FloatArray:
    """Propensity of each row if users read from the top, and go on after a click with a chance for each place.

    `looks` says how likely each row was looked at, given the clicks of its list.
    """
    place, row = log.place, log.documents.row
    attraction = _attraction(log, looks, log.result)
    passed = np.log1p(-np.minimum(attraction * (1.0 - chance[place]), 1.0 - 1e-12))
    total = np.concatenate([[0.0], np.cumsum(passed)])
    above = total[:-1] - total[log.documents.bounds[row]]
    return np.asarray(np.exp(np.minimum(above, 0.0)))


def _attraction(log: ClickLog, looks: FloatArray, result: IntArray) -> FloatArray:
    """Chance of a click on each row's document for its query once it is examined, drawn towards the mean of all."""
    mean = (log.clicked.sum() + 0.5) / (looks.sum() + 1.0)
    clicks, examined = np.bincount(result, log.clicked), np.bincount(result, looks)
    return np.asarray(np.minimum((clicks + _PRIOR_LOOKS * mean) / (examined + _PRIOR_LOOKS), 1.0)[result])


def _last_click(log: ClickLog) -> IntArray:
    """Place of the last click of each list; -1 if there is none."""
    last = np.full(len(log.query), -1)
    np.maximum.at(last, log.documents.row[log.clicked], log.place[log.clicked])
    return last


PROPENSITIES: dict[str, Callable[[ClickLog], FloatArray]] = {
    "position": by_position,
    "cascade": after_first_click,
    "dependent": after_every_click,
}
# Chance of a look before it is known what was clicked, and given that. By position, a click says nothing about others.
LOOKS: dict[str, Callable[[ClickLog], FloatArray]] = {
    "position": by_position,
    "cascade": until_first_click,
    "dependent": while_reading,
}
