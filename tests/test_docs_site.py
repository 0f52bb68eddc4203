"""What pages say about the code is so: names, excerpts, floors, and the list of the API."""

import importlib
import pydoc
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "boostmetric"
PAGES = sorted((ROOT / "docs").glob("*.md"))
NAMED = [
    pytest.param(module.replace("/", "."), name, id=f"{page.name}-{name}")
    for page in PAGES
    for name, module in sorted(
        set(
            re.findall(
                r"\[`((?!\w+\.py`)[\w.]+)`\]\(\.\./src/boostmetric/([\w/]+)\.py\)", page.read_text(encoding="utf-8")
            )
        )
    )
]
ALGORITHM = (ROOT / "docs" / "algorithm.md").read_text(encoding="utf-8")
EXCERPTS = re.findall(r"^```py\n(.*?)^```", ALGORITHM, re.S | re.M)


@pytest.mark.parametrize(("module", "name"), NAMED)
def test_names_that_link_to_a_file_are_in_it(module, name):
    assert f"{name}.".startswith(f"{module}.")
    assert pydoc.locate(f"boostmetric.{name}") is not None


@pytest.mark.parametrize("excerpt", EXCERPTS)
def test_excerpts_are_in_the_code(excerpt):
    assert any(_stripped(excerpt) in _stripped(file.read_text(encoding="utf-8")) for file in SOURCE.rglob("*.py"))


def _stripped(text):
    return "\n".join(line.strip() for line in text.strip().splitlines())


def test_every_equation_of_the_paper_is_mapped():
    places = ALGORITHM.partition("## Where each equation is")[2].partition("\n## ")[0]
    mapped = {
        int(number) for row in re.findall(r"^\| (.*?) \|", places, re.M) for number in re.findall(r"\((\d+)\)", row)
    }
    assert mapped == set(range(1, 11))


def test_api_page_lists_all_public_names():
    page = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8")
    listed = {
        module: re.findall(r"^   (\w+)$", names, re.M)
        for module, names in re.findall(r"^\.\. module:: (\S+)\n(.*?)(?=^\S+\n---|\Z)", page, re.S | re.M)
    }
    packages = {
        f"boostmetric.{file.parent.name}" for file in SOURCE.glob("*/__init__.py") if "__all__" in file.read_text()
    }
    assert packages <= set(listed)
    for module, names in listed.items():
        public = set(getattr(importlib.import_module(module), "__all__", names))
        if module != "boostmetric":
            public -= set(listed["boostmetric"])  # listed once
        if module == "boostmetric.paper.datasets":
            public &= set(names)  # the rest serves the command
        assert set(names) == public - {"__version__"}, module
        assert all(hasattr(importlib.import_module(module), name) for name in names)


def test_floors_are_those_that_make_lint_checks():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## Six floors")[2].partition("\n## ")[0]
    rows = [re.findall(r"`(\w+)`", row.split("|")[2]) for row in re.findall(r"^\|.*\|$", table, re.M)[2:]]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract.get("exhaustive"))
    assert rows == [layer.removeprefix("__main__ : ").split(" : ") for layer in layers]


def test_the_walk_of_a_fit_names_what_is_there():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walk = re.findall(r"^\d+\. \[`([\w/]+)\.py`\]\(\S+\): (.*)$", page, re.M)
    assert len(walk) <= 20
    for module, text in walk:
        for name in re.findall(r"`([\w.]+)`", text):
            assert pydoc.locate(f"boostmetric.{module.replace('/', '.')}.{name}") is not None or name == "components_"
