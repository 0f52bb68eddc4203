"""Base class of learners that stay close to a prior in LogDet divergence."""

from __future__ import annotations

from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_count, check_number
from boostmetric.baselines.baseline import Baseline, Journal, trace_of
from boostmetric.baselines.logdet import Loss, PriorCoordinates, check_prior, minimise_divergence
from boostmetric.baselines.pair_set import PairSet
from boostmetric.metric.starts import Init


class NearPrior(Baseline):
    """Base class of ITML and LSML, which differ in their loss."""

    prior: Init
    objective_: float
    duality_gap_: float

    def _minimise(self, inside: PriorCoordinates, pairs: PairSet, loss: Loss, fit_data: tuple[object, object]) -> None:
        """Minimise the divergence from the prior plus a loss of squared distances, and set the fitted attributes."""
        with self._watched(self.max_iter, fit_data, self._attributes_so_far) as callbacks:
            journal = Journal(callbacks)

            def on_iteration(rows: FloatArray, objective: float) -> bool:
                components = inside.as_map(rows)
                return journal.add(objective, components.copy, trace=trace_of(components))

            minimum = minimise_divergence(
                pairs,
                inside.points.shape[1],
                loss,
                tol=self.tol,
                max_iter=self.max_iter,
                on_iteration=on_iteration,
            )
        self.objective_, self.duality_gap_ = minimum.objective, minimum.objective - minimum.bound
        self._finish(inside.as_map(minimum.rows), journal, journal.stopped or minimum.stop_reason)

    def _check_search(self) -> None:
        """Check the parameters that both have."""
        check_prior(self.prior)
        check_count("max_iter", self.max_iter)
        check_number("tol", self.tol)
        self._check_callbacks()
