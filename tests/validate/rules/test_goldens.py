"""The text of each rule's findings, word by word.

``WDSFLOW_UPDATE_GOLDENS=1 pytest ...`` rewrites the golden files.
"""

from pathlib import Path

import pytest

from tests.golden_file import check_file
from tests.validate.rules.build import shown
from tests.validate.rules.cases import CASES
from wdsflow.validate.catalog.rule_catalog import builtin_rules

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("code", CASES)
def test_a_rule_says_what_its_golden_file_says(code: str, tmp_path: Path) -> None:
    findings = CASES[code].findings(tmp_path, code, *builtin_rules()[code].requires)
    text = shown([finding for finding in findings if finding.code == code], tmp_path)
    check_file(GOLDEN / f"{code}.txt", text)
