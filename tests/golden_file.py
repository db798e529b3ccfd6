"""Whole texts in files, word by word: one text a file, or one a section.

``WDSFLOW_UPDATE_GOLDENS=1 pytest ...`` writes them again; a failure prints the whole command.
"""

import difflib
import os
import re
import shlex
from pathlib import Path

import pytest

UPDATE = "WDSFLOW_UPDATE_GOLDENS"
_ROOT = Path(__file__).parents[1]
_HEAD = re.compile(r"^=== (.*)\n", re.MULTILINE)


def check_file(path: Path, text: str) -> None:
    """Fail unless the file has this text."""
    if os.environ.get(UPDATE):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if not path.exists():
        _fail(f"there is no {_shown(path)}")
    _compare(path.read_text(encoding="utf-8"), text)


def check_text(path: Path, name: str, text: str) -> None:
    """Fail unless the section of that name in the file is this text."""
    _, *parts = _HEAD.split(path.read_text(encoding="utf-8")) if path.exists() else [""]
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    if os.environ.get(UPDATE):
        sections[name] = f"{text}\n"
        path.write_text(
            "".join(f"=== {each}\n{sections[each]}" for each in sorted(sections)), encoding="utf-8"
        )
    if name not in sections:
        _fail(f"{_shown(path)} has no section {name!r}")
    _compare(sections[name].removesuffix("\n"), text)


def _compare(expected: str, text: str) -> None:
    assert text
    if text != expected:
        lines = difflib.unified_diff(expected.split("\n"), text.split("\n"), lineterm="", n=1)
        _fail("\n".join(lines))


def _fail(reason: str) -> None:
    """Fail with the command that writes what the running test says now."""
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
    command = f"{UPDATE}=1 .venv/bin/python -m pytest {shlex.quote(test)}"
    pytest.fail(f"{reason}\nTo write it, and then read the diff: {command}", pytrace=False)


def _shown(path: Path) -> str:
    return str(path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else path)
