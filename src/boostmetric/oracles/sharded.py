"""An oracle made of shards: it computes the loss from their masses."""

from __future__ import annotations

import numpy as np

from boostmetric.arrays.types import FloatArray
from boostmetric.oracles.losses import Loss
from boostmetric.oracles.masses import Mass
from boostmetric.oracles.merged import MergedShard, ShardPool
from boostmetric.oracles.protocol import ONE, Moments, Slopes, State


class ShardedOracle:
    """The five verbs over a pool of shards.

    Parameters
    ----------
    pool : ShardPool
        Pool of shards, which answer the same verbs with masses (`masses`).
    n_features : int
        Number of features of the points.
    loss : Loss
        Loss to compute from the mass of all shards.
    weight : float
        Total weight of the groups.
    """

    def __init__(self, pool: ShardPool, n_features: int, loss: Loss, weight: float) -> None:
        self.n_features = n_features
        self.rounding = pool.rounding
        self.steps_at_once = pool.steps_at_once
        self.has_corners = loss.has_corners
        self._shards = MergedShard(pool)
        self._loss, self._weight = loss, weight
        self._rate = 1.0  # factor from the shards' sums, relative to the mass, to the gradient of the loss
        self.histogram = self._shards.histogram

    def rebuild(self, directions: FloatArray, step_sizes: FloatArray, *, at_once: bool = False) -> State:
        return self._settle(self._shards.rebuild(directions, step_sizes, at_once))

    def extend(self, directions: FloatArray, step_sizes: FloatArray) -> State:
        return self._settle(self._shards.extend(directions, step_sizes))

    def commit(self, step: float) -> State:
        return self._settle(self._shards.commit(step))

    def _settle(self, mass: Mass) -> State:
        self._rate = self._loss.rate(mass.log_mass, self._weight)
        return self._loss.state(mass, self._weight)

    def gram(self) -> FloatArray:
        return np.asarray(self._rate * self._shards.gram())

    def matvec(self, x: FloatArray) -> FloatArray:
        return np.asarray(self._rate * self._shards.matvec(x))

    def project(self, xi: FloatArray, factors: FloatArray = ONE) -> None:
        self._shards.project(xi, factors)

    def moments(self, steps: FloatArray) -> Moments:
        return self._loss.moments(self._shards.moments(steps), self._weight)

    def probe(self, directions: FloatArray, factors: FloatArray) -> Slopes:
        return self._loss.slopes(self._shards.probe(directions, factors), self._weight)
