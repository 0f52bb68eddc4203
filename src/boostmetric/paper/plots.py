"""Scatter plots. Functions import matplotlib when called, and create figures without its global state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.optional import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = "o^sDvP*X"


def plot_projections(projections: Mapping[str, NDArray[np.floating[Any]]], labels: NDArray[Any]) -> Figure:
    """Draw scatter plots side by side, one panel per projection; classes differ in colour, shade and marker.

    Parameters
    ----------
    projections : mapping of str to ndarray of shape (n_samples, 2)
        Title and points of each panel.
    labels : ndarray of shape (n_samples,)

    Returns
    -------
    matplotlib.figure.Figure
    """
    matplotlib = require("matplotlib", "plot", "A picture")
    figures = require("matplotlib.figure", "plot", "A picture")
    classes = np.unique(labels)
    shades = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.9, len(classes)))
    figure: Figure = figures.Figure(figsize=(4 * len(projections), 4.4), layout="constrained", dpi=150)
    panels = figure.subplots(1, len(projections), squeeze=False)[0]
    for axes, (title, points) in zip(panels, projections.items(), strict=True):
        for i, c in enumerate(classes):
            inside = labels == c
            marker = _MARKERS[i % len(_MARKERS)]
            axes.scatter(*points[inside].T, s=9, color=shades[i], marker=marker, linewidths=0, label=str(c))
        axes.set_title(title)
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_xticks([])
        axes.set_yticks([])
    handles, names = axes.get_legend_handles_labels()
    figure.legend(
        handles, names, loc="outside lower center", title="class", ncols=len(classes), markerscale=2, frameon=False
    )
    return figure
