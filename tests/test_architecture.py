"""The three ways through the house are described as they are."""

import ast
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


def test_each_room_is_listed_with_what_belongs_there():
    rooms = {
        f"| `{path.parent.relative_to(ROOT)}/` | {ast.get_docstring(ast.parse(path.read_text(encoding='utf-8'))).splitlines()[0]} |"
        for folder in ("wdsflow", "validate", "stages")
        for path in (ROOT / folder).rglob("__init__.py")
        if path.parent != ROOT / "wdsflow" and not set(path.relative_to(ROOT).parts[1:2]) & {"validate", "stages"}
    }
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert sorted(rooms - set(page.splitlines())) == []
