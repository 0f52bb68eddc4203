"""The end of a sitting: a model learned from all answers, a report, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from boostmetric.arrays.errors import plural
from boostmetric.judge.answers import AnswerFile
from boostmetric.judge.learning import learner
from boostmetric.judge.lesson import Lesson, Record, teach, unpacked
from boostmetric.judge.sitting import Objects
from boostmetric.metric import MahalanobisMetric
from boostmetric.report import write_model_report
from boostmetric.storage.files import replacing
from boostmetric.storage.origin import file_record, origin

_N_HARDEST = 6
_LEAST_REPEATED = 5  # questions, before a ceiling is told


@dataclass(frozen=True)
class Outputs:
    """What is written, and how the points were named, for the commands to try next.

    Attributes
    ----------
    model, report : Path
    points : str
        Files of points and options about columns, as they would be typed.
    """

    model: Path
    report: Path
    points: str


def finish(file: AnswerFile, objects: Objects, outputs: Outputs) -> dict[str, Any]:
    """Learn from all answers, held-out ones among them, and write model and report.

    How many iterations, and what is said about the model, comes from a lesson that leaves the held-out answers out.

    Parameters
    ----------
    file : AnswerFile
    objects : Objects
    outputs : Outputs

    Returns
    -------
    dict
        ``text`` and ``commands``, for people; ``result``, the measures.
    """
    record = Record(file, objects.ids)
    earlier = [(n, components) for n, map in file.earlier_maps() for components in unpacked(map)]
    earlier = [(n, components) for n, components in earlier if components.shape[1] == objects.points.shape[1]]
    lesson = teach(record, objects.points, earlier)
    everything = record.answers(np.flatnonzero(record.answered))
    n_iter = lesson.learned.n_iter
    if n_iter:
        metric = learner(n_iter).fit(everything.comparisons(), points=objects.points).get_metric()
    else:
        metric = MahalanobisMetric(np.eye(objects.points.shape[1]))
    metric.feature_names = objects.feature_names
    metric.about["data"] = {"n_points": len(objects.points), "kind": file.mode.name, "n_answers": len(everything)}
    metric.about["judging"] = {**lesson.result, "mode": file.mode.name, "hardest": hardest(record, lesson, objects)}
    metric.about["origin"] = origin(files=[file_record(file.path, "answers")])
    with replacing(outputs.model) as temporary:
        metric.save(temporary)
    pictures = None if objects.pictures is None else dict(zip(objects.ids.tolist(), objects.pictures, strict=True))
    write_model_report(
        outputs.report, metric, points=objects.points, ids=objects.ids, title="A judged metric", pictures=pictures
    )
    return {"text": summary(lesson.result, outputs), "commands": commands(file, outputs), "result": lesson.result}


def hardest(record: Record, lesson: Lesson, objects: Objects) -> list[dict[str, Any]]:
    """Held-out questions whose answers surprise the metric most, the most surprising first.

    Parameters
    ----------
    record : Record
    lesson : Lesson
        Its metric has not learned from these answers.
    objects : Objects
    """
    mapped = objects.points @ lesson.learned.components.T
    answers = record.answers(record.held_out)
    surprise = []
    for shown, chosen in zip(answers.shown.tolist(), answers.chosen, strict=True):
        rows = np.array(record.mode.comparisons(shown, chosen), dtype=np.int64)
        anchor, near, far = (mapped[column] for column in rows.T)
        d_near, d_far = ((anchor - near) ** 2).sum(axis=1), ((anchor - far) ** 2).sum(axis=1)
        total = np.maximum(d_near + d_far, np.finfo(np.float64).tiny)  # 0 where all three are equal
        surprise.append(float(np.mean((d_near - d_far) / total)))
    order = [int(i) for i in np.argsort(surprise)[::-1] if surprise[int(i)] > 0][:_N_HARDEST]
    asked = [record.judged[record.held_out[i]] for i in order]
    return [{"shown": list(one.question.shown), "chosen": list(one.chosen)} for one in asked]


def summary(result: dict[str, Any], outputs: Outputs) -> str:
    """What came out, in a few sentences.

    Parameters
    ----------
    result : dict
        Of a lesson.
    outputs : Outputs
    """
    parts = [f"{plural(result['n_answers'], 'answer')}, {result['n_held_out']:,} of them held out."]
    learned, base, gain = result["learned"], result["base"], result["difference"]
    if not result["n_iter"]:
        parts.append("Nothing learned did clearly better than the base, so the model is the Euclidean distance.")
    elif learned is None:
        parts.append(
            "The learned distance did better than the base on answers that were left out in turn. How well it agrees "
            "with answers that are never learned from is not known: there are none."
        )
    else:
        parts.append(
            f"On those, the learned distance agrees in {_percent(learned)}, the base in {_percent(base)}: "
            f"{100 * gain['mean']:+.1f} points ({100 * gain['low']:+.1f} to {100 * gain['high']:+.1f})."
        )
    if result["ceiling"] is not None and result["ceiling"]["n"] >= _LEAST_REPEATED:
        parts.append(
            f"The ceiling, from {result['ceiling']['n']} repeated questions, is {_percent(result['ceiling'])}."
        )
    if result["n_iter"] and learned is not None:
        parts.append("Then the model was learned again from everything, also from what was held out.")
    parts.append(f"Model: {outputs.model}. Report: {outputs.report}.")
    return " ".join(parts)


def judges_in_words(judges: Sequence[dict[str, Any]]) -> list[str]:
    """A line about each judge.

    Parameters
    ----------
    judges : sequence of dict
        Of the result of a lesson.
    """
    lines = []
    for judge in judges:
        parts = [f"{judge['name']}: {plural(judge['n'], 'answer')}"]
        if judge["left_out"]:
            parts = [f"{judge['name']}: left out"]
        if judge["agreement"]:
            parts.append(f"the metric agrees in {_percent(judge['agreement'])}")
        if judge["consistency"]:
            parts.append(f"same answer when asked again in {_percent(judge['consistency'])}")
        lines.append(", ".join(parts))
    return lines


def commands(file: AnswerFile, outputs: Outputs) -> list[str]:
    """Commands to try next."""
    model, answers = shlex.quote(str(outputs.model)), shlex.quote(str(file.path))
    return [
        f"boostmetric transform {model} {outputs.points} -o mapped.parquet",
        f"boostmetric export {model} --to faiss -o index.faiss",
        f"boostmetric fit {outputs.points} --comparisons {answers} -o refitted.safetensors",
    ]


def _percent(measured: dict[str, Any]) -> str:
    return f"{100 * measured['mean']:.0f} % ({100 * measured['low']:.0f} to {100 * measured['high']:.0f})"
