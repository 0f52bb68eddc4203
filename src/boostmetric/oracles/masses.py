"""Answers of a shard: its mass, and sums relative to it.

Each group has a mass, which depends on the loss (see `kernels.groups`). Masses add up over groups and shards, and may
be far too large or small for a float64. So a shard returns the logarithm of its mass, and everything else relative to
it; shards are then mixed in proportion to their masses. `losses` computes the loss from the total mass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from boostmetric.arrays.types import FloatArray


@dataclass(frozen=True)
class Mass:
    """The mass S of one or several shards.

    Attributes
    ----------
    log_mass : float
        log S.
    margin : float
        <G, X> / S, where G is minus the gradient of S with respect to the metric X.
    violated, weight : float
        As in `State`.
    has_histogram : bool
        Whether there is a `histogram` of the growths along a direction.
    """

    log_mass: float
    margin: float
    violated: float
    weight: float
    has_histogram: bool

    @classmethod
    def merge(cls, parts: Sequence[Mass]) -> Mass:
        """Merge the masses of all shards."""
        if len(parts) == 1:
            return parts[0]
        share, log_mass = mix(np.array([part.log_mass for part in parts]))
        return cls(
            log_mass=float(log_mass),
            margin=float(share @ [part.margin for part in parts]),
            violated=sum(part.violated for part in parts),
            weight=sum(part.weight for part in parts),
            has_histogram=all(part.has_histogram for part in parts),
        )


@dataclass(frozen=True)
class MassMoments:
    """The mass along the projected direction, with its derivatives, at several steps.

    Attributes
    ----------
    log_mass, first, second : ndarray of shape (n_steps,)
        log S(w), S'(w) / S(w) and S''(w) / S(w), where S(w) is the mass after a step w.
    """

    log_mass: FloatArray
    first: FloatArray
    second: FloatArray

    @classmethod
    def merge(cls, parts: Sequence[MassMoments]) -> MassMoments:
        """Merge the moments of all shards."""
        if len(parts) == 1:
            return parts[0]
        share, log_mass = mix(np.stack([part.log_mass for part in parts]))
        return cls(
            log_mass=log_mass,
            first=(share * np.stack([part.first for part in parts])).sum(axis=0),
            second=(share * np.stack([part.second for part in parts])).sum(axis=0),
        )


@dataclass(frozen=True)
class MassSlopes:
    """The mass after X has grown along several directions, with its derivatives.

    Attributes
    ----------
    log_mass : float
        log S.
    first : ndarray of shape (n_directions,)
        S'/S, by the factor of each direction.
    """

    log_mass: float
    first: FloatArray

    @classmethod
    def merge(cls, parts: Sequence[MassSlopes]) -> MassSlopes:
        """Merge the slopes of all shards."""
        if len(parts) == 1:
            return parts[0]
        share, log_mass = mix(np.array([part.log_mass for part in parts]))
        return cls(float(log_mass), (share[:, None] * np.stack([part.first for part in parts])).sum(axis=0))


def mix(log_masses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Each shard's share of the total mass, and the logarithm of the total, along the first axis."""
    largest = log_masses.max(axis=0)
    mass = np.exp(log_masses - largest)
    total = mass.sum(axis=0)
    return mass / total, largest + np.log(total)
