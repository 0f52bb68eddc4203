"""An oracle that also monitors held-out comparisons."""

from __future__ import annotations

from dataclasses import replace

from boostmetric.arrays.types import FloatArray
from boostmetric.oracles.protocol import ONE, Oracle, State


class WithHeldOut:
    """Oracle that reports in each `State` the fraction of another oracle's comparisons that are satisfied.

    Parameters
    ----------
    oracle : Oracle
        Comparisons to learn from.
    watched : Oracle
        Held-out comparisons, with points in the same coordinates.
    """

    def __init__(self, oracle: Oracle, watched: Oracle) -> None:
        self.n_features = oracle.n_features
        self.rounding = oracle.rounding
        self.steps_at_once = oracle.steps_at_once
        self.has_corners = oracle.has_corners
        self.gram = oracle.gram
        self.matvec = oracle.matvec
        self.moments = oracle.moments
        self.histogram = oracle.histogram
        self.probe = oracle.probe
        self._oracle = oracle
        self._watched = watched

    def rebuild(self, directions: FloatArray, step_sizes: FloatArray, *, at_once: bool = False) -> State:
        watched = self._watched.rebuild(directions, step_sizes, at_once=at_once)
        return _judged(self._oracle.rebuild(directions, step_sizes, at_once=at_once), by=watched)

    def extend(self, directions: FloatArray, step_sizes: FloatArray) -> State:
        watched = self._watched.extend(directions, step_sizes)
        return _judged(self._oracle.extend(directions, step_sizes), by=watched)

    def project(self, xi: FloatArray, factors: FloatArray = ONE) -> None:
        self._oracle.project(xi, factors)
        self._watched.project(xi, factors)

    def commit(self, step: float) -> State:
        return _judged(self._oracle.commit(step), by=self._watched.commit(step))


def _judged(state: State, by: State) -> State:
    return replace(state, held_out=1.0 - by.violated / by.weight)
