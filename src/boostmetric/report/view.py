"""Scatter plots of the points before and after: two pictures, which a script turns into one animation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from boostmetric.arrays.frame import Given
from boostmetric.arrays.types import FloatArray
from boostmetric.evaluation import ClassGain
from boostmetric.metric import MahalanobisMetric
from boostmetric.report.page import Html, data_block, html, paragraph, percent
from boostmetric.report.projection import Plane, principal_plane, turned
from boostmetric.report.subject import Named

MOST_POINTS = 2000
MOST_CLASSES = 10  # eight colours, and two of them hollow
_OTHER = "other"  # style of the points of all other classes
_WIDTH, _HEIGHT, _MARGIN = 680.0, 460.0, 14.0


def view_block(
    shown: Sequence[Named],
    metric: MahalanobisMetric,
    rng: np.random.RandomState,
    gains: Sequence[ClassGain] = (),
) -> list[Html]:
    """Pictures of the points as given and as the metric maps them, with a legend, and the data for the script.

    Of more than ten classes, those that gained and lost most are coloured, or if that is not known, the largest.

    Parameters
    ----------
    shown : sequence of Named
        One or more sets of points; several sets without labels are coloured by set.
    metric : MahalanobisMetric
    rng : RandomState
        Draws a sample if there are more than 2,000 points.
    gains : sequence of ClassGain
        Gains of the classes, the largest first.
    """
    drawn = _drawn([named.points.shape[0] for named in shown], rng)
    labels = [_label(named, row, len(shown)) for named, rows in zip(shown, drawn, strict=True) for row in rows]
    classes = _in_order(labels)
    number = {label: place for place, label in enumerate(classes)}
    groups = _coloured(classes, labels, gains)
    style = {label: dot for group in groups for label, dot in group.dots.items()}
    order = np.argsort([label in style for label in labels], kind="stable")  # coloured points are drawn over others
    ids = [named.name(row) for named, rows in zip(shown, drawn, strict=True) for row in rows]
    ids, labels = [ids[place] for place in order], [labels[place] for place in order]
    points = _stacked([named.points[rows] for named, rows in zip(shown, drawn, strict=True)])[order]
    before, after = principal_plane(points), principal_plane(metric.transform(points))
    moved = turned(after.coordinates, before.coordinates)
    dots = [style.get(label, _OTHER) for label in labels]
    n_all = sum(named.points.shape[0] for named in shown)
    data = {"ids": ids, "labels": [number[label] for label in labels], "classes": [str(label) for label in classes]}
    return [
        paragraph(_text(len(ids), n_all, before, after)),
        Html(
            f'<div class="view" id="view"><fieldset hidden><legend>Distances</legend>'
            '<label><input type="radio" name="when" value="before" checked> before</label>'
            '<label><input type="radio" name="when" value="after"> after</label></fieldset>'
            f'<div class="stage">{_picture("before", before.coordinates, dots)}{_picture("after", moved, dots)}'
            '<div id="tip" role="status" hidden></div></div>'
            f"{''.join(_legend(group, number) for group in groups)}{_rest(len(classes), len(style))}</div>"
        ),
        data_block("view-data", data),
    ]


def _text(n_shown: int, n_all: int, before: Plane, after: Plane) -> str:
    which = f"all {n_all:,} points" if n_shown == n_all else f"{n_shown:,} of {n_all:,} points, drawn at random"
    return (
        f"Principal components of {which}: the plane in which they spread the most. It shows "
        f"{percent(before.share)} of the squared distances before, and {percent(after.share)} after; the rest is not "
        "visible. The second picture is rotated to match the first, which changes no distance."
    )


def _drawn(sizes: Sequence[int], rng: np.random.RandomState) -> list[NDArray[np.int64]]:
    """Rows to draw from each set: equally many, unless a set has fewer."""
    left, quota = MOST_POINTS, {}
    for done, place in enumerate(sorted(range(len(sizes)), key=lambda place: sizes[place])):
        quota[place] = min(sizes[place], left // (len(sizes) - done))
        left -= quota[place]
    return [np.sort(rng.permutation(size)[: quota[place]]) for place, size in enumerate(sizes)]


def _stacked(points: Sequence[Given]) -> Given:
    if any(sparse.issparse(some) for some in points):
        return sparse.csr_array(sparse.vstack(points))
    return np.vstack(points)


def _label(named: Named, row: int, n_sets: int) -> Any:
    if named.labels is None:
        return named.noun if n_sets > 1 else ""
    label = named.labels[row]
    return label if isinstance(label, int | float | str) and label == label else str(label)


def _in_order(labels: Sequence[Any]) -> list[Any]:
    distinct = set(labels)
    try:
        return sorted(distinct)
    except TypeError:  # numbers mixed with strings
        return sorted(distinct, key=str)


class _Coloured(NamedTuple):
    """Classes with a colour, under a title: the class and style of the dots of each label."""

    title: str
    dots: dict[Any, str]


def _coloured(classes: Sequence[Any], labels: Sequence[Any], gains: Sequence[ClassGain]) -> list[_Coloured]:
    if len(classes) <= MOST_CLASSES:
        return [_Coloured("", {label: f"c{place % 8}{' ring' * (place >= 8)}" for place, label in enumerate(classes)})]
    known, half = set(classes), MOST_CLASSES // 2
    gained = [gain.label for gain in gains if gain.difference > 0 and gain.label in known][:half]
    lost = [gain.label for gain in reversed(gains) if gain.difference < 0 and gain.label in known][:half]
    if gained or lost:
        return [
            _Coloured("Gained most", {label: f"c{place}" for place, label in enumerate(gained)}),
            _Coloured("Lost most", {label: f"c{place} ring" for place, label in enumerate(lost)}),
        ]
    largest = [label for label, _ in Counter(labels).most_common(8)]
    return [_Coloured("Largest", {label: f"c{place}" for place, label in enumerate(largest)})]


def _picture(when: str, coordinates: FloatArray, kinds: Sequence[str]) -> str:
    half = np.array([_WIDTH / 2, _HEIGHT / 2])
    room = (half - _MARGIN) / np.maximum(np.abs(coordinates).max(axis=0, initial=0.0), 1e-12)
    places = half + coordinates * [1.0, -1.0] * room.min()
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{kind}"/>'
        for (x, y), kind in zip(places.tolist(), kinds, strict=True)
    )
    described = {"before": "The points as given", "after": "The points as the metric maps them"}[when]
    return (
        f'<figure class="{when}"><svg role="img" aria-label="{described}: a scatter plot of {len(kinds)} points in '
        f'two dimensions." viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}">{dots}</svg>'
        f"<figcaption>{described}</figcaption></figure>"
    )


def _legend(group: _Coloured, number: dict[Any, int]) -> str:
    if not group.dots or len(number) < 2:
        return ""
    items = "".join(
        f'<li><button type="button" disabled aria-pressed="false" data-class="{number[label]}"><svg aria-hidden="true" '
        f'viewBox="0 0 12 12" width="12" height="12"><circle cx="6" cy="6" r="4.5" class="{dot}"/></svg> '
        f"<span>{html(str(label) or '(empty)')}</span></button></li>"
        for label, dot in group.dots.items()
    )
    title = f"<li><small>{group.title}:</small></li>" if group.title else ""
    return f'<ul class="legend" aria-label="Classes; press one to highlight its points">{title}{items}</ul>'


def _rest(n_classes: int, n_coloured: int) -> str:
    if n_coloured == n_classes:
        return ""
    return (
        f'<p class="legend"><small>The points of the other {n_classes - n_coloured:,} classes are grey. Hover over one '
        "to see its label and the other points that share it.</small></p>"
    )
