"""Sphinx configuration of the documentation site: `make docs`."""

import sys
from pathlib import Path

import boostmetric

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "boostmetric"
author = "The boostmetric developers"
copyright = author
highlight_language = "none"  # for indented blocks, which are commands
version = release = boostmetric.__version__

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "repository",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "extensions", "templates", "gallery/*.ipynb", "gallery/*.zip"]
templates_path = ["templates"]
nitpicky = True
default_role = "code"  # in docstrings; `repository` turns public names into links
suppress_warnings = ["misc.highlighting_failure"]  # \\copy, a psql command, in SQL blocks

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3  # same as on git hosts
myst_dmath_double_inline = False

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings describe them in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # templates/autosummary/class.rst lists them

html_theme = "furo"
html_title = f"boostmetric {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
copybutton_exclude = ".linenos, .gp, .go"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "thumbnail_size": (480, 280),
    "capture_repr": (),  # show what a block prints, not its last value
    "reference_url": {"boostmetric": None},  # names in examples link to the API
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 3600,  # hide run times
}


def _skip_inherited(app, what, name, obj, skip, options):
    """Skip members inherited from scikit-learn, which documents them."""
    function = getattr(obj, "fget", None) or getattr(obj, "__func__", obj)
    module = getattr(function, "__module__", None) or ""
    return True if what == "class" and not module.startswith("boostmetric") else None


def setup(app):
    """Register the handler."""
    app.connect("autodoc-skip-member", _skip_inherited)
