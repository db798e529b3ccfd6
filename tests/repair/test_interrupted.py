"""Repairs that are killed at any moment: a rerun gives the bytes of an undisturbed repair.

``WDSFLOW_KILLS=100`` kills more often.
"""

import gzip
import random
import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.filtering.shards import digests
from tests.killed import killed_again_and_again
from tests.shards.archives import JPEG, names, tar_bytes, write_tar
from wdsflow import repair_shards
from wdsflow.repair import OtherOptions

MODULES = ["wdsflow.repair.run_repair", "xxhash"]


def samples(shard: int, count: int = 100) -> list[tuple[str, bytes]]:
    pictures = [
        (f"{shard}{n:03}.jpg", JPEG * random.Random(n).randrange(100, 3000)) for n in range(count)
    ]
    # Apart: to be brought together.
    return [
        *pictures,
        *((f"{shard}{n:03}.txt", b"a caption") for n in range(count)),
    ]


@pytest.fixture
def shards(tmp_path: Path) -> str:
    """Six shards, half of them packed."""
    (tmp_path / "in").mkdir()
    for shard in range(6):
        data = tar_bytes(samples(shard))
        packed = shard % 2
        (tmp_path / "in" / f"{shard}.tar{'.gz' * packed}").write_bytes(
            gzip.compress(data, 1) if packed else data
        )
    return str(tmp_path / "in")


def times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.tar")}


def test_a_repair_killed_again_and_again_ends_with_the_same_bytes(shards: str, tmp_path: Path):
    out = tmp_path / "out"
    killed_again_and_again(partial(repair_shards, shards, out, jobs=2), out, MODULES)


def test_a_repair_killed_between_a_shard_and_its_record_resumes(shards: str, tmp_path: Path):
    out = tmp_path / "out"
    repair_shards(shards, out)
    whole = digests(out)
    lines = (out / ".wdsflow/repair.jsonl").read_bytes().splitlines(keepends=True)
    (out / ".wdsflow/repair.jsonl").write_bytes(b"".join(lines[:3]) + lines[3][:50])
    (out / "5.tar").unlink()
    (out / "5.tar.0a1b2c3d.wdsflow.tmp").write_bytes(b"half of it")
    before = times(out)
    report = repair_shards(shards, out)
    assert (report.resumed, report.stale_removed, report.changed) == (3, 1, [])
    assert digests(out) == whole
    assert {name for name, at in times(out).items() if at == before.get(name)} == {
        "0.tar",
        "1.tar",
        "2.tar",
    }


@pytest.mark.deep
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda folder, out: write_tar(folder / "2.tar", samples(7)), "the input changed"),
        (
            lambda folder, out: (out / "2.tar").write_bytes(b"other"),
            "2.tar was changed since it was written",
        ),
        (lambda folder, out: (out / "2.tar").unlink(), "2.tar is missing"),
    ],
)
def test_what_is_not_as_it_was_is_repaired_again_and_nothing_else(
    shards: str, tmp_path: Path, change, reason
):
    out = tmp_path / "out"
    repair_shards(shards, out)
    before = times(out)
    change(tmp_path / "in", out)
    report = repair_shards(shards, out)
    assert report.resumed == 5
    assert len(report.changed) == 1
    assert reason in report.changed[0]
    after = times(out)
    assert {name for name in before if after[name] != before[name]} == {"2.tar"}
    repair_shards(shards, tmp_path / "anew")
    assert digests(out) == digests(tmp_path / "anew")


def test_a_shard_that_could_not_be_read_is_tried_again(shards: str, tmp_path: Path):
    out, hidden = tmp_path / "out", tmp_path / "2.tar"
    shutil.move(tmp_path / "in" / "2.tar", hidden)
    urls = [f"{shards}/{n}.tar{'.gz' * (n % 2)}" for n in range(6)]
    assert repair_shards(urls, out).lost
    assert not (out / "2.tar").exists()
    shutil.move(hidden, tmp_path / "in" / "2.tar")
    report = repair_shards(urls, out)
    assert (report.resumed, report.lost) == (5, False)
    assert len(names(out / "2.tar")) == 200


@pytest.mark.deep
def test_other_options_are_refused_and_a_restart_removes_only_what_repairs_wrote(
    shards: str, tmp_path: Path
):
    out = tmp_path / "out"
    repair_shards(shards, out)
    (out / "mine.tar").write_bytes(b"mine")
    before = digests(out)
    for options, words in (
        ({"drop_bad": True}, "--drop-bad was not given, now it is given"),
        ({"caption": "json:c"}, "--caption was not given, now it is json:c"),
        (
            {"rename": {"jpg": "png"}, "drop_fields": ["npy"]},
            "--rename was not given, now it is jpg=png",
        ),
    ):
        with pytest.raises(OtherOptions, match=words):
            repair_shards(shards, out, **options)
    assert digests(out) == before
    repair_shards(f"{shards}/0.tar", out, rename={"jpg": "png"}, restart=True)
    assert sorted(path.name for path in out.glob("*.tar")) == ["0.tar", "mine.tar"]
    assert (out / "sizes.json").read_text() == '{\n "0.tar": 100\n}\n'
    assert names(out / "0.tar")[:2] == ["0000.png", "0000.txt"]


def test_two_repairs_do_not_work_in_one_folder_at_once(shards: str, tmp_path: Path):
    from wdsflow.records.folder_lock import Busy, Lock

    (tmp_path / "out/.wdsflow").mkdir(parents=True)
    with Lock(tmp_path / "out/.wdsflow/lock"), pytest.raises(Busy, match="another run works in"):
        repair_shards(shards, tmp_path / "out")
