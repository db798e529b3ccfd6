"""The page of all rules."""

import re

from wdsflow.validate.rule_pages import reference
from wdsflow.validate.rules.rule_catalog import RULES


def test_the_page_has_every_rule_once_with_its_four_parts():
    page = reference()
    codes = re.findall(r"^### ([A-Z]\d{3}): ", page, re.MULTILINE)

    assert sorted(codes) == sorted(RULES)
    assert len(codes) == len(set(codes))
    for part in ("What", "Why it matters", "In practice", "Fix"):
        assert len(re.findall(rf"^\*\*{part}:\*\* ", page, re.MULTILINE)) == len(RULES)


def test_code_is_marked_as_markdown_wants_it():
    page = reference()

    assert "``" not in page
    assert r"The shard has a \_\_MACOSX folder" in page
    assert "`__MACOSX/`" in page
