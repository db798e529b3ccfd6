"""A report leads to the cause of the losses, and advises only what the reader can do."""

import json
from pathlib import Path

import pytest

from tests.training.shards import samples, write_tar
from wdsflow import check
from wdsflow.validate import Report
from wdsflow.validate.catalog.manual_pages import explain

Members = list[tuple[str, bytes]]
PAIRS = samples(0, 8)
# A cause -> members of which no sample reaches a batch.
CAUSES: dict[str, Members] = {
    "W006": [*PAIRS[::2], *PAIRS[1::2]],
    "W010": [(f"v1.{name}", data) for name, data in PAIRS],
}


def checked(folder: Path, members: Members, *readers: str) -> Report:
    return check(write_tar(folder / "0.tar", members), readers, jobs=1)


@pytest.mark.parametrize("cause", CAUSES)
def test_the_last_line_explains_the_cause_and_not_its_consequence(tmp_path: Path, cause: str):
    report = checked(tmp_path, CAUSES[cause], "open-clip-3.3")
    assert {"P301", cause} <= {finding.code for finding in report.findings}
    assert str(report).rstrip().endswith(f"wdsflow explain {cause}")


def test_code_for_a_pipeline_of_ones_own_is_shown_for_readers_that_have_one(tmp_path: Path):
    document = json.dumps({"caption": "a red house"}).encode()
    members = [
        (name.replace(".txt", ".json"), document if name.endswith("txt") else data)
        for name, data in PAIRS
    ]
    assert "wds.decode" in str(checked(tmp_path, members, "webdataset-0.2"))
    for reader in ("open-clip-3.3", "open-clip-4"):
        assert "wds." not in str(checked(tmp_path, members, reader)), reader


def test_an_unfinished_download_is_as_severe_as_its_page_says(tmp_path: Path):
    for number in range(3):
        write_tar(tmp_path / f"0000{number}.tar", PAIRS)
    (tmp_path / "00000_stats.json").write_text('{"count": 8, "successes": 8}')
    (tmp_path / "00001_stats.json").write_text('{"count": 8, "successes": 8}')
    (finding,) = check(tmp_path, select=["P307"], jobs=1).findings
    assert finding.severity == "error"
    assert explain("P307").startswith("P307 (error): ")
