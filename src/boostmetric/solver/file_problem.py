"""A problem in files, which the workers of a cluster read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from boostmetric.arrays.frame import Axes, Shift
from boostmetric.engines.backend import SharingPlace
from boostmetric.oracles.held_out import WithHeldOut
from boostmetric.oracles.losses import make_loss
from boostmetric.oracles.sharded import ShardedOracle
from boostmetric.parallel.blas import single_threaded_blas

if TYPE_CHECKING:
    from boostmetric.engines.backend import Place
    from boostmetric.oracles.losses import LossName
    from boostmetric.oracles.protocol import Oracle
    from boostmetric.tables.comparison_files import OpenedFiles


@dataclass(frozen=True)
class FileProblem:
    """Points and comparisons in files; a `Learnable`."""

    files: OpenedFiles

    @property
    def n_features(self) -> int:
        """Of the points."""
        return self.files.n_features

    def restricted(self) -> FileProblem:
        """The same: workers read no other points."""
        return self

    def split(self, fraction: float, seed: int) -> tuple[FileProblem, FileProblem]:
        """What to learn from, and what to hold out: see `ComparisonFiles.split`."""
        train, held_out = self.files.split(fraction, seed)
        return FileProblem(train), FileProblem(held_out)

    def fingerprint(self, loss: LossName = "exponential", regularization: float = 0.0) -> str:
        """See `Learnable`."""
        asked = f"{self.files.fingerprint} {loss} {float(regularization)}"
        return hashlib.blake2b(asked.encode(), digest_size=16).hexdigest()

    @contextmanager
    def opened(
        self, place: Place, held_out: FileProblem | None = None, loss: LossName = "exponential"
    ) -> Iterator[tuple[Axes, Oracle]]:
        """See `Learnable`."""
        if not isinstance(place, SharingPlace):
            raise TypeError(f'Files are read by workers, and {place!r} has none. Set engine="ray".')
        _ = self.files.fingerprint  # before any work: where a file is lost on the way, a checkpoint needs it
        with ExitStack() as stack:
            stack.enter_context(single_threaded_blas())
            n_features = self.n_features

            def oracle_of(files: OpenedFiles, shift: Shift | None) -> tuple[Oracle, Shift]:
                engine, used, weight = stack.enter_context(
                    place.shared(files.shares, n_features, logistic=loss == "logistic", shift=shift)
                )
                return ShardedOracle(engine, n_features, make_loss(loss, weight)), used

            oracle, shift = oracle_of(self.files, None)
            if held_out is not None:
                watched, _ = oracle_of(held_out.files, shift)
                oracle = WithHeldOut(oracle, watched)
            yield Axes(shift.exponent, None), oracle
