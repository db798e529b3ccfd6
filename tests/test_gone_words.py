"""Nothing that a user reads names commands, options and files that wdsflow does not have."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "llms.txt",
    ROOT / "action.yml",
    ROOT / ".pre-commit-hooks.yaml",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "scripts").rglob("*.py")),
    *sorted((ROOT / "wdsflow" / "cli").rglob("*.py")),
    *sorted((ROOT / "tests").rglob("golden/*.txt")),
]
GONE = (
    r"wdsflow (?:serve|verify|diff|bisect|score|cut)\b(?!-)",
    r"wdsflow\(\s*[\"'](?:serve|verify|diff|bisect|score|cut)[\"']",
    r"--(?:certify|croissant|manifest|checksums|numbering|media-root|tar-samples|tar-size|max-bad|force|measure)(?![\w-])",
    r"--(?:captions|images|img2dataset|dali|wids|webshart|ledger-[ab])(?![\w-])",
    r"--to (?:jsonl|tar)\b",
    r"checksums\.json",
    r"\bJUnit\b|--format junit",
    r"--for (?:dali|wids)\b",
    r"wdsflow\.(?:serving|bisection)\b",
    r"(?:score|diff|bisect)_(?:shards|sets)\b",
    r"\[serve\]",
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_nothing_that_is_gone(page: Path):
    text = page.read_text("utf-8")
    assert [match[0] for pattern in GONE for match in re.finditer(pattern, text)] == []


def test_the_patterns_find_what_they_are_for():
    text = "wdsflow serve in; wdsflow score in -o x; validate --certify c; index --wids --force; --for dali; [serve]"
    assert sum(len(re.findall(pattern, text)) for pattern in GONE) == 7
    assert not any(
        re.search(pattern, "wdsflow scores; --captions-from; --force-quick-gelu; diff -r a b")
        for pattern in GONE
    )
