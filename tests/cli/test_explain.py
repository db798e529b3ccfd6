import pytest

from wdsflow.cli.main import main
from wdsflow.validate.catalog.rule_catalog import rule_list


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["explain", *words])
    return int(ended.value.code or 0)


def test_without_a_code_all_rules_are_listed(capsys):
    assert run() == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown] == [code for code, _, _ in rule_list()]


def test_a_page_is_printed_for_a_code_in_any_case(capsys):
    assert run("w006") == 0
    page = capsys.readouterr().out
    assert page.startswith("W006")
    assert "Fix:" in page


@pytest.mark.parametrize("words", [["explain", "P326"], ["scores", "word_repetition"]])
def test_a_page_in_the_terminal_has_no_markup(words, capsys):
    with pytest.raises(SystemExit):
        main(words)
    page = capsys.readouterr().out
    assert "`" not in page
    assert ("'--pipeline'" if words[0] == "explain" else "runs of 'n' words") in page


@pytest.mark.parametrize(
    ("code", "meant"), [("W06", "W006"), ("f0101", "F101"), ("X999", ""), ("W999", ""), ("6", "")]
)
def test_an_unknown_code_is_wrong_use_and_names_another_only_where_one_is_like_it(
    capsys, code, meant
):
    assert run(code) == 2
    hint = f"; did you mean {meant}?" if meant else ""
    assert (
        capsys.readouterr().err
        == f"wdsflow: no rule has the code {code.upper()!r}{hint}\n  all codes: wdsflow explain\n"
    )
