"""What the loop of Algorithm 2 asks of the data: five verbs.

An *oracle* holds points, pairs and groups, and with them the squared distance d of every pair, its growth h along the
direction last projected on, and the weight of every group. The loop never sees those; it sees sums over them, which
are small and can be added up over shards. The verbs, and the equations of the paper that they serve:

==================  ============  ===========================================================
verb                paper         answer
==================  ============  ===========================================================
rebuild(L)          Eq. (6)       `State`; distances and weights from the metric X = L'L
gram(), matvec(x)   Eq. (7, 10)   A_hat, or A_hat x
project(xi)         Eq. (3)       none; h of every pair is kept
moments(steps)      Eq. (8)       `Moments` of h at each step (or once for all: `histogram`)
commit(step)        Eq. (9)       `State` after X grew by step * xi xi'
==================  ============  ===========================================================

The order matters: `moments` and `commit` follow a `project`, and after a `commit` the projection is used up.

The loss is that of the paper's problem (P0). Its first part, the *log mass*, is log sum_g omega_g N_g F_g with N_g the
sum of exp(d) over the near pairs of group g and F_g the sum of exp(-d) over its far pairs; that equals the paper's sum
over all comparisons, factorised. Each oracle answers with weights that sum to one over its own groups, and with its log
mass; shards are then mixed in proportion to their mass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from boostmetric.oracles.histogram import Histogram

FloatArray = NDArray[np.float64]


class Oracle(Protocol):
    """The five verbs (see the module's table)."""

    n_features: int

    def rebuild(self, components: FloatArray) -> State: ...
    def gram(self) -> FloatArray: ...
    def matvec(self, x: FloatArray) -> FloatArray: ...
    def project(self, xi: FloatArray) -> None: ...
    def moments(self, steps: FloatArray) -> Moments: ...
    def histogram(self) -> Histogram | None: ...
    def commit(self, step: float) -> State: ...


@dataclass(frozen=True)
class State:
    """Where the loss stands.

    Attributes
    ----------
    log_mass : float
        log sum_r omega_r exp(-rho_r) over all comparisons r, rho_r being their margin far minus near.
    margin : float
        sum_r u_r rho_r, with u the weights of Eq. (6).
    n_violated, n_comparisons : float
        Comparisons whose far pair is no longer than their near pair, and all comparisons.
    """

    log_mass: float
    margin: float
    n_violated: float
    n_comparisons: float

    @classmethod
    def merge(cls, parts: Sequence[State]) -> State:
        """The state of all shards together."""
        share, log_mass = mix(np.array([part.log_mass for part in parts]))
        return cls(
            log_mass=float(log_mass),
            margin=float(share @ [part.margin for part in parts]),
            n_violated=sum(part.n_violated for part in parts),
            n_comparisons=sum(part.n_comparisons for part in parts),
        )


@dataclass(frozen=True)
class Moments:
    """The log mass along the projected direction, with its derivatives, at several steps.

    Attributes
    ----------
    log_mass, first, second : ndarray of shape (n_steps,)
        log S(w), S'(w) / S(w) and S''(w) / S(w), where S(w) is the mass after a step w.
    """

    log_mass: FloatArray
    first: FloatArray
    second: FloatArray

    @classmethod
    def merge(cls, parts: Sequence[Moments]) -> Moments:
        """The moments of all shards together."""
        share, log_mass = mix(np.stack([part.log_mass for part in parts]))
        return cls(
            log_mass=log_mass,
            first=(share * np.stack([part.first for part in parts])).sum(axis=0),
            second=(share * np.stack([part.second for part in parts])).sum(axis=0),
        )


def mix(log_masses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Each shard's share of the whole mass, and the logarithm of the whole, along the first axis."""
    largest = log_masses.max(axis=0)
    mass = np.exp(log_masses - largest)
    total = mass.sum(axis=0)
    return mass / total, largest + np.log(total)
