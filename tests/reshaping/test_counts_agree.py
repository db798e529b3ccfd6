"""The counts that commands write into sizes.json are those of ``validate``.

macOS metadata files are not samples, and a key counts once.
"""

import json
import re
from pathlib import Path

import pytest

from tests.filtering.commands import pasted, run
from tests.shards.archives import read_tar, write_tar
from wdsflow import check

COUNTED = ["p/0001", "p/0002", "p/0003"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    entries = []
    for key in [*COUNTED, "p/0001"]:
        twin = key.replace("p/", "p/._")
        entries += [
            (f"{twin}.jpg", b"\0\5\26\7" * 40),
            (f"{key}.jpg", b"\xff\xd8\xff\xe0" * 9),
            (f"{key}.txt", b"a caption"),
        ]
    write_tar(tmp_path / "a.tar", [*entries, ("__MACOSX/p/._0001.jpg", b"\0\5\26\7")])
    Path("t.csv").write_text("key,caption\np/0002,new\n")
    run("measure", "a.tar", "-o", "scores", "--scores", "caption_words", "--jobs", 0)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("reshard", "a.tar", "-o", "out"),
        ("graft", "a.tar", "-o", "out", "--from", "t.csv", "--on", "key", "--set", "txt=caption"),
        (
            "filter",
            "a.tar",
            "-o",
            "out",
            "--where",
            "caption_words >= 0",
            "--jobs",
            "0",
            "--unknown",
            "keep",
        ),
        (
            *"filter a.tar -o out --ledger scores --unknown keep --jobs 0 --where".split(),
            "caption_words > 0",
        ),
        ("repair", "a.tar", "-o", "out"),
    ],
    ids=" ".join,
)
def test_validate_counts_the_samples_that_sizes_json_counts(here: Path, words: tuple[str, ...]):
    done = run(*words)
    assert Path("out/sizes.json").exists(), done
    found = check("out", level="names", select=["P305"])
    assert not found.findings, done
    assert found.evidence.samples >= len(COUNTED)


def test_reshard_leaves_files_of_macos_out_and_says_so(here: Path):
    done = run("reshard", "a.tar", "-o", "out")
    assert done.status == 0
    assert "samples: 4 in = 4 out + 0 left out" in done.out
    assert (
        "members that belong to no sample: 5 left out\n  left out: 4 x appledouble\n  left out: 1 x macosx"
        in done.out
    )
    assert json.loads(Path("out/sizes.json").read_bytes()) == {"00000.tar": 4}


def test_graft_leaves_files_of_macos_out_and_says_so(here: Path):
    done = run(
        "graft", "a.tar", "-o", "out", "--from", "t.csv", "--on", "key", "--set", "txt=caption"
    )
    assert "1 shard: 4 of 4 samples written" in done.out
    assert "members left out: 4 x appledouble\n  members left out: 1 x macosx\n" in done.out
    assert "not counted in sizes.json: 1 sample that has the key of another sample" in done.out
    assert json.loads(Path("out/sizes.json").read_bytes()) == {"a.tar": 3}


TWIN = b"\0\5\26\7" * 9
MEMBERS = [(f"d/{number}.{field}", b"1") for number in range(12) for field in ("jpg", "txt")]
MACOS = {
    "as_tar_writes_them": [
        ("d/.DS_Store", b"1"),
        *MEMBERS[:2],
        ("d/._x.jpg", TWIN),
        ("d/._x.txt", TWIN),
        *MEMBERS[2:],
    ],
    "as_zip_writes_them": [*MEMBERS, *((f"__MACOSX/d/._{name[2:]}", TWIN) for name, _ in MEMBERS)],
    "without_their_prefix": [*MEMBERS, *((f"x/__MACOSX/{name}", TWIN) for name, _ in MEMBERS)],
}


@pytest.mark.parametrize("form", MACOS)
def test_all_commands_count_the_same_samples_next_to_files_of_macos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
):
    monkeypatch.chdir(tmp_path)
    write_tar(tmp_path / "a.tar", MACOS[form])
    Path("t.csv").write_text("key,caption\nd/1,new\n")
    more = len(MACOS[form]) - len(MEMBERS)
    assert check("a.tar", level="names").evidence.samples == 12
    done = run("filter", "a.tar", "-o", "filtered", "--where", "has('jpg')", "--jobs", 0)
    assert "12  samples in 1 shard" in done.out
    assert "12  kept" in done.out
    assert members_left_out(done.out) == more
    done = run("measure", "a.tar", "-o", "scored", "--scores", "bytes", "--jobs", 0)
    assert "12  samples in 1 shard" in done.out
    assert members_left_out(done.out) == more
    done = run(
        "graft", "a.tar", "-o", "grafted", "--from", "t.csv", "--on", "key", "--set", "txt=caption"
    )
    assert "12 of 12 samples written" in done.out
    assert members_left_out(done.out) == more
    done = run("reshard", "a.tar", "-o", "even", "--shards", 1)
    assert "samples: 12 in = 12 out + 0 left out" in done.out
    assert members_left_out(done.out) == more
    for folder in ("filtered", "even"):
        assert [name for name, _ in read_tar(next(Path(folder).glob("*.tar")))] == [
            name for name, _ in MEMBERS
        ]


