"""Ledgers that get more scores.

The bytes are those of one run with all scores, and nothing is computed twice.
"""

import json
import multiprocessing
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.filtering.commands import run
from tests.filtering.shards import digests, entries, write_shards
from tests.shards.archives import write_tar
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.filtering.deciding.plan import plan_of
from wdsflow.filtering.passes import pass_engine
from wdsflow.filtering.run_differences import Differs
from wdsflow.filtering.shard.run_shard import run_shard
from wdsflow.stages.scores.caption_words import caption_words
from wdsflow.stages.scores.pixels import blur

HERE = RunOptions(jobs=0)
PAIRS = {
    "pixels, then texts": (("blur", "width"), ("caption_words",)),
    "one that compares samples, then another": (
        ("duplicate", "blur"),
        ("caption_count", "min_side"),
    ),
    "then the first that compares samples": (
        ("blur",),
        ("near_duplicate", 'rank_percent(of="width")'),
    ),
    "scores that fail": (
        ('caption_words(caption="alt")', "blur"),
        ("entropy", 'caption_length(caption="alt")'),
    ),
}


def write_set(folder: Path) -> str:
    """Write three shards, the last with faulty samples.

    One sample has a picture that cannot be decoded, one has no text, and one has its text in
    another field.
    """
    write_shards(folder, shards=2, samples=8)
    members: list[Any] = entries(2, 8)
    members = [
        (name, data[:60] if name == "0020003.jpg" else data)
        for name, data in members
        if name != "0020004.txt"
    ]
    write_tar(
        folder / "00002.tar",
        [*members, ("0020009.alt", b"other words"), ("0020009.jpg", members[0][1])],
    )
    return str(folder)


def score(source: str, out: Path, *scores: str, options: RunOptions = HERE) -> Any:
    return measure_shards(source, out, Recipe(scores=scores), options)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", PAIRS)
def test_scores_that_are_added_give_the_bytes_of_a_run_with_all_of_them(tmp_path: Path, name: str):
    (first, then), source = PAIRS[name], write_set(tmp_path / "in")
    score(source, tmp_path / "whole", *first, *then)
    score(source, tmp_path / "grown", *first)
    report = score(source, tmp_path / "grown", *then)
    assert (report.resumed, report.changed, report.whole) == (0, [], True)
    assert digests(tmp_path / "grown") == digests(tmp_path / "whole")
    again = score(source, tmp_path / "grown", *then)
    assert (again.resumed, again.changed) == (3, [])


@pytest.mark.deep
def test_what_a_ledger_has_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = write_set(tmp_path / "in")
    score(source, tmp_path / "out", "blur")
    before = pq.read_table(tmp_path / "out/.wdsflow/ledger/00002.parquet")

    def refuse(*_: object) -> float:
        raise AssertionError("computed again")

    with monkeypatch.context() as patched:
        patched.setattr(blur, "of", refuse)
        score(source, tmp_path / "out", "caption_words")
    after = pq.read_table(tmp_path / "out/.wdsflow/ledger/00002.parquet")
    # Which lists the failures of all scores.
    same = [name for name in before.column_names if name != "failed"]
    assert after.select(same).equals(before.select(same))
    assert after["caption_words"].null_count == 2
    # Another shard: all of its scores are computed.
    write_tar(tmp_path / "in" / "00001.tar", entries(7, 5))
    report = score(source, tmp_path / "out", "height")
    assert [change.partition(": the input changed")[0][-9:] for change in report.changed] == [
        "00001.tar"
    ]
    score(source, tmp_path / "whole", "blur", "caption_words", "height")
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


@pytest.mark.deep
def test_an_added_score_that_cannot_be_computed_is_not_asked_for_again(tmp_path: Path, monkeypatch):
    source = write_set(tmp_path / "in")
    score(source, tmp_path / "out", "blur")

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(caption_words, "of", fail)
        plan_of.cache_clear()  # it holds the functions of earlier tests
        with pytest.raises(KeyboardInterrupt):
            score(source, tmp_path / "out", "caption_words")
    plan_of.cache_clear()
    score(source, tmp_path / "out", "width")
    score(source, tmp_path / "whole", "blur", "width")
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


