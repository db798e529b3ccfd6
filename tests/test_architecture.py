"""The three ways through the house are described as they are."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WAYS = re.split(r"^## ", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:4]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.splitlines()[0])
def test_a_way_leads_through_files_that_are_there(way):
    files = re.findall(r"^\| `([^`]+\.py)`", way, re.MULTILINE)
    assert 10 <= len(files) <= 25
    assert [name for name in files if not (ROOT / name).is_file()] == []
    for node in re.findall(r"\[([a-z_]+/[\w/]+)\]", way):
        place = node if node.startswith(("validate/", "stages/")) else f"wdsflow/{node}"
        assert (ROOT / f"{place}.py").is_file() or (ROOT / place).is_dir(), node
