"""A text that differs from its golden file is reported with the command that writes the file.

The same goes for a text that has no golden file yet.
"""

import re
import shlex
from pathlib import Path

import pytest

from tests.golden_file import UPDATE, check_file, check_text


def test_a_missing_or_other_text_comes_with_the_command_that_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(UPDATE, raising=False)
    golden = tmp_path / "golden.txt"
    golden.write_text("=== old\nas it was\n")
    failures = []
    for name, text in (("new", "a text"), ("old", "as it is")):
        with pytest.raises(pytest.fail.Exception) as failure:
            check_text(golden, name, text)
        failures.append(str(failure.value))
    with pytest.raises(pytest.fail.Exception) as failure:
        check_file(tmp_path / "none.txt", "a text")
    failures.append(str(failure.value))

    assert "has no section 'new'" in failures[0]
    assert "-as it was\n+as it is" in failures[1]
    assert "there is no " in failures[2]
    this_test = f"{Path(__file__).relative_to(Path(__file__).parents[1])}::{test_a_missing_or_other_text_comes_with_the_command_that_writes_it.__name__}"
    for message in failures:
        command = shlex.split(message.splitlines()[-1].partition(": ")[2])
        assert command == [f"{UPDATE}=1", ".venv/bin/python", "-m", "pytest", this_test]


def test_what_the_command_writes_passes_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sections, whole = tmp_path / "golden.txt", tmp_path / "golden" / "whole.txt"
    monkeypatch.setenv(UPDATE, "1")
    check_text(sections, "b", "second")
    check_text(sections, "a", "first\nof two lines")
    check_file(whole, "a text\n")

    monkeypatch.delenv(UPDATE)
    check_text(sections, "a", "first\nof two lines")
    check_text(sections, "b", "second")
    check_file(whole, "a text\n")
    assert re.findall("=== .", sections.read_text()) == ["=== a", "=== b"]
