"""Metrics close to a prior in LogDet divergence: the problem that ITML and LSML share, and its solver.

Both minimise D(M, M0) + f(d) over positive definite M, with the LogDet divergence D(M, M0) = tr(M inv(M0)) - log det(M
inv(M0)) - n, and f a smooth convex function of squared distances, and so of M. In coordinates in which the prior is the
identity, we search for a square map R with M = R'R by L-BFGS: the divergence keeps it from becoming singular, so every
minimum is the one of the convex problem. A bound proves it. With G the gradient of f at M, convexity gives

    min over M' of  D(M', I) + f(M')  >=  f(M) - <G, M> + min over M' of  D(M', I) + <G, M'>,

and the last minimum is log det(I + G), where that is positive definite; near the optimum, it is the inverse of M.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from boostmetric.arrays.frame import Frame
from boostmetric.arrays.types import FloatArray
from boostmetric.baselines.pair_set import PairSet
from boostmetric.metric.starts import PLAIN_STARTS, Init, check_init, starting_components
from boostmetric.solver.result import StopReason

# Value of a loss at squared distances, and its derivative with respect to each of them.
Loss = Callable[[FloatArray], tuple[float, FloatArray]]
# Called with the map and the objective after each iteration; returns True to stop.
OnIteration = Callable[[FloatArray, float], bool]
_MEMORY = 20
# Value of singular maps, which is infinite.
_FAR = 1e100
# The first step of L-BFGS has length 1 in the numbers it sees; in rows, it should be well below that of the start.
_STEP = 8.0


def check_prior(prior: Init) -> None:
    """Raise an error if `prior` is neither the name of one that needs no labels nor a metric."""
    check_init(prior, PLAIN_STARTS[1:])


def prior_map(prior: Init, samples: FloatArray) -> FloatArray:
    """Square linear map of the prior; raise an error if it is singular."""
    components = starting_components(prior, samples)
    assert components is not None
    n_features = samples.shape[1]
    _, lengths, axes = np.linalg.svd(components)
    rank = int((lengths > lengths.max() * n_features * np.finfo(np.float64).eps).sum())
    if rank < n_features:
        raise ValueError(
            f"The prior has rank {rank}, but must have that of all {n_features} features: the divergence from a "
            "singular metric is infinite. Add a small multiple of the identity."
        )
    return np.asarray(lengths[:n_features, None] * axes)


@dataclass(frozen=True)
class PriorCoordinates:
    """Coordinates in which the prior is the Euclidean distance, up to the scale of the frame.

    Attributes
    ----------
    prior : ndarray of shape (n_features, n_features)
        Its linear map.
    frame : Frame
        Samples after that map: squared distances are in units of ``4**frame.exponent``.
    """

    prior: FloatArray
    frame: Frame

    @classmethod
    def of(cls, samples: FloatArray, prior: FloatArray) -> PriorCoordinates:
        """Map samples by the prior."""
        return cls(prior, Frame.of((samples - samples.mean(axis=0)) @ prior.T))

    @property
    def points(self) -> FloatArray:
        """The samples in these coordinates."""
        return np.asarray(self.frame.points)

    def as_map(self, rows: FloatArray) -> FloatArray:
        """Convert a map of the points to one of the samples, which is the prior where the samples do not vary."""
        basis = self.frame.basis
        if basis is None:
            return rows @ self.prior
        return self.prior + basis @ ((rows - np.eye(len(rows))) @ (basis.T @ self.prior))


class LogDetMinimum(NamedTuple):
    """Result of a search.

    Attributes
    ----------
    rows : ndarray of shape (n_dimensions, n_dimensions)
    objective : float
    bound : float
        No metric has a lower objective.
    stop_reason : StopReason
    """

    rows: FloatArray
    objective: float
    bound: float
    stop_reason: StopReason


class _Evaluated(NamedTuple):
    flat: FloatArray
    objective: float
    bound: float
    gradient: FloatArray


def minimise_divergence(
    pairs: PairSet, n_dimensions: int, loss: Loss, *, tol: float, max_iter: int, on_iteration: OnIteration
) -> LogDetMinimum:
    """Minimise the divergence from the identity plus a loss of squared distances.

    Parameters
    ----------
    pairs : PairSet
        Pairs of points in coordinates in which the prior is the identity.
    n_dimensions : int
    loss : callable
        Convex and not negative.
    tol : float
        Stop when the objective is within this fraction of its minimum.
    max_iter : int
    on_iteration : callable
    """
    identity = np.eye(n_dimensions)
    rounding = 16 * n_dimensions * np.finfo(np.float64).eps

    def evaluated(flat: FloatArray) -> _Evaluated:
        rows = flat.reshape(n_dimensions, n_dimensions) / _STEP
        value, slopes = loss(pairs.squared_distances(rows))
        G = pairs.gram(slopes)
        sign, logarithm = np.linalg.slogdet(rows)
        if sign == 0:  # infinitely far from the prior
            return _Evaluated(flat.copy(), _FAR, 0.0, np.zeros_like(flat))
        divergence = float(np.vdot(rows, rows)) - 2 * logarithm - n_dimensions
        sign, dual = np.linalg.slogdet(identity + G)
        bound = 0.0
        if sign > 0 and np.linalg.eigvalsh(identity + G)[0] > 0:
            bound = max(0.0, value - float(np.vdot(G @ rows.T, rows.T)) + dual)
        gradient = 2 * (rows - np.linalg.inv(rows).T + rows @ G)
        return _Evaluated(flat.copy(), max(divergence, 0.0) + value, bound, gradient.ravel() / _STEP)

    last = evaluated(_STEP * identity.ravel())
    bound, iterations, stopped = last.bound, 0, None

    def fun(flat: FloatArray) -> tuple[float, FloatArray]:
        nonlocal last
        if not np.array_equal(flat, last.flat):
            last = evaluated(flat)
        return last.objective, last.gradient

    def close() -> bool:
        return bool(last.objective - bound <= tol * last.objective + rounding)

    def callback(flat: FloatArray) -> None:
        nonlocal bound, iterations, stopped
        fun(flat)
        iterations += 1
        bound = max(bound, last.bound)
        if on_iteration(flat.reshape(n_dimensions, n_dimensions) / _STEP, last.objective):
            stopped = StopReason.CALLBACK
        elif close():
            stopped = StopReason.OPTIMAL
        elif iterations >= max_iter:
            stopped = StopReason.ITERATION_LIMIT
        if stopped is not None:
            raise StopIteration

    if close():
        stopped = StopReason.OPTIMAL
    else:
        limits = {"maxiter": max_iter + 1, "maxfun": 100 * (max_iter + 1), "maxcor": _MEMORY, "ftol": 0.0, "gtol": 0.0}
        found = minimize(fun, last.flat, jac=True, method="L-BFGS-B", callback=callback, options=limits)
        fun(found.x)
        bound = max(bound, last.bound)
        if stopped is None:
            stopped = StopReason.OPTIMAL if close() else StopReason.NOTHING_TO_IMPROVE
    rows = last.flat.reshape(n_dimensions, n_dimensions) / _STEP
    return LogDetMinimum(rows, last.objective, min(bound, last.objective), stopped)
