"""Gains and losses of each class."""

from __future__ import annotations

from collections.abc import Sequence

from boostmetric.evaluation import ClassGain
from boostmetric.report.charts import interval
from boostmetric.report.page import Html, html, paragraph, table

_MOST_ROWS, _ENDS = 20, 8  # of more classes, so many of the largest gains and losses are shown first


def classes_block(gains: Sequence[ClassGain], score: str) -> list[Html]:
    """Table of the classes with intervals, the largest gain first; of many classes, both ends first.

    Parameters
    ----------
    gains : sequence of ClassGain
        The largest gain first.
    score : str
        Name of the score.
    """
    header = ["class", "queries", "before (base)", "after (learned)", "difference", "95 % interval", "drawn"]
    span = min(0.0, *(gain.low for gain in gains)), max(0.0, *(gain.high for gain in gains))
    span = span if span[0] < span[1] else (-1.0, 1.0)
    rows = [_row(gain, span) for gain in gains]
    up, down = (sum(sign * gain.difference > 0 for gain in gains) for sign in (1, -1))
    surely = sum(gain.low > 0 for gain in gains), sum(gain.high < 0 for gain in gains)
    text = (
        f"The {score} of the queries of each class. It rises in {up:,} of {len(gains):,} classes, in {surely[0]:,} of "
        f"them with an interval above 0, and falls in {down:,}, in {surely[1]:,} with an interval below 0. Each "
        "interval is for its class alone: of twenty classes in which nothing changes, one seems to change by chance."
    )
    if len(gains) <= _MOST_ROWS:
        return [paragraph(text), table(header, rows)]
    ends = [*rows[:_ENDS], ["…", *[""] * (len(header) - 1)], *rows[-_ENDS:]]
    return [
        paragraph(text),
        table(header, ends),
        Html(f"<details><summary>All {len(gains):,} classes</summary>{table(header, rows)}</details>"),
    ]


def _row(gain: ClassGain, span: tuple[float, float]) -> list[str]:
    return [
        html(str(gain.label) or "(empty)"),
        f"{gain.n_queries:,}",
        f"{gain.base:.3f}",
        f"{gain.learned:.3f}",
        f"{gain.difference:+z.3f}",
        f"{gain.low:+z.3f} to {gain.high:+z.3f}",
        interval(gain.low, gain.difference, gain.high, span),
    ]
