"""Files next to the shards."""

import json

import pytest

from tests.validate.openclip import plain, write
from wdsflow.readers.open_clip.sidecars import read_sidecars
from wdsflow.shards.shard import Shard


def found(folder, evidence):
    return read_sidecars([shard.url for shard in evidence.shards], evidence)


@pytest.fixture
def evidence(tmp_path):
    return write(tmp_path, [plain(3), plain(4), plain(5)])


def test_no_sidecars_are_no_trouble(tmp_path, evidence):
    sidecars = found(tmp_path, evidence)
    assert sidecars.facts == []
    assert sidecars.folders[str(tmp_path)].sizes is None


def test_right_counts_are_no_trouble(tmp_path, evidence):
    counts = {"0000.tar": 3, "0001.tar": 4, "0002.tar": 5}
    (tmp_path / "sizes.json").write_text(json.dumps(counts))
    (tmp_path / "__len__").write_text("12")
    for name, count in counts.items():
        (tmp_path / name.replace(".tar", "_stats.json")).write_text(
            json.dumps({"count": 9, "successes": count})
        )
    splits = {"train": {"filenames": list(counts), "shard_lengths": list(counts.values())}}
    (tmp_path / "_info.json").write_text(json.dumps({"splits": splits}))
    (tmp_path / "other.json").write_text("[not json")
    assert found(tmp_path, evidence).facts == []


def test_wrong_counts_are_named(tmp_path, evidence):
    (tmp_path / "sizes.json").write_text(json.dumps({"0000.tar": 3, "0001.tar": 44}))
    (tmp_path / "0002_stats.json").write_text(json.dumps({"successes": 6}))
    splits = {"train": {"filenames": ["x/0001.tar"], "shard_lengths": [1]}}
    (tmp_path / "_info.json").write_text(json.dumps({"splits": splits}))
    facts = {
        (fact.path.rpartition("/")[2], fact.problem): fact
        for fact in found(tmp_path, evidence).facts
    }
    assert facts["sizes.json", "missing"].detail == "does not list 0002.tar"
    assert facts["sizes.json", "stale"].detail == "0001.tar: 44 instead of 4"
    assert facts["*_stats.json", "stale"].detail == "0002.tar: 6 instead of 5"
    assert facts["_info.json", "stale"].detail == "0001.tar: 1 instead of 4"
    assert facts["_info.json", "missing"].shards == 2
    assert found(tmp_path, evidence).folders[str(tmp_path)].without_stats == [
        "0000.tar",
        "0001.tar",
    ]


def test_a_shard_that_is_missing_is_not_missed_in_a_list_of_counts(tmp_path, evidence):
    (tmp_path / "sizes.json").write_text(json.dumps({"0000.tar": 3, "0001.tar": 4}))
    evidence.shards[2].fail("missing", "no such file")
    assert found(tmp_path, evidence).facts == []


def test_a_wrong_total_is_named(tmp_path, evidence):
    (tmp_path / "__len__").write_text("11")
    (fact,) = found(tmp_path, evidence).facts
    assert (fact.problem, fact.detail) == ("stale", "says 11; there are 12")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sizes.json", b'{"0000.tar": 3'),
        ("sizes.json", b"\xff\xfe"),
        ("sizes.json", b"[" * 200_000),
        ("sizes.json", b"[]"),
        ("__len__", b"__import__('os').system('true')"),
        ("__len__", b"9" * 2000),
        ("__len__", b"(" * 900),
        ("__len__", b"'12'"),
        ("0000_stats.json", b"{"),
        ("_info.json", b'{"splits": 3}'),
        ("_info.json", b"{}"),
        (
            "_info.json",
            b'{"splits": {"train": {"filenames": ["0000.tar"], "shard_lengths": [3, 4]}}}',
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_a_fact(tmp_path, evidence, name, text):
    (tmp_path / name).write_bytes(text)
    facts = found(tmp_path, evidence).facts
    assert [(fact.path.rpartition("/")[2], fact.problem) for fact in facts] == [(name, "malformed")]


def test_a_sidecar_larger_than_the_bound_is_not_read(tmp_path, evidence):
    with open(tmp_path / "sizes.json", "wb") as stream:
        stream.truncate(1 << 40)
    (fact,) = found(tmp_path, evidence).facts
    assert "larger than" in fact.detail


def test_names_from_sidecars_are_escaped(tmp_path):
    evidence = write(tmp_path, [plain(1)])
    evidence.shards[0].url = f"{tmp_path}/a\x1b[31m.tar"
    (tmp_path / "sizes.json").write_text("{}")
    (fact,) = found(tmp_path, evidence).facts
    assert "\x1b" not in fact.detail


def test_urls_that_are_no_files_have_no_sidecars(evidence):
    for shard in evidence.shards:
        shard.url = Shard.url("https://example.org/" + shard.url)
    assert found(None, evidence).folders == {}
