"""What the loop of Algorithm 2 asks of the data: five verbs.

An *oracle* holds points, pairs and groups, and with them the squared distance d of every pair, its growth h along the
direction last projected on, and the weight of every group. The loop never sees those; it sees sums over them, which
are small and can be added up over shards. The verbs, and the equations of the paper that they serve:

==================  ============  ===========================================================
verb                paper         answer
==================  ============  ===========================================================
rebuild(xi, w)      Eq. (6)       `State`; distances and weights from X = sum_j w_j xi_j xi_j'
gram(), matvec(x)   Eq. (7, 10)   A_hat, or A_hat x
project(xi)         Eq. (3)       none; h of every pair is kept (along xi xi', or a sum of such)
moments(steps)      Eq. (8)       `Moments` of h at each step (or once for all: `histogram`)
commit(step)        Eq. (9)       `State` after X grew by step * xi xi'
==================  ============  ===========================================================

The order matters: `moments` and `commit` follow a `project`, and after a `commit` the projection is used up. A
`rebuild` leaves the very bits that as many calls of `project` and `commit` would have left, so a fit that goes on from
a checkpoint ends as if it had never stopped. `project` also takes several directions with factors of any sign, and then
h is the growth along sum_k factors[k] xi_k xi_k'.

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

ONE = np.ones(1)  # the factor of a single direction


class Oracle(Protocol):
    """The five verbs (see the module's table)."""

    n_features: int

    def rebuild(self, directions: FloatArray, step_sizes: FloatArray) -> State: ...
    def gram(self) -> FloatArray: ...
    def matvec(self, x: FloatArray) -> FloatArray: ...
    def project(self, xi: FloatArray, factors: FloatArray = ONE) -> None: ...
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
    violated, weight : float
        Weight of the comparisons whose far pair is no longer than their near pair, and weight of all comparisons.
    held_out : float, optional
        Fraction, by weight, of held-out comparisons that are satisfied, where some are held out (see `held_out`).
    """

    log_mass: float
    margin: float
    violated: float
    weight: float
    held_out: float | None = None

    @classmethod
    def merge(cls, parts: Sequence[State]) -> State:
        """The state of all shards together."""
        if len(parts) == 1:
            return parts[0]
        share, log_mass = mix(np.array([part.log_mass for part in parts]))
        return cls(
            log_mass=float(log_mass),
            margin=float(share @ [part.margin for part in parts]),
            violated=sum(part.violated for part in parts),
            weight=sum(part.weight for part in parts),
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
        if len(parts) == 1:
            return parts[0]
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
