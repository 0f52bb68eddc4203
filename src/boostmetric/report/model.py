"""The report of a learned metric: one page for people who decide whether to use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from boostmetric.arrays.validation import check_count
from boostmetric.evaluation import compare, scores_by_rank
from boostmetric.evaluation.task import Task
from boostmetric.metric.mahalanobis import MahalanobisMetric, as_metric
from boostmetric.report.charts import bar_chart, line_chart
from boostmetric.report.facts import facts_block
from boostmetric.report.features import features_block
from boostmetric.report.neighbors import neighbors_block, sample_of_queries
from boostmetric.report.page import Html, heading, paragraph, part, percent, write_page
from boostmetric.report.scores import ranks_block, ranks_to_try, scores_block, verdict_block
from boostmetric.report.subject import subject_of
from boostmetric.report.view import view_block

_MOST_BARS = 80
_HELD = 0.9  # part of the trace that is put in words

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
    title: str | None = None,
    headline: str | None = None,
    n_bootstrap: int = 1000,
    sample_queries: int = 5,
    random_state: int | np.random.RandomState | None = 0,
) -> None:
    """Write what is to be known about a learned metric to one HTML page, which loads nothing from elsewhere.

    What was learned; the verdict, and scores before and after with intervals; the score against the number of
    dimensions; the spectrum; how learning went, where the model knows; a picture of the points before and after; the
    features of most weight; nearest neighbours of some queries before and after. What needs a task or points is left
    out where there are none.

    Parameters
    ----------
    path : str or Path
        Of the page. Replaced if it is there, as a whole.
    metric : fitted learner or MahalanobisMetric
    task : LabelTask, RankingTask or ComparisonTask, optional
        What to measure, with points that the metric was not learned from. See `boostmetric.evaluation`.
    points : {array-like, sparse matrix} of shape (n_points, n_features), optional
        Points to show where there is no task. There are no scores then.
    ids : array-like of shape (n_points,), optional
        What the points (or the queries of the task) are called: anything that can be written as text. By default they
        are numbered from 0.
    labels : array-like of shape (n_points,), optional
        Their labels, for colours and for right and wrong neighbours. By default the labels of a `LabelTask`, which also
        decides what is right; others of them are only shown.
    reference_ids, reference_labels : array-like of shape (n_reference,), optional
        The same of the reference of a `LabelTask`, or of the documents of a `RankingTask`.
    title : str, optional
        Of the page.
    headline : str, optional
        The score that decides about the verdict; by default that of the task.
    n_bootstrap : int, default=1000
        Draws for the intervals.
    sample_queries : int, default=5
        Queries whose neighbours are shown.
    random_state : int, RandomState or None, default=0
        For the bootstrap, the points of the picture and the queries.

    Notes
    -----
    Cost: the evaluation, and one search of the task for each of about 2 log2(rank) ranks.

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
        raise TypeError(f"title must be a text. Got {title!r}.")
    subject = subject_of(task, points, ids, labels, reference_ids, reference_labels)
    rng = check_random_state(random_state)

    sections: list[Section] = [("What was learned", facts_block(learned))]
    if task is not None:
        evaluation = compare(learned, task, headline=headline, n_bootstrap=n_bootstrap, random_state=rng)
        sections.append(("Before and after", [verdict_block(evaluation), *scores_block(evaluation)]))
        full = len(learned.truncate().components)
        by_rank = scores_by_rank(learned, task, ranks=ranks_to_try(full), score=evaluation.headline)
        base = evaluation[evaluation.headline].base
        shorter = ranks_block(by_rank, base, evaluation.headline, learned.components.shape[1])
        sections.append(("How short the vectors can get", shorter))
    sections.append(("Spectrum", _spectrum(learned)))
    sections.append(("Convergence", _convergence(learned)))
    if subject is not None:
        sections.append(("The points in two dimensions", view_block(subject.shown, learned, rng)))
    sections.append(("Features", features_block(learned, None if subject is None else subject.asked.points)))
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
        return [paragraph("All eigenvalues are 0: the metric sees no difference between any points.")]
    shares = values / values.sum()
    held = int(np.searchsorted(np.cumsum(shares), _HELD)) + 1
    n_features = metric.components.shape[1]
    text = (
        f"Eigenvalues of X, as shares of their sum: how much each component stretches distances. "
        f"{held} of {n_features:,} hold 90 % of it, the largest alone {percent(shares[0])}."
    )
    shown = shares[:_MOST_BARS]
    if len(shares) > _MOST_BARS:
        text += f" The first {_MOST_BARS} are drawn."
    described = f"Bars of {len(shown)} eigenvalues, the largest first; {held} hold 90 % of their sum."
    chart = bar_chart(shown.tolist(), names=("component", "share of the trace"), description=described)
    return [paragraph(text), chart]


def _convergence(metric: MahalanobisMetric) -> list[Html]:
    """Losses where the model holds them, else the step sizes, which a boosted metric always has."""
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
        return [paragraph("The model holds nothing about the course of its training.")]
    text = "The model holds no losses. The weights of its directions, in the order in which they were found:"
    chart = line_chart(
        list(range(1, len(steps) + 1)),
        steps.tolist(),
        names=("direction", "step size"),
        description=f"Step sizes of {len(steps)} directions, from {steps[0]:.3g} to {steps[-1]:.3g}.",
        dots=len(steps) <= 40,
    )
    return [paragraph(text), chart]


def _course(history: Mapping[str, Any], key: str, name: str, text: str) -> list[Html]:
    """A chart of one list of the history, if there is one; a file may hold anything."""
    x: Any = history.get("iteration")
    y: Any = history.get(key)
    if not (_are_numbers(x) and _are_numbers(y, gaps=True) and len(x) == len(y)):
        return []
    known = [value for value in y if value is not None]
    if not known or sorted(x) != x:
        return []
    described = f"{name.capitalize()} over {x[-1]} iterations, from {known[0]:.4g} to {known[-1]:.4g}."
    chart = line_chart(x, y, names=("iteration", name), description=described, dots=len(x) <= 40)
    return [paragraph(f"{text} {described}"), chart]


def _are_numbers(values: Any, gaps: bool = False) -> bool:
    return isinstance(values, list) and all(
        (gaps and value is None) or (isinstance(value, Real) and bool(np.isfinite(float(value)))) for value in values
    )
