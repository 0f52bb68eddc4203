"""Base class of all shards, wherever they compute."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from boostmetric.arrays.types import FloatArray
from boostmetric.oracles.histogram import Histogram
from boostmetric.oracles.losses import Loss
from boostmetric.oracles.masses import Mass, MassMoments, MassSlopes
from boostmetric.oracles.protocol import ONE

# With losses other than the exponential one, the mass may vanish if all comparisons are satisfied by a wide margin.
_LEAST_MASS = 1e-300


class Shard(ABC):
    """The five verbs, answered with masses (`masses`).

    Parameters
    ----------
    n_features : int
    weight : float
        Total weight of the comparisons of the shard (not of its groups, which are fewer).
    loss : Loss
        Loss that defines the masses.

    Attributes
    ----------
    n_features : int
    has_histogram : bool
        Whether `histogram` returns one.
    """

    has_histogram = False

    def __init__(self, n_features: int, weight: float, loss: Loss) -> None:
        self.n_features = n_features
        self._weight = weight
        self._loss = loss
        # As of the last rebuild or commit: the mass relative to a shift (as coefficients are), and its logarithm.
        self._mass = 1.0
        self._log_mass = 0.0

    @abstractmethod
    def rebuild(self, directions: FloatArray, step_sizes: FloatArray, at_once: bool = False) -> Mass: ...

    @abstractmethod
    def extend(self, directions: FloatArray, step_sizes: FloatArray) -> Mass: ...

    @abstractmethod
    def gram(self) -> FloatArray:
        """A_hat over this shard, divided by its mass. Implements Eq. (10) of the paper."""

    @abstractmethod
    def matvec(self, x: FloatArray) -> FloatArray: ...

    @abstractmethod
    def project(self, xi: FloatArray, factors: FloatArray = ONE) -> None: ...

    def moments(self, steps: FloatArray) -> MassMoments:
        rows = np.array([self._moments(float(w)) for w in steps])
        shift, mass, first, second = rows.T
        mass = np.maximum(mass, _LEAST_MASS)
        return MassMoments(shift + np.log(mass), first / mass, second / mass)

    def histogram(self) -> Histogram | None:
        return None

    def probe(self, directions: FloatArray, factors: FloatArray) -> MassSlopes:
        self.project(directions, factors)
        kept = self._kept()
        log_mass = self.commit(1.0).log_mass
        first = -self._gains(directions)
        self._put_back(kept)
        return MassSlopes(log_mass, first)

    def _kept(self) -> Any:
        """Copy of the distances."""
        return deepcopy(self._distances())

    def _put_back(self, kept: Any) -> None:
        """Set the distances to those of a copy."""
        for array, before in zip(self._distances(), kept, strict=True):
            array[...] = before

    def commit(self, step: float) -> Mass:
        shift, mass, margin, violated = self._move(step).tolist()
        self._mass = max(mass, _LEAST_MASS)
        self._log_mass = shift + math.log(self._mass)
        return Mass(self._log_mass, margin / self._mass, violated, self._weight, self.has_histogram)

    def _gains(self, directions: FloatArray) -> FloatArray:
        """Compute xi' A_hat xi, divided by the mass, for each direction."""
        return np.array([xi @ self.matvec(xi) for xi in directions])

    @abstractmethod
    def _distances(self) -> Sequence[Any]:
        """Arrays of the distances, which `_move` changes."""

    @abstractmethod
    def _moments(self, w: float) -> FloatArray:
        """Shift, mass, and the first and second derivative of the mass, at step w."""

    @abstractmethod
    def _move(self, step: float) -> FloatArray:
        """Make the step and compute the weights; return shift, mass, weighted margin and violated weight."""


def as_map(directions: FloatArray, factors: FloatArray) -> FloatArray:
    """Rows of a linear map whose squared lengths are the growths along sum_k factors[k] xi_k xi_k', factors >= 0.

    There are no more rows than features.
    """
    rows = directions * np.sqrt(factors)[:, None]
    return rows if len(rows) <= rows.shape[1] else np.asarray(np.linalg.qr(rows, mode="r"))
