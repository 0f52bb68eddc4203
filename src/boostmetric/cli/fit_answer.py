"""What is said at the end of a fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from boostmetric.cli.fit_parts import Parts
from boostmetric.cli.fit_run import Outcome
from boostmetric.cli.output import paragraph
from boostmetric.tables.complaints import plural


def as_text(outcome: Outcome, output: Path, *, chosen: bool, next_steps: list[str]) -> str:
    """For people.

    Parameters
    ----------
    outcome : Outcome
    output : Path
        Of the model.
    chosen : bool
        Whether what was held out decided about the model.
    next_steps : list of str
        Commands to try.
    """
    lines = []
    if outcome.evaluation is not None:
        table = str(outcome.evaluation).splitlines()[:-2]
        lines += [*table, "", paragraph(outcome.evaluation.sentence)]
        if chosen:
            lines.append(
                paragraph("What was held out also decided about the model: test it on others (boostmetric evaluate).")
            )
    elif (errors := _validation_errors(outcome.estimator)) is not None:
        base, learned = errors
        lines.append(
            paragraph(
                f"Error of nearest neighbours, on rows left out in turn: Euclidean {100 * base:.1f} %, chosen setting "
                f"{100 * learned:.1f} %."
            )
        )
    if outcome.is_base:
        lines.append(
            paragraph(
                "Keep the base: nothing learned did clearly better on what was held out, so the model is the Euclidean "
                "distance itself."
            )
        )
    elif outcome.evaluation is not None and outcome.evaluation.verdict in ("worse", "no headroom"):
        lines.append(paragraph("Keep the base: on what was held out, the learned metric is not clearly better."))
    lines += ["", paragraph(f"Chosen: {_setting(outcome.estimator)}.")]
    lines.append(paragraph(f"Why it ended: {outcome.estimator.stop_reason_}"))
    rank, n_features = outcome.metric.components.shape
    lines.append(f"Rank {rank:,} of {n_features:,}, learned in {outcome.seconds:.1f} s.")
    lines.append(f"Model: {output}")
    if next_steps and not outcome.interrupted:
        lines += ["", "Next:", *(f"  {step}" for step in next_steps)]
    return "\n".join(lines).lstrip("\n")


def as_dict(outcome: Outcome, parts: Parts, output: Path) -> dict[str, Any]:
    """For JSON."""
    errors = _validation_errors(outcome.estimator)
    return {
        "model": str(output),
        "interrupted": outcome.interrupted,
        "is_base": outcome.is_base,
        "rank": len(outcome.metric.components),
        "n_iterations": outcome.estimator.n_iter_,
        "chosen": _chosen(outcome.estimator),
        "stop_reason": str(outcome.estimator.stop_reason_),
        "seconds": outcome.seconds,
        "data": parts.as_dict(),
        "evaluation": None if outcome.evaluation is None else outcome.evaluation.as_dict(),
        "validation_error": None if errors is None else {"base": errors[0], "chosen": errors[1]},
    }


def _chosen(estimator: Any) -> dict[str, Any]:
    init = getattr(estimator, "init_", estimator.init)
    return {
        "init": init,
        "solver": getattr(estimator, "solver_", estimator.solver),
        "loss": estimator.loss,
        "n_passes": getattr(estimator, "n_passes_", 1),
    }


def _setting(estimator: Any) -> str:
    chosen = _chosen(estimator)
    passes = f", {plural(chosen['n_passes'], 'pass', 'passes')}" if hasattr(estimator, "n_passes_") else ""
    return (
        f"start {chosen['init']}, {chosen['solver']} solver, {chosen['loss']} loss{passes}, "
        f"{plural(estimator.n_iter_, 'iteration')}"
    )


def _validation_errors(estimator: Any) -> tuple[float, float] | None:
    """Of the Euclidean distance, and of what "auto" chose."""
    candidates = getattr(estimator, "candidates_", None)
    if not candidates:
        return None
    wanted = (estimator.init_, estimator.solver_), estimator.n_passes_
    for candidate in candidates:
        if (tuple(candidate.path), candidate.n_passes) == wanted and not isinstance(estimator.init_, np.ndarray):
            return candidates[0].error, candidate.error
    return None
