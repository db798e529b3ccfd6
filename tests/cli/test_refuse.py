"""What a command says that cannot run: one line for the problem, whatever is in a path."""

import pytest

from wdsflow.cli.shared.refuse import refuse, refuse_in_lines


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
