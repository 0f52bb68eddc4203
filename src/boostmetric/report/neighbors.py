"""Nearest neighbours of some queries, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.frame import Given
from boostmetric.metric import MahalanobisMetric
from boostmetric.neighbors import nearest, rounding_of_distances
from boostmetric.report.page import Html, html, paragraph, percent
from boostmetric.report.subject import Named, Subject

_DEPTH = 5  # neighbours to show
_MOST_ASKED = 2000  # queries in which to look for those that changed most


@dataclass(frozen=True)
class Changed:
    """A query, and the points nearest to it before and after.

    Attributes
    ----------
    query : int
    why : str
        Why the query was chosen.
    before, after : list of int
        Numbers of the nearest points, nearest first.
    """

    query: int
    why: str
    before: list[int]
    after: list[int]


@dataclass(frozen=True)
class QuerySample:
    """Sample of queries to look at.

    Attributes
    ----------
    queries : list of Changed
    n_asked : int
        Number of queries the sample was chosen from.
    kept : float
        Share of the neighbours before that are neighbours after, over all of these.
    """

    queries: list[Changed]
    n_asked: int
    kept: float


def sample_of_queries(
    subject: Subject, metric: MahalanobisMetric, size: int, rng: np.random.RandomState
) -> QuerySample:
    """Choose queries to look at: half (rounded up) are those whose neighbours changed most, the rest are random.

    Ties are broken at random, not by whether the answers became better.

    Parameters
    ----------
    subject : Subject
    metric : MahalanobisMetric
    size : int
        Maximum number of queries.
    rng : RandomState

    Notes
    -----
    Cost: a search of at most 2,000 queries under each of the two metrics.
    """
    rows = rng.permutation(subject.rows)[:_MOST_ASKED]
    searched = subject.searched.points
    before = _found(subject, searched, subject.asked.points[rows], rows)
    after = _found(subject, metric.transform(searched), metric.transform(subject.asked.points[rows]), rows)
    common = (before[:, :, None] == after[:, None, :]).any(axis=2).mean(axis=1)
    most = np.argsort(common, kind="stable")[: (size + 1) // 2]  # the rows are in random order already
    others = np.setdiff1d(np.arange(len(rows)), most)
    random = rng.permutation(others)[: size - len(most)]
    chosen = [(int(place), "neighbours changed most") for place in most if common[place] < 1.0]
    chosen += [(int(place), "drawn at random") for place in random]
    queries = [Changed(int(rows[place]), why, before[place].tolist(), after[place].tolist()) for place, why in chosen]
    return QuerySample(queries, len(rows), float(common.mean()))


def _found(subject: Subject, searched: Given, asked: Given, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    n_searched = searched.shape[0]
    depth = min(_DEPTH, n_searched - subject.alone)
    found = nearest(searched, asked, depth + subject.alone, rounding_of_distances(searched))
    if not subject.alone:
        return found
    # Drop the query itself, which may be missing if other points coincide with it.
    others = found != rows[:, None]
    others[others.all(axis=1), -1] = False
    return np.asarray(found[others].reshape(len(rows), depth))


def neighbors_block(subject: Subject, sample: QuerySample) -> list[Html]:
    """Queries of a sample with their neighbours, as lists side by side."""
    marks = "" if subject.is_right is None else f" A tick marks points {subject.rightness}."
    where = "among the other points" if subject.alone else f"among {subject.searched.points.shape[0]:,} points"
    text = (
        f"The nearest points to a query, {where}. Over {sample.n_asked:,} queries, {percent(sample.kept)} of the "
        f"{_DEPTH} nearest stay the same.{marks}"
    )
    return [paragraph(text), *(_card(subject, one) for one in sample.queries)]


def _card(subject: Subject, one: Changed) -> Html:
    lists = "".join(
        f"<div><h4>{title}{_count(subject, one.query, found)}</h4><ol>"
        + "".join(_item(subject, one.query, row, new=row not in known) for row in found)
        + "</ol></div>"
        for title, found, known in (("Before", one.before, one.before), ("After", one.after, one.before))
    )
    name = _name(subject.asked, one.query)
    return Html(
        f'<article class="query"><h3>{name} <small>{html(one.why)}</small></h3>'
        f'<div class="lists">{lists}</div></article>'
    )


def _count(subject: Subject, query: int, found: Sequence[int]) -> str:
    if subject.is_right is None:
        return ""
    right = sum(subject.is_right(query, row) for row in found)
    return f" <small>{right} of {len(found)} right</small>"


def _item(subject: Subject, query: int, row: int, *, new: bool) -> str:
    mark = ""
    if subject.is_right is not None:
        right = subject.is_right(query, row)
        kind, sign = ("right", "✓") if right else ("wrong", "✗")
        mark = f'<span class="{kind}" role="img" aria-label="{kind}">{sign}</span> '
    return f"<li>{mark}{_name(subject.searched, row)}{' <small>new</small>' if new else ''}</li>"


def _name(named: Named, row: int) -> str:
    label, key = named.label(row), named.id_beside(row)
    return (
        f'<span class="id">{html(named.name(row))}</span>'
        + (f' <span class="label">{html(label)}</span>' if label else "")
        + (f" <small>{html(key)}</small>" if key else "")
    )
