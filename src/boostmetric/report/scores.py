"""Scores of a learned metric and of the base, and how much of the gain is kept with fewer dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from boostmetric.evaluation import Evaluation, Row
from boostmetric.report.charts import interval, line_chart
from boostmetric.report.page import Html, html, paragraph, table

_KEPT = 0.99  # share of the gain that counts as enough


def verdict_block(evaluation: Evaluation) -> Html:
    """The verdict as a highlighted sentence."""
    kind = evaluation.verdict.replace(" ", "-")
    return Html(f'<p class="verdict {kind}">{html(evaluation.sentence)}</p>')


def scores_block(evaluation: Evaluation) -> list[Html]:
    """Table of scores before and after, with intervals as numbers and drawn."""
    header, *lines = evaluation.table()
    ends = [end for row in evaluation.rows for end in (row.low, row.high) if end is not None]
    span = min([*ends, 0.0]), max([*ends, 0.0])
    span = span if span[0] < span[1] else (-1.0, 1.0)
    rows = [[*line, _drawn(row, span)] for line, row in zip(lines, evaluation.rows, strict=True)]
    header = ["score", "before (base)", "after (learned)", *header[3:], "drawn"]
    strong = [row.name for row in evaluation.rows].index(evaluation.headline)
    left_out = (
        f" {evaluation.n_left_out:,} queries have no right answer and were left out." if evaluation.n_left_out else ""
    )
    text = (
        f"Measured on {evaluation.size}. The base is the Euclidean distance between the points as given. The 95 % "
        f"intervals are for the difference: {evaluation.clusters} were resampled {evaluation.n_bootstrap:,} "
        f"times.{left_out} The highlighted row decides the verdict."
    )
    return [paragraph(text), table(header, rows, strong=strong)]


def _drawn(row: Row, span: tuple[float, float]) -> Html:
    if row.difference is None or row.low is None or row.high is None:
        return Html("")
    return interval(row.low, row.difference, row.high, span)


def ranks_to_try(full: int) -> list[int]:
    """Numbers of dimensions to try: 1, 2, 3, 4, 6, 8, 12, ... and all.

    Examples
    --------
    >>> from boostmetric.report.scores import ranks_to_try
    >>> ranks_to_try(20)
    [1, 2, 3, 4, 6, 8, 12, 16, 20]
    """
    powers = [2**power for power in range(full.bit_length())]
    tried = {*powers, *(3 * power // 2 for power in powers[1:])}
    return [*sorted(rank for rank in tried if rank < full), full]


def enough(by_rank: Sequence[tuple[int, float]], base: float) -> int | None:
    """Smallest rank such that it and all higher ranks tried keep 99 % of the gain; None if there is no gain.

    Examples
    --------
    >>> from boostmetric.report.scores import enough
    >>> enough([(1, 0.5), (2, 0.9), (4, 0.8), (8, 0.9), (16, 0.9)], base=0.7)
    8
    """
    gain = by_rank[-1][1] - base
    if not gain > 0:
        return None
    found = by_rank[-1][0]
    for rank, score in reversed(by_rank):
        if score < base + _KEPT * gain - 1e-12:
            break
        found = rank
    return found


def ranks_block(by_rank: Sequence[tuple[int, float]], base: float, name: str, n_features: int) -> list[Html]:
    """Chart of the score against the number of dimensions, and a text that says how few are enough."""
    full, best = by_rank[-1]
    rank = enough(by_rank, base)
    if rank is None:
        text = (
            f"The learned metric does not score above the base ({name} {best:.3f}, base {base:.3f}), so there is no "
            "gain to keep in shorter vectors."
        )
    else:
        scores = f"{name} {dict(by_rank)[rank]:.3f}" + ("" if rank == full else f", {best:.3f} with all of them")
        text = f"{_few(rank, full)} for 99 % of the gain: {scores}, {base:.3f} before."
        if rank < n_features:
            text += f" A vector then has {'1 number' if rank == 1 else f'{rank:,} numbers'} in place of {n_features:,}."
        level = next(r for r, score in by_rank if score >= base)
        if level < rank:
            text += f" With {level:,} of them the score is no worse than before."
    described = f"{name} by the number of dimensions kept: " + ", ".join(f"{r}: {score:.3f}" for r, score in by_rank)
    chart = line_chart(
        [float(r) for r, _ in by_rank],
        [score for _, score in by_rank],
        names=("dimensions kept (logarithmic)", name),
        description=f"{described}. Base: {base:.3f}.",
        logarithmic=True,
        level=(base, f"before: {base:.3f}"),
        mark=rank,
        dots=True,
    )
    note = Html("Each rank keeps only the leading components, as <code>MahalanobisMetric.truncate</code> does.")
    return [paragraph(text), *([chart, paragraph(note)] if full > 1 else [])]


def _few(rank: int, full: int) -> str:
    if rank < full:
        return f"{rank:,} of {full:,} dimensions {'is' if rank == 1 else 'are'} enough"
    return "Its one dimension is needed" if full == 1 else f"All {full:,} dimensions are needed"
