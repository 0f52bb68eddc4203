"""An oracle made of shards: asks each, adds up the answers."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from boostmetric.oracles.histogram import Histogram
from boostmetric.oracles.losses import Loss
from boostmetric.oracles.masses import Mass, MassMoments, mix
from boostmetric.oracles.protocol import ONE, FloatArray, Moments, State


class Engine(Protocol):
    """A place where shards live.

    Attributes
    ----------
    rounding : float
        As that of an `Oracle`.
    """

    rounding: float

    def each(self, verb: str, *arguments: Any) -> list[Any]:
        """Ask every shard; the answers come in the order of the shards, whichever finished first."""
        ...


class ShardedOracle:
    """The five verbs over shards that an engine keeps.

    Sums are taken in the order of the shards, and the shards are cut by the size of the problem alone: the bits of the
    answers do not depend on how many threads or machines work on them.

    Parameters
    ----------
    engine : Engine
        Holds the shards; they answer the same verbs with masses (`masses`).
    n_features : int
        Dimension of the points.
    loss : Loss
        Of the mass of all shards.
    """

    def __init__(self, engine: Engine, n_features: int, loss: Loss) -> None:
        self.n_features = n_features
        self.rounding = engine.rounding
        self._engine = engine
        self._loss = loss
        self._share = np.ones(0)
        self._all_single = True

    def rebuild(self, directions: FloatArray, step_sizes: FloatArray, *, at_once: bool = False) -> State:
        return self._settle(self._engine.each("rebuild", directions, step_sizes, at_once))

    def commit(self, step: float) -> State:
        return self._settle(self._engine.each("commit", step))

    def _settle(self, masses: list[Mass]) -> State:
        share, log_mass = mix(np.array([mass.log_mass for mass in masses]))
        self._share = share * self._loss.rate(float(log_mass))
        return self._loss.state(Mass.merge(masses))

    def gram(self) -> FloatArray:
        return self._mix(self._engine.each("gram"))

    def matvec(self, x: FloatArray) -> FloatArray:
        return self._mix(self._engine.each("matvec", x))

    def _mix(self, parts: list[FloatArray]) -> FloatArray:
        total = self._share[0] * parts[0]
        for share, part in zip(self._share[1:], parts[1:], strict=True):
            total += share * part
        return np.asarray(total)

    def project(self, xi: FloatArray, factors: FloatArray = ONE) -> None:
        self._engine.each("project", xi, factors)

    def moments(self, steps: FloatArray) -> Moments:
        return self._loss.moments(MassMoments.merge(self._engine.each("moments", steps)))

    def histogram(self) -> Histogram | None:
        if not self._all_single:
            return None
        parts = self._engine.each("histogram")
        self._all_single = all(part is not None for part in parts)
        return Histogram.merge(parts) if self._all_single else None
