"""Megatron-Energon's reader: what it takes, what leaves a set without an index, and what helps."""

import gzip
import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.archives import Entry, write
from tests.conformance.compare import RealReader, RealReaders, environments
from tests.conformance.generate import make_set
from tests.conformance.indexed import write_index
from tests.readers.shapes import outcomes, shard, verdict
from tests.validate.rules.build import jpeg
from wdsflow import check, index_shards, repair_shards
from wdsflow.readers import Energon, EnergonCrude, Options
from wdsflow.readers.shared_keys import (
    continued_shards,
    may_share_keys,
    repeated_key,
    shards_sharing_a_key,
)
from wdsflow.scan.evidence import Evidence, ShardEvidence, Tally
from wdsflow.scan.scan import scan_shard
from wdsflow.scan.shapes import Run, Runs
from wdsflow.shards.source.base import single_shard
from wdsflow.shards.tar.members import Stop
from wdsflow.shards.urls import NoShards
from wdsflow.validate import Verdict
from wdsflow.validate.catalog.manual_pages import page
from wdsflow.validate.catalog.rule_catalog import catalog
from wdsflow.validate.verdicts.judge import judge

GOOD, BAD = "jpg txt", "jpg"


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ("jpg txt", "usable"),
        ("webp txt json:bad cls:bad", "usable"),
        ("png txt:empty", "usable"),
        ("jpg", "no-caption"),
        ("txt", "no-image"),
        ("JPG txt", "no-image"),
        ("jpg TXT", "no-caption"),
        ("jpg json", "no-caption"),
        ("jpg:bad txt", "bad-image jpg"),
        ("jpg:bomb txt", "too-large jpg"),
        ("jpg png:bad txt", "bad-field png"),
        ("jpg txt:not-utf8", "bad-caption txt"),
        ("jpg:bad txt jpg", "usable"),
        ("jpg txt jpg:bad", "bad-image jpg"),
        ("__key__ jpg txt __bad__", "usable"),
    ],
)
def test_energon_decodes_what_its_field_map_names(members: str, expected: str) -> None:
    assert outcomes(Energon(), members) == [expected]


def test_a_damaged_shard_is_not_in_the_index() -> None:
    cut = shard([GOOD] * 2, Stop("error"), "b.tar")
    assert verdict(Energon(), shard([GOOD] * 3), cut) == ("loses", 3, ["unopened"])
    assert judged(shard([GOOD] * 3), cut).reasons[0].message == (
        "2 of 5 samples: they are in shards that are damaged, and left out of its index"
    )
    assert verdict(Energon(), cut) == ("crashes", 0, ["no-index"])


def test_energon_gives_up_where_nothing_can_be_used() -> None:
    assert verdict(Energon(), shard([BAD] * 3)) == ("crashes", 0, ["gives-up", "no-caption"])
    assert verdict(Energon(), shard([BAD] * 3 + [GOOD])) == ("loses", 1, ["no-caption"])


@pytest.mark.parametrize(("skipped", "exact"), [(49, True), (50, False)])
def test_many_skipped_samples_may_come_in_a_row(skipped: int, exact: bool) -> None:
    found = judged(shard([BAD] * skipped + [GOOD]))
    assert found.exact is exact
    assert ("in a row" in found.note) is not exact


def judged(*shards: ShardEvidence) -> Verdict:
    return judge(Evidence("full", list(shards)), Energon())


def spanned(keys: range, folder: str = "") -> ShardEvidence:
    return ShardEvidence(
        single_shard(f"{folder}{keys[0]}.tar"),
        key_sketch=tuple(keys)[:64],
        key_span=(f"{keys[0]:05d}", f"{keys[-1]:05d}"),
    )


def test_what_is_not_known_of_an_index_is_said() -> None:
    sound, energon = shard([GOOD] * 3), Energon()
    assert energon.why_uncertain([sound]) == ""
    for kind in ("name.not-utf8", "name.junk-not-utf8"):
        foreign = shard([GOOD] * 3)
        foreign.tallies[kind] = Tally(1)
        assert energon.why_uncertain([sound, foreign]) == (
            "whether a name that is not UTF-8 belongs to a sample is not known, which would leave"
            " it without an index"
        )
        cut = shard([GOOD] * 3, stop=Stop("error", 512, "cut"))
        cut.tallies[kind] = Tally(1)
        assert "UTF-8" not in energon.why_uncertain([sound, cut])