def test_only_scores_are_added_other_settings_must_be_the_same(tmp_path: Path):
    source = write_set(tmp_path / "in")
    score(source, tmp_path / "out", "blur")
    with pytest.raises(
        Differs, match=r"holds a measurement with no --hash-images; this run has --hash-images$"
    ):
        measure_shards(source, tmp_path / "out", Recipe(scores=("width",), hash_images=True), HERE)
    with pytest.raises(Differs, match=r"holds a measurement with 3 shards.*; this run has 1 shard"):
        score(f"{source}/00000.tar", tmp_path / "out", "width")


@pytest.mark.deep
def test_slices_add_scores_too(tmp_path: Path):
    source = write_set(tmp_path / "in")
    score(source, tmp_path / "whole", "blur", "width")
    score(source, tmp_path / "out", "blur")
    for index, whole in enumerate((False, True)):
        report = score(
            source, tmp_path / "out", "width", options=RunOptions(jobs=0, index=index, count=2)
        )
        assert (report.whole, report.changed) == (whole, [])
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


@pytest.mark.deep
def test_a_shard_that_changed_without_a_mark_is_noticed_by_its_samples(tmp_path: Path):
    """What a pipe gives has no identity but its command."""
    shard, here = tmp_path / "0.tar", RunOptions(jobs=0, allow_pipe=True)
    for changed in ([("x.jpg", b"none"), *entries(0, 3)], entries(4, 4), entries(0, 3)):
        write_tar(shard, entries(0, 4))
        score(f"pipe:cat {shard}", tmp_path / "out", "blur", options=here)
        write_tar(shard, changed)
        cut = filter_shards(
            f"pipe:cat {shard}",
            tmp_path / "cut",
            Recipe(where="width > 1"),
            here,
            ledger=tmp_path / "out",
        )
        assert "or the shard has changed since: measure again" in cut.failures[0].reason
        grown = score(f"pipe:cat {shard}", tmp_path / "out", "width", options=here)
        assert "its ledger has other samples" in grown.failures[0].reason
        shutil.rmtree(tmp_path / "out")


def _killed_at(change: int, source: str, out: Path, scores: tuple[str, ...]) -> None:
    """Add scores, and be killed when files are renamed for so many times."""
    rename, left = os.replace, [change]

    def replace(old: Any, new: Any, **more: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)
        rename(old, new, **more)

    os.replace = os.rename = replace  # type: ignore[assignment]
    score(source, out, *scores)


@pytest.mark.parametrize(
    "name",
    [
        "pixels, then texts",
        pytest.param("then the first that compares samples", marks=pytest.mark.deep),
    ],
)
def test_a_run_that_is_killed_while_it_adds_scores_is_resumed(tmp_path: Path, name: str):
    (first, then), source = PAIRS[name], write_set(tmp_path / "in")
    score(source, tmp_path / "whole", *first, *then)
    score(source, tmp_path / "begun", *first)
    whole, context, change, status = (
        digests(tmp_path / "whole"),
        multiprocessing.get_context("fork"),
        0,
        9,
    )
    while status == 9:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        shutil.copytree(tmp_path / "begun", tmp_path / "out")
        child = context.Process(target=_killed_at, args=(change, source, tmp_path / "out", then))
        child.start()
        child.join()
        status, change = child.exitcode or 0, change + 1
        score(source, tmp_path / "out", *then)
        assert digests(tmp_path / "out") == whole, change
    assert (status, change > 4) == (0, True)


