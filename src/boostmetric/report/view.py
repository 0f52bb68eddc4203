"""Scatter plots of the points before and after: two pictures, which a script turns into one animation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from boostmetric.arrays.frame import Given
from boostmetric.arrays.types import FloatArray
from boostmetric.metric import MahalanobisMetric
from boostmetric.report.page import Html, data_block, html, paragraph, percent
from boostmetric.report.projection import Plane, principal_plane, turned
from boostmetric.report.subject import Named

MOST_POINTS = 2000
MOST_CLASSES = 16  # eight colours, each filled and hollow
_WIDTH, _HEIGHT, _MARGIN = 680.0, 460.0, 14.0


def view_block(shown: Sequence[Named], metric: MahalanobisMetric, rng: np.random.RandomState) -> list[Html]:
    """Pictures of the points as given and as the metric maps them, with a legend, and the data for the script.

    Parameters
    ----------
    shown : sequence of Named
        One or more sets of points; several sets without labels are coloured by set.
    metric : MahalanobisMetric
    rng : RandomState
        Draws a sample if there are more than 2,000 points.
    """
    drawn = _drawn([named.points.shape[0] for named in shown], rng)
    points = _stacked([named.points[rows] for named, rows in zip(shown, drawn, strict=True)])
    ids = [named.name(row) for named, rows in zip(shown, drawn, strict=True) for row in rows]
    labels = [_label(named, row, len(shown)) for named, rows in zip(shown, drawn, strict=True) for row in rows]
    classes = _in_order(labels)
    number = {label: place for place, label in enumerate(classes)}
    before, after = principal_plane(points), principal_plane(metric.transform(points))
    moved = turned(after.coordinates, before.coordinates)
    colour = [number[label] if len(classes) <= MOST_CLASSES else 0 for label in labels]
    many = " many" if len(classes) > MOST_CLASSES else ""
    n_all = sum(named.points.shape[0] for named in shown)
    data = {"ids": ids, "labels": [number[label] for label in labels], "classes": [str(label) for label in classes]}
    return [
        paragraph(_text(len(ids), n_all, before, after)),
        Html(
            f'<div class="view{many}" id="view"><fieldset hidden><legend>Distances</legend>'
            '<label><input type="radio" name="when" value="before" checked> before</label>'
            '<label><input type="radio" name="when" value="after"> after</label></fieldset>'
            f'<div class="stage">{_picture("before", before.coordinates, colour)}{_picture("after", moved, colour)}'
            '<div id="tip" role="status" hidden></div></div>'
            f"{_legend(classes)}</div>"
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


def _picture(when: str, coordinates: FloatArray, colour: Sequence[int]) -> str:
    half = np.array([_WIDTH / 2, _HEIGHT / 2])
    room = (half - _MARGIN) / np.maximum(np.abs(coordinates).max(axis=0, initial=0.0), 1e-12)
    places = half + coordinates * [1.0, -1.0] * room.min()
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{_dot(c)}"/>'
        for (x, y), c in zip(places.tolist(), colour, strict=True)
    )
    described = {"before": "The points as given", "after": "The points as the metric maps them"}[when]
    return (
        f'<figure class="{when}"><svg role="img" aria-label="{described}: a scatter plot of {len(colour)} points in '
        f'two dimensions." viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}">{dots}</svg>'
        f"<figcaption>{described}</figcaption></figure>"
    )


def _dot(number: int) -> str:
    return f"c{number % 8}" + (" ring" if number >= 8 else "")


def _legend(classes: Sequence[Any]) -> str:
    if len(classes) < 2:
        return ""
    if len(classes) > MOST_CLASSES:
        return (
            f'<p class="legend"><small>{len(classes):,} labels: too many for colours. Hover over a point to see its '
            "label and the other points that share it.</small></p>"
        )
    items = "".join(
        f'<li><button type="button" disabled aria-pressed="false" data-class="{place}"><svg aria-hidden="true" '
        f'viewBox="0 0 12 12" width="12" height="12"><circle cx="6" cy="6" r="4.5" class="{_dot(place)}"/></svg> '
        f"<span>{html(str(label) or '(empty)')}</span></button></li>"
        for place, label in enumerate(classes)
    )
    return f'<ul class="legend" aria-label="Classes; press one to highlight its points">{items}</ul>'
