"""The catalog is complete, and every manual page has its parts."""

import re
from pathlib import Path

import pytest

from tests.distributions import write_distribution
from wdsflow.cli.main import main
from wdsflow.scan.tallies import TALLIES
from wdsflow.validate import rules
from wdsflow.validate.catalog.manual_pages import explain
from wdsflow.validate.catalog.rule_catalog import (
    BadRule,
    UnknownCode,
    builtin_rules,
    by_code,
    catalog,
)
from wdsflow.validate.rules.kit.base import Rule, TallyRule

FOLDER = Path(rules.__file__).parent
GOLDEN = Path(__file__).parent / "golden"
PARTS = ("What: ", "Why it matters: ", "In practice: ", "Fix: ")
# "tar.directory" is shown by `wdsflow inspect` and no reader minds; "key.again-junk" tells how W032
# hurts, and "key.again-twin" W012; "column.other-type" makes a verdict uncertain, and is no fault.
INFORMATIONAL = {
    "name.keyed-by-folder",
    "column.other-type",
    "tar.directory",
    "key.again-junk",
    "key.again-twin",
}


def test_every_rule_of_a_file_is_in_the_catalog():
    codes = re.findall(
        r'^    code = "([A-Z][0-9]{3})"$',
        "".join(path.read_text() for path in FOLDER.glob("*.py")),
        re.MULTILINE,
    )

    assert len(codes) > 100
    assert sorted(codes) == sorted(builtin_rules())


@pytest.mark.parametrize("code", builtin_rules())
def test_every_rule_has_a_golden_file(code: str):
    assert (GOLDEN / f"{code}.txt").is_file(), (
        f"add a case {code} to cases.py, and run pytest tests/validate/rules -k {code} with WDSFLOW_UPDATE_GOLDENS=1"
    )


@pytest.mark.parametrize("rule", builtin_rules().values(), ids=builtin_rules())
def test_every_manual_page_has_its_parts_in_order(rule: type[Rule]):
    lines = (rule.__doc__ or "").rstrip().splitlines()
    paragraphs = re.split(r"\n\s*\n", (rule.__doc__ or "").strip())

    assert 10 <= len(lines) <= 30, "a manual page has 10 to 30 lines"
    assert paragraphs[0].endswith(".")
    assert len(paragraphs[0].splitlines()) == 1
    assert len(paragraphs) == 5
    assert [
        paragraph.strip().startswith(part)
        for paragraph, part in zip(paragraphs[1:], PARTS, strict=True)
    ] == [True] * 4


@pytest.mark.parametrize("rule", builtin_rules().values(), ids=builtin_rules())
def test_commands_of_a_manual_page_can_be_pasted(rule: type[Rule]):
    for code in re.findall(r"``(.+?)``", rule.__doc__ or "", re.DOTALL):
        # Longer ones fit on no line.
        assert "\n" not in code or len(code) > 90


def test_every_tally_is_used_by_a_rule():
    used = {
        name
        for rule in builtin_rules().values()
        if issubclass(rule, TallyRule)
        for name in rule.tallies
    }

    assert used | INFORMATIONAL == set(TALLIES)
    assert not used & INFORMATIONAL


def test_explain_shows_the_page_of_a_code_in_any_case():
    page = explain(" w006 ")

    assert page.startswith(
        "W006 (error): The members of a sample are not next to each other\n\nWhat: "
    )
    assert "\nFix: ``wdsflow repair SHARD -o repaired``" in page
    assert page.endswith("Not reported in shards where one of these is: W012\n")


def test_explain_names_the_nearest_code():
    with pytest.raises(UnknownCode, match=r"no rule has the code 'W0006'; did you mean W006"):
        explain("W0006")


class Foreign(Rule):
    """A rule of another distribution."""

    code = "X901"
    severity = "info"

    def check(self, context):
        return ()


def foreign_rule(folder: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Install a distribution whose entry point names an object."""
    write_distribution(folder, "foreign", {"wdsflow.rules": {"x901": place}})
    monkeypatch.syspath_prepend(str(folder))


def test_rules_of_other_distributions_join_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert "X901" not in catalog()
    foreign_rule(tmp_path, monkeypatch, f"{__name__}:Foreign")

    assert catalog()["X901"] is Foreign
    assert explain("X901") == "X901 (info): A rule of another distribution\n\n\n"


@pytest.mark.parametrize(
    "place", ["wdsflow:__doc__", "builtins:int", "wdsflow.validate.rules.kit.base:Rule"]
)
def test_an_entry_point_that_is_no_rule_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
):
    foreign_rule(tmp_path, monkeypatch, place)

    with pytest.raises(BadRule, match=f"x901 = {place}: not a subclass"):
        catalog()


def test_a_code_cannot_be_taken_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(Foreign, "code", "W001")
    foreign_rule(tmp_path, monkeypatch, f"{__name__}:Foreign")

    refusal = r"the code W001 is that of wdsflow\.validate\.rules\.archive_damage\.Truncated: give it another, or uninstall foreign"
    with pytest.raises(BadRule, match=refusal):
        catalog()
    # Before any shard is read.
    for words in (
        ["validate", "nowhere.tar"],
        ["explain"],
        ["explain", "W001"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
        assert re.match(f"wdsflow: .*{refusal}", capsys.readouterr().err)


def test_two_files_of_wdsflow_cannot_have_the_same_code(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Foreign, "code", "W001")

    with pytest.raises(BadRule, match="the code W001 is that of"):
        by_code([builtin_rules()["W001"], builtin_rules()["W002"], Foreign])
