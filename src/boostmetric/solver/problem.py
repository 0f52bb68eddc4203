"""Problems to learn from: points and comparisons, and the oracle made from them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.frame import Axes, Coordinates, Frame, Given
from boostmetric.arrays.numbering import check_in_range
from boostmetric.arrays.types import FloatArray
from boostmetric.comparisons import Comparisons
from boostmetric.comparisons.split import SplitBy
from boostmetric.engines.backend import Backend
from boostmetric.engines.threads import ONE_THREAD
from boostmetric.oracles.held_out import WithHeldOut
from boostmetric.oracles.losses import EXPONENTIAL, Loss
from boostmetric.oracles.sharded import ShardedOracle
from boostmetric.parallel.blas import single_threaded_blas
from boostmetric.solver.result import Progress

if TYPE_CHECKING:
    from boostmetric.oracles.protocol import Oracle


class Learnable(Protocol):
    """Problem to learn from, wherever its data are."""

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        ...

    @property
    def points_at_hand(self) -> Given:
        """The points that are in the memory of this process."""
        ...

    def restricted(self) -> Self:
        """Restrict the points to those that the comparisons refer to."""
        ...

    def restricted_with(self, held_out: Self) -> tuple[Self, Self]:
        """Restrict both problems; if they are about the same points, to those that either refers to."""
        ...

    def split(self, fraction: float, seed: int) -> tuple[Self, Self]:
        """Split into a problem to learn from and one to hold out."""
        ...

    def fingerprint(self, loss: Loss = ..., regularization: float = ...) -> str:
        """Hash that identifies the fit a checkpoint belongs to."""
        ...

    def opened(
        self, backend: Backend, held_out: Self | None = None, loss: Loss = ...
    ) -> AbstractContextManager[tuple[Axes, Oracle]]:
        """Provide coordinates to compute in, and an oracle that uses them, while the context is open.

        Parameters
        ----------
        backend : Backend
            Backend that holds the problem and works on it.
        held_out : Learnable, optional
            Comparisons to monitor.
        loss : Loss
        """
        ...


def satisfied(problem: Learnable, components: FloatArray, backend: Backend = ONE_THREAD) -> float:
    """Fraction of the comparisons, by weight, that the metric of a linear map satisfies."""
    (share,) = satisfied_by_each(problem, [components], backend)
    return share


def satisfied_by_each(problem: Learnable, maps: Sequence[FloatArray], backend: Backend = ONE_THREAD) -> list[float]:
    """Same as `satisfied`, for the metrics of several linear maps."""
    shares = []
    with problem.restricted().opened(backend) as (frame, oracle):
        for components in maps:
            metric = Progress.of_metric(components)
            metric = metric.in_units(-frame.exponent, frame.lower(metric.directions))
            state = oracle.rebuild(metric.directions, metric.step_sizes)
            shares.append(min(max(1.0 - state.violated / state.weight, 0.0), 1.0))
    return shares


class Problem(NamedTuple):
    """Points and comparisons of their pairs, in the memory of this process.

    Attributes
    ----------
    points : ndarray or csr_array of shape (n_points, n_features)
    comparisons : Comparisons
    split_by : {"components", "anchors"}
        As in `Comparisons.split`.
    """

    points: Given
    comparisons: Comparisons
    split_by: SplitBy = "components"

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        return int(self.points.shape[1])

    @property
    def points_at_hand(self) -> Given:
        """All points."""
        return self.points

    def restricted(self) -> Problem:
        """Restrict the points to those that the comparisons refer to, and renumber them."""
        used = self._used()
        if len(used) == self.points.shape[0]:  # all, in order: no need for a copy
            return self
        return self._replace(points=self.points[used], comparisons=self.comparisons.renumbered(used))

    def restricted_with(self, held_out: Problem) -> tuple[Problem, Problem]:
        """See `Learnable`."""
        if held_out.points is not self.points:
            return self.restricted(), held_out.restricted()
        used = np.union1d(self._used(), held_out._used())
        if len(used) == self.points.shape[0]:
            return self, held_out
        points = self.points[used]
        train = self._replace(points=points, comparisons=self.comparisons.renumbered(used))
        return train, held_out._replace(points=points, comparisons=held_out.comparisons.renumbered(used))

    def _used(self) -> NDArray[np.int64]:
        """Numbers of the points that the comparisons refer to, in ascending order."""
        if not self.comparisons.n_groups:
            raise ValueError("There are no comparisons: at least one is needed.")
        used = self.comparisons.points
        check_in_range(int(used[-1]), self.points.shape[0])
        return used

    def fingerprint(self, loss: Loss = EXPONENTIAL, regularization: float = 0.0) -> str:
        """Hash that identifies the fit a checkpoint belongs to."""
        digest = hashlib.blake2b(repr((self.points.shape, loss.name, float(regularization))).encode(), digest_size=16)
        points, c = self.points, self.comparisons
        coordinates = [points]
        if not isinstance(points, np.ndarray):  # sparse
            coordinates = [points.data, points.indices.astype(np.int64), points.indptr.astype(np.int64)]
        labels = [] if c.classes is None else [c.anchors, c.classes.label]
        for array in (*coordinates, c.pairs, c.members, c.bounds, c.weights, *labels):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def split(self, fraction: float, seed: int) -> tuple[Problem, Problem]:
        """Split into a problem to learn from and one to hold out, see `Comparisons.split`."""
        train, held_out = self.comparisons.split(fraction, seed, by=self.split_by)
        return self._replace(comparisons=train), self._replace(comparisons=held_out)

    @contextmanager
    def opened(
        self, backend: Backend, held_out: Problem | None = None, loss: Loss = EXPONENTIAL
    ) -> Iterator[tuple[Axes, Oracle]]:
        """See `Learnable`."""
        points, comparisons = self.points, self.comparisons
        del self  # holds points that may be a copy, which is not needed beside their coordinates
        with ExitStack() as stack:
            stack.enter_context(single_threaded_blas())

            def oracle_of(coordinates: Coordinates, comparisons: Comparisons) -> Oracle:
                pool = stack.enter_context(backend.pool(coordinates, comparisons, loss))
                return ShardedOracle(pool, coordinates.shape[1], loss, float(comparisons.weights.sum()))

            frame = Frame.of(points)
            coordinates = frame.points
            if held_out is not None and held_out.points is not points:
                coordinates = frame.coordinates_of(held_out.points)
            watched = None if held_out is None else held_out.comparisons
            del points, held_out
            oracle = oracle_of(frame.points, comparisons)
            del comparisons
            if watched is not None:
                oracle = WithHeldOut(oracle, oracle_of(coordinates, watched))
            del coordinates, watched
            yield frame, oracle
