"""Tables and figures of the image experiments, with our numbers above the printed ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from boostmetric.paper.figures import MARKERS, STROKES, panels
from boostmetric.paper.image_experiments import CODEBOOKS, CUTS, METRICS, NEIGHBORS, SVM, TRIPLETS
from boostmetric.paper.tables import Cell, PaperTable, Results, mean_and_spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Mean and standard deviation, in per cent; those for Euclidean and LMNN are from the caption of Figure 3.
_PRINTED = {
    "100 words": {"Euclidean": (15, 1), "LMNN": (4.7, 0.5), "BoostMetric": (3.63, 0.68), SVM: (3.87, 0.69)},
    "200 words": {"BoostMetric": (2.96, 0.59), SVM: (3.00, 0.72)},
}
# Codebooks shown in the figures: those of the paper.
_SHOWN = ("100 words", "200 words")


def motorbikes_table(results: Results) -> PaperTable:
    """Table of test errors in categorization."""
    systems = [*METRICS, SVM]
    rows = []
    for words in CODEBOOKS:
        if results.has("motorbikes", words):
            printed = [mean_and_spread(*_PRINTED.get(words, {}).get(system, (None, None))) for system in systems]
            errors = [results.figures("motorbikes", words, system, "error") for system in systems]
            statuses = [_status(results, "motorbikes", words, system) for system in systems]
            rows.append([Cell(words), *_cells(errors, statuses, printed, min)])
    caption = (
        "Test errors in per cent, mean (standard deviation) over the splits into 959 and 639 images, the best of each "
        "row in bold; in small type, as printed. Three nearest neighbours under each metric, and a linear SVM whose C "
        "is chosen by 5-fold cross-validation, all on the same histograms: Harris-affine regions, upright, SIFT, words "
        "learned on the training part. The last two rows, with square roots of the counts, are not in the paper."
    )
    return PaperTable("Figure 3: Motorbikes against Airplanes", caption, ["codebook", *systems], rows)


def faces_table(results: Results) -> PaperTable:
    """Table of precision in retrieval."""
    rows = []
    for words in CODEBOOKS:
        if results.has("faces", words):
            found = [results.figures("faces", words, metric, "precision") for metric in METRICS]
            statuses = [_status(results, "faces", words, metric) for metric in METRICS]
            for i, cut in enumerate(CUTS):
                at_cut = [[values[i] for values in runs] for runs in found]  # type: ignore[index]
                cells = _cells(at_cut, statuses, [""] * len(found), max)
                rows.append([Cell(f"{words}, first {cut}"), *cells])
    caption = (
        "Share of faces, in per cent, among the test images nearest to a test face, mean (standard deviation) over the "
        "splits into 541 and 361 images, the best of each row in bold. The paper shows curves and prints no numbers; "
        "it has 573 and 382 images, because its background has 520 images instead of the 467 published."
    )
    return PaperTable("Figure 4: Faces against Background", caption, ["codebook", *METRICS], rows)


def motorbikes_figure(results: Results) -> Figure:
    """Plot errors of all systems with both codebooks, and error against the number of triplets."""
    figure, (left, right) = panels(2, width=5.4)
    systems = [*METRICS, SVM]
    for i, words in enumerate(_SHOWN):
        known = [(j, e) for j, s in enumerate(systems) if (e := results.figures("motorbikes", words, s, "error"))]
        place = [j + (i - 0.5) * 0.4 for j, _ in known]
        style = {"color": ("0.35", "0.75")[i], "capsize": 3, "label": words}
        left.bar(place, [np.mean(e) for _, e in known], 0.38, yerr=[np.std(e) for _, e in known], **style)
    left.set_xticks(np.arange(len(systems)), [name.replace(" ", "\n") for name in systems], fontsize="small")
    left.set_ylabel("test error, %")
    left.set_axisbelow(True)
    left.grid(visible=False, axis="x")
    left.legend(frameon=False)
    columns = [k for k in map(str, NEIGHBORS) if results.figures("motorbikes-triplets", TRIPLETS, k, "error")]
    errors = [results.figures("motorbikes-triplets", TRIPLETS, k, "error") for k in columns]
    numbers = [np.mean(results.figures("motorbikes-triplets", TRIPLETS, k, "triplets")) for k in columns]
    spread = [np.std(values) for values in errors]
    right.errorbar(numbers, [np.mean(e) for e in errors], spread, color="black", marker="o", capsize=3)
    right.set(xscale="log", xlabel="triplets", ylabel="3-NN test error, %", title=f"BoostMetric, {TRIPLETS}")
    right.set_ylim(bottom=0)
    return figure


def faces_figure(results: Results) -> Figure:
    """Plot precision against the number of images retrieved."""
    figure, both = panels(len(_SHOWN), width=4.4)
    for axes, words in zip(both, _SHOWN, strict=True):
        for i, metric in enumerate(METRICS):
            runs = np.array(results.figures("faces", words, metric, "precision"))
            if len(runs):
                style = {"linestyle": STROKES[i], "marker": MARKERS[i], "color": str(0.15 * i), "capsize": 3}
                # Shifted, so that error bars do not hide each other.
                axes.errorbar(
                    np.array(CUTS) + (i - 1.5) * 0.3, runs.mean(axis=0), runs.std(axis=0), label=metric, **style
                )
        axes.set(xlabel="images retrieved", title=words, xticks=CUTS)
    both[0].set_ylabel("precision, %")
    drawn = [axes for axes in both if axes.get_legend_handles_labels()[0]]
    if drawn:
        drawn[-1].legend(frameon=False, loc="center right")
    return figure


def _status(results: Results, experiment: str, words: str, system: str) -> str:
    """Status of the first fit that did not finish: a mean over the others would cover only the easy splits."""
    trouble = results.trouble(experiment, words, system)
    return "" if trouble is None else trouble.status


def _cells(
    runs: list[list[float]], statuses: list[str], printed: list[str], best_of: Callable[..., float]
) -> list[Cell]:
    """Means (standard deviations) over runs, or the status; the best, and those that print the same, in bold."""
    known = {i: round(float(np.mean(values)), 2) for i, values in enumerate(runs) if values and not statuses[i]}
    best = best_of(known.values(), default=np.nan)
    cells = []
    for i, values in enumerate(runs):
        spread = float(np.std(values)) if len(values) > 1 else None
        text = mean_and_spread(float(np.mean(values)), spread) if i in known else statuses[i]
        cells.append(Cell(text, printed[i], best=known.get(i) == best))
    return cells
