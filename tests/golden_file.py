"""Whole texts in a file of sections, word by word. ``WDSFLOW_UPDATE_GOLDENS=1 pytest ...`` writes them again."""

import difflib
import os
import re
from pathlib import Path

import pytest

_HEAD = re.compile(r"^=== (.*)\n", re.MULTILINE)


def check_text(path: Path, name: str, text: str) -> None:
    """Fail unless the section of that name in the file is this text."""
    _, *parts = _HEAD.split(path.read_text(encoding="utf-8")) if path.exists() else [""]
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    if os.environ.get("WDSFLOW_UPDATE_GOLDENS"):
        sections[name] = f"{text}\n"
        path.write_text(
            "".join(f"=== {each}\n{sections[each]}" for each in sorted(sections)), encoding="utf-8"
        )
    expected = sections[name].removesuffix("\n")
    assert text
    if text != expected:
        pytest.fail(
            "\n".join(
                difflib.unified_diff(expected.split("\n"), text.split("\n"), lineterm="", n=1)
            ),
            pytrace=False,
        )
