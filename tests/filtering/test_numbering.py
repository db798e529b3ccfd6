"""Outputs numbered without gaps."""

import contextlib
import json
import os
import shutil
from pathlib import Path

import pytest

from tests.filtering.shards import digests, entries
from tests.shards.archives import read_tar, write_tar
from wdsflow.filtering.ledger.export import export
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.run_filter import cut_shards, filter_shards
from wdsflow.filtering.run_folder import Layout
from wdsflow.filtering.run_options import RunOptions

HERE = RunOptions(jobs=0)
DENSE = Recipe(where="has('x')", numbering="dense")


def sparse(folder: Path, with_samples: tuple[int, ...] = (1, 3, 4), shards: int = 6) -> str:
    """Write shards of which only some have samples that are kept."""
    folder.mkdir(exist_ok=True)
    for shard in range(shards):
        members = [(f"{shard:03d}{number}.txt", b"text") for number in range(3)]
        if shard in with_samples:
            members += [(f"{shard:03d}9.txt", b"kept"), (f"{shard:03d}9.x", b"")]
        write_tar(folder / f"part-{shard}.tar", members)
    return str(folder)


def test_outputs_are_numbered_without_gaps_in_the_order_of_the_inputs(tmp_path: Path):
    source = sparse(tmp_path / "in")
    filter_shards(source, tmp_path / "kept", Recipe(where="has('x')"), HERE)
    report = filter_shards(source, tmp_path / "dense", DENSE, HERE)
    assert sorted(path.name for path in (tmp_path / "dense").glob("*")) == [
        "00000.tar",
        "00001.tar",
        "00002.tar",
        "__len__",
        "_wdsflow",
        "sizes.json",
    ]
    for number, part in enumerate((1, 3, 4)):
        dense, kept = tmp_path / "dense" / f"{number:05d}.tar", tmp_path / "kept" / f"part-{part}.tar"
        assert dense.read_bytes() == kept.read_bytes()
    assert json.loads((tmp_path / "dense/sizes.json").read_text()) == {f"{number:05d}.tar": 1 for number in range(3)}
    assert (tmp_path / "dense/__len__").read_text() == "3\n"
    names = json.loads((tmp_path / "dense/_wdsflow/numbering.json").read_text())
    assert names == {"00000.tar": "part-1.tar", "00001.tar": "part-3.tar", "00002.tar": "part-4.tar"}
    export(Layout(tmp_path / "dense"), report.records, tmp_path / "keys.txt")
    assert (tmp_path / "keys.txt").read_text().split() == ["0019", "0039", "0049"]


def test_nothing_is_done_again_when_all_have_their_numbers(tmp_path: Path):
    source = sparse(tmp_path / "in")
    filter_shards(source, tmp_path / "out", DENSE, HERE)
    before = digests(tmp_path / "out")
    report = filter_shards(source, tmp_path / "out", DENSE, HERE)
    assert report.resumed == 6
    assert digests(tmp_path / "out") == before


def test_slices_get_their_numbers_from_the_last_of_them(tmp_path: Path):
    source = sparse(tmp_path / "in")
    filter_shards(source, tmp_path / "one", DENSE, HERE)
    for index in (2, 0, 1):
        assert not list((tmp_path / "slices").glob("*.tar"))
        filter_shards(source, tmp_path / "slices", DENSE, RunOptions(jobs=0, index=index, count=3))
    assert digests(tmp_path / "one") == digests(tmp_path / "slices")


def test_a_changed_input_changes_the_numbers_of_others(tmp_path: Path):
    source = sparse(tmp_path / "in")
    filter_shards(source, tmp_path / "out", DENSE, HERE)
    sparse(tmp_path / "in", (0, 3, 4, 5))
    for part in (2, 3, 4):  # as they were
        os.utime(tmp_path / "in" / f"part-{part}.tar", ns=(1, 1))
    filter_shards(source, tmp_path / "out", DENSE, HERE)
    filter_shards(source, tmp_path / "anew", DENSE, HERE)
    assert digests(tmp_path / "out") == digests(tmp_path / "anew")
    assert [read_tar(path)[0][0] for path in sorted((tmp_path / "out").glob("*.tar"))] == [
        "0009.txt",
        "0039.txt",
        "0049.txt",
        "0059.txt",
    ]


@pytest.mark.sample(3)
@pytest.mark.parametrize("moves", range(7))
def test_a_run_that_ends_while_numbers_are_given_or_taken_is_taken_up_again(tmp_path: Path, moves, monkeypatch):
    source = sparse(tmp_path / "in")
    filter_shards(source, tmp_path / "whole", DENSE, HERE)
    real, left = os.replace, [moves]

    def dies(one, other):
        if str(one).endswith(".tar") and str(other).endswith(".tar"):
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
        real(one, other)

    monkeypatch.setattr(os, "replace", dies)
    for _ in range(2):
        with contextlib.suppress(KeyboardInterrupt):
            filter_shards(source, tmp_path / "out", DENSE, HERE)
        if moves > 2:  # the rest of the moves is taken back, and dies in the middle of that
            shutil.copy(tmp_path / "in/part-1.tar", tmp_path / "same.tar")
            shutil.copy(tmp_path / "same.tar", tmp_path / "in/part-1.tar")
    monkeypatch.setattr(os, "replace", real)
    filter_shards(source, tmp_path / "out", DENSE, HERE)
    filter_shards(source, tmp_path / "anew", DENSE, HERE)
    assert digests(tmp_path / "out") == digests(tmp_path / "anew")


def test_restart_and_foreign_files_are_told_apart(tmp_path: Path):
    source = sparse(tmp_path / "in")
    filter_shards(source, tmp_path / "out", DENSE, HERE)
    filter_shards(source, tmp_path / "out", Recipe(where="has('txt')"), RunOptions(jobs=0, restart=True))
    assert sorted(path.name for path in (tmp_path / "out").glob("*.tar")) == [
        f"part-{number}.tar" for number in range(6)
    ]
    assert not (tmp_path / "out/_wdsflow/numbering.json").exists()
    (tmp_path / "mine").mkdir()
    write_tar(tmp_path / "mine/00000.tar", entries(0, 1))
    with pytest.raises(FileExistsError):
        filter_shards(source, tmp_path / "mine", DENSE, HERE)


def test_a_cut_numbers_too(tmp_path: Path):
    source = sparse(tmp_path / "in")
    filter_shards(source, tmp_path / "scored", Recipe(where="has('x')"), HERE)
    cut_shards(source, tmp_path / "cut", tmp_path / "scored", DENSE, HERE)
    filter_shards(source, tmp_path / "filter", DENSE, HERE)
    for number in range(3):
        name = f"{number:05d}.tar"
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "filter" / name).read_bytes()
