"""``wdsflow reshard``: exit status, output, and the commands that it prints."""

import json
from pathlib import Path

import pytest

from tests.cli.shards import with_txt
from tests.printed.pasted import Done, commands, paste, run
from tests.reshaping.sets import entries, in_folder, members, write_set
from tests.shards.archives import write_tar


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with shards in ``s``."""
    write_set(tmp_path / "s")
    return tmp_path


def reshard(folder: Path, *words: str) -> Done:
    out = [] if "-o" in words else ["-o", "out"]
    return run(["reshard", "s", *out, *words], folder)


def test_other_options_than_those_of_the_shards_are_named_as_they_were(here: Path):
    assert reshard(here, "--samples", "4").status == 0
    refused = reshard(here, "--samples", "4", "--shuffle", "3", "--divisible-by", "2x2")
    assert refused.status == 2
    assert (
        "with other options: --divisible-by was not given, now it is 2x2;"
        " --shuffle was not given, now it is 3\n"
    ) in refused.errors


@pytest.mark.deep
def test_the_counts_add_up_and_the_next_step_is_shown(here: Path):
    done = reshard(here, "--divisible-by", "2x4", "--shuffle", "1", "--split", "train=0.5,val=0.3")
    assert done.status == 0
    lines = done.out.splitlines()
    assert (
        lines[0]
        == "before: uneven: 4 shards for 2 ranks x 4 workers; 4 workers of 8 would get no shard"
    )
    assert lines[2].startswith("train: after: even: 8 shards for 2 ranks x 4 workers; 1 shard and ")
    counts = {name: int((here / "out" / name / "__len__").read_text()) for name in ("train", "val")}
    out = sum(counts.values())
    assert lines[5:] == [
        "4 inputs -> 16 shards",
        f"samples: 100 in = {out} out + {100 - out} left out",
        f"  left out: {100 - out} x in no part of the split",
        f"to train on it: --train-data 'out/train/{{00000..00007}}.tar' --train-num-samples {counts['train']}",
        "next: wdsflow validate out/train",
        f"to train on it: --train-data 'out/val/{{00000..00007}}.tar' --train-num-samples {counts['val']}",
        "next: wdsflow validate out/val",
    ]
    assert [
        json.loads((here / f"out/{name}/sizes.json").read_text()).keys() for name in counts
    ] == [{f"0000{number}.tar" for number in range(8)}] * 2
    again = reshard(here, "--divisible-by", "2x4", "--shuffle", "1", "--split", "train=0.5,val=0.3")
    assert "4 inputs -> 16 shards (16 shards done before)" in again.out


def test_shards_without_samples_are_status_1_and_the_next_step_is_to_look(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [])
    done = run(["reshard", "0.tar", "-o", "out"], tmp_path)
    assert done.status == 1
    assert done.out.splitlines()[1:] == [
        "no samples: nothing written",
        "1 input -> 0 shards",
        "samples: 0 in = 0 out + 0 left out",
        "next: wdsflow validate 0.tar",
    ]


def test_a_shard_that_is_named_twice_is_reported_by_any_of_its_names(tmp_path: Path):
    write_set(tmp_path / "s", (3,))
    shard = str(next((tmp_path / "s").glob("*.tar")))
    (tmp_path / "link.tar").symlink_to(shard)
    done = run(["reshard", shard, "link.tar", "-o", "out"], tmp_path)
    told = "wdsflow: link.tar is named twice: its samples are written twice\n"
    assert done.errors == told
    assert run(["reshard", shard, shard, shard, "-o", "more"], tmp_path).errors.count("twice") == 2
    assert "twice" not in run(["reshard", shard, "-o", "once"], tmp_path).errors


@pytest.mark.deep
def test_ranks_and_workers_of_the_report_are_those_asked_for(here: Path):
    done = reshard(here, "--samples", "10", "--even-for", "5x2")
    assert (
        "after: even: 10 shards for 5 ranks x 2 workers; 1 shard and 10 samples for each worker"
        in done.out
    )
    done = run(["reshard", "s", "-o", "other", "--shards", "3", "--even-for", "1x2"], here)
    assert (
        "after: uneven: 3 shards for 1 rank x 2 workers; 33 to 67 samples for each worker"
        in done.out
    )


def test_renamed_samples_are_counted_and_shown(here: Path):
    write_tar(here / "s/4.tar", entries(["000000001", "\x1b[31m"], "again"))
    write_tar(here / "s/5.tar", entries(["\x1b[31m"], "again"))
    done = reshard(here, "--shards", "1")
    assert (
        "renamed: 2 samples whose key was in the shard already, such as 000000001 -> 000000001-2"
        in done.out
    )
    assert "\x1b" not in done.out
    assert sum(members(in_folder(here / "out")).values()) == 206


def test_damage_is_status_1_and_the_printed_commands_work(here: Path):
    (here / "d").mkdir()
    with_txt(here / "d")  # real pictures
    path = here / "d/0001.tar"
    path.write_bytes(path.read_bytes()[:7172])
    done = run(["reshard", "d", "-o", "out", "--samples", "50"], here)
    assert done.status == 1
    assert "d/0001.tar: " in done.out
    assert "lost: at byte" in done.out
    assert "left out: 1 x next to damage: it may have lost members" in done.out
    found = commands(done.out)
    assert len(found) == 2
    # A repair reports what is lost, too.
    assert [paste(command, here).status for command in found] == [
        1,
        0,
    ]


REFUSED = {
    "members that are apart": ([], "members that are not next to each other"),
    "keys that repeat": (
        ["--repeated-keys", "refuse"],
        "would share a shard with another sample of the same key",
    ),
    "other options": (["--shuffle", "1"], "holds shards resharded with other options"),
    "a folder with other shards": ([], "exists already, and no reshard wrote it"),
    "an output folder with inputs": (["-o", "s"], "is an input, and in a folder for outputs"),
    "nothing that can be read": ([], "nothing could be read"),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize(("words", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_status_2_and_the_printed_commands_work(
    here: Path, request, words, message
):
    what = request.node.callspec.id
    if what == "members that are apart":
        names = ["a.jpg", "b.jpg", "a.txt", "b.txt"]
        write_tar(here / "s/4.tar", [(name, name.encode()) for name in names])
    elif what == "keys that repeat":
        write_tar(here / "s/4.tar", entries(["000030047"], "again"))
        words = [*words, "--shards", "2"]
    elif what == "other options":
        assert reshard(here).status == 0
    elif what == "a folder with other shards":
        (here / "out").mkdir()
        (here / "out/00002.tar").write_bytes(b"mine")
    elif what == "nothing that can be read":
        for path in (here / "s").iterdir():
            path.write_bytes(b"nothing" * 200)
    before = {path: path.read_bytes() for path in here.rglob("*.tar")}
    done = reshard(here, *words)
    assert done.status == 2
    assert message in done.errors
    assert {path: path.read_bytes() for path in here.rglob("*.tar")} == before
    advised = commands(done.errors)
    assert advised
    if what == "other options":
        advised = advised[::-1]  # what replaces comes before what keeps
    for command in advised:
        assert paste(command, here).status == (2 if what == "nothing that can be read" else 0), (
            command
        )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--samples", "3", "--shards", "2"],
            "--samples and --shards both decide how large shards are",
        ),
        (["--split", "train:0.9"], "--split train:0.9 is not of the form NAME=SHARE"),
        (["--even-for", "x"], "--even-for x is not of the form RANKSxWORKERS"),
        (["--shards", "1000"], "1,000 shards cannot be made of 100 samples"),
        (["-o", "https://host/out"], "is not a local folder"),
    ],
)
def test_wrong_use_is_status_2_in_one_message(here: Path, words: list[str], message: str):
    done = reshard(here, *words)
    assert done.status == 2
    assert message in done.errors
    assert done.errors.splitlines()[1:] == ["  to see the options: wdsflow reshard --help"]
    assert not (here / "out").exists()


@pytest.mark.deep
def test_no_sample_and_a_part_without_samples_are_status_1(here: Path):
    write_tar(here / "0.tar", [])
    write_tar(here / "1.tar", entries(["a"]))
    done = run(["reshard", "0.tar", "-o", "out"], here)
    assert done.status == 1
    assert "no samples: nothing written" in done.out
    assert [paste(command, here).status for command in commands(done.out)] == [1]
    done = run(["reshard", "1.tar", "-o", "out", "--split", "train=0.5,val=0.5"], here)
    assert done.status == 1
    assert ": no samples: nothing written" in done.out
