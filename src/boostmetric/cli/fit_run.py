"""Run a fit with progress, Ctrl-C and checkpoints, and report its result."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping, Sequence
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
from boostmetric.evaluation.keeping import base_of, is_base
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.starts import start_in_words
from boostmetric.solver.result import Iteration
from boostmetric.storage.origin import file_record
from boostmetric.tables.formats import files_of
from boostmetric.tables.standard_input import NAME, standard_input

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
        Of the metric, on what was held out.
    rejected : optional
        Evaluation of the learned metric, if the base is kept instead.
    is_base : bool
        Whether the metric is the Euclidean distance, since nothing did better.
    interrupted : bool
    can_resume : bool
        Whether the same command would choose the same setting, and so can continue.
    seconds : float
        Time of the fit.
    learned_from_all : bool
        Whether the metric was learned again from everything, after the evaluation.
    """

    metric: MahalanobisMetric
    estimator: Any
    evaluation: Any
    rejected: Any
    is_base: bool
    interrupted: bool
    can_resume: bool
    seconds: float
    learned_from_all: bool


def checkpoint_of(output: Path) -> Path:
    """Where the checkpoint of a model is."""
    return output.with_name(f"{output.name}.checkpoint.npz")


def run(
    data: FitData,
    estimator: Any,
    output: Path,
    *,
    choose: bool,
    headline: str | None,
    resume: bool,
    quiet: bool,
    seed: int,
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
    headline : str, optional
        Name of the score that decides.
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
        judged = data.judge(_described(estimator), seed, choose=choose, headline=headline)
        metric, learned_from_all = judged.metric, False
        kept_base = judged.rejected is not None or is_base(metric)
        if kept_base:
            metric = base_of(metric)
        elif not interrupt.asked and estimator.n_iter_:
            whole = copy(estimator).set_params(callbacks=[interrupt], engine=engine, verbose=int(not quiet))
            begun = monotonic()
            if data.refit(whole) and not interrupt.asked:
                estimator, metric, learned_from_all = whole, _described(whole), True
            seconds += monotonic() - begun
    outcome = FitOutcome(
        metric,
        estimator,
        judged.evaluation,
        judged.rejected,
        kept_base,
        interrupt.asked,
        not interrupt.chosen_early,
        seconds,
        learned_from_all,
    )
    metric.feature_names = data.features.feature_names
    metric.about["data"] = data.as_dict()
    metric.about["scores"] = _scores(outcome)
    # Not of a metric that was rejected.
    training = {**_chosen(outcome), "n_iter": 0} if kept_base else metric.about["training"]
    metric.about["training"] = {**training, "stop_reason": _why(outcome)}
    return outcome


def _described(estimator: Any) -> MahalanobisMetric:
    """The metric; the model file need not name how this process ran the fit."""
    metric: MahalanobisMetric = estimator.set_params(callbacks=None, engine=None, verbose=0).get_metric()
    return metric


class Interrupt:
    """Ends a fit in order on Ctrl-C or SIGTERM, after the current iteration; the second time, at once.

    While folds choose the setting, it ends the choice: what did best so far is learned.

    Parameters
    ----------
    choosing : bool
        Whether folds choose before the first iteration.
    """

    def __init__(self, *, choosing: bool) -> None:
        self.asked = self.chosen_early = False
        self._choosing = choosing
        self._before: list[dict[signal.Signals, Any]] = []  # a stack: a fit enters its callbacks again

    def on_candidate(self, candidate: Any) -> bool:
        """Answer whether to choose from what was tried so far."""
        return self.chosen_early

    def __enter__(self) -> Self:
        before = {}
        if threading.current_thread() is threading.main_thread():  # no other may do so
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    before[number] = signal.signal(number, self._on_signal)
        self._before.append(before)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.pop().items():
            signal.signal(number, handler)

    def on_iteration(self, record: Iteration) -> bool:
        """Answer whether to stop."""
        self._choosing = False
        return self.asked

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.asked or (self._choosing and self.chosen_early):
            raise KeyboardInterrupt
        if self._choosing:
            self.chosen_early = True
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
    evaluation = outcome.rejected or outcome.evaluation
    if evaluation is not None:
        lines += [*str(evaluation).splitlines()[:-2], "", paragraph(evaluation.sentence)]
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
            if hasattr(estimator, "n_neighbors_")
            else "Wrong answers, on comparisons"
        )
        lines.append(
            paragraph(f"{what} left out in turn: Euclidean {100 * base:.1f} %, chosen setting {100 * learned:.1f} %.")
        )
    if outcome.is_base:
        unit = "; vectors are not scaled to unit length" if estimator.normalize_ else ""
        left_out = " What was learned is not in it." if outcome.rejected is not None else ""
        lines.append(paragraph(f"Keep the base: the model is the Euclidean distance itself{unit}.{left_out}"))
    elif outcome.evaluation is not None and outcome.evaluation.verdict != "better":
        lines.append(paragraph(_in_spite_of(outcome, chosen=chosen)))
    lines += ["", paragraph(f"Chosen: {_setting(outcome)}.")]
    lines.append(paragraph(f"Why it ended: {_why(outcome)}"))
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
    return {
        "model": str(output),
        "interrupted": outcome.interrupted or not outcome.can_resume,
        "is_base": outcome.is_base,
        "rank": len(outcome.metric.components),
        "normalize": outcome.metric.normalize,
        "n_iterations": 0 if outcome.is_base else outcome.estimator.n_iter_,
        "learned_from_all": outcome.learned_from_all,
        "chosen": _chosen(outcome),
        "stop_reason": _why(outcome),
        "seconds": outcome.seconds,
        "data": data.as_dict(),
        **_scores(outcome),
    }


