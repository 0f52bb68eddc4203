"""A fit that shows itself, can be interrupted, and can be resumed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from boostmetric.callbacks import Checkpoint
from boostmetric.cli.fit_parts import Parts
from boostmetric.cli.fit_progress import Display, Interrupt
from boostmetric.metric import MahalanobisMetric

# A checkpoint after so many iterations, or seconds: it is small, and quickly written.
_EVERY, _SECONDS = 10, 30.0


@dataclass(frozen=True)
class Outcome:
    """What a fit came to.

    Attributes
    ----------
    metric : MahalanobisMetric
    estimator : BoostMetric or ComparisonBoostMetric
    evaluation : optional
        On what was held out: an `Evaluation`, or for files `fit_files.Satisfied`.
    is_base : bool
        Whether the metric is the Euclidean distance, since nothing did better.
    interrupted : bool
    seconds : float
        Of the fit.
    """

    metric: MahalanobisMetric
    estimator: Any
    evaluation: Any
    is_base: bool
    interrupted: bool
    seconds: float


def checkpoint_of(output: Path) -> Path:
    """Where the checkpoint of a model is."""
    return output.with_name(f"{output.name}.checkpoint.npz")


def run(parts: Parts, estimator: Any, output: Path, *, choose: bool, resume: bool, quiet: bool, seed: int) -> Outcome:
    """Learn, with a checkpoint beside the output until all is done.

    Parameters
    ----------
    parts : Parts
    estimator : BoostMetric or ComparisonBoostMetric
    output : Path
        Of the model, which is not written here.
    choose : bool
        Whether what is held out decides about the model, or is only measured on.
    resume : bool
        Go on from the checkpoint.
    quiet : bool
        Show no progress.
    seed : int
        Of the bootstrap.
    """
    checkpoint = checkpoint_of(output)
    is_auto = "auto" in (estimator.init, estimator.solver)
    total = estimator.max_iter * getattr(estimator, "n_passes", 1)
    display = Display(total, parts.n_features, quiet=quiet)
    interrupt = Interrupt(choosing=is_auto and not (choose and parts.validated))
    begun = monotonic()
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    estimator.set_params(callbacks=[interrupt, Checkpoint(checkpoint, _EVERY, _SECONDS), display])
    with interrupt, display:
        parts.fit(estimator, choose=choose, resume_from=checkpoint if resume else None)
    seconds = monotonic() - begun
    estimator.set_params(callbacks=None, engine=None)  # the model file need not tell of them

    metric = estimator.get_metric()
    is_base = getattr(estimator, "n_passes_", 1) == 0 and estimator.init_ == "identity"
    evaluation = parts.evaluate(metric, seed)
    if choose and evaluation is not None and not parts.improves(evaluation):
        is_base, metric = True, MahalanobisMetric(np.eye(parts.n_features), about=metric.about)
        evaluation = parts.evaluate(metric, seed)
    metric.feature_names = parts.feature_names
    metric.about["data"] = parts.as_dict()
    return Outcome(metric, estimator, evaluation, is_base, interrupt.asked, seconds)