@pytest.mark.parametrize(
    "words", [("filter", "--where", "has('jpg')"), ("measure", "--scores", "bytes")], ids=" ".join
)
def test_samples_that_files_of_macos_split_are_brought_together_by_the_printed_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
):
    monkeypatch.chdir(tmp_path)
    split = [entry for name, data in MEMBERS for entry in ((f"d/._{name[2:]}", TWIN), (name, data))]
    write_tar(tmp_path / "a.tar", split)
    done = run(words[0], "a.tar", "-o", "out", *words[1:], "--jobs", 0)
    assert done.status == 1
    repair, again = done.commands
    assert pasted(repair).status == 0
    assert "    12  samples in 1 shard" in pasted(again).out


@pytest.mark.parametrize(
    ("cut", "status"), [(0, 0), (1, 0), (-1, 1)], ids=["padding", "half_padding", "contents"]
)
def test_a_loss_is_reported_only_if_contents_are_missing_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int, status: int
):
    monkeypatch.chdir(tmp_path)
    write_tar(tmp_path / "whole.tar", MEMBERS)
    end = len(MEMBERS) * 1024 - 511  # the byte after the contents of the last member
    Path("a.tar").write_bytes(Path("whole.tar").read_bytes()[: end + cut])
    Path("t.csv").write_text("key,caption\nd/1,new\n")
    whole = 12 - status
    done = run("reshard", "a.tar", "-o", "even", "--shards", 1)
    assert (done.status, "lost:" in done.out) == (status, bool(status))
    assert f"samples: 12 in = {whole} out + {status} left out" in done.out
    done = run(
        "graft", "a.tar", "-o", "grafted", "--from", "t.csv", "--on", "key", "--set", "txt=caption"
    )
    assert (done.status, "lost:" in done.out) == (status, bool(status))
    assert f"{whole} of 12 samples written" in done.out
    done = run("filter", "a.tar", "-o", "filtered", "--where", "has('jpg')", "--jobs", 0)
    assert (done.status, f"{whole}  kept" in done.out) == (status, True)
    done = run("repair", "a.tar", "-o", "repaired")
    assert (done.status, "lost:" in done.out) == (status, bool(status))
    (finding,) = check("a.tar", level="names", select=["W001"]).findings
    assert ("no contents are missing" in finding.message) == (not status)


def members_left_out(text: str) -> int:
    """Return how many members a command left out, by the reasons that it prints."""
    lines = [
        line
        for line in text.splitlines()
        if re.search("left out: .*(appledouble|macosx|hidden)", line)
    ]
    return sum(
        int(count)
        for line in lines
        for count in re.findall(r"(\d+) (?:x )?(?:appledouble|macosx|hidden)", line)
    )


def test_shards_of_files_of_macos_alone_part_no_samples(here: Path):
    Path("mac").mkdir()
    for name, members in (
        ("0.tar", ["k.jpg"]),
        ("1.tar", ["__MACOSX/._a.jpg"]),
        ("2.tar", ["__MACOSX/._c.jpg"]),
        ("3.tar", ["l.jpg"]),
        ("4.tar", []),
    ):
        write_tar(here / "mac" / name, [(member, b"1") for member in members])
    assert run("reshard", "mac", "-o", "out", "--shards", 1).status == 0
    assert json.loads(Path("out/sizes.json").read_text()) == {"00000.tar": 2}


def test_the_sample_that_is_parted_is_named_and_a_shard_of_files_of_macos_between_hides_none(
    here: Path,
):
    Path("mac").mkdir()
    write_tar(
        here / "twins.tar",
        [(f"p/{name}", b"1") for name in ("._1.jpg", "1.jpg", "._1.txt", "1.txt")],
    )
    assert "such as p/1 in twins.tar" in run("reshard", "twins.tar", "-o", "out").err
    for name, member in (("0.tar", "k.jpg"), ("1.tar", "__MACOSX/._a.jpg"), ("2.tar", "k.txt")):
        write_tar(here / "mac" / name, [(member, b"1")])
    assert "such as k in mac/0.tar" in run("reshard", "mac", "-o", "out").err
