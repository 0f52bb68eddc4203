"""Figures of the paper from the rows of a run; lines differ in marker and stroke, so that they work in greyscale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from boostmetric.optional import require
from boostmetric.paper.experiments import CONVERGENCE, DIMENSIONS, NEIGHBORS, SOLVERS, TIMED, TRIPLETS
from boostmetric.paper.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STROKES = ("-", "--", ":", "-.")
MARKERS = "os^D"


def cputime(results: Results) -> Figure:
    """Plot seconds per fit against the dimension."""
    figure, (axes,) = panels(1, width=6.0)
    for i, system in enumerate(TIMED):
        known = [(d, results.figures("cputime", str(d), system, "seconds")) for d in DIMENSIONS]
        points = [(d, float(np.median(seconds))) for d, seconds in known if seconds]
        if points:
            axes.loglog(
                *zip(*points, strict=True), linestyle=STROKES[i], marker=MARKERS[i], color="black", label=system
            )
    axes.set(xlabel="dimensions", ylabel="seconds per fit", title="250 triplets of the concentric circles")
    axes.legend(frameon=False)
    return figure


def convergence(results: Results) -> Figure:
    """Plot the objective, minus the lowest value reached, against the iterations."""
    names = [name for name in CONVERGENCE if results.has("convergence", name)]
    figure, row = panels(len(names))
    for axes, name in zip(row, names, strict=True):
        losses = {solver: results.figures("convergence", name, solver, "loss") for solver in SOLVERS}
        least = min(min(runs[0]) for runs in losses.values() if runs)  # type: ignore[call-overload]
        for i, (solver, runs) in enumerate(losses.items()):
            if runs:
                above = np.maximum(np.array(runs[0]) - least, 1e-16)
                style = {"linestyle": STROKES[i], "marker": MARKERS[i], "markersize": 3, "markevery": 0.1}
                axes.semilogy(np.arange(1, len(above) + 1), above, color="black", label=solver, **style)
        axes.set(xlabel="iterations", title=name)
        axes.set_ylim(bottom=1e-8)
    row[0].set_ylabel("objective, minus the lowest reached")
    row[0].legend(frameon=False)
    return figure


def triplets(results: Results) -> Figure:
    """Plot test error against the number of triplets."""
    names = [name for name in TRIPLETS if results.has("triplets", name)]
    figure, row = panels(len(names))
    for axes, name in zip(row, names, strict=True):
        columns = [str(k) for k in NEIGHBORS if results.figures("triplets", name, str(k), "error")]
        errors = [results.figures("triplets", name, k, "error") for k in columns]
        numbers = [np.mean(results.figures("triplets", name, k, "triplets")) for k in columns]
        spread = [np.std(values) for values in errors]
        axes.errorbar(numbers, [np.mean(e) for e in errors], spread, color="black", marker="o", capsize=3)
        axes.set(xscale="log", xlabel="triplets", title=name)
        axes.set_ylim(bottom=0)
    row[0].set_ylabel("3-NN test error, %")
    return figure


def panels(n_panels: int, width: float = 3.6) -> tuple[Figure, Any]:
    """Create a figure with axes side by side."""
    figure = require("matplotlib.figure", "plot", "A figure").Figure(
        figsize=(max(6.0, width * n_panels), 3.6), layout="constrained", dpi=150
    )
    row = figure.subplots(1, n_panels, squeeze=False)[0]
    for axes in row:
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, row
