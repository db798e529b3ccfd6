"""Hugging Face datasets without streaming.

All shards are written to tables before the first row.
"""

import json
from pathlib import Path

import pytest

from tests.readers.shapes import shard, verdict
from tests.validate.rules.build import Members, jpeg, pairs, samples, tar
from wdsflow import check
from wdsflow.readers import Datasets, DatasetsTables, scan_options
from wdsflow.readers.datasets_columns import first_columns
from wdsflow.scan.evidence import Tally
from wdsflow.shards.source.base import single_shard
from wdsflow.shards.tar.members import Stop
from wdsflow.validate import Verdict


def judged(folder: Path, members: Members, reader: str = "datasets-tables") -> Verdict:
    path = folder / "0.tar"
    path.write_bytes(tar(members))
    return check(path, [reader], level="full").verdicts[0]


@pytest.mark.parametrize(
    ("second", "slug"),
    [
        (shard(["jpg txt"], Stop("error"), url="b.tar"), "truncated-shard"),
        (shard(["jpg txt"], Stop("unreadable"), url="b.tar"), "unreadable-shard"),
        (shard(["jpg txt json:bad"], url="b.tar"), "bad-field"),
        (shard(["jpg txt", "jpg txt txt"], url="b.tar"), "duplicate-field"),
    ],
)
def test_an_error_in_any_shard_leaves_no_row(second: object, slug: str) -> None:
    first = shard(["jpg txt"] * 5)

    assert verdict(Datasets(), first, second)[:2] == ("crashes", 5 + (slug == "duplicate-field"))  # type: ignore[arg-type]
    assert verdict(DatasetsTables(), first, second) == ("crashes", 0, [slug])  # type: ignore[arg-type]


def test_images_are_decoded_only_when_rows_are_read() -> None:
    shards = shard(["jpg txt", "jpg txt", "jpg:bad txt"]), shard(["jpg txt"], url="b.tar")

    assert verdict(DatasetsTables(), *shards) == ("crashes", 2, ["bad-image"])


def test_a_name_that_is_not_utf_8_ends_it_in_any_shard() -> None:
    late = shard(["jpg txt"] * 9, url="b.tar")
    late.tallies["name.not-utf8"] = Tally(1, "caf\udce9", 512, "caf\udce9.jpg")

    assert verdict(Datasets(), shard(["jpg txt"] * 9), late)[:2] == ("trains", 18)
    assert verdict(DatasetsTables(), shard(["jpg txt"] * 9), late) == (
        "crashes",
        0,
        ["not-utf8-name"],
    )


@pytest.mark.parametrize(
    ("values", "streams", "tables"),
    [
        ([{"n": 1}] * 7, True, True),
        ([{"n": 1}] * 6 + [{"n": 1 << 64}], True, False),
        ([{"n": 1}] * 6 + [{"n": "many"}], False, False),
        ([{"n": None}] * 6 + [{"n": 5}], True, False),
        ([{"n": [1, 2]}] * 6 + [{"n": [1, "a"]}], True, False),
        ([{"n": []}] * 6 + [{"n": ["a"]}], True, False),
        ([{"n": "a"}] * 6 + [{"n": "\ud800"}], True, False),
        ([{"n": 1.5}] * 6 + [{"n": 2}], True, True),
        ([{"n": [1]}] * 6 + [{"n": [1, 2.5]}], True, False),
        ([{"n": [1]}] * 6 + [{"n": [1, 2.0]}], True, True),
    ],
)
def test_a_table_is_stricter_than_python(
    values: list[object], streams: bool, tables: bool, tmp_path: Path
) -> None:
    members = [
        member
        for index, value in enumerate(values)
        for member in samples(1, index, jpg=jpeg(), txt=b"a dog", json=json.dumps(value).encode())
    ]
    for reader, runs in (("datasets", streams), ("datasets-tables", tables)):
        found = judged(tmp_path, members, reader)
        assert (found.outcome, found.usable == len(values), found.exact) == (
            "trains" if runs else "crashes",
            runs,
            True,
        )


def test_a_label_of_more_than_64_bits_is_found(tmp_path: Path) -> None:
    found = judged(tmp_path, [*pairs(6, cls=b"7"), *pairs(1, 6, cls=str(1 << 70).encode())])

    assert (found.outcome, found.usable, found.reasons[0].slug) == ("crashes", 0, "table")


def test_what_cannot_be_written_is_reported_and_the_fix_keeps_its_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wdsflow import repair_shards

    monkeypatch.chdir(tmp_path)
    members = [*pairs(6, json=b'{"n": null}'), *pairs(1, 6, json=b'{"n": 5}')]
    (tmp_path / "0.tar").write_bytes(tar(members))
    report = check("0.tar", ["datasets", "datasets-tables"], level="full")
    (finding,) = (each for each in report.findings if each.code == "F126")

    assert finding.readers == ("datasets-tables",)
    assert (finding.key, finding.severity) == ("006", "error")
    (advice,) = report.advice
    assert advice.command == "wdsflow repair 0.tar -o repaired --rename json=json_raw"
    assert (advice.reader, advice.usable) == ("datasets-tables", 7)
    repair_shards(["0.tar"], "repaired", rename={"json": "json_raw"})
    assert check("repaired/0.tar", ["datasets-tables"], level="full").verdicts[0].usable == 7


def test_only_this_reader_has_every_value_tried_with_arrow(tmp_path: Path) -> None:
    (tmp_path / "0.tar").write_bytes(tar(pairs(3, json=b'{"n": 1}')))
    url = str(tmp_path / "0.tar")

    assert scan_options(
        "full", [Datasets()], list(map(single_shard, [url]))
    ).columns == first_columns(single_shard(url))
    assert not first_columns(single_shard(url)).types
    assert list(
        scan_options(
            "full", [Datasets(), DatasetsTables()], list(map(single_shard, [url]))
        ).columns.types
    ) == ["json"]  # type: ignore[union-attr]
