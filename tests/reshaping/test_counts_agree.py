"""What commands write into sizes.json is what ``validate`` counts: files of macOS are no samples, a key counts once."""

import json
from pathlib import Path

import pytest

from tests.filtering.commands import run
from tests.shards.archives import write_tar
from wdsflow.validate import check

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
    run("score", "a.tar", "-o", "scores", "--scores", "caption_words", "--workers", 0)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("reshard", "a.tar", "-o", "out"),
        ("graft", "a.tar", "-o", "out", "--from", "t.csv", "--on", "key", "--set", "txt=caption"),
        ("filter", "a.tar", "-o", "out", "--where", "caption_words >= 0", "--workers", "0", "--unknown", "keep"),
        (
            *"cut a.tar -o out --ledger scores --unknown keep --workers 0 --numbering dense --where".split(),
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
    assert "5 x of macOS" in done.out
    assert json.loads(Path("out/sizes.json").read_bytes()) == {"00000.tar": 4}


def test_graft_copies_files_of_macos_and_says_that_they_are_not_counted(here: Path):
    done = run("graft", "a.tar", "-o", "out", "--from", "t.csv", "--on", "key", "--set", "txt=caption")
    assert "not counted in sizes.json: 6 samples" in done.out
    assert json.loads(Path("out/sizes.json").read_bytes()) == {"a.tar": 3}


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


def test_the_sample_that_is_parted_is_named_and_a_shard_of_files_of_macos_between_hides_none(here: Path):
    Path("mac").mkdir()
    write_tar(here / "twins.tar", [(f"p/{name}", b"1") for name in ("._1.jpg", "1.jpg", "._1.txt", "1.txt")])
    assert "such as p/1 in twins.tar" in run("reshard", "twins.tar", "-o", "out").err
    for name, member in (("0.tar", "k.jpg"), ("1.tar", "__MACOSX/._a.jpg"), ("2.tar", "k.txt")):
        write_tar(here / "mac" / name, [(member, b"1")])
    assert "such as k in mac/0.tar" in run("reshard", "mac", "-o", "out").err
