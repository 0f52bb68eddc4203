"""Several shards as one: call each, and mix the answers in proportion to their masses."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from boostmetric.arrays.types import FloatArray
from boostmetric.oracles.histogram import Histogram
from boostmetric.oracles.masses import Mass, MassMoments, MassSlopes, mix
from boostmetric.oracles.protocol import ONE


class ShardPool(Protocol):
    """Pool that holds shards and calls them.

    Attributes
    ----------
    rounding, steps_at_once
        As for an `Oracle`.
    """

    rounding: float
    steps_at_once: int

    def each(self, verb: str, *arguments: Any) -> list[Any]:
        """Call every shard; return the answers in the order of the shards, whichever finished first."""
        ...


class MergedShard:
    """The five verbs over a pool of shards, answered like a single shard.

    Sums are taken in the order of the shards, and how the problem is cut into shards depends only on its size, so the
    bits of the answers do not depend on the number of threads.
    """

    def __init__(self, pool: ShardPool) -> None:
        self._pool = pool
        self._share = np.ones(0)  # of each shard in the total mass, as of the last rebuild or commit
        self._has_histogram = False  # until a rebuild shows that all shards have one

    def rebuild(self, directions: FloatArray, step_sizes: FloatArray, at_once: bool = False) -> Mass:
        return self._settle(self._pool.each("rebuild", directions, step_sizes, at_once))

    def extend(self, directions: FloatArray, step_sizes: FloatArray) -> Mass:
        return self._settle(self._pool.each("extend", directions, step_sizes))

    def commit(self, step: float) -> Mass:
        return self._settle(self._pool.each("commit", step))

    def _settle(self, masses: list[Mass]) -> Mass:
        self._share, _ = mix(np.array([mass.log_mass for mass in masses]))
        mass = Mass.merge(masses)
        self._has_histogram = mass.has_histogram
        return mass

    def gram(self) -> FloatArray:
        return self._mix(self._pool.each("gram"))

    def matvec(self, x: FloatArray) -> FloatArray:
        return self._mix(self._pool.each("matvec", x))

    def _mix(self, parts: list[FloatArray]) -> FloatArray:
        total = self._share[0] * parts[0]
        for share, part in zip(self._share[1:], parts[1:], strict=True):
            total += share * part
        return np.asarray(total)

    def project(self, xi: FloatArray, factors: FloatArray = ONE) -> None:
        self._pool.each("project", xi, factors)

    def moments(self, steps: FloatArray) -> MassMoments:
        return MassMoments.merge(self._pool.each("moments", steps))

    def probe(self, directions: FloatArray, factors: FloatArray) -> MassSlopes:
        return MassSlopes.merge(self._pool.each("probe", directions, factors))

    def histogram(self) -> Histogram | None:
        return Histogram.merge(self._pool.each("histogram")) if self._has_histogram else None
