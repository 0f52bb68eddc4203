"""Report on a learned metric: one page for people who decide whether to use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from boostmetric.arrays.validation import check_count
from boostmetric.evaluation import ClassGain, LabelTask, class_gains, compare, scores_by_rank
from boostmetric.evaluation.stages import scores_by_direction
from boostmetric.evaluation.task import Task
from boostmetric.metric.mahalanobis import MahalanobisMetric, as_metric
from boostmetric.report.charts import bar_chart, line_chart
from boostmetric.report.classes import classes_block
from boostmetric.report.facts import facts_block
from boostmetric.report.features import features_block
from boostmetric.report.judging import Pictures, judging_block
from boostmetric.report.neighbors import neighbors_block, sample_of_queries
from boostmetric.report.page import Html, heading, paragraph, part, percent, write_page
from boostmetric.report.scores import ranks_block, ranks_to_try, scores_block, verdict_block
from boostmetric.report.subject import Names, subject_of
from boostmetric.report.view import view_block

_MOST_BARS = 80
_HELD = 0.9  # share of the trace that the text mentions

Section = tuple[str, Sequence[Html]]


def write_model_report(
    path: str | Path,
    metric: Any,
    task: Task | None = None,
    *,
    points: Any = None,
    ids: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    reference_ids: ArrayLike | None = None,
    reference_labels: ArrayLike | None = None,
    texts: ArrayLike | None = None,
    reference_texts: ArrayLike | None = None,
    pictures: Pictures | None = None,
    title: str | None = None,
    headline: str | None = None,
    beside: Sequence[Task] = (),
    n_bootstrap: int = 1000,
    sample_queries: int = 5,
    random_state: int | np.random.RandomState | None = 0,
) -> None:
    """Write a report on a learned metric as one self-contained HTML page.

    It shows what was learned; the verdict, and scores before and after with intervals; gains and losses of each class;
    the score against the number of dimensions; the spectrum; the course of training, if the model records it; a picture
    of the points before and after; the features with the most weight, if they have names; nearest neighbours of some
    queries before and after. Sections that need a task or points are left out if there are none.

    Parameters
    ----------
    path : str or Path
        Path of the page. An existing file is replaced, atomically.
    metric : fitted learner or MahalanobisMetric
    task : LabelTask, RankingTask or ComparisonTask, optional
        What to measure, on points that the metric was not learned from. See `boostmetric.evaluation`.
    points : {array-like, sparse matrix} of shape (n_points, n_features), optional
        Points to show if there is no task. Then there are no scores.
    ids : array-like of shape (n_points,), optional
        Ids of the points (or of the queries of the task): anything that can be written as text. By default they are
        numbered from 0.
    labels : array-like of shape (n_points,), optional
        Labels of these points, for colours and for right and wrong neighbours. By default the labels of a `LabelTask`,
        which always decide what is right; other labels are only shown.
    reference_ids, reference_labels : array-like of shape (n_reference,), optional
        Ids and labels of the reference of a `LabelTask`, or of the documents of a `RankingTask`.
    texts, reference_texts : array-like, optional
        What the points are, such as sentences; shown in place of their ids, or in the lists of neighbours beside them.
    pictures : mapping of id to Path, optional
        Pictures of points, for a metric that was learned from judgements (``boostmetric judge``).
    title : str, optional
        Title of the page.
    headline : str, optional
        The score that decides the verdict; by default the headline of the task.
    beside : sequence of tasks
        Further tasks, whose scores are shown too and may contradict the headline.
    n_bootstrap : int, default=1000
        Number of bootstrap draws for the intervals.
    sample_queries : int, default=5
        Number of queries whose neighbours are shown.
    random_state : int, RandomState or None, default=0
        Random seed of the bootstrap, and of the choice of points and queries to show.

    Notes
    -----
    Cost: the evaluation, one search of the task for each of about 2 log2(rank) ranks, and one for each of about log2(n)
    numbers of directions, if the metric has n.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from boostmetric import BoostMetric
    >>> from boostmetric.evaluation import LabelTask
    >>> from boostmetric.report import write_model_report
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> model = BoostMetric(max_iter=20).fit(X[::2], y[::2])
    >>> task = LabelTask.of(X[1::2], y[1::2], reference=(X[::2], y[::2]))
    >>> path = Path(tempfile.mkdtemp()) / "report.html"
    >>> write_model_report(path, model, task, title="Wine")
    >>> "<h1>Wine</h1>" in path.read_text(encoding="utf-8")
    True
    """
    learned = as_metric(metric)
    if learned is None:
        raise ValueError("metric is None: a report is about a learned metric. Pass a fitted learner or its metric.")
    check_count("sample_queries", sample_queries)
    if title is not None and not isinstance(title, str):
        raise TypeError(f"title must be a string. Got {title!r}.")
    names = Names(ids, labels, texts, reference_ids, reference_labels, reference_texts)
    subject = subject_of(task, points, names)
    rng = check_random_state(random_state)

    gains: list[ClassGain] = []
    growth: list[Html] = []
    sections: list[Section] = [("What was learned", facts_block(learned))]
    if task is not None:
        evaluation = compare(learned, task, headline=headline, beside=beside, n_bootstrap=n_bootstrap, random_state=rng)
        sections.append(("Before and after", [verdict_block(evaluation), *scores_block(evaluation)]))
        own = evaluation if evaluation.headline in task.names else evaluation.judged_by(task.headline)
        if isinstance(task, LabelTask):
            gains = class_gains(own, task)
            sections.append(("Class by class", classes_block(gains, own.headline)))
        full = len(learned.truncate().components)
        by_rank = scores_by_rank(learned, task, ranks=ranks_to_try(full), score=own.headline)
        base = own[own.headline].base
        shorter = ranks_block(by_rank, base, own.headline, learned.components.shape[1])
        sections.append(("How short the vectors can get", shorter))
        growth = _growth(scores_by_direction(learned, task, own.headline), own.headline, base)
    if judging := judging_block(learned, pictures):
        sections.append(("How people judged", judging))
    sections.append(("Spectrum", _spectrum(learned)))
    sections.append(("Convergence", [*growth, *_convergence(learned)]))
    if subject is not None:
        sections.append(("The points in two dimensions", view_block(subject.shown, learned, rng, gains)))
    if features := features_block(learned, None if subject is None else subject.asked.points):
        sections.append(("Features", features))
    if subject is not None and subject.searched.points.shape[0] > 1:
        sample = sample_of_queries(subject, learned, sample_queries, rng)
        sections.append(("Nearest neighbours", neighbors_block(subject, sample)))
    blocks = [_contents([name for name, _ in sections])]
    for number, (name, parts) in enumerate(sections):
        blocks += [heading(name, f"part-{number}"), *parts]
    write_page(Path(path), title or "A learned metric", blocks, script=part("view.js") if subject is not None else "")


def _contents(names: Sequence[str]) -> Html:
    items = "".join(f'<li><a href="#part-{number}">{name}</a></li>' for number, name in enumerate(names))
    return Html(f'<nav aria-label="Contents"><ul>{items}</ul></nav>')


def _spectrum(metric: MahalanobisMetric) -> list[Html]:
    values = metric.eigenvalues
    if not values.sum() > 0:
        return [paragraph("All eigenvalues are 0: under this metric, all distances are 0.")]
    shares = values / values.sum()
    held = int(np.searchsorted(np.cumsum(shares), _HELD)) + 1
    n_features = metric.components.shape[1]
    text = (
        f"Eigenvalues of X, as shares of their sum: how much each component stretches distances. "
        f"{held} of {n_features:,} hold 90 % of the sum, the largest alone {percent(shares[0])}."
    )
    shown = shares[:_MOST_BARS]
    if metric.normalize:
        text += " This is before vectors are scaled to unit length."
    if len(shares) > _MOST_BARS:
        text += f" The first {_MOST_BARS} are shown."
    described = f"Bars of {len(shown)} eigenvalues, the largest first; {held} hold 90 % of their sum."
    chart = bar_chart(shown.tolist(), names=("component", "share of the trace"), description=described)
    return [paragraph(text), chart]


def _growth(found: Sequence[tuple[int, float]], score: str, base: float) -> list[Html]:
    """Chart of a score, on what the metric was not learned from, against the number of directions."""
    if len(found) < 2:
        return []
    numbers, scores = zip(*found, strict=True)
    best = numbers[int(np.argmax(scores))]
    described = f"{score} from {scores[0]:.3f} with the first direction to {scores[-1]:.3f} with all {numbers[-1]}."
    text = (
        f"How far learning carries over to the points of this page: {described} It was highest with {best}. A fall at "
        "the end would mean that fewer iterations had been better; choose by validation, not by these points."
    )
    chart = line_chart(
        numbers,
        scores,
        names=("first directions", score),
        description=described,
        level=(base, f"before: {base:.3f}"),
        logarithmic=True,
        dots=True,
    )
    return [paragraph(text), chart]


def _convergence(metric: MahalanobisMetric) -> list[Html]:
    """Charts of the losses if the model records them, else of the step sizes, which a boosted metric always has."""
    training = metric.about.get("training")
    history = training.get("history") if isinstance(training, Mapping) else None
    if isinstance(history, Mapping):
        blocks = [
            *_course(history, "loss", "loss", "The objective after each iteration."),
            *_course(history, "held_out", "held-out accuracy", "Held-out comparisons that were satisfied."),
        ]
        if blocks:
            return blocks
    steps = metric.step_sizes
    if steps is None or not len(steps):
        return [paragraph("The model has no record of its training.")]
    text = "The model has no record of its losses. The weights of its directions, in the order they were found:"
    chart = line_chart(
        list(range(1, len(steps) + 1)),
        steps.tolist(),
        names=("direction", "step size"),
        description=f"Step sizes of {len(steps)} directions, from {steps[0]:.3g} to {steps[-1]:.3g}.",
        dots=len(steps) <= 40,
    )
    return [paragraph(text), chart]


def _course(history: Mapping[str, Any], key: str, name: str, text: str) -> list[Html]:
    """Chart of one list of the history, if it is valid; a model file may hold anything."""
    x: Any = history.get("iteration")
    y: Any = history.get(key)
    if not (_are_numbers(x) and _are_numbers(y, gaps=True) and len(x) == len(y)):
        return []
    known = [number for number, value in enumerate(y) if value is not None]
    if not known or sorted(x) != x:
        return []
    x, y = x[known[0] : known[-1] + 1], y[known[0] : known[-1] + 1]  # the first passes of a fit may have none
    where = f"over {x[-1]} iterations" if x[0] == 1 else f"in iterations {x[0]} to {x[-1]}"
    described = f"{name.capitalize()} {where}, from {y[0]:.4g} to {y[-1]:.4g}."
    chart = line_chart(x, y, names=("iteration", name), description=described, dots=len(x) <= 40)
    return [paragraph(f"{text} {described}"), chart]


def _are_numbers(values: Any, gaps: bool = False) -> bool:
    return isinstance(values, list) and all(
        (gaps and value is None) or (isinstance(value, Real) and bool(np.isfinite(float(value)))) for value in values
    )