def _scores(outcome: FitOutcome) -> dict[str, Any]:
    """What was measured, for JSON and the model file."""
    errors = _validation_errors(outcome.estimator)
    return {
        "evaluation": None if outcome.evaluation is None else outcome.evaluation.as_dict(),
        "rejected": None if outcome.rejected is None else outcome.rejected.as_dict(),
        "validation_error": None if errors is None else {"base": errors[0], "chosen": errors[1]},
    }


def records_of(sources: Mapping[str, Sequence[str] | None], *, hashed: bool) -> list[dict[str, Any]]:
    """Name, size and checksum of every file that is read, for the model file; by role."""
    records = []
    for role, source in sources.items():
        for path in files_of(source) if source else ():
            if str(path) == NAME:
                records.append(file_record(standard_input(), role, hashed=hashed) | {"name": "standard input"})
            elif path.is_file():
                records.append(file_record(path, role, hashed=hashed))
    return records


def _in_spite_of(outcome: FitOutcome, *, chosen: bool) -> str:
    """What the model is where the verdict is not "better"."""
    if chosen:
        return "The model is the learned metric: it scored higher, though that may be by chance."
    return "The model is the learned metric all the same: with this setting nothing that is held out decides."


def _chosen(outcome: FitOutcome) -> dict[str, Any]:
    if outcome.is_base:
        return {"init": "identity", "n_passes": 0}
    estimator = outcome.estimator
    chosen = {
        "init": estimator.init_ if isinstance(estimator.init_, str) else start_in_words(estimator.init_),
        "solver": estimator.solver_,
        "loss": estimator.loss,
        "n_passes": estimator.n_passes_,
    }
    if getattr(estimator, "start_rank_", None) is not None:
        chosen["start_rank"] = estimator.start_rank_
    if hasattr(estimator, "n_neighbors_"):
        chosen |= {"n_neighbors": estimator.n_neighbors_, "n_impostors": estimator.n_impostors_}
    if hasattr(estimator, "learning_rate_"):
        chosen["learning_rate"] = estimator.learning_rate_
    if getattr(estimator, "n_bags_", 1) > 1:
        chosen["n_bags"] = estimator.n_bags_
    return chosen


def _setting(outcome: FitOutcome) -> str:
    estimator, chosen = outcome.estimator, _chosen(outcome)
    start = start_in_words(chosen["init"], chosen.get("start_rank"))
    if outcome.is_base:
        return start
    words = [f"start {chosen['init']}"] if estimator.n_iter_ else [start]
    if estimator.n_iter_:
        if "n_neighbors" in chosen:
            words += [plural(chosen["n_neighbors"], "target"), f"{chosen['n_impostors']} impostors"]
        words += [f"{chosen['solver']} solver", f"{chosen['loss']} loss"]
        if chosen.get("learning_rate", 1.0) != 1.0:
            words.append(f"learning rate {chosen['learning_rate']:g}")
        if "n_neighbors" in chosen or chosen["n_passes"] > 1:
            words.append(plural(chosen["n_passes"], "pass", "passes"))
        words.append(plural(estimator.n_iter_, "iteration"))
        if "n_bags" in chosen:
            words.append(f"mean of {chosen['n_bags']}, each without another part of the samples")
    if others := getattr(estimator, "chosen_", ())[1:]:
        words.append(f"averaged with {', and with '.join(map(str, others))}")
    return ", ".join(words)


def _why(outcome: FitOutcome) -> str:
    """Why the fit ended; a start that was kept is named."""
    if outcome.rejected is not None:
        return "Kept the base: what was learned did not do better on what was held out."
    if outcome.interrupted:
        return "Interrupted: the metric is from the last iteration before."
    estimator = outcome.estimator
    sentence: str = estimator.stop_reason_.sentence(
        start_in_words(estimator.init_, getattr(estimator, "start_rank_", None))
    )
    return sentence


def _validation_errors(estimator: Any) -> tuple[float, float] | None:
    """Validation errors of the Euclidean distance, and of what "auto" chose."""
    candidates = getattr(estimator, "candidates_", None)
    return (candidates[0].error, estimator.chosen_[0].error) if candidates else None
