"""Commands of a report as they are pasted: what they name, and where they write."""

import shlex
from pathlib import Path

import pytest

from wdsflow.shards.urls import expand
from wdsflow.shards.written_names import compact_patterns
from wdsflow.validate import Finding, Repair
from wdsflow.validate.advice.invocation import Invocation
from wdsflow.validate.advice.pasteable_commands import add_commands
from wdsflow.validate.finding import Advice
from wdsflow.validate.rules.kit.training_rules import flag_repair


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def finding(code: str, fix: Repair, shard: str | None = "0.tar") -> Finding:
    return Finding(code, "error", "trouble", shard, repair=fix)


def fixes(findings, advice=(), asked=None):
    done, advised = add_commands(findings, advice, asked or Invocation(("s/{0..9}.tar",)))
    return [each.repair.command for each in done], [each.command for each in advised]


def repair(*options: str) -> Advice:
    return Advice(9, "repair", options=options)


def test_a_repair_names_all_shards_as_the_user_did():
    assert fixes([], [repair()])[1] == ["wdsflow repair 's/{0..9}.tar' -o repaired"]
    assert fixes([], [repair()], Invocation(("@list.txt",)))[1] == [
        "wdsflow repair @list.txt -o repaired"
    ]


def test_each_command_writes_to_a_folder_of_its_own_that_is_not_there_yet(tmp_path):
    (tmp_path / "repaired").mkdir()
    assert fixes([], [repair("--caption", "json:a"), repair("--drop-bad"), repair("--drop-bad")])[
        1
    ] == [
        "wdsflow repair 's/{0..9}.tar' -o repaired-2 --caption json:a",
        "wdsflow repair 's/{0..9}.tar' -o repaired-3 --drop-bad",
        "wdsflow repair 's/{0..9}.tar' -o repaired-3 --drop-bad",
    ]


def test_another_flag_of_the_training_command_is_judged_by_the_same_command():
    words = (
        "--train-data",
        "s/{0..9}.tar",
        "--workers=4",
        "--batch-size",
        "8",
        "--dataset-resampled",
    )
    asked = Invocation(("s/{0..9}.tar",), ("open-clip", "datasets"), "full", words, world_size=2)
    (command,), _ = fixes([finding("P302", flag_repair("--workers", "2"), None)], asked=asked)
    assert command == (
        "wdsflow validate --for datasets --level full --world-size 2 -- --train-data 's/{0..9}.tar' --batch-size 8 "
        "--dataset-resampled --workers 2"
    )
    (command,), _ = fixes(
        [finding("P302", flag_repair("--batch-size", "4"), None)],
        asked=Invocation(("a b.tar",), training=words),
    )
    assert command.startswith("wdsflow validate 'a b.tar' -- --train-data ")
    assert command.endswith("--workers=4 --dataset-resampled --batch-size 4")


def test_what_runs_commands_is_allowed_to_in_the_fix_too():
    asked = Invocation(("pipe:cat {0..9}.tar",), allow_pipe=True)
    _, (command,) = fixes([], [repair()], asked=asked)
    assert shlex.split(command) == [
        "wdsflow",
        "repair",
        "pipe:cat {0..9}.tar",
        "-o",
        "repaired",
        "--allow-pipe",
    ]


def test_another_table_is_joined_with_the_rest_of_the_command_as_it_was():
    training = ("--train-data", "s/{0..9}.tar", "--workers", "2")
    asked = Invocation(("s/{0..9}.tar",), level="full", training=training, world_size=4)
    join = ("--join", "a b.parquet")

    assert asked.command_with_join(join) == (
        "wdsflow validate --join 'a b.parquet' --level full --world-size 4 -- "
        "--train-data 's/{0..9}.tar' --workers 2"
    )
    other = Invocation(("a.tar",), training=training, allow_pipe=True)
    assert other.command_with_join(join) == (
        "wdsflow validate a.tar --join 'a b.parquet' -- --train-data 's/{0..9}.tar' --workers 2"
    )
    piped = Invocation(("@list.txt",), allow_pipe=True)
    assert piped.command_with_join(join) == (
        "wdsflow validate @list.txt --join 'a b.parquet' --allow-pipe"
    )


def test_a_training_command_that_reads_a_pipe_is_allowed_to():
    training = ("--train-data", "pipe:cat a.tar", "--workers", "2")
    asked = Invocation(("a.tar",), training=training)

    assert asked.command_with_training_flags(["--workers", "1"]) == (
        "wdsflow validate a.tar --allow-pipe -- --train-data 'pipe:cat a.tar' --workers 1"
    )


@pytest.mark.parametrize(
    ("names", "patterns"),
    [
        ([f"{number:05d}.tar" for number in range(43)], ["s/{00000..00042}.tar"]),
        ([f"{number}.tar" for number in range(95, 105)], ["s/{95..104}.tar"]),
        (
            [f"{number:03d}.tar" for number in (0, 1, 2, 5, 6)],
            ["s/{000..002}.tar", "s/{005..006}.tar"],
        ),
        (["b.tar", "c7.tar", "dd.tar", "e1x.tar", "zz.tar"], ["s/"]),
        ([f"{number:03d}.tar" for number in (5, 1, 3, 9, 7)], None),
        (["0.tar", "1.tar"], None),
        ([f"{number} x.tar" for number in range(9)], ["s/{0..8} x.tar"]),
        ([f"a{{{number}}}.tar" for number in range(9)], None),
    ],
)
def test_many_shards_are_named_by_patterns_that_stand_for_just_these(tmp_path, names, patterns):
    """As where a shell has expanded a pattern before."""
    (tmp_path / "s").mkdir()
    for name in names:
        (tmp_path / "s" / name).touch()
    urls = [f"s/{name}" for name in names]
    found = compact_patterns(urls)
    assert found == (patterns or urls)
    assert expand(found, allow_pipe=True).urls == urls


def test_folders_and_shards_that_are_gone_are_named_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = [f"s/{name}" for name in ("one", "two", "three", "four", "five")]
    for folder in folders:
        Path(folder).mkdir(parents=True)
    assert compact_patterns(folders) == folders
    assert compact_patterns([f"{each}.tar" for each in folders]) == [
        f"{each}.tar" for each in folders
    ]


def test_shards_of_up_to_four_folders_are_patterns_and_of_more_a_list():
    urls = [f"{folder}/{number}.tar" for folder in "abcde" for number in (8, 9, 10)]
    assert compact_patterns(urls[:12]) == [f"{folder}/{{8..10}}.tar" for folder in "abcd"]
    assert compact_patterns(urls) == urls
    assert compact_patterns(urls[:4]) == urls[:4]
    assert compact_patterns([*urls[:3], urls[1]], most=2) == ["a/{8..10}.tar", "a/9.tar"]
