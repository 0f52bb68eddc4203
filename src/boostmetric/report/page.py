"""One HTML page with tables and pictures inside it: no outside links, nothing to lose on the way.

Texts may come from users' files. Everything that is text here is escaped; what is HTML already says so by its type. The
page forbids the browser to load anything and to run any script but those that were written with it.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boostmetric.storage.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Html(str):
    """Text that is HTML already, and not escaped again."""

    __slots__ = ()


def html(text: str) -> Html:
    """Text as HTML: escaped, unless it is HTML already."""
    return text if isinstance(text, Html) else Html(escape(text))


def heading(text: str, anchor: str = "") -> Html:
    """The title of a section, perhaps with a name to link to."""
    name = f' id="{escape(anchor)}"' if anchor else ""
    return Html(f"<h2{name}>{html(text)}</h2>")


def paragraph(text: str, title: str = "") -> Html:
    """A block of running text, perhaps with a title in bold before it."""
    before = f"<b>{html(title)}.</b> " if title else ""
    return Html(f"<p>{before}{html(text)}</p>")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, strong: int | None = None) -> Html:
    """A table whose first column is text and whose others are numbers; the row `strong` stands out."""
    head = "".join(f'<th scope="col">{html(cell)}</th>' for cell in header)
    lines = []
    for number, row in enumerate(rows):
        cells = "".join(f"<td>{html(cell)}</td>" for cell in row)
        kind = ' class="strong"' if number == strong else ""
        lines.append(f"<tr{kind}>{cells}</tr>")
    return Html(f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>')


def picture(figure: Figure, description: str) -> Html:
    """A figure, embedded as PNG, with its description for those who cannot see it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    data = base64.b64encode(buffer.getvalue()).decode()
    return Html(f'<img alt="{escape(description)}" src="data:image/png;base64,{data}">')


def data_block(name: str, data: Any) -> Html:
    """Data for a script of the page, as JSON that no text in it can end."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Html(f'<script type="application/json" id="{escape(name)}">{text}</script>')


def write_page(path: Path, title: str, blocks: Sequence[str], *, script: str = "") -> None:
    """Write a page made of the given blocks, which are HTML, and of a script to run at its end."""
    sources = f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" if script else "'none'"
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {sources}"
    text = "\n".join(
        [
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<title>{escape(title)}</title><link rel="icon" href="data:,">',
            f"<style>{part('style.css')}</style></head>",
            f"<body><h1>{escape(title)}</h1>",
            *blocks,
            *([f"<script>{script}</script>"] if script else []),
            "</body></html>\n",
        ]
    )
    with replacing(path) as temporary:
        # Half of a surrogate pair is no character: as a reference to one it becomes the sign for that.
        temporary.write_text(text, encoding="utf-8", errors="xmlcharrefreplace", newline="\n")


def percent(share: float, decimals: int = 0) -> str:
    """A share as text.

    Examples
    --------
    >>> from boostmetric.report.page import percent
    >>> percent(0.125, 1)
    '12.5 %'
    """
    return f"{100.0 * share:.{decimals}f} %"


def part(name: str) -> str:
    """A file that comes with this package."""
    return resources.files("boostmetric.report").joinpath(name).read_text(encoding="utf-8")
