"""Shards of a problem on the CPU: the five verbs over numba kernels."""

from __future__ import annotations

import math

import numpy as np

from boostmetric.comparisons import Comparisons
from boostmetric.oracles import kernels
from boostmetric.oracles.histogram import Histogram
from boostmetric.oracles.protocol import FloatArray, Moments, State

# A shard should be worth the hand-over to a thread, and more shards than this would not be run at once.
_MEMBERS_PER_SHARD = 2**14
_MOST_SHARDS = 32


def make_shards(points: FloatArray, comparisons: Comparisons) -> list[Shard]:
    """Cut a problem into shards of similar size, groups and single comparisons apart.

    The number of shards depends on the problem only. Every shard pays for a product of its points with
    themselves when it forms A_hat, so high dimension with few pairs a point asks for fewer shards.
    """
    n_points, n_features = points.shape
    single = np.diff(comparisons.bounds[::2]) == 2
    shards: list[Shard] = []
    for kind, groups in ((GroupShard, np.flatnonzero(~single)), (SingleShard, np.flatnonzero(single))):
        if not len(groups):
            continue
        part = comparisons.take(groups) if len(groups) < comparisons.n_groups else comparisons
        # Nanoseconds, roughly: the kernels over the members, and the product of the points with the half Laplacian.
        kernel_cost = len(part.members) * (60 + n_features / 2)
        product_cost = n_points * n_features**2 / 20
        n_shards = min(_MOST_SHARDS, len(part.members) // _MEMBERS_PER_SHARD, int(kernel_cost / product_cost))
        shards += [kind(points, piece) for piece in _cut(part, max(1, n_shards))]
    return shards


def _cut(comparisons: Comparisons, n_pieces: int) -> list[Comparisons]:
    """Pieces of consecutive groups with about as many members each."""
    if n_pieces == 1:
        return [comparisons]
    ends = comparisons.bounds[2::2]
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, n_pieces) / n_pieces)
    ranges = np.split(np.arange(comparisons.n_groups), np.unique(cuts))
    return [comparisons.take(groups) for groups in ranges if len(groups)]


class Shard:
    """What shards of groups and of single comparisons have in common: points, pairs, and the direction.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
    comparisons : Comparisons
    """

    def __init__(self, points: FloatArray, comparisons: Comparisons) -> None:
        touched = np.zeros(len(points), dtype=bool)
        touched[comparisons.pairs] = True
        number = np.cumsum(touched, dtype=np.int32) - np.int32(1)
        # All shards share one array of points unless they need few of them.
        if touched.all():
            self._points = points
        else:
            self._points = np.ascontiguousarray(points[touched])
        self._first, self._second = np.ascontiguousarray(number[comparisons.pairs].T)
        self._n_comparisons = comparisons.n_comparisons
        self.n_features = points.shape[1]

        self._d = np.zeros(comparisons.n_pairs)
        self._h = np.zeros(comparisons.n_pairs)
        self._c = np.zeros(comparisons.n_pairs)
        self._largest_h = 0.0
        self._mass = 1.0
        self._log_mass = 0.0
        self._rows = np.empty_like(self._points)
        self._degree = np.empty(len(self._points))

    def rebuild(self, components: FloatArray) -> State:
        self._d[:] = 0.0
        kernels.add_squared_differences(self._points @ components.T, self._first, self._second, self._d)
        return self._weigh()

    def gram(self) -> FloatArray:
        """A_hat over this shard. Implements Eq. (10) of the paper."""
        kernels.half_laplacian(self._first, self._second, self._c, self._points, self._degree, self._rows)
        half = self._points.T @ self._rows
        return np.asarray((half + half.T) / self._mass)

    def matvec(self, x: FloatArray) -> FloatArray:
        kernels.laplacian_vector(self._first, self._second, self._c, self._points @ x, self._degree)
        return np.asarray(self._points.T @ self._degree / self._mass)

    def project(self, xi: FloatArray) -> None:
        self._largest_h = kernels.squared_differences(self._points @ xi, self._first, self._second, self._h)

    def moments(self, steps: FloatArray) -> Moments:
        rows = np.array([self._moments(float(w)) for w in steps])
        shift, mass, first, second = rows.T
        return Moments(shift + np.log(mass), first / mass, second / mass)

    def histogram(self) -> Histogram | None:
        return None

    def commit(self, step: float) -> State:
        """Implements Eq. (9) of the paper, on distances instead of weights: products of weights underflow."""
        self._d += step * self._h
        return self._weigh()

    def _weigh(self) -> State:
        shift, self._mass, margin, violated = self._weights().tolist()
        self._log_mass = shift + math.log(self._mass)
        return State(self._log_mass, margin / self._mass, violated, self._n_comparisons)

    def _moments(self, w: float) -> FloatArray:
        raise NotImplementedError

    def _weights(self) -> FloatArray:
        raise NotImplementedError


class GroupShard(Shard):
    """Groups with several near or several far pairs."""

    def __init__(self, points: FloatArray, comparisons: Comparisons) -> None:
        super().__init__(points, comparisons)
        self._groups = (comparisons.members, comparisons.bounds, np.log(comparisons.weights))
        longest = max(kernels.BLOCK, int(np.diff(comparisons.bounds[::2]).max()))
        self._block_e, self._block_g, self._block_top = np.empty((3, longest))
        self._e = np.empty(len(comparisons.members))
        self._log_masses = np.empty(comparisons.n_groups)
        self._side_sums = np.empty(2 * comparisons.n_groups)

    def _moments(self, w: float) -> FloatArray:
        sums = np.empty(4)
        scratch = (self._block_e, self._block_g, self._block_top)
        kernels.group_moments(self._d, self._h, w, *self._groups, *scratch, sums)
        return sums

    def _weights(self) -> FloatArray:
        sums = np.empty(4)
        scratch = (self._e, self._block_g, self._block_top, self._log_masses, self._side_sums)
        kernels.group_weights(self._d, *self._groups, *scratch, self._c, sums)
        return sums


class SingleShard(Shard):
    """Single comparisons: one near pair against one far pair."""

    def __init__(self, points: FloatArray, comparisons: Comparisons) -> None:
        super().__init__(points, comparisons)
        near, far = np.ascontiguousarray(comparisons.members.reshape(-1, 2).T)
        self._singles = (near, far, np.log(comparisons.weights))
        self._u = np.empty(len(near))
        self._block_e, self._block_g = np.empty((2, kernels.BLOCK))

    def _moments(self, w: float) -> FloatArray:
        sums = np.empty(4)
        kernels.single_moments(self._d, self._h, w, *self._singles, self._block_e, self._block_g, sums)
        return sums

    def _weights(self) -> FloatArray:
        sums = np.empty(4)
        kernels.single_weights(self._d, *self._singles, self._u, self._c, sums)
        return sums

    def histogram(self) -> Histogram:
        # Bins of a power of two that reach as far as any growth in this shard.
        _, exponent = math.frexp(self._largest_h / kernels.HALF_BINS)
        table = np.empty((2 * kernels.HALF_BINS, kernels.N_MOMENTS))
        near, far, _ = self._singles
        kernels.single_histogram(self._h, near, far, self._u, math.ldexp(0.5, exponent), table)
        return Histogram(self._log_mass, exponent, table / self._mass)
