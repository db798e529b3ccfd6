import pytest

from wdsflow.cli.main import main
from wdsflow.validate.explain import catalogue


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["explain", *words])
    return int(ended.value.code or 0)


def test_without_a_code_all_rules_are_listed(capsys):
    assert run() == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown] == [code for code, _, _ in catalogue()]


def test_a_page_is_printed_for_a_code_in_any_case(capsys):
    assert run("w006") == 0
    page = capsys.readouterr().out
    assert page.startswith("W006")
    assert "Cure:" in page


def test_an_unknown_code_is_wrong_use_with_a_hint(capsys):
    assert run("W9") == 2
    shown = capsys.readouterr().err
    assert "W9" in shown
    assert "wdsflow explain" in shown
