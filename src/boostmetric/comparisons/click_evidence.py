"""How clicks speak for and against a result: log odds that it is relevant, from a model of users who err.

Each result that was shown for a query is relevant to it or not. Users who look at it click with one chance if it is
relevant, and with a smaller one if it is not (Agarwal et al., "Addressing trust bias for unbiased learning-to-rank",
WWW 2019). The *evidence* of a result is the logarithm of how much likelier its clicks, and looks without a click, are
if it is relevant. The two chances, and the share of relevant results, are estimated by expectation maximisation.

A rate of clicks does not say how sure it is. Evidence does: one click in one look speaks for a result, but less than
ten clicks in ten looks, and one click in ten looks may speak against it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from boostmetric.arrays.types import FloatArray
from boostmetric.comparisons.examination import ClickLog

# Chances of a click to begin with, as multiples of the mean: if relevant (at most the third number), and if not.
_START = 1.5, 0.3, 0.9
# The chance of a click is at least this many times as large if relevant, so that a click always speaks for a result.
_LEAST_RATIO = 3.0
_CHANCES = 0.005, 0.99
_SHARE = 0.4
_ROUNDS = 50
# Most evidence for or against a result: users may agree and be wrong.
_MOST_EVIDENCE = 4.0


class Evidence(NamedTuple):
    """What a log says about each combination of query and document, in the order of `ClickLog.result`.

    Attributes
    ----------
    evidence : ndarray of shape (n_results,)
        Positive if clicks speak for the result.
    relevant : ndarray of shape (n_results,)
        Probability that it is relevant.
    chances : tuple of float
        Chance that a relevant result is clicked by those who look at it, and that another one is.
    """

    evidence: FloatArray
    relevant: FloatArray
    chances: tuple[float, float]


def evidence(log: ClickLog, looks: FloatArray, weight: FloatArray) -> Evidence:
    """Estimate how relevant results are, see the module.

    Parameters
    ----------
    log : ClickLog
    looks : ndarray of shape (n_rows,)
        Chance that each row was looked at, above 0.
    weight : ndarray of shape (n_rows,)
        Weight of each row.
    """
    result, clicked = log.result, log.clicked
    n = int(result.max()) + 1
    clicks = np.bincount(result[clicked], weight[clicked], minlength=n)
    passed, chance, of_passed = result[~clicked], looks[~clicked], weight[~clicked]
    mean = clicks.sum() / (weight @ looks)
    yes, no, share = min(_START[0] * mean, _START[2]), min(_START[1] * mean, _START[2] / _LEAST_RATIO), _SHARE
    for _ in range(_ROUNDS):
        found = clicks * np.log(yes / no)
        found += np.bincount(passed, of_passed * np.log((1 - yes * chance) / (1 - no * chance)), minlength=n)
        relevant = 1.0 / (1.0 + np.exp(-np.clip(found + np.log(share / (1.0 - share)), -50.0, 50.0)))
        share = float(np.clip(relevant.mean(), 0.05, 0.95))
        before = yes, no

        def rate(so_far: float, is_so: FloatArray) -> float:
            """Clicks of results that are so, over their looks; one without a click is likely not to be one."""
            looked = of_passed * chance * (1 - so_far) / (1 - so_far * chance)
            n_clicks = float(is_so @ clicks)
            return (n_clicks + 0.5) / (n_clicks + float(is_so[passed] @ looked) + 1.0)

        yes = float(np.clip(rate(yes, relevant), _LEAST_RATIO * _CHANCES[0], _CHANCES[1]))
        no = float(np.clip(rate(no, 1.0 - relevant), _CHANCES[0], yes / _LEAST_RATIO))
        if max(abs(yes - before[0]), abs(no - before[1])) < 1e-6:
            break
    return Evidence(np.clip(found, -_MOST_EVIDENCE, _MOST_EVIDENCE), relevant, (yes, no))
