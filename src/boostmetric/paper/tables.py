"""Tables of the paper from the rows of a run, with our numbers above the printed ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from boostmetric.paper.benchmarks import BENCHMARKS, Benchmark
from boostmetric.paper.experiments import SYSTEMS, TABLE_3, TRACE_WEIGHTS
from boostmetric.paper.runner import OK, FitRow

# Table 3, as printed: mean (standard deviation).
_PRINTED_3 = {
    "Bal": ("8.98 (2.59)", "8.88 (2.52)", "8.88 (2.52)", "8.88 (2.52)", "8.93 (2.52)"),
    "Breast-Cancer": ("2.11 (0.69)", "2.11 (0.69)", "2.11 (0.69)", "2.11 (0.69)", "2.11 (0.69)"),
    "Diabetes": ("26.0 (1.33)", "26.0 (1.33)", "26.0 (1.33)", "26.0 (1.34)", "26.0 (1.46)"),
}


_OF_TIMES = "Mean over the splits, including the time to load the compiled kernels in the first fit of a process."


@dataclass(frozen=True)
class Cell:
    """Cell of a table: our number, the printed one if there is one, and whether ours is the best of its row."""

    text: str
    printed: str = ""
    best: bool = False


@dataclass(frozen=True)
class PaperTable:
    """Table with a title, ready to be written."""

    title: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def markdown(self) -> str:
        """Format as Markdown, with printed numbers in small type below ours."""

        def shown(cell: Cell) -> str:
            text = f"**{cell.text}**" if cell.best else cell.text
            return f"{text}<br><sub>{cell.printed}</sub>" if cell.printed else text

        lines = [f"| {' | '.join(self.header)} |", f"| {' | '.join('---' for _ in self.header)} |"]
        lines += [f"| {' | '.join(shown(cell) for cell in row)} |" for row in self.rows]
        return f"## {self.title}\n\n{self.caption}\n\n" + "\n".join(lines) + "\n"

    def html(self) -> str:
        """Format as HTML, for the report."""

        def shown(cell: Cell) -> str:
            text = f"<b>{escape(cell.text)}</b>" if cell.best else escape(cell.text)
            return f"<td>{text}<br><small>{escape(cell.printed)}</small></td>" if cell.printed else f"<td>{text}</td>"

        head = "".join(f"<th>{escape(cell)}</th>" for cell in self.header)
        body = "".join("<tr>" + "".join(shown(cell) for cell in row) + "</tr>" for row in self.rows)
        return (
            f"<h2>{escape(self.title)}</h2><p>{escape(self.caption)}</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )


class Results:
    """Rows of a run, looked up by experiment, data set and system."""

    def __init__(self, rows: Iterable[FitRow]) -> None:
        self._rows: dict[tuple[str, str, str], list[FitRow]] = {}
        for row in sorted(rows, key=lambda row: row.seed):
            self._rows.setdefault((row.experiment, row.data, row.system), []).append(row)

    def figures(self, experiment: str, data: str, system: str, figure: str) -> list[float]:
        """Values of one measurement over all fits that finished."""
        rows = self._rows.get((experiment, data, system), [])
        return [row.figures[figure] for row in rows if row.status == OK]

    def errors(self, data: str, system: str) -> list[float]:
        """Errors of Table 2."""
        return self.figures("table2", data, system, "error")

    def trouble(self, experiment: str, data: str, system: str) -> FitRow | None:
        """First fit that did not finish, if there is one."""
        rows = self._rows.get((experiment, data, system), [])
        return next((row for row in rows if row.status != OK), None)

    def troubles(self) -> list[FitRow]:
        """All fits that did not finish."""
        return [row for rows in self._rows.values() for row in rows if row.status != OK]

    def has(self, experiment: str, data: str | None = None) -> bool:
        """Whether there are rows of an experiment, optionally of one data set."""
        return any(key[0] == experiment and data in (None, key[1]) for key in self._rows)


def table1(results: Results) -> PaperTable:
    """Sizes and preprocessing of the data sets, and the time of a run of BoostMetric."""
    rows = []
    for b in BENCHMARKS:
        seconds = results.figures("table2", b.name, "BoostMetric", "seconds")
        printed_train, printed_test = b.printed_split or (b.n_train, b.n_test)
        rows.append(
            [
                Cell(b.name),
                Cell(f"{b.n_train:,}", "" if printed_train == b.n_train else f"{printed_train:,}"),
                Cell(f"{b.n_test:,}", "" if printed_test == b.n_test else f"{printed_test:,}"),
                Cell(f"{b.n_features:,}"),
                Cell("" if b.n_pca is None else str(b.n_pca)),
                Cell("[-1, 1]" if b.scaled else ""),
                Cell(str(b.n_classes)),
                Cell(str(b.n_runs)),
                Cell(f"{np.mean(seconds):.2f} s" if seconds else "", b.printed_time),
            ]
        )
    header = ["set", "train", "test", "features", "after PCA", "scaled to", "classes", "runs", "time of a run"]
    caption = (
        "Sizes as used; in small type, as printed if different. The time is for one fit of BoostMetric with the "
        "paper's settings."
    )
    return PaperTable("Table 1: the data sets", caption, header, rows)


def table2(results: Results) -> PaperTable:
    """Test errors of all systems."""
    return PaperTable(
        "Table 2: test errors of a 3-nearest-neighbour classifier, in per cent",
        "Mean (standard deviation) over the splits, the best of each row in bold; in small type, as printed in the "
        "paper. The columns after BoostMetric are not in the paper.",
        ["set", *SYSTEMS],
        [_errors(results, b) for b in BENCHMARKS if results.has("table2", b.name)],
    )


def _errors(results: Results, benchmark: Benchmark) -> list[Cell]:
    means = {
        system: [] if results.trouble("table2", benchmark.name, system) else results.errors(benchmark.name, system)
        for system in SYSTEMS
    }
    best = min((np.mean(errors) for errors in means.values() if errors), default=np.nan)
    row = [Cell(benchmark.name)]
    for system, errors in means.items():
        printed = mean_and_spread(*benchmark.printed_errors.get(system, (None, None)))
        if errors:
            mean = float(np.mean(errors))
            text = mean_and_spread(mean, float(np.std(errors)) if len(errors) > 1 else None)
            row.append(Cell(text, printed, best=bool(round(mean, 2) == round(float(best), 2))))
        else:
            trouble = results.trouble("table2", benchmark.name, system)
            row.append(Cell("" if trouble is None else trouble.status, printed))
    return row


def times(results: Results) -> PaperTable:
    """Seconds per fit of all systems."""
    rows = []
    for b in BENCHMARKS:
        if not results.has("table2", b.name):
            continue
        row = [Cell(b.name)]
        for system in list(SYSTEMS)[1:]:
            seconds = results.figures("table2", b.name, system, "seconds")
            trouble = results.trouble("table2", b.name, system)
            row.append(Cell(trouble.message if trouble else f"{np.mean(seconds):.2f}" if seconds else ""))
        rows.append(row)
    return PaperTable("Time of a fit, in seconds", _OF_TIMES, ["set", *list(SYSTEMS)[1:]], rows)


def table3(results: Results) -> PaperTable:
    """Test errors for several values of v."""
    rows = []
    for name in TABLE_3:
        if not results.has("table3", name):
            continue
        row = [Cell(name)]
        for v, printed in zip(TRACE_WEIGHTS, _PRINTED_3[name], strict=True):
            errors = results.figures("table3", name, f"{v:g}", "error")
            row.append(Cell(mean_and_spread(float(np.mean(errors)), float(np.std(errors))) if errors else "", printed))
        rows.append(row)
    caption = "Mean (standard deviation) over the splits; in small type, as printed."
    return PaperTable(
        "Table 3: test errors for several values of v", caption, ["v", *(f"{v:g}" for v in TRACE_WEIGHTS)], rows
    )


def mean_and_spread(mean: float | None, spread: float | None) -> str:
    """Format as in the paper: mean (standard deviation)."""
    if mean is None:
        return ""
    return f"{mean:.2f}" if spread is None else f"{mean:.2f} ({spread:.2f})"
