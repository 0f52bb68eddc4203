"""Formulas as MathML, which browsers render natively: pages need no script and no external files.

docutils can convert LaTeX; Sphinx only lacks a renderer that uses it. A formula that cannot be converted is a warning,
which fails the build.
"""

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def _converted(node, as_block):
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logger.warning("no MathML for %r: %s", node.astext(), error, location=node)
        return ""


def visit_inline(translator, node):
    """Write an inline formula."""
    translator.body.append(_converted(node, as_block=False))
    raise nodes.SkipNode


def visit_block(translator, node):
    """Write a display formula."""
    translator.body.append(f'<div class="math">{_converted(node, as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    """Register the renderer, as "mathml"."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
