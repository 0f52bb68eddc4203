"""One HTML page with tables and pictures inside it: no outside links, nothing to lose on the way."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from boostmetric.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid #ccc; text-align: right; vertical-align: top; }
td { white-space: nowrap; }
small { color: #666; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; }
"""


def heading(text: str) -> str:
    """The title of a section."""
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str, title: str = "") -> str:
    """A block of running text, perhaps with a title in bold before it."""
    return f"<p><b>{escape(title)}.</b> {escape(text)}</p>" if title else f"<p>{escape(text)}</p>"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def picture(figure: Figure, description: str) -> str:
    """A figure, embedded as PNG, with its description for those who cannot see it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    data = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="{escape(description)}" src="data:image/png;base64,{data}">'


def write_page(path: Path, title: str, blocks: Sequence[str]) -> None:
    """Write a page made of the given blocks."""
    text = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><h1>{escape(title)}</h1>\n" + "\n".join(blocks) + "\n</body></html>\n"
    )
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
