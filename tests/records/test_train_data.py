"""The training arguments that commands print at their end.

OpenCLIP itself must expand them to the shards that exist.
"""

import json
import random
import shlex
from pathlib import Path

import pytest

from tests.printed.pasted import run
from tests.shards.archives import JPEG, write_tar
from wdsflow.records.train_data import train_data_lines


def expanded(pattern: str) -> list[str]:
    """Expand a pattern by OpenCLIP's own function."""
    data = pytest.importorskip("open_clip_train.data")
    found: list[str] = data.expand_urls(pattern)[0]
    return found


def arguments(line: str) -> tuple[str, int]:
    """Return the pattern and the number of samples in a printed line."""
    prefix, _, text = line.partition(": ")
    assert prefix == "to train on it"
    data, pattern, samples, number = shlex.split(text)
    assert (data, samples) == ("--train-data", "--train-num-samples")
    return pattern, int(number)


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (["0.tar"], "0.tar"),
        (["00000.tar", "00001.tar", "00002.tar"], "{00000..00002}.tar"),
        (
            ["00000.tar", "00001.tar", "00004.tar", "00005.tar"],
            "{{00000..00001},{00004..00005}}.tar",
        ),
        (["8.tar", "9.tar", "10.tar", "12.tar"], "{{8..10},12}.tar"),
        (["train-0-of-2.tar", "train-1-of-2.tar"], "train-{0..1}-of-2.tar"),
        (["a.tar", "b,c.tar", "d{1}.tar"], r"{a,b\,c,d\{1\}}.tar"),
        (["a.tar", "1.tar", "b 2.tar"], "{1,a,b 2}.tar"),
    ],
)
def test_a_pattern_names_the_shards_that_exist_and_no_other(
    tmp_path: Path, names: list[str], pattern: str
):
    folder = tmp_path / "out of {it}, really"
    folder.mkdir()
    (folder / "sizes.json").write_text(
        json.dumps({name: number + 1 for number, name in enumerate(names)})
    )
    (line,) = train_data_lines(folder, str(folder))
    printed, samples = arguments(line)
    assert printed.endswith(f"/{pattern}")
    assert sorted(expanded(printed)) == sorted(str(folder / name) for name in names)
    assert samples == sum(range(1, len(names) + 1))


def test_random_names_come_out_as_they_are(tmp_path: Path):
    rng = random.Random(7)
    for _ in range(50):
        width, last = rng.choice([0, 1, 3, 5]), rng.randrange(1, 40)
        names = [f"s-{number:0{width}d}.tar" for number in range(last) if rng.random() < 0.6] or [
            "one.tar"
        ]
        (tmp_path / "sizes.json").write_text(json.dumps(dict.fromkeys(names, 2)))
        (line,) = train_data_lines(tmp_path, str(tmp_path))
        pattern, samples = arguments(line)
        assert expanded(pattern) == [str(tmp_path / name) for name in names]
        assert samples == 2 * len(names)


def test_shards_that_nothing_was_kept_of_are_named(tmp_path: Path):
    (tmp_path / "sizes.json").write_text('{"0.tar": 3}')
    lines = list(train_data_lines(tmp_path, "out", [f"{number}.tar" for number in range(1, 12)]))
    assert lines[1] == (
        "11 shards were not written, because nothing was kept: "
        "1.tar, 2.tar, 3.tar, 4.tar, 5.tar, 6.tar, 7.tar, 8.tar and 3 more"
    )


def test_without_counts_nothing_is_said(tmp_path: Path):
    assert list(train_data_lines(tmp_path, str(tmp_path))) == []


@pytest.mark.parametrize("path", ["a::b", "a$b"])
def test_a_path_that_no_pattern_can_name_is_told(tmp_path: Path, path: str):
    (tmp_path / "sizes.json").write_text('{"0.tar": 3, "1.tar": 2}')
    (line,) = train_data_lines(tmp_path, path)
    assert line.startswith("OpenCLIP has no pattern for ")


def test_names_without_order_are_too_long_for_a_pattern_and_a_command_numbers_them(tmp_path: Path):
    names = [f"{number:032x}.tar" for number in range(1, 4_000, 7)]
    (tmp_path / "sizes.json").write_text(json.dumps(dict.fromkeys(names, 1)))
    (line,) = train_data_lines(tmp_path, "out")
    command = "wdsflow reshard out -o out-numbered --shards 572"
    assert line == f"no short pattern names its 572 shards; to number them: {command}"


def sets(folder: Path) -> str:
    """Four shards; in the third no caption is long."""
    for shard in range(4):
        words = "short" if shard == 2 else "a long caption of words"
        members = [
            member
            for number in range(2)
            for member in ((f"{shard}{number}.jpg", JPEG), (f"{shard}{number}.txt", words.encode()))
        ]
        write_tar(folder / f"{shard:05}.tar", members)
    return "{00000..00003}.tar"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "command",
    [
        ["filter", "--where", "caption_words >= 3"],
        ["repair", "--structure-only"],
        ["reshard", "--samples", "2"],
    ],
)
def test_commands_end_with_what_trains_on_their_output(tmp_path: Path, command: list[str]):
    done = run([command[0], sets(tmp_path), "-o", "out", *command[1:]], tmp_path)
    (line,) = [line for line in done.out.splitlines() if line.startswith("to train on it: ")]
    pattern, samples = arguments(line)
    sizes = json.loads((tmp_path / "out/sizes.json").read_text())
    assert expanded(pattern) == [f"out/{name}" for name in sorted(sizes)]
    assert samples == sum(sizes.values())
    told = "1 shard was not written, because nothing was kept: 00002.tar"
    assert (told in done.out) == (command[0] == "filter")
