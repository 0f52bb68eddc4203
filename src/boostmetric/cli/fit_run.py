"""Run a fit with progress, Ctrl-C and checkpoints, and report its result."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any, Self

from boostmetric.arrays.errors import plural
from boostmetric.callbacks import Checkpoint
from boostmetric.cli.fit_data import FitData
from boostmetric.cli.output import paragraph
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.starts import start_in_words
from boostmetric.solver.result import Iteration

# A checkpoint after this many iterations, or seconds: it is small, and quickly written.
_EVERY, _SECONDS = 10, 30.0


@dataclass(frozen=True)
class FitOutcome:
    """The result of a fit.

    Attributes
    ----------
    metric : MahalanobisMetric
    estimator : BoostMetric or ComparisonBoostMetric
    evaluation : optional
        On what was held out.
    is_base : bool
        Whether the metric is the Euclidean distance, since nothing did better.
    interrupted : bool
    seconds : float
        Time of the fit.
    learned_from_all : bool
        Whether the metric was learned again from everything, after the evaluation.
    """

    metric: MahalanobisMetric
    estimator: Any
    evaluation: Any
    is_base: bool
    interrupted: bool
    seconds: float
    learned_from_all: bool


def checkpoint_of(output: Path) -> Path:
    """Where the checkpoint of a model is."""
    return output.with_name(f"{output.name}.checkpoint.npz")


def run(
    data: FitData, estimator: Any, output: Path, *, choose: bool, resume: bool, quiet: bool, seed: int
) -> FitOutcome:
    """Learn, with a checkpoint beside the output until all is done.

    Parameters
    ----------
    data : FitData
    estimator : BoostMetric or ComparisonBoostMetric
    output : Path
        The model file, which is not written here.
    choose : bool
        Whether what is held out decides about the model, or is only measured on.
    resume : bool
        Continue from the checkpoint.
    quiet : bool
        Show no progress.
    seed : int
        Random seed of the bootstrap.
    """
    checkpoint = checkpoint_of(output)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    interrupt = Interrupt(choosing=estimator.chooses)
    callbacks: list[Any] = [interrupt, Checkpoint(checkpoint, _EVERY, _SECONDS)]
    begun = monotonic()
    with ExitStack() as stack:
        stack.enter_context(interrupt)
        estimator.set_params(callbacks=callbacks, verbose=int(not quiet))
        data.fit(estimator, choose=choose, resume_from=checkpoint if resume else None)
        seconds, engine = monotonic() - begun, estimator.engine
        unchanged = not estimator.n_iter_ and (estimator.normalize is True or not estimator.normalize_)
        is_identity = isinstance(estimator.init_, str) and estimator.init_ == "identity"
        judged = data.judge(_described(estimator), seed, choose=choose)
        is_base = judged.is_base or (unchanged and is_identity)
        metric, learned_from_all = judged.metric, False
        if not is_base and not interrupt.asked and estimator.n_iter_:
            whole = copy(estimator).set_params(callbacks=[interrupt], engine=engine, verbose=int(not quiet))
            begun = monotonic()
            if data.refit(whole) and not interrupt.asked:
                estimator, metric, learned_from_all = whole, _described(whole), True
            seconds += monotonic() - begun
    metric.feature_names = data.features.feature_names
    metric.about["data"] = data.as_dict()
    return FitOutcome(metric, estimator, judged.evaluation, is_base, interrupt.asked, seconds, learned_from_all)


def _described(estimator: Any) -> MahalanobisMetric:
    """The metric; the model file need not name how this process ran the fit."""
    metric: MahalanobisMetric = estimator.set_params(callbacks=None, engine=None, verbose=0).get_metric()
    return metric


class Interrupt:
    """Ends a fit in order when Ctrl-C is pressed, after the current iteration; pressed again, at once.

    While folds choose the setting, it ends the choice: what did best so far is learned.

    Parameters
    ----------
    choosing : bool
        Whether folds choose before the first iteration.
    """

    def __init__(self, *, choosing: bool) -> None:
        self.asked = False
        self._choosing, self._chosen_early = choosing, False
        self._before: Any = None

    def on_candidate(self, candidate: Any) -> bool:
        """Answer whether to choose from what was tried so far."""
        return self._chosen_early

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # no other may do so
            self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def on_iteration(self, record: Iteration) -> bool:
        """Answer whether to stop."""
        self._choosing = False
        return self.asked

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.asked or (self._choosing and self._chosen_early):
            raise KeyboardInterrupt
        if self._choosing:
            self._chosen_early = True
            os.write(2, b"\nLearning with the best setting so far. Press Ctrl-C again to stop at once.\n")
            return
        self.asked = True
        # Written past Python's buffers, which the interrupted code may be using.
        os.write(2, b"\nStopping after this iteration. Press Ctrl-C again to stop at once.\n")


def as_text(outcome: FitOutcome, output: Path, *, chosen: bool, next_steps: list[str]) -> str:
    """The result, for people.

    Parameters
    ----------
    outcome : FitOutcome
    output : Path
        The model file.
    chosen : bool
        Whether what was held out decided about the model.
    next_steps : list of str
        Commands to try.
    """
    estimator, lines = outcome.estimator, []
    if outcome.evaluation is not None:
        table = str(outcome.evaluation).splitlines()[:-2]
        lines += [*table, "", paragraph(outcome.evaluation.sentence)]
        if chosen and not hasattr(estimator, "chosen_"):
            lines.append(
                paragraph(
                    "The held-out data also decided about the model: test it on other data (boostmetric evaluate)."
                )
            )
        if outcome.learned_from_all:
            lines.append(
                paragraph(
                    "After this evaluation the model was learned again from all data, the held-out part included, "
                    "with the same setting."
                )
            )
    elif (errors := _validation_errors(estimator)) is not None:
        base, learned = errors
        what = (
            "Error of nearest neighbours, on rows"
            if hasattr(estimator, "n_passes_")
            else "Wrong answers, on comparisons"
        )
        lines.append(
            paragraph(f"{what} left out in turn: Euclidean {100 * base:.1f} %, chosen setting {100 * learned:.1f} %.")
        )
    if outcome.is_base:
        which = "itself"
        if estimator.normalize_:
            scaled = "are" if outcome.metric.normalize else "are not"
            which = f"itself; vectors {scaled} scaled to unit length"
        lines.append(
            paragraph(
                "Keep the base: nothing learned did clearly better on what was held out, so the model is the Euclidean "
                f"distance {which}."
            )
        )
    elif outcome.evaluation is not None and outcome.evaluation.verdict in ("worse", "no headroom"):
        lines.append(paragraph("Keep the base: on what was held out, the learned metric is not clearly better."))
    lines += ["", paragraph(f"Chosen: {_setting(estimator)}.")]
    lines.append(paragraph(f"Why it ended: {_why(estimator)}"))
    rank, n_features = outcome.metric.components.shape
    lines.append(f"Rank {rank:,} of {n_features:,}, learned in {outcome.seconds:.1f} s.")
    if outcome.metric.normalize:
        lines.append("Distances are between vectors of unit length (cosine).")
    lines.append(f"Model: {output}")
    if next_steps and not outcome.interrupted:
        lines += ["", "Next:", *(f"  {step}" for step in next_steps)]
    return "\n".join(lines).lstrip("\n")


def as_dict(outcome: FitOutcome, data: FitData, output: Path) -> dict[str, Any]:
    """The result, for JSON."""
    errors = _validation_errors(outcome.estimator)
    return {
        "model": str(output),
        "interrupted": outcome.interrupted,
        "is_base": outcome.is_base,
        "rank": len(outcome.metric.components),
        "normalize": outcome.metric.normalize,
        "n_iterations": outcome.estimator.n_iter_,
        "learned_from_all": outcome.learned_from_all,
        "chosen": _chosen(outcome.estimator),
        "stop_reason": _why(outcome.estimator),
        "seconds": outcome.seconds,
        "data": data.as_dict(),
        "evaluation": None if outcome.evaluation is None else outcome.evaluation.as_dict(),
        "validation_error": None if errors is None else {"base": errors[0], "chosen": errors[1]},
    }


def _chosen(estimator: Any) -> dict[str, Any]:
    chosen = {
        "init": estimator.init_,
        "solver": estimator.solver_,
        "loss": estimator.loss,
        "n_passes": getattr(estimator, "n_passes_", 1),
    }
    if hasattr(estimator, "n_neighbors_"):
        chosen |= {"n_neighbors": estimator.n_neighbors_, "n_impostors": estimator.n_impostors_}
    if hasattr(estimator, "learning_rate_"):
        chosen["learning_rate"] = estimator.learning_rate_
    return chosen


def _setting(estimator: Any) -> str:
    chosen = _chosen(estimator)
    words = [f"start {chosen['init']}"]
    if "n_neighbors" in chosen:
        words += [plural(chosen["n_neighbors"], "target"), f"{chosen['n_impostors']} impostors"]
    words += [f"{chosen['solver']} solver", f"{chosen['loss']} loss"]
    if chosen.get("learning_rate", 1.0) != 1.0:
        words.append(f"learning rate {chosen['learning_rate']:g}")
    if "n_neighbors" in chosen:
        words.append(plural(chosen["n_passes"], "pass", "passes"))
    words.append(plural(estimator.n_iter_, "iteration"))
    if len(getattr(estimator, "chosen_", ())) > 1:
        words.append(f"averaged with {estimator.chosen_[1].recipe}")
    return ", ".join(words)


def _why(estimator: Any) -> str:
    """Why the fit ended; a start that was kept is named."""
    sentence: str = estimator.stop_reason_.sentence(start_in_words(estimator.init_))
    return sentence


def _validation_errors(estimator: Any) -> tuple[float, float] | None:
    """Validation errors of the Euclidean distance, and of what "auto" chose."""
    candidates = getattr(estimator, "candidates_", None)
    return (candidates[0].error, estimator.chosen_[0].error) if candidates else None
