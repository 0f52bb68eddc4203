"""The Python blocks of README and docs run, and print what their comments say."""

import contextlib
import io
import re
import sqlite3
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CLUSTER = "from boostmetric.engines.ray import"
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}", marks=[pytest.mark.ray] if CLUSTER in block else [])
    for page in PAGES
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M))
]


# Packages that only some blocks need, and what tells.
OPTIONAL = {
    "faiss": r"^import faiss\b|backend=.*faiss",
    "onnxruntime": r"^import onnxruntime\b",
    "qdrant_client": r"^from qdrant_client\b",
    "duckdb": r"^import duckdb\b",
    "sqlite_vec": r"^import sqlite_vec\b",
    "milvus_lite": r"^from pymilvus\b",
    "pymilvus": r"^from pymilvus\b",
    "langchain_core": r"^from langchain_core\b",
    "llama_index.core": r"^from llama_index\b",
    "cv2": r"^from boostmetric\.vision\b",
    "ray": r"^from boostmetric\.engines\.ray\b",
}


@pytest.mark.parametrize("block", BLOCKS)
def test_block_prints_what_it_says(block, tmp_path, monkeypatch):
    for package, sign in OPTIONAL.items():
        if re.search(sign, block, re.M):
            pytest.importorskip(package)
    if "enable_load_extension" in block and not hasattr(sqlite3.Connection, "enable_load_extension"):
        pytest.skip("the sqlite3 of this Python loads no extensions")
    monkeypatch.chdir(tmp_path)  # some save a picture
    stated = re.findall(r"^print\(.*?#\s*(.+)$", block, re.M)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, "<documentation>", "exec"), {})
    lines = printed.getvalue().splitlines()
    assert len(lines) == len(stated)
    for line, expected in zip(lines, stated, strict=True):
        decimals = len(expected.partition(".")[2])
        assert f"{float(line):.{decimals}f}" == expected


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