def test_the_command_adds_scores_with_the_settings_of_the_ledger(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path("in")
    folder.mkdir()
    members = [(f"{number}.{field}", data) for number in range(4) for field, data in (("jpg", entries(0, 1)[0][1]), ("json", json.dumps({"alt": "some words " * number}).encode()))]  # fmt: skip
    write_tar(folder / "0.tar", members)
    assert (
        run(
            "measure", "in", "-o", "out", "--caption", "json:alt", "--scores", "caption_length"
        ).status
        == 0
    )
    added = run("measure", "in", "-o", "out", "--scores", "caption_words")
    assert (added.status, added.err) == (
        0,
        "wdsflow: out has caption_length: adding caption_words\n",
    )
    assert pq.read_table("out/.wdsflow/ledger/0.parquet")["caption_words"].to_pylist() == [
        None,
        2,
        4,
        6,
    ]
    # Its captions are those of the ledger, also for scores that are computed now.
    assert (
        run(
            "filter",
            "in",
            "-o",
            "kept",
            "--ledger",
            "out",
            "--where",
            "entropy > 0 and alnum_ratio > 0",
        ).status
        == 0
    )
    assert run("measure", "in", "-o", "out", "--scores", "width", "--caption", "txt").status == 2


def columns(out: Path) -> list[set[str]]:
    """Return which of three scores the ledger of each shard has."""
    paths = sorted(out.glob(".wdsflow/ledger/*"))
    return [{"blur", "width", "height"} & set(pq.read_schema(path).names) for path in paths]


@pytest.fixture
def interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three shards, of which a run that was ended early has measured one."""
    monkeypatch.chdir(tmp_path)
    write_shards(Path("in"), samples=4)
    done = []

    def end_after_one(task: Any, mark: Any) -> Any:
        if done:
            raise KeyboardInterrupt
        done.append(task)
        return run_shard(task, mark)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pass_engine, "run_shard", end_after_one)
        assert (
            run("measure", "in", "-o", "out", "--scores", "blur,width", "--jobs", 0).status == 130
        )
    assert columns(Path("out")) == [{"blur", "width"}]
    return Path("out")


def test_a_score_that_was_taken_out_of_the_command_is_not_computed(interrupted: Path):
    done = run("measure", "in", "-o", "out", "--scores", "blur", "--jobs", 0)
    line = "wdsflow: out: 1 of 3 shards has width, and keeps it; computing blur\n"
    assert (done.status, done.err) == (0, line)
    assert columns(interrupted) == [{"blur", "width"}, {"blur"}, {"blur"}]
    before = digests(interrupted)
    again = run("measure", "in", "-o", "out", "--scores", "blur", "--jobs", 0)
    assert (again.status, again.err) == (0, "")
    assert "3 of them done before" in again.out
    assert digests(interrupted) == before
    assert run("status", "out").status == 0
    # The score that only one ledger has is computed for the samples of the others.
    assert (
        run(
            "filter", "in", "-o", "kept", "--ledger", "out", "--where", "width > 200", "--jobs", 0
        ).status
        == 0
    )
    assert run("filter", "in", "-o", "direct", "--where", "width > 200", "--jobs", 0).status == 0
    assert sorted(path.read_bytes() for path in Path("kept").glob("*.tar")) == sorted(
        path.read_bytes() for path in Path("direct").glob("*.tar")
    )


def test_a_ledger_keeps_a_score_that_was_taken_out_while_another_is_added(interrupted: Path):
    done = run("measure", "in", "-o", "out", "--scores", "height,blur", "--jobs", 0)
    line = "wdsflow: out: 1 of 3 shards has width, and keeps it; computing height, blur\n"
    assert (done.status, done.err) == (0, line)
    assert columns(interrupted) == [
        {"blur", "width", "height"},
        {"blur", "height"},
        {"blur", "height"},
    ]
    assert (
        run("measure", "in", "-o", "out", "--scores", "blur,height,width", "--jobs", 0).status == 0
    )
    score(str(interrupted.parent / "in"), interrupted.parent / "whole", "blur", "height", "width")
    tables = [[pq.read_table(path).to_pylist() for path in sorted(Path(out).glob(".wdsflow/ledger/*"))] for out in ("out", "whole")]  # fmt: skip
    assert tables[0] == tables[1]


def test_a_comparison_needs_the_scores_of_all_ledgers(interrupted: Path):
    done = run("measure", "in", "-o", "out", "--scores", "duplicate", "--jobs", 0)
    assert (done.status, done.err) == (0, "wdsflow: out has blur, width: adding duplicate\n")
    assert columns(interrupted) == [{"blur", "width"}] * 3
