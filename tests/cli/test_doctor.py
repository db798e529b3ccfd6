import json

import pytest

import wdsflow.validate.checkup
from wdsflow.cli.main import main
from wdsflow.text.shell import Command
from wdsflow.validate.checkup import Diagnosis

BROKEN = [
    Diagnosis(
        "versions",
        "error",
        "a\x1b[31m fails with b",
        Command("pip install " + "very-long-name " * 20),
    ),
    Diagnosis("shared memory", "ok", "plenty"),
]


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", *words])
    return int(ended.value.code or 0)


def test_what_will_break_is_status_1_with_its_fix_on_one_line(monkeypatch, capsys):
    monkeypatch.setattr(wdsflow.validate.checkup, "examine", lambda: BROKEN)
    assert run() == 1
    shown = capsys.readouterr().out
    assert any(
        line.strip().startswith("run: pip install " + "very-long-name " * 19)
        for line in shown.splitlines()
    )
    assert "\x1b" not in shown


def test_warnings_alone_are_status_0(monkeypatch, capsys):
    monkeypatch.setattr(
        wdsflow.validate.checkup, "examine", lambda: [Diagnosis("cores", "warning", "few", "buy")]
    )
    assert run() == 0
    assert "warning" in capsys.readouterr().out


def test_json_holds_the_same(monkeypatch, capsys):
    monkeypatch.setattr(wdsflow.validate.checkup, "examine", lambda: BROKEN)
    assert run("--json") == 1
    tree = json.loads(capsys.readouterr().out)
    assert (tree["ok"], tree["checks"][0]["status"]) == (False, "error")


def test_this_machine_can_be_examined(capsys):
    assert run() in {0, 1}
    assert "python" in capsys.readouterr().out
