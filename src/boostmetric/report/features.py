"""Weights of the features in a metric."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from boostmetric.arrays.frame import Given, centre_and_scale
from boostmetric.arrays.types import FloatArray
from boostmetric.metric import MahalanobisMetric
from boostmetric.report.page import Html, html, paragraph, percent, table

_MOST_FEATURES, _MOST_COMPONENTS, _NAMED = 12, 4, 5
_MINUS = "\u2212"  # as wide as the plus


def features_block(metric: MahalanobisMetric, points: Given | None) -> list[Html]:
    """Features with the most weight, and the leading components as sums of features; nothing of anonymous features.

    The number of a dimension of an embedding says nothing to anybody.
    A weight alone says little: a feature in kilograms has a million times the weight of the same feature in grams. If
    there are points, weights are multiplied by variances, which cancels the units.
    """
    names = metric.feature_names
    if names is None or _are_numbered(names):
        return []
    weight = np.square(metric.components).sum(axis=0)
    if points is None:
        order = np.argsort(-weight, kind="stable")[:_MOST_FEATURES]
        text = f"The largest entries of the diagonal of X, in the units of the features.{_cut(len(names))}"
        blocks = [
            paragraph(text + _before_unit_length(metric)),
            table(["feature", "weight"], [[names[f], f"{weight[f]:.4g}"] for f in order]),
        ]
        return [*blocks, *_components(metric, names, np.ones(len(names)), "")]
    variance = _variances(points)
    before, after = _shares(variance), _shares(weight * variance)
    order = np.argsort(-after, kind="stable")[:_MOST_FEATURES]
    longest = before[order].max(), after[order].max()
    bars = [[_bar(before[f], longest[0], "bar base"), _bar(after[f], longest[1], "bar")] for f in order]
    rows = [[names[f], *bar, f"{weight[f]:.4g}"] for f, bar in zip(order, bars, strict=True)]
    text = (
        "The share of the squared distances that each feature contributes on its own: its variance before; after, its "
        "variance times its weight, which is its entry in the diagonal of X. The components below show how features "
        f"work together.{_cut(len(names))}{_before_unit_length(metric)}"
    )
    blocks = [paragraph(text), table(["feature", "share before", "share after", "weight"], rows)]
    return [*blocks, *_components(metric, names, np.sqrt(variance), ", each feature in units of its spread")]


def _are_numbered(names: Sequence[str]) -> bool:
    """Whether names are numbers from 0 or 1 on, after a common prefix such as "f" or "dim_"."""
    found = [re.fullmatch(r"(.*?)(\d+)", name, re.DOTALL) for name in names]
    parts = [match.groups() for match in found if match is not None]
    numbers = [int(number) for _, number in parts]
    first = numbers[0] if numbers else 0
    same = len({prefix for prefix, _ in parts}) == 1 and len(parts) == len(names) > 1
    return same and first in (0, 1) and numbers == list(range(first, first + len(names)))


def _components(metric: MahalanobisMetric, names: list[str], spread: FloatArray, units: str) -> list[Html]:
    rows = metric.truncate().components
    squares = np.square(rows).sum(axis=1)
    if not squares.sum() > 0:
        return []
    listed = []
    for number, row in enumerate(rows[:_MOST_COMPONENTS]):
        loading = row * spread
        loading = loading / (np.linalg.norm(loading) or 1.0)
        if loading[np.abs(loading).argmax()] < 0:
            loading = -loading
        largest = np.argsort(-np.abs(loading), kind="stable")[:_NAMED]
        said = ", ".join(
            f"{'+' if loading[f] > 0 else _MINUS}{abs(loading[f]):.2f} {names[f]}" for f in largest if loading[f]
        )
        listed.append([str(number + 1), percent(squares[number] / squares.sum(), 1), said])
    body = "".join(
        f'<tr><td>{number}</td><td>{share}</td><td class="text">{html(said)}</td></tr>'
        for number, share, said in listed
    )
    return [
        paragraph(f"The leading components, the rows of the linear map{units}: the {_NAMED} largest loadings of each."),
        Html(
            '<div class="wide"><table><thead><tr><th scope="col">component</th><th scope="col">share of the trace</th>'
            f'<th scope="col" style="text-align:left">loadings</th></tr></thead><tbody>{body}</tbody></table></div>'
        ),
    ]


def _before_unit_length(metric: MahalanobisMetric) -> str:
    return " This is before vectors are scaled to unit length." if metric.normalize else ""


def _cut(n_features: int) -> str:
    return f" The first {_MOST_FEATURES} of {n_features:,}." if n_features > _MOST_FEATURES else ""


def _variances(points: Given) -> FloatArray:
    """Variance of each feature, up to a common factor."""
    points, _ = centre_and_scale(points)
    if isinstance(points, np.ndarray):
        return np.asarray(points.var(axis=0, dtype=np.float64))
    mean = np.asarray(points.mean(axis=0), dtype=np.float64).ravel()
    squares = np.asarray(points.multiply(points).mean(axis=0), dtype=np.float64).ravel()
    return np.asarray(np.maximum(squares - mean**2, 0.0))


def _shares(sizes: FloatArray) -> FloatArray:
    return np.asarray(sizes / (sizes.sum() or 1.0))


def _bar(share: float, largest: float, kind: str) -> Html:
    width = 100.0 * share / largest if largest > 0 else 0.0
    return Html(f'{percent(share, 1)}<span class="{kind}" aria-hidden="true"><i style="width:{width:.1f}%"></i></span>')