def test_shards_share_keys_or_not_or_it_is_not_known() -> None:
    first, behind = spanned(range(100)), spanned(range(100, 200))
    assert shards_sharing_a_key([first, behind]) is None
    assert not may_share_keys([behind, first])

    overlapping = spanned(range(99, 200))
    assert shards_sharing_a_key([first, overlapping]) is None  # their smallest hashes are others
    assert may_share_keys([overlapping, first])
    assert not may_share_keys([first, spanned(range(99, 200), "other/")])

    small, part = spanned(range(10)), spanned(range(9, 12))
    assert shards_sharing_a_key([small, part]) == (small, part)
    assert not may_share_keys([small, spanned(range(3, 60, 20))])  # all keys of both are known
    assert shards_sharing_a_key([first, spanned(range(50, 200))]) == (
        first,
        spanned(range(50, 200)),
    )


def hashed(number: int, hashes: range, junk: range = range(0)) -> ShardEvidence:
    return ShardEvidence(
        single_shard(f"d/{number}.tar"), key_sketch=tuple(hashes), junk_sketch=tuple(junk)
    )


def test_equal_hashes_are_equal_keys_if_they_are_many_or_all_are_known() -> None:
    full = hashed(0, range(64))
    seven, eight = hashed(1, range(57, 121)), hashed(2, range(56, 120))
    assert shards_sharing_a_key([full, seven]) is None
    assert shards_sharing_a_key([full, eight]) == (full, eight)
    most = hashed(3, range(63))
    assert shards_sharing_a_key([most, hashed(4, range(62, 125))]) == (
        most,
        hashed(4, range(62, 125)),
    )
    assert shards_sharing_a_key([most, hashed(4, range(62, 126))]) is None
    twin, other = hashed(5, range(3), range(9, 12)), hashed(6, range(9, 12))
    assert shards_sharing_a_key([twin, other]) is None  # keys of junk are no keys of samples
    assert shards_sharing_a_key([twin, hashed(7, range(20, 22), range(11, 13))]) is not None
    assert (
        shards_sharing_a_key(
            [hashed(8, range(1), range(64)), hashed(9, range(5, 6), range(57, 60))]
        )
        is None
    )


def ended(head: str, tail: str | None) -> ShardEvidence:
    runs = Runs(Run(head, 0, ()), (), None if tail is None else Run(tail, 512, ()))
    return ShardEvidence(single_shard(f"{head}{tail}.tar"), runs=runs)


@pytest.mark.parametrize(
    ("shards", "number"),
    [
        ([("a", "b"), ("b", "c"), ("c", "d")], 2),
        ([("a", "b"), ("c", "d")], 0),
        ([("a", None)], 0),
        ([("a", None), ("a", None)], 2),
        ([("a", "a"), ("b", "c")], 0),
        ([("a", "b"), ("b", "x"), ("b", "y")], 1),
        ([("a", "b"), ("z", "b"), ("b", "y")], 2),
    ],
)
def test_shards_meet_where_one_ends_with_the_key_with_which_another_begins(
    shards: list[tuple[str, str | None]], number: int
) -> None:
    assert (
        continued_shards(
            [*(ended(*each) for each in shards), ShardEvidence(single_shard("empty.tar"))]
        )
        == number
    )


def test_a_key_that_comes_again_is_that_of_two_samples() -> None:
    assert repeated_key(ShardEvidence(single_shard("a.tar"))) is None
    assert (
        repeated_key(
            ShardEvidence(
                single_shard("a.tar"),
                tallies={"key.again": Tally(0, "x"), "key.again-twin": Tally(2, "y")},
            )
        )
        == "y"
    )
    assert (
        repeated_key(
            ShardEvidence(
                single_shard("a.tar"),
                tallies={"key.again": Tally(1, "x"), "key.again-twin": Tally(2, "y")},
            )
        )
        == "x"
    )


def entries(keys: range) -> list[Entry]:
    return [
        Entry(f"{key:04d}.{field}", data)
        for key in keys
        for field, data in (("jpg", jpeg()), ("txt", b"a cat"))
    ]


