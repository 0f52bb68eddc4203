"""The interface between the loop of Algorithm 2 and the data: five verbs.

An *oracle* holds points, pairs and groups, and with them the squared distance d of every pair, its growth h along the
direction last projected on, and the weight of every group. The loop never sees these, only sums over them, which are
small and can be added up over shards. The verbs, and the equations of the paper that they serve:

==================  ============  ===========================================================
verb                paper         answer
==================  ============  ===========================================================
rebuild(xi, w)      Eq. (6)       `State`; distances and weights from X = sum_j w_j xi_j xi_j'
                                  (`extend`: from the X so far plus that sum)
gram(), matvec(x)   Eq. (7, 10)   A_hat, or A_hat x
project(xi)         Eq. (3)       none; keeps h of every pair (along xi xi', or a sum of these)
moments(steps)      Eq. (8)       `Moments` of h at each step (`histogram`: at all steps;
                                  `probe(xi, w)`: `Slopes` for several directions at once)
commit(step)        Eq. (9)       `State` after X grew by step * xi xi'
==================  ============  ===========================================================

The order matters: `moments` and `commit` must follow a `project`, and a `commit` consumes the projection. A `rebuild`
or `extend` gives exactly the same bits as the corresponding calls of `project` and `commit`, so a fit resumed from a
checkpoint ends as if it had never stopped; with `at_once` a `rebuild` is faster, but the last bits differ. `project`
also takes several directions with factors of any sign; h is then the growth along sum_k factors[k] xi_k xi_k'. A
`probe` keeps the distances, but the weights are arbitrary until the next `extend` or `rebuild`.

The loss is that of the paper's problem (P0), or another one (see `losses`), without the term v Tr X. A_hat is minus
its gradient with respect to X.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from boostmetric.arrays.types import FloatArray

if TYPE_CHECKING:
    from boostmetric.oracles.histogram import Histogram


ONE = np.ones(1)  # the factor of a single direction


class Oracle(Protocol):
    """The five verbs (see the table in the module docstring).

    Attributes
    ----------
    n_features : int
    rounding : float
        Relative error of the growths of pairs if it exceeds the rounding of double precision; otherwise 0.
    steps_at_once : int
        Number of steps to pass to `moments` at once: 1 if each costs as much as the first, more if a call has a high
        fixed cost.
    has_corners : bool
        Whether the second derivative of the loss is discontinuous, which makes interpolation less accurate.
    """

    n_features: int
    rounding: float
    steps_at_once: int
    has_corners: bool

    def rebuild(self, directions: FloatArray, step_sizes: FloatArray, *, at_once: bool = False) -> State: ...
    def extend(self, directions: FloatArray, step_sizes: FloatArray) -> State: ...
    def gram(self) -> FloatArray: ...
    def matvec(self, x: FloatArray) -> FloatArray: ...
    def project(self, xi: FloatArray, factors: FloatArray = ONE) -> None: ...
    def moments(self, steps: FloatArray) -> Moments: ...
    def histogram(self) -> Histogram | None: ...
    def probe(self, directions: FloatArray, factors: FloatArray) -> Slopes: ...
    def commit(self, step: float) -> State: ...


@dataclass(frozen=True)
class State:
    """Current value of the loss, and related sums.

    Attributes
    ----------
    loss : float
    margin : float
        <A_hat, X> = sum_r u_r rho_r, with u the weights of Eq. (6) and rho the margins, far minus near.
    violated, weight : float
        Weight of the comparisons whose far pair is no longer than their near pair, and weight of all comparisons.
    held_out : float, optional
        Fraction, by weight, of held-out comparisons that are satisfied, if some are held out (see `held_out`).
    """

    loss: float
    margin: float
    violated: float
    weight: float
    held_out: float | None = None


@dataclass(frozen=True)
class Moments:
    """The loss along the projected direction, at several steps.

    Attributes
    ----------
    loss, first, second : ndarray of shape (n_steps,)
        The loss after a step w, and its first and second derivative by w.
    """

    loss: FloatArray
    first: FloatArray
    second: FloatArray

    @property
    def mean_square(self) -> FloatArray:
        """How much the direction moves the comparisons: the weighted mean square of their growths.

        Exact for the exponential loss, and the right order of magnitude for the others.
        """
        return self.second + self.first**2


@dataclass(frozen=True)
class Slopes:
    """The loss after X has grown by sum_k factors[k] xi_k xi_k'.

    Attributes
    ----------
    loss : float
    first : ndarray of shape (n_directions,)
        Its derivative by each factor.
    """

    loss: float
    first: FloatArray
