"""Links from pages to files of the repository, and from names to the API.

Pages are also read in the repository, so they use plain links: `[loop.py](../src/boostmetric/solver/loop.py)`. On the
site, a linked Python file becomes a page with its source. Any other file is a download, as by default. A folder has no
page, so its link becomes plain text. A name in code, such as `Comparisons.from_rankings`, links to its API entry.
"""

import pydoc
import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

logger = logging.getLogger(__name__)

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#\s]+)\)")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?=\(|$)")
PAGES = "sources"  # for Python files, written by every build


def _page_of(file, root):
    return ".".join(file.relative_to(root / "src" if "src" in file.parts else root).with_suffix("").parts)


def write_source_pages(app):
    """Write a page for every Python file that another page links to."""
    docs = Path(app.srcdir)
    root, folder = docs.parent, docs / PAGES
    folder.mkdir(exist_ok=True)
    files = {
        (docs / target).resolve()
        for page in docs.glob("*.md")
        for _, target in LINK.findall(page.read_text(encoding="utf-8"))
        if target.endswith(".py")
    }
    wanted = {}
    for file in files:
        title = file.relative_to(root).as_posix()
        include = f".. literalinclude:: ../../{title}\n   :language: python\n   :linenos:\n"
        text = f":orphan:\n\n{title}\n{'=' * len(title)}\n\n{include}"
        wanted[folder / f"{_page_of(file, root)}.rst"] = text
    for page, text in wanted.items():
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")
    for page in set(folder.glob("*.rst")) - set(wanted):
        page.unlink()


def redirect_links(app, docname, source):
    """Redirect the links of a page to source pages; folders become plain text."""
    docs = Path(app.srcdir)

    def redirected(match):
        text, target = match.groups()
        path = (docs / target).resolve()
        if path.is_dir():
            return text
        return f"[{text}](/{PAGES}/{_page_of(path, docs.parent)}.rst)" if path.suffix == ".py" else match[0]

    if Path(app.env.doc2path(docname)).suffix == ".md":
        source[0] = LINK.sub(redirected, source[0])


class NamesToApi(SphinxPostTransform):
    """Link code that is a public name to its entry in the API."""

    default_priority = 5

    def run(self):
        """Visit the code of a page."""
        for literal in list(self.document.findall(nodes.literal)):
            name = NAME.match(literal.astext())
            if name and not _inside_link(literal):
                found = self._find(name[0], literal)
                if found:
                    to, where, code = found.docname, found.node_id, literal.deepcopy()
                    literal.replace_self(make_refnode(self.app.builder, self.env.docname, to, where, code))

    def _find(self, name, literal):
        """The object a name refers to, if it ends exactly one public name and is not a plain word like `load`."""
        objects = self.env.get_domain("py").objects
        for full in [name, *(f"{owner}.{name}" for owner in _classes_around(literal))]:
            if full in objects:
                return objects[full]
        if name.startswith("boostmetric.") and pydoc.locate(name) is None:
            logger.warning("there is no %s", name, location=literal)
        if name.islower() and not {"_", "."} & set(name):
            return None
        kinds = {"method", "property", "attribute"} if "." in name else {"class", "exception", "function"}
        found = [
            entry
            for full, entry in objects.items()
            if full.endswith(f".{name}") and entry.objtype in kinds and not entry.aliased
        ]
        return found[0] if len(found) == 1 else None


def _inside_link(node):
    return isinstance(node.parent, nodes.reference) or (node.parent is not None and _inside_link(node.parent))


def _classes_around(node):
    """Full names of the classes whose description contains a node."""
    while node is not None:
        if isinstance(node, addnodes.desc) and node["objtype"] == "class":
            yield from node[0]["ids"]
        node = node.parent


def setup(app):
    """Register the handlers."""
    app.connect("builder-inited", write_source_pages)
    app.connect("source-read", redirect_links)
    app.add_post_transform(NamesToApi)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
