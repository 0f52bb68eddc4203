"""Line and bar charts as inline SVG: sharp at every size, and in the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from boostmetric.report.page import Html

_WIDTH, _HEIGHT = 680.0, 260.0
_RIGHT, _TOP, _BOTTOM = 20.0, 14.0, 46.0
_NAME, _DIGIT = 32.0, 7.5  # widths left of the axis: of its name with the gaps, and of each digit of its numbers


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from `low` to `high`: multiples of 1, 2 or 5 times a power of ten.

    Examples
    --------
    >>> from boostmetric.report.charts import ticks
    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    >>> ticks(3.0, 17.0, most=4)
    [5.0, 10.0, 15.0]
    """
    if not high > low:
        return [low]
    size = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(size * factor for factor in (1, 2, 5, 10) if (high - low) / (size * factor) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    decimals = -math.floor(math.log10(step) + 1e-9)
    return [round(number * step, decimals) for number in range(first, last + 1)]


def line_chart(
    x: Sequence[float],
    y: Sequence[float | None],
    *,
    names: tuple[str, str],
    description: str,
    logarithmic: bool = False,
    level: tuple[float, str] | None = None,
    mark: float | None = None,
    dots: bool = False,
) -> Html:
    """Line chart.

    Parameters
    ----------
    x, y : sequences of one length
        `x` ascending; the line has gaps where `y` is None.
    names : tuple of str
        Names of the axes.
    description : str
        Description for people who cannot see the chart.
    logarithmic : bool
        Whether the x axis is logarithmic; `x` must then be positive.
    level : tuple (value, text), optional
        A horizontal line to compare with.
    mark : float, optional
        Value of `x` to highlight.
    dots : bool
        Whether to show the points, each with its numbers as a tooltip.

    Examples
    --------
    >>> from boostmetric.report.charts import line_chart
    >>> chart = line_chart([1, 2, 4], [0.5, 0.7, 0.8], names=("rank", "score"), description="It rises.")
    >>> chart.startswith('<svg role="img" aria-label="It rises."')
    True
    """
    known = [value for value in y if value is not None]
    low, high = min([*known, *([level[0]] if level else [])]), max([*known, *([level[0]] if level else [])])
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    frame = _Frame((x[0], x[-1]), (low - margin, high + margin), logarithmic)
    counts = all(value == int(value) for value in x)  # between counts there is nothing
    between = [tick for tick in ticks(x[0], x[-1], 8) if not counts or tick == int(tick)]
    parts = [frame.axes(names, list(x) if logarithmic else between)]
    if level:
        place, right = frame.y(level[0]), _WIDTH - _RIGHT
        parts.append(f'<line class="level" x1="{frame.left:g}" x2="{right:g}" y1="{place:.1f}" y2="{place:.1f}"/>')
        clear_right = abs(known[-1] - level[0]) >= abs(known[0] - level[0])  # where the line is farther away
        side = f'x="{right:g}" text-anchor="end"' if clear_right else f'x="{frame.left + 4:g}"'
        parts.append(f'<text class="level" {side} y="{place - 5:.1f}">{escape(level[1])}</text>')
    path, up = [], True
    for a, b in zip(x, y, strict=True):
        if b is not None:
            path.append(f"{'M' if up else 'L'}{frame.x(a):.1f} {frame.y(b):.1f}")
        up = b is None
    parts.append(f'<path class="line" d="{"".join(path)}"/>')
    for a, b in zip(x, y, strict=True):
        if b is not None and (dots or a == mark):
            kind = ' class="mark"' if a == mark else ""
            parts.append(
                f'<circle{kind} cx="{frame.x(a):.1f}" cy="{frame.y(b):.1f}" r="{6 if a == mark else 4}">'
                f"<title>{escape(names[0])} {a:g}: {b:.4g}</title></circle>"
            )
    return _svg(parts, description)


def bar_chart(values: Sequence[float], *, names: tuple[str, str], description: str) -> Html:
    """Bar chart, with bars numbered from 1.

    Examples
    --------
    >>> from boostmetric.report.charts import bar_chart
    >>> bar_chart([3.0, 1.0], names=("number", "size"), description="Two bars.").count("<rect")
    2
    """
    frame = _Frame((0.5, len(values) + 0.5), (0.0, (max(values) or 1.0) * 1.05), False)
    width = frame.x(2.0) - frame.x(1.0)
    gap = min(2.0, 0.2 * width)
    whole = [tick for tick in ticks(1.0, float(len(values)), 10) if tick == int(tick)]
    parts = [frame.axes(names, whole if 1.0 in whole else [1.0, *whole])]
    for number, value in enumerate(values, start=1):
        top, left = frame.y(value), frame.x(number) - width / 2
        parts.append(
            f'<rect x="{left + gap / 2:.2f}" y="{top:.2f}" width="{width - gap:.2f}" height="{frame.y(0.0) - top:.2f}">'
            f"<title>{number}: {value:.4g}</title></rect>"
        )
    return _svg(parts, description)


def interval(low: float, middle: float, high: float, span: tuple[float, float]) -> Html:
    """Dot with an interval around it, on a line that covers `span`, with a tick at 0.

    Hidden from screen readers, because the numbers are next to it.
    """
    width, height, side = 150.0, 16.0, 5.0

    def place(value: float) -> str:
        return f"{side + (value - span[0]) / (span[1] - span[0]) * (width - 2 * side):.1f}"

    kind = "better" if low > 0 else "worse" if high < 0 else "unsure"
    return Html(
        f'<svg class="interval {kind}" aria-hidden="true" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}"><line class="zero" x1="{place(0.0)}" x2="{place(0.0)}" y1="0" y2="{height:g}"/>'
        f'<line x1="{place(low)}" x2="{place(high)}" y1="8" y2="8"/><circle cx="{place(middle)}" cy="8" r="4"/></svg>'
    )


class _Frame:
    """Map from values to positions in the chart."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], logarithmic: bool) -> None:
        self._logarithmic = logarithmic
        self._x, self._y = (self._as_drawn(x[0]), self._as_drawn(x[1])), y
        self._levels = {tick: f"{tick:.10g}" for tick in ticks(*y)}
        self.left = _NAME + _DIGIT * max(4, *map(len, self._levels.values()))

    def _as_drawn(self, x: float) -> float:
        return math.log(x) if self._logarithmic else x

    def x(self, value: float) -> float:
        low, high = self._x
        share = (self._as_drawn(value) - low) / (high - low) if high > low else 0.5
        return self.left + share * (_WIDTH - self.left - _RIGHT)

    def y(self, value: float) -> float:
        low, high = self._y
        return _HEIGHT - _BOTTOM - (value - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    def axes(self, names: tuple[str, str], x_ticks: Sequence[float]) -> str:
        """Grid lines at round numbers, and the names of the axes."""
        bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        parts = []
        for tick, number in self._levels.items():
            place = self.y(tick)
            parts.append(f'<line class="grid" x1="{self.left:g}" x2="{right:g}" y1="{place:.1f}" y2="{place:.1f}"/>')
            parts.append(f'<text x="{self.left - 8:g}" y="{place + 4:.1f}" text-anchor="end">{number}</text>')
        before = -math.inf
        for tick in x_ticks:
            place = self.x(tick)
            if place - before >= 34:  # else the numbers would overlap
                parts.append(f'<text x="{place:.1f}" y="{bottom + 18:g}" text-anchor="middle">{tick:g}</text>')
                before = place
        middle, centre = (self.left + right) / 2, (_TOP + bottom) / 2
        parts.append(f'<line class="axis" x1="{self.left:g}" x2="{right:g}" y1="{bottom:g}" y2="{bottom:g}"/>')
        parts.append(
            f'<text class="name" x="{middle:g}" y="{_HEIGHT - 8:g}" text-anchor="middle">{escape(names[0])}</text>'
        )
        parts.append(
            f'<text class="name" transform="translate(14 {centre:g}) rotate(-90)" text-anchor="middle">'
            f"{escape(names[1])}</text>"
        )
        return "".join(parts)


def _svg(parts: Sequence[str], description: str) -> Html:
    return Html(
        f'<svg role="img" aria-label="{escape(description)}" class="chart" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}">'
        + "".join(parts)
        + "</svg>"
    )
