"""What a command says that cannot run: one line for the problem, whatever is in a path."""

import errno
import shlex
from pathlib import Path

import pytest

from wdsflow.cli.shared.refuse import refuse, refuse_in_lines, refuse_unreadable


def test_a_newline_in_a_message_begins_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        refuse("no file a\n  rm -rf shards", "look: ls", "")
    assert ended.value.code == 2
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == 2
    assert shown[0].startswith("wdsflow: no file a")
    assert shown[1] == "  look: ls"


def test_lines_of_our_own_stay_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        refuse_in_lines("nothing could be read:\n  a.tar: cut")
    assert capsys.readouterr().err == "wdsflow: nothing could be read:\n  a.tar: cut\n"


def test_a_file_without_permission_is_refused_with_the_nearest_folder_that_can_be_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    locked = tmp_path / "a folder"
    locked.mkdir()
    path = locked / "unseen" / "0.tar"

    with pytest.raises(SystemExit) as ended:
        refuse_unreadable(PermissionError(errno.EACCES, "Permission denied", str(path)))

    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines() == [
        f"wdsflow: cannot open {path}: Permission denied",
        f"  to see who may: ls -ld {shlex.quote(str(locked))}",
    ]
