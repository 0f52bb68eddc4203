"""Self-contained HTML page: tables and pictures are embedded, and nothing is loaded from elsewhere.

Texts may come from users' files, so all text is escaped; strings that are already HTML have the type `Html`. The page's
policy forbids the browser to load anything, and to run any script but the page's own.
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
    """Text that is already HTML, and is not escaped again."""

    __slots__ = ()


def html(text: str) -> Html:
    """Convert text to HTML: escape it, unless it is already HTML."""
    return text if isinstance(text, Html) else Html(escape(text))


def heading(text: str, anchor: str = "") -> Html:
    """Heading of a section, with an optional anchor to link to."""
    name = f' id="{escape(anchor)}"' if anchor else ""
    return Html(f"<h2{name}>{html(text)}</h2>")


def paragraph(text: str, title: str = "") -> Html:
    """Paragraph of text, with an optional title in bold before it."""
    before = f"<b>{html(title)}.</b> " if title else ""
    return Html(f"<p>{before}{html(text)}</p>")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, strong: int | None = None) -> Html:
    """Table with text in the first column and numbers in the others; the row `strong` is highlighted."""
    head = "".join(f'<th scope="col">{html(cell)}</th>' for cell in header)
    lines = []
    for number, row in enumerate(rows):
        cells = "".join(f"<td>{html(cell)}</td>" for cell in row)
        kind = ' class="strong"' if number == strong else ""
        lines.append(f"<tr{kind}>{cells}</tr>")
    return Html(f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>')


def picture(figure: Figure, description: str) -> Html:
    """Figure embedded as PNG, with a description for people who cannot see it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    data = base64.b64encode(buffer.getvalue()).decode()
    return Html(f'<img alt="{escape(description)}" src="data:image/png;base64,{data}">')


def data_block(name: str, data: Any) -> Html:
    """Data for the script of the page, as JSON that no text in it can break out of."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Html(f'<script type="application/json" id="{escape(name)}">{text}</script>')


def write_page(path: Path, title: str, blocks: Sequence[str], *, script: str = "") -> None:
    """Write a page of the given HTML blocks, with a script that runs at the end."""
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
        # Lone surrogates cannot be encoded: as character references, browsers show the replacement character.
        temporary.write_text(text, encoding="utf-8", errors="xmlcharrefreplace", newline="\n")


def percent(share: float, decimals: int = 0) -> str:
    """Format a share as a percentage.

    Examples
    --------
    >>> from boostmetric.report.page import percent
    >>> percent(0.125, 1)
    '12.5 %'
    """
    return f"{100.0 * share:.{decimals}f} %"


def part(name: str) -> str:
    """Text of a file that comes with this package."""
    return resources.files("boostmetric.report").joinpath(name).read_text(encoding="utf-8")
