"""The examples of the gallery run without a warning and end in a picture that shows something."""

import ast
import re
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(FOLDER.glob("plot_*.py"))


def ink(figure):
    """Share of the pixels that differ from the background."""
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())
    return (pixels != pixels[0, 0]).any(axis=2).mean()


@pytest.fixture
def figures(monkeypatch, tmp_path):
    """The figures that are open, drawn without a screen; one of `plt.show` would be in the way of tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.close("all")
    plt.switch_backend("Agg")
    yield lambda: [plt.figure(number) for number in plt.get_fignums()]
    plt.close("all")


def test_there_are_enough():
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_ends_in_a_picture(path, figures, capsys):
    runpy.run_path(str(path))
    assert figures()
    for figure in figures():
        assert all(panel.has_data() for panel in figure.axes if panel.axison and panel.spines["left"].get_visible())
        assert ink(figure) > 0.04
    assert re.search(r"\d", capsys.readouterr().out), "an example prints what it measures"
    assert not list(Path.cwd().iterdir()), "an example leaves no files"


def test_an_empty_picture_is_found_out(figures):
    plt.subplots()
    assert ink(figures()[0]) < 0.04
    assert not figures()[0].axes[0].has_data()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_written_for_the_gallery(path):
    """A title, text cells, and public names of the package only."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    title, underline = ast.get_docstring(tree).splitlines()[:2]
    assert underline == "=" * len(title)
    assert source.count("\n# %%\n") >= 2
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("boostmetric"):
            home = __import__(node.module, fromlist=["__all__"])
            assert {alias.name for alias in node.names} <= set(home.__all__)