SOUND = entries(range(3))
UNENDED = -(-len(write(SOUND, 1).data.rstrip(b"\0")) // 512) * 512  # bytes without the end mark
FAULTS: dict[str, bytes] = {  # of the second shard
    "compressed": gzip.compress(write(SOUND, 1).data),
    "no sample": bytes(10240),
    "not UTF-8": write(
        [Entry(entry.name.replace("0001", "caf\udce9"), entry.data) for entry in SOUND], 1
    ).data,
    "the key 0000 twice": write([SOUND[0], *SOUND[2:], SOUND[1]], 1).data,
    "the key d/ twice": write(
        [Entry("d/._a.jpg", b"x"), *SOUND[:2], Entry("d/._b.jpg", b"x"), *SOUND[2:]], 1
    ).data,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_repair_helps_where_one_shard_leaves_all_without_an_index(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.tar").write_bytes(write(entries(range(10, 12)), 1).data)
    Path("b.tar").write_bytes(FAULTS[fault])

    report = check(".", ["energon"], level="full")

    (found,) = report.verdicts
    assert (found.outcome, found.usable, found.reasons[0].slug) == ("crashes", 0, "no-index")
    assert fault in found.reasons[0].message
    assert any(finding.severity == "error" for finding in report.findings) or fault == "not UTF-8"
    assert not has_index(Path())
    advice = report.advice[0]
    assert advice.command == "wdsflow repair . -o repaired"
    repair_shards(["."], "repaired")
    assert has_index(Path("repaired"))
    assert (
        check("repaired", ["energon"], level="full").verdicts[0].usable
        == advice.usable
        == (2 if "no s" in fault else 5)
    )


def test_a_repair_into_one_folder_promises_nothing_where_two_folders_have_the_same_keys(
    tmp_path: Path,
) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.tar").write_bytes(write(SOUND, 1).data)
    (tmp_path / "b" / "b.tar").write_bytes(write(SOUND, 1).data[:UNENDED])
    report = check(
        [str(tmp_path / "a" / "a.tar"), str(tmp_path / "b" / "b.tar")], ["energon"], level="full"
    )
    assert (report.verdicts[0].outcome, report.verdicts[0].usable) == ("loses", 3)
    assert not any("repair" in each.command for each in report.advice)


def test_a_shard_that_is_not_in_the_index_shares_no_key(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(write(entries(range(3)), 1).data)
    (tmp_path / "b.tar").write_bytes(write(SOUND, 1).data[: UNENDED - 512])
    report = check(tmp_path, ["energon"])
    assert (report.verdicts[0].outcome, report.verdicts[0].usable) == ("loses", 3)
    assert [each.severity for each in report.findings if each.code == "W008"] in ([], ["warning"])


def test_keys_that_begin_anew_in_each_shard_leave_a_set_without_an_index(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.tar").write_bytes(write(entries(range(100)), 1).data)

    report = check(tmp_path, ["energon"])

    assert report.verdicts[0].reasons[0].message.endswith("(a.tar and b.tar have a key in common)")
    assert [finding.code for finding in report.findings if finding.severity == "error"] == ["W008"]
    assert not has_index(tmp_path)


def samples_of(each: ShardEvidence) -> int:
    return (
        sum(item.count for item in each.runs.inner)
        + (each.runs.head is not None)
        + (each.runs.tail is not None)
    )


def has_index(folder: Path) -> bool:
    index_shards(str(folder), ["energon"])
    return (folder / ".nv-meta" / ".info.json").exists()


@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.deep)])
def test_the_index_has_the_samples_that_the_reader_finds(times: int, tmp_path: Path) -> None:
    reader, indexed = Energon(), 0
    for seed in range(12 * times):
        folder = tmp_path / str(seed)
        folder.mkdir()
        found = [scan_shard(single_shard(url)) for url in make_set(seed, folder, apart=True).urls]
        try:
            expected = has_index(folder)
        except NoShards:
            expected = False
        assert (reader.crash_at_start(found) is None) is expected, seed
        if expected:
            indexed += 1
            counts = json.loads((folder / ".nv-meta" / ".info.json").read_text())["shard_counts"]
            opened = [each for each in found if reader.opens(each)]
            assert counts == {Path(each.url).name: samples_of(each) for each in opened}, seed
    assert indexed > 3


@pytest.fixture
def energon(real_readers: RealReaders) -> Iterator[RealReader]:
    (environment,) = (each for each in environments(os.environ) if each.reader == "energon")
    if environment.missing:
        pytest.skip(environment.missing)
    with real_readers.open(environment) as reader:
        yield reader


@pytest.mark.deep
def test_energon_itself_takes_captions_from_json_as_the_advice_says(
    energon: RealReader, tmp_path: Path
) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    described = [Entry("b.jpg", jpeg()), Entry("b.json", b'{"description": "two dogs"}')]
    (folder / "0.tar").write_bytes(write([*entries(range(1)), *described], 1).data)
    (advice,) = (
        each
        for each in check(folder, ["energon"], level="full").advice
        if "dataset.yaml" in each.action
    )

    write_index("energon", folder)
    assert [len(worker) for worker in energon.read([str(folder / "0.tar")], Options())["keys"]] == [
        1
    ]
    settings = folder / ".nv-meta" / "dataset.yaml"
    settings.write_text(advice.command)
    found = energon.read([str(folder / "0.tar")], Options())
    assert ([len(worker) for worker in found["keys"]], found["error"]) == ([2], None)


@pytest.mark.deep
def test_energon_itself_reads_what_a_repair_wrote(energon: RealReader, tmp_path: Path) -> None:
    read = 0
    for seed in range(40):
        folder = tmp_path / str(seed)
        folder.mkdir()
        make_set(seed, folder, apart=True)
        repaired = tmp_path / f"{seed}-repaired"
        try:
            repair_shards([str(folder)], str(repaired))
        except NoShards:
            continue
        urls = [str(path) for path in sorted(repaired.glob("*.tar"))]
        if not urls:
            continue
        (predicted,) = check(urls, ["energon"], level="full").verdicts
        write_index("energon", repaired)
        found = energon.read(urls, Options())
        assert (predicted.outcome == "crashes") == (found["error"] is not None), (
            seed,
            predicted,
            found,
        )
        assert predicted.usable == sum(map(len, found["keys"])), seed
        why = [reason.slug for reason in predicted.reasons]
        assert "no-index" not in why or "in common" in predicted.reasons[0].message, (
            seed,
            predicted,
        )
        read += predicted.usable > 0
    assert read > 10


@pytest.mark.deep
def test_energon_itself_reads_what_the_command_on_the_page_of_shared_keys_gives(
    energon: RealReader, tmp_path: Path
) -> None:
    for name in "ab":
        (tmp_path / f"{name}.tar").write_bytes(write(SOUND, 1).data)
    (command,) = re.findall(r"`(energon prepare [^`]+)`", page(catalog()["W008"]))
    program, *words = command.replace("FOLDER", str(tmp_path)).split()
    there = Path(os.environ["WDSFLOW_INDEX_READERS"]).parent / program
    subprocess.run([there, *words], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    index_shards([str(tmp_path)], ["energon"])

    found = energon.read([str(tmp_path / "a.tar"), str(tmp_path / "b.tar")], Options())

    assert ([len(worker) for worker in found["keys"]], found["error"]) == ([6], None)
    assert check(tmp_path, ["energon"]).verdicts[0].usable == 6


def test_a_reserved_field_ends_crude_samples_when_its_turn_comes() -> None:
    odd = shard(["jpg txt", "jpg txt", "jpg txt __key__"], url="a/b.tar")
    assert verdict(EnergonCrude(), odd)[::2] == ("crashes", ["reserved-field"])
    assert (
        verdict(EnergonCrude(), replace(odd, stop=Stop("eof")), shard(["jpg txt"]))[0] != "crashes"
    )


@pytest.mark.parametrize(
    ("members", "crude", "plain"),
    [
        ("jpg txt", "usable", "usable"),
        ("jpg txt json:bad", "bad-field json", "usable"),
        ("jpg txt seg.PNG:bad", "bad-field seg.PNG", "usable"),
        ("jpg txt TXT:not-utf8", "usable", "usable"),
        ("jpg txt cls:bad mp4:bad", "bad-field cls", "usable"),
        ("jpg txt text.gz:not-utf8", "bad-field text.gz", "usable"),
        ("jpg txt __x.json:bad", "usable", "usable"),
        ("jpg txt __key__", "crash reserved-field __key__", "usable"),
        ("jpg:bad txt", "bad-image jpg", "bad-image jpg"),
        ("JPG txt", "no-image", "no-image"),
        ("jpg json:bad", "no-caption", "no-caption"),
    ],
)
def test_crude_samples_need_all_their_fields(members: str, crude: str, plain: str) -> None:
    assert outcomes(EnergonCrude(), members) == [crude]
    assert outcomes(Energon(), members) == [plain]
