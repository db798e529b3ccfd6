"""Commands of a report as they are pasted: what they name, and where they write."""

import shlex
from pathlib import Path

import pytest

from wdsflow.shards.urls import expand
from wdsflow.shards.written_names import compact
from wdsflow.validate.advice.invocation import Invocation, settle
from wdsflow.validate.finding import Advice, Finding, Repair
from wdsflow.validate.rules.kit.base import repair
from wdsflow.validate.rules.kit.families import flag


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def finding(code: str, fix: Repair, shard: str | None = "0.tar") -> Finding:
    return Finding(code, "error", "trouble", shard, repair=fix)


def fixes(findings, advice=(), asked=None):
    done, advised = settle(findings, advice, asked or Invocation(("s/{0..9}.tar",)))
    return [each.repair.command for each in done], [each.command for each in advised]


def test_fixes_of_a_few_shards_become_one_command_and_of_many_that_of_all():
    some = [finding("W001", repair([f"s/{number}.tar"]), f"s/{number}.tar") for number in range(9)]
    assert set(fixes(some[:2])[0]) == {"wdsflow repair s/0.tar s/1.tar -o repaired"}
    assert set(fixes(some)[0]) == {"wdsflow repair 's/{0..9}.tar' -o repaired"}
    assert set(fixes(some, asked=Invocation(("@list.txt",)))[0]) == {"wdsflow repair @list.txt -o repaired"}


def test_each_command_writes_to_a_folder_of_its_own_that_is_not_there_yet(tmp_path):
    (tmp_path / "repaired").mkdir()
    some = [
        finding("W001", repair(["repaired/0.tar"])),
        finding("W002", repair(["repaired/0.tar"])),
        finding("F102", repair(["repaired/0.tar"], "--drop-bad", safe=False)),
    ]
    assert fixes(some, asked=Invocation(("repaired",)))[0] == [
        "wdsflow repair repaired/0.tar -o repaired-2",
        "wdsflow repair repaired/0.tar -o repaired-2",
        "wdsflow repair repaired/0.tar -o repaired-3 --drop-bad",
    ]


def test_advice_that_does_what_a_fix_does_and_loses_no_more_is_its_command():
    captions = Advice(9, "write a txt", options=("--caption", "json:a"))
    dropping = Advice(9, "drop", options=("--caption", "json:a", "--drop-bad"), safe=False)
    plain = finding("W001", repair(["s/0.tar"]))
    unsafe = finding("F102", repair(["s/0.tar"], "--drop-bad", safe=False))
    done, advised = fixes([plain, unsafe], [captions, dropping])
    assert advised == [
        "wdsflow repair 's/{0..9}.tar' -o repaired --caption json:a",
        "wdsflow repair 's/{0..9}.tar' -o repaired-2 --caption json:a --drop-bad",
    ]
    assert done == advised
    assert fixes([plain], [dropping])[0] == ["wdsflow repair s/0.tar -o repaired-2"]  # nothing of it may be lost


def test_a_fix_after_which_readers_would_raise_becomes_the_advice_after_which_they_do_not():
    """Only what does the same: other fixes stay as they are."""
    dropping = Advice(9, "drop", options=("--caption", "json:a", "--drop-bad"), safe=False)
    captions = finding("F101", repair(["s/0.tar"], "--caption", "json:a"))
    plain = finding("W001", repair(["s/0.tar"]))
    (first, second), (advised,) = settle([captions, plain], [dropping], Invocation(("s/{0..9}.tar",)))
    assert first.repair is not None
    assert second.repair is not None
    assert (first.repair.command, first.repair.safe) == (advised.command, False)
    assert (second.repair.command, second.repair.safe) == ("wdsflow repair s/0.tar -o repaired-2", True)


def test_another_flag_of_the_training_command_is_judged_by_the_same_command():
    words = ("--train-data", "s/{0..9}.tar", "--workers=4", "--batch-size", "8", "--dataset-resampled")
    asked = Invocation(("s/{0..9}.tar",), ("open-clip", "datasets"), "full", words, world_size=2)
    (command,), _ = fixes([finding("P302", flag("--workers", "2"), None)], asked=asked)
    assert command == (
        "wdsflow validate --for datasets --level full --world-size 2 -- --train-data 's/{0..9}.tar' --batch-size 8 "
        "--dataset-resampled --workers 2"
    )
    (command,), _ = fixes(
        [finding("P302", flag("--batch-size", "4"), None)], asked=Invocation(("a b.tar",), training=words)
    )
    assert command.startswith("wdsflow validate 'a b.tar' -- --train-data ")
    assert command.endswith("--workers=4 --dataset-resampled --batch-size 4")


def test_what_runs_commands_is_allowed_to_in_the_fix_too():
    asked = Invocation(("pipe:cat {0..9}.tar",), allow_pipe=True)
    (command,), _ = fixes([finding("W001", repair(["pipe:cat 0.tar"]))], asked=asked)
    assert shlex.split(command) == ["wdsflow", "repair", "pipe:cat 0.tar", "-o", "repaired", "--allow-pipe"]


@pytest.mark.parametrize(
    ("names", "patterns"),
    [
        ([f"{number:05d}.tar" for number in range(43)], ["s/{00000..00042}.tar"]),
        ([f"{number}.tar" for number in range(95, 105)], ["s/{95..104}.tar"]),
        ([f"{number:03d}.tar" for number in (0, 1, 2, 5, 6)], ["s/{000..002}.tar", "s/{005..006}.tar"]),
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
    found = compact(urls)
    assert found == (patterns or urls)
    assert expand(found, allow_pipe=True).urls == urls


def test_folders_and_shards_that_are_gone_are_named_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = [f"s/{name}" for name in ("one", "two", "three", "four", "five")]
    for folder in folders:
        Path(folder).mkdir(parents=True)
    assert compact(folders) == folders
    assert compact([f"{each}.tar" for each in folders]) == [f"{each}.tar" for each in folders]


def test_shards_of_up_to_four_folders_are_patterns_and_of_more_a_list():
    urls = [f"{folder}/{number}.tar" for folder in "abcde" for number in (8, 9, 10)]
    assert compact(urls[:12]) == [f"{folder}/{{8..10}}.tar" for folder in "abcd"]
    assert compact(urls) == urls
    assert compact(urls[:4]) == urls[:4]
    assert compact([*urls[:3], urls[1]], most=2) == ["a/{8..10}.tar", "a/9.tar"]
