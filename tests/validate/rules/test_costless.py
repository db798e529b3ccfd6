"""Findings are no errors where nothing is lost, and fixes do not cost what they should save."""

from pathlib import Path

import pytest

from tests.validate.rules.build import Case, jpeg, pairs, samples, tar
from wdsflow import plan_repair


def _twins(reader: str, *, between: bool) -> Case:
    members = []
    for name, data in pairs(4):
        members += [("d/" + name, data)]
        members += [("d/._" + name, b"\0")] if between or name.endswith("txt") else []
    return Case({"0.tar": tar(members)}, readers=(reader,))


@pytest.mark.parametrize(
    ("reader", "between", "severity"),
    [
        ("open-clip-3.3", True, "error"),
        ("open-clip-3.3", False, "warning"),
        ("datasets", True, "warning"),
        ("webdataset-1", False, "error"),
    ],
)
def test_twins_are_an_error_only_where_they_part_samples_or_end_the_reader(
    reader: str, between: bool, severity: str, tmp_path: Path
):
    (finding,) = _twins(reader, between=between).findings(tmp_path, "W012")

    assert finding.severity == severity
    assert finding.readers == ((reader,) if severity == "error" else ())
    assert ("they split no sample here" in finding.message) is not between


def test_json_that_is_bad_in_every_sample_is_renamed_and_costs_no_sample(tmp_path: Path):
    case = Case({"0.tar": tar(samples(6, jpg=jpeg(), txt=b"a dog", json=b""))})
    (finding,) = case.findings(tmp_path, "F107")

    assert finding.severity == "error"
    plan = plan_repair(str(tmp_path / "0.tar"))
    assert (plan.options(), plan.expected_samples) == (("--rename-bad", "json=json_raw"), 6)
