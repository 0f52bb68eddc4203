"""Early stopping of a fit when held-out comparisons no longer improve."""

from __future__ import annotations

from boostmetric.arrays.validation import check_count
from boostmetric.solver.result import Iteration, StopReason


class EarlyStopping:
    """Stop when held-out comparisons have not improved for a while.

    The estimators add one automatically when `early_stopping` is set or an `eval_set` is given, and keep the metric of
    the best iteration.

    Parameters
    ----------
    n_iter_no_change : int, default=20
        Number of iterations to wait for more held-out comparisons to be satisfied.
    """

    def __init__(self, n_iter_no_change: int = 20) -> None:
        check_count("n_iter_no_change", n_iter_no_change)
        self.n_iter_no_change = n_iter_no_change
        self._best: Iteration | None = None
        self._last = 0

    def on_iteration(self, record: Iteration) -> StopReason | None:
        """Compare an iteration with the best so far."""
        if record.held_out is None:
            raise ValueError("EarlyStopping needs held-out comparisons: set early_stopping=True, or give an eval_set.")
        if record.number <= self._last:
            self._best = None  # another fit has begun
        self._last = record.number
        if self._best is None or self._best.held_out is None or record.held_out > self._best.held_out:
            self._best = record
        return StopReason.HELD_OUT if record.number - self._best.number >= self.n_iter_no_change else None
