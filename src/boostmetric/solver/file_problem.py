"""A problem in files that the workers of a cluster read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from boostmetric.arrays.frame import Axes, Given, Shift
from boostmetric.comparisons.shares import Share
from boostmetric.engines.backend import Backend, SharingBackend
from boostmetric.oracles.held_out import WithHeldOut
from boostmetric.oracles.losses import EXPONENTIAL, Loss
from boostmetric.oracles.protocol import Oracle
from boostmetric.oracles.sharded import ShardedOracle
from boostmetric.parallel.blas import single_threaded_blas


class SharedFiles(Protocol):
    """Files of points and comparisons that can be divided among workers, such as those `boostmetric.tables` opens."""

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hash of the metadata of the files, and of how they are read."""
        ...

    def split(self, test_size: float, random_state: int) -> tuple[Self, Self]:
        """Split into comparisons to learn from and comparisons to hold out."""
        ...

    def shares(self, n: int) -> Sequence[Share]:
        """Divide into n shares, or fewer, of about the same size."""
        ...


@dataclass(frozen=True)
class FileProblem:
    """Points and comparisons in files; a `Learnable`."""

    files: SharedFiles

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        return self.files.n_features

    @property
    def points_at_hand(self) -> Given:
        """No points: the workers have them."""
        return np.empty((0, self.n_features))

    def restricted(self) -> FileProblem:
        """The problem itself: workers read only the points they need."""
        return self

    def restricted_with(self, held_out: FileProblem) -> tuple[FileProblem, FileProblem]:
        """Both problems themselves."""
        return self, held_out

    def split(self, fraction: float, seed: int) -> tuple[FileProblem, FileProblem]:
        """Split into a problem to learn from and one to hold out, see `ComparisonFiles.split`."""
        train, held_out = self.files.split(fraction, seed)
        return FileProblem(train), FileProblem(held_out)

    def fingerprint(self, loss: Loss = EXPONENTIAL, regularization: float = 0.0) -> str:
        """See `Learnable`."""
        asked = f"{self.files.fingerprint} {loss.name} {float(regularization)}"
        return hashlib.blake2b(asked.encode(), digest_size=16).hexdigest()

    @contextmanager
    def opened(
        self, backend: Backend, held_out: FileProblem | None = None, loss: Loss = EXPONENTIAL
    ) -> Iterator[tuple[Axes, Oracle]]:
        """See `Learnable`."""
        if not isinstance(backend, SharingBackend):
            raise TypeError(f'Files are read by workers, but {backend!r} has none. Set engine="ray".')
        _ = self.files.fingerprint  # computed now, because a checkpoint needs it even if a file disappears later
        with ExitStack() as stack:
            stack.enter_context(single_threaded_blas())
            n_features = self.n_features

            def oracle_of(files: SharedFiles, shift: Shift | None) -> tuple[Oracle, Shift]:
                pool, used, weight = stack.enter_context(backend.shared_pool(files.shares, n_features, loss, shift))
                return ShardedOracle(pool, n_features, loss, weight), used

            oracle, shift = oracle_of(self.files, None)
            if held_out is not None:
                watched, _ = oracle_of(held_out.files, shift)
                oracle = WithHeldOut(oracle, watched)
            yield Axes(shift.exponent, None), oracle
