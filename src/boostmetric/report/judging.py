"""The section about how people judged: the curve, the ceiling, the judges, and the hardest questions."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping
from html import escape
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from boostmetric.metric import MahalanobisMetric
from boostmetric.optional import require
from boostmetric.report.charts import line_chart
from boostmetric.report.page import Html, html, paragraph, percent, table

_SIDE = 160  # pixels of a picture
_MOST_BYTES = 200_000  # of a picture that is embedded as it is

Pictures = Mapping[Any, Path]


def judging_block(metric: MahalanobisMetric, pictures: Pictures | None = None) -> list[Html]:
    """Blocks about the judging that a model records; none if it records none, or nothing that makes sense.

    Parameters
    ----------
    metric : MahalanobisMetric
    pictures : mapping of id to Path, optional
        For the hardest questions.
    """
    judging = metric.about.get("judging")
    if not isinstance(judging, Mapping):
        return []
    try:
        return [*_scores(judging), *_curve(judging), *_judges(judging), *_hardest(judging, pictures)]
    except (KeyError, TypeError, ValueError, AttributeError):  # a model file may hold anything
        return []


def _scores(judging: Mapping[str, Any]) -> list[Html]:
    """What people answered, and how often the metric agrees."""
    n, held_out = int(judging["n_answers"]), int(judging["n_held_out"])
    text = (
        f"{n:,} answers of people, {int(judging['n_cannot_say']):,} of them “cannot say”. {held_out:,} were held out: "
        "agreement is with these only, which were never learned from."
    )
    rows = [
        _row("agreement, base", judging.get("base")),
        _row("agreement, learned", judging.get("learned")),
        _row("difference", judging.get("difference"), signed=True),
        _row("gain of the last doubling of the answers", judging.get("gain_of_doubling"), signed=True),
        _row("same answer when asked again", judging.get("consistency")),
        _row("ceiling that follows from it", judging.get("ceiling")),
    ]
    known = [row for row in rows if row is not None]
    if not known:
        return [paragraph(text)]
    return [paragraph(text), table(["", "share", "95 % interval", "answers"], known)]


def _row(name: str, measured: Any, signed: bool = False) -> list[str] | None:
    if measured is None:
        return None
    mean, low, high = (_number(measured[key]) for key in ("mean", "low", "high"))
    if signed:
        return [name, f"{100 * mean:+.1f} points", f"{100 * low:+.1f} to {100 * high:+.1f}", f"{int(measured['n']):,}"]
    return [name, percent(mean, 1), f"{percent(low)} to {percent(high)}", f"{int(measured['n']):,}"]


def _number(value: Any) -> float:
    if not isinstance(value, Real) or not np.isfinite(float(value)):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _curve(judging: Mapping[str, Any]) -> list[Html]:
    places = [(int(place["n"]), _number(place["agreement"])) for place in judging["curve"]]
    if len(places) < 2 or judging.get("base") is None:
        return []
    n, agreement = zip(*places, strict=True)
    text = "How often metrics agree with the held-out answers, by the number of answers they were learned from."
    if judging["enough"]:
        text += " The curve was flat at the end: there were enough answers."
    chart = line_chart(
        list(n),
        list(agreement),
        names=("answers", "agreement"),
        description=f"{text} From {agreement[0]:.2f} after {n[0]} answers to {agreement[-1]:.2f} after {n[-1]}.",
        level=(_number(judging["base"]["mean"]), "base"),
        dots=len(n) <= 40,
    )
    return [paragraph(text), chart]


def _judges(judging: Mapping[str, Any]) -> list[Html]:
    rows = []
    for judge in judging["judges"]:
        seconds = judge["seconds"]
        name = f"{judge['name']} (left out)" if judge["left_out"] else str(judge["name"])
        agreement, same = (_share(judge[key]) for key in ("agreement", "consistency"))
        rows.append(
            [name, f"{int(judge['n']):,}", "" if seconds is None else f"{_number(seconds):.1f}", agreement, same]
        )
    header = ["judge", "answers", "seconds each", "the metric agrees", "same answer when asked again"]
    return [table(header, rows)] if rows else []


def _share(measured: Any) -> str:
    if measured is None:
        return ""
    low, high = _number(measured["low"]), _number(measured["high"])
    return f"{percent(_number(measured['mean']))} ({percent(low)} to {percent(high)})"


def _hardest(judging: Mapping[str, Any], pictures: Pictures | None) -> list[Html]:
    asked = judging.get("hardest", ())
    if not asked:
        return []
    shown = [_question(question, _picture_in(pictures)) for question in asked]
    text = (
        "Held-out answers that surprise the metric most, the most surprising first. What was chosen is framed, and "
        "a head comes first. "
        "Questions like these are where features are missing, or where people do not agree."
    )
    return [paragraph(text, "Hardest questions"), *shown]


def _question(question: Mapping[str, Any], picture: Callable[[Any], str | None]) -> Html:
    chosen = {str(id) for id in question["chosen"]}
    cards = []
    for id in question["shown"]:
        source = picture(id)
        image = "" if source is None else f'<img alt="" src="{escape(source)}">'
        kind = ' class="chosen"' if str(id) in chosen else ""
        cards.append(f'<li{kind}>{image}<span class="id">{html(str(id))}</span></li>')
    return Html(f'<ul class="judged">{"".join(cards)}</ul>')


def _picture_in(pictures: Pictures | None) -> Callable[[Any], str | None]:
    """Source of the picture of an id: a thumbnail, or the file itself where there is no Pillow and it is small."""
    known = {str(id): path for id, path in (pictures or {}).items()}

    def source(id: Any) -> str | None:
        path = known.get(str(id))
        if path is None:
            return None
        try:
            image = require("PIL.Image", "vision", "Thumbnails")
        except ImportError:
            return _as_it_is(path)
        try:
            with image.open(path) as opened:
                opened.thumbnail((_SIDE, _SIDE))
                buffer = io.BytesIO()
                whole = opened.convert("RGBA")
                white = image.new("RGBA", whole.size, "white")  # also behind what is transparent
                image.alpha_composite(white, whole).convert("RGB").save(buffer, "JPEG", quality=85)
        except (OSError, ValueError, image.DecompressionBombError):
            return None
        return _data("image/jpeg", buffer.getvalue())

    return source


def _as_it_is(path: Path) -> str | None:
    kinds = {
        ".png": "image/png",
        ".jpg": "image/jpeg",
        ".jpeg": "image/jpeg",
        ".gif": "image/gif",
        ".webp": "image/webp",
    }
    kind = kinds.get(path.suffix.lower())
    if kind is None or path.stat().st_size > _MOST_BYTES:
        return None
    return _data(kind, path.read_bytes())


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
