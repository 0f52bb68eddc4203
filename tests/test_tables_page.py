"""What docs/files.md shows below its examples is what they give."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "files.md").read_text(encoding="utf-8")
# A block of Python, and the block of text that follows with no more than a sentence between them.
SHOWN = re.findall(r"^```python\n((?:(?!^```).)*?)^```\n(?:[^`]|`[^`]+`)*?^```text\n(.*?)^```", PAGE, re.S | re.M)


@pytest.mark.parametrize(("block", "text"), SHOWN, ids=range(len(SHOWN)))
def test_the_page_shows_what_is_said(block, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(block, "<documentation>", "exec"), names)
    assert names.get("message", names.get("description")) + "\n" == text


def test_all_are_found():
    assert len(SHOWN) == PAGE.count("```text") == 5
