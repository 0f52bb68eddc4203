"""What pages say about the code is so: names, excerpts, floors, and the list of the API."""

import ast
import importlib
import pydoc
import re
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
# Imports that lead to a higher floor; docs/architecture.md names them.
DOORS = {("metric", "model_file"), ("neighbors", "gpu")}


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


def test_rooms_import_only_from_floors_below():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = [re.findall(r"`(\w+)`", row.split("|")[2]) for row in re.findall(r"^\|.*\|$", page, re.M)]
    floor = {room: number for number, rooms in enumerate(rows) for room in rooms}
    rooms = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert set(floor) == rooms - {"__init__", "__main__"}
    upwards = set()
    for file in SOURCE.rglob("*.py"):
        room = file.relative_to(SOURCE).with_suffix("").parts[0]
        for imported in _imported(file) & set(floor):
            if room in floor and imported != room and floor[imported] <= floor[room]:
                upwards.add((room, imported))
    assert upwards == DOORS


def _imported(file):
    """Rooms that a file imports from, anywhere in it; public names of the package stand for the rooms they are in."""
    homes = {name: home.split(".")[1] for name, home in importlib.import_module("boostmetric")._HOME.items()}
    rooms = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "boostmetric":
            rooms |= {homes.get(name.name, name.name) for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("boostmetric."):
            rooms.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            rooms |= {name.name.split(".")[1] for name in node.names if name.name.startswith("boostmetric.")}
    return rooms
