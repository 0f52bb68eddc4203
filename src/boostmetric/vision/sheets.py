"""Contact sheets: queries and their nearest pictures, before and after learning, as a figure or an HTML page."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boostmetric.optional import require
from boostmetric.report import paragraph, write_page
from boostmetric.vision.folders import Answer, Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIDE = 180  # pixels of a thumbnail
_RIGHT, _WRONG, _UNKNOWN = "#1a7f37", "#b35900", "#888888"
_STYLE = """
<style>
.row { display: flex; flex-wrap: wrap; gap: .6rem; align-items: flex-start; margin: .4rem 0 1rem; }
figure { margin: 0; width: 11.5rem; font-size: .8rem; }
figure img { width: 100%; border: 4px solid var(--mark); border-radius: 4px; box-sizing: border-box; display: block; }
figcaption { overflow-wrap: anywhere; color: #555; }
</style>
"""


def thumbnail(path: Path) -> Any:
    """Small copy of a picture, in colour, as a Pillow image."""
    image = require("PIL.Image", "vision", "Showing images")
    turned = require("PIL.ImageOps", "vision", "Showing images").exif_transpose
    with image.open(path) as opened:
        opened.draft("RGB", (2 * _SIDE, 2 * _SIDE))
        small = turned(opened).convert("RGB")
    small.thumbnail((_SIDE, _SIDE))
    return small


def contact_sheet(answers: Sequence[Answer]) -> Figure:
    """Draw two rows for each query: the nearest pictures before and after learning, right ones framed in green."""
    figures = require("matplotlib.figure", "plot", "A contact sheet")
    k = len(answers[0].before)
    figure: Figure = figures.Figure(figsize=(1.55 * (k + 1), 3.7 * len(answers)), layout="constrained", dpi=110)
    grid = figure.subplots(2 * len(answers), k + 1, squeeze=False)
    for axes in grid.ravel():
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    for i, answer in enumerate(answers):
        for row, (name, nearest) in enumerate(_rows(answer)):
            line = grid[2 * i + row]
            text = f"{name}\n{_said(answer, nearest)}"
            if row == 0:
                line[0].imshow(thumbnail(answer.query.path))
                line[0].set_title("query", fontsize=9, fontweight="bold")
                line[0].set_xlabel(text, fontsize=8)
            else:
                line[0].text(0.5, 0.5, text, fontsize=8, ha="center", va="center")
            for axes, (picture, distance) in zip(line[1:], nearest, strict=True):
                axes.imshow(thumbnail(picture.path))
                axes.set_xlabel(f"{picture.label or picture.path.stem}\n{distance:.3g}", fontsize=7)
                for spine in axes.spines.values():
                    spine.set(visible=True, color=_mark(answer, picture), linewidth=3)
    return figure


def write_sheet_page(path: Path, answers: Sequence[Answer], facts: str) -> None:
    """Write the same as an HTML page with embedded pictures.

    Parameters
    ----------
    path : Path
    answers : sequence of Answer
    facts : str
        Text on what was learned, and from what.
    """
    blocks = [_STYLE, paragraph(facts), paragraph(_legend(answers))]
    for answer in answers:
        blocks.append(f"<h2>{escape(answer.query.path.name)}</h2>")
        blocks.append(f'<div class="row">{_figure(answer.query, "query", _UNKNOWN)}</div>')
        for name, nearest in _rows(answer):
            said = _said(answer, nearest)
            blocks.append(f"<h3>{escape(name)}{': ' + escape(said) if said else ''}</h3>")
            shown = [_figure(picture, f"{distance:.3g}", _mark(answer, picture)) for picture, distance in nearest]
            blocks.append(f'<div class="row">{"".join(shown)}</div>')
    write_page(path, "Nearest pictures before and after learning", blocks)


def _rows(answer: Answer) -> list[tuple[str, list[tuple[Picture, float]]]]:
    return [("Before learning", answer.before), ("After learning", answer.after)]


def _said(answer: Answer, nearest: list[tuple[Picture, float]]) -> str:
    hits = answer.hits(nearest)
    return "" if hits is None else f"{hits} of {len(nearest)} right"


def _legend(answers: Sequence[Answer]) -> str:
    text = "Below each picture: its name and its distance."
    if any(answer.query.label is not None for answer in answers):
        text += " Pictures from the query's folder have a green frame."
    return text


def _mark(answer: Answer, picture: Picture) -> str:
    if answer.query.label is None:
        return _UNKNOWN
    return _RIGHT if picture.label == answer.query.label else _WRONG


def _figure(picture: Picture, caption: str, mark: str) -> str:
    buffer = io.BytesIO()
    thumbnail(picture.path).save(buffer, format="JPEG", quality=85)
    data = base64.b64encode(buffer.getvalue()).decode()
    name = escape(f"{picture.label}/{picture.path.name}" if picture.label else picture.path.name)
    return (
        f'<figure style="--mark: {mark}"><img alt="{name}" src="data:image/jpeg;base64,{data}">'
        f"<figcaption>{name}<br>{escape(caption)}</figcaption></figure>"
    )
