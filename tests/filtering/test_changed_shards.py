"""Shards that changed after they were scored.

An error names them; samples are never lost without one.
"""

import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.shards.archives import JPEG, read_tar, write_tar
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.cli.main import main
from wdsflow.filtering.deciding import outcome_counts
from wdsflow.filtering.shard import run_shard
from wdsflow.records.run_folder import Layout
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import single_shard
from wdsflow.stages import Rename

HERE = RunOptions(jobs=0)
ALL = Recipe(where="bytes > 0")
STAGED = Recipe(where="bytes > 0", stages=(Rename({"text": "txt"}),))


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    """A shard of 12 samples of 64 KiB."""
    entries = []
    for number in range(12):
        entries += [
            (f"{number:02}.jpg", JPEG + random.Random(number).randbytes(60_000)),
            (f"{number:02}.txt", b"a cat"),
        ]
    (tmp_path / "in").mkdir()
    return write_tar(tmp_path / "in" / "0.tar", entries)


def rename_last(shard: Path, *, touch: bool = True) -> None:
    """Give the last sample the key of the one before it.

    There is one sample less, and the size is the same.
    """
    before, at = os.stat(shard), fingerprint(str(shard))
    entries = [(name.replace("11.", "10.x"), data) for name, data in read_tar(shard)]
    write_tar(shard, entries)
    assert fingerprint(str(shard)) == at, "this is noticed without reading the shard"
    if not touch:
        os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    ("recipe", "touch"),
    [(ALL, True), (STAGED, True), (STAGED, False)],
    ids=["as it is", "staged", "staged, same time"],
)
def test_a_cut_of_a_shard_that_has_fewer_samples_than_its_ledger_is_an_error(
    shard: Path, tmp_path: Path, recipe, touch
):
    measure_shards(
        str(shard), tmp_path / "scores", Recipe(scores=("bytes",), stages=recipe.stages), HERE
    )
    rename_last(shard, touch=touch)
    report = filter_shards(str(shard), tmp_path / "cut", recipe, HERE, ledger=tmp_path / "scores")
    (failure,) = report.failures
    assert (failure.url, failure.kind) == (str(shard), "ledger")
    assert (
        f"from another shard than {shard}, or the shard has changed since: measure again"
        in failure.reason
    )
    assert not list(tmp_path.glob("cut/*.tar"))


def test_a_copied_shard_is_the_one_that_was_scored(shard: Path, tmp_path: Path):
    measure_shards(str(shard), tmp_path / "scores", Recipe(scores=("bytes",)), HERE)
    os.utime(shard, ns=(1, 1))
    report = filter_shards(str(shard), tmp_path / "cut", ALL, HERE, ledger=tmp_path / "scores")
    assert (report.failures, report.total("kept")) == ([], 12)


@pytest.mark.sample(1)
@pytest.mark.parametrize("recipe", [ALL, STAGED], ids=["as it is", "staged"])
def test_a_shard_that_changes_while_it_is_filtered_is_named_and_not_written(
    shard: Path, tmp_path: Path, monkeypatch, recipe, capsys
):
    plain = outcome_counts.count_outcomes

    def change(*args: Any) -> None:
        plain(*args)
        rename_last(shard)

    def touch(*args: Any) -> None:
        plain(*args)
        os.utime(shard, ns=(2, 2))

    monkeypatch.setattr(run_shard, "count_outcomes", change)
    (failure,) = filter_shards(str(shard), tmp_path / "out", recipe, HERE).failures
    assert (failure.url, failure.reason) == (str(shard), "it changed while it was read")
    assert not list(tmp_path.glob("out/*.tar"))
    monkeypatch.setattr(run_shard, "count_outcomes", touch)
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "filter",
                str(shard),
                "-o",
                str(tmp_path / "cli"),
                "--where",
                "bytes > 0",
                "--jobs",
                "0",
            ]
        )
    assert ended.value.code == 2
    assert str(shard) in "".join(capsys.readouterr())


def test_stages_find_no_row_for_samples_that_are_gone(shard: Path, tmp_path: Path):
    """The pieces of a shard that was cut at the border of a sample."""
    from wdsflow.filtering.ledger.read_ledger import read_scored
    from wdsflow.filtering.shard.shard_outputs import kept_pieces
    from wdsflow.records.run_folder import ShardRecord
    from wdsflow.shards.shard_identity import input_identity
    from wdsflow.shards.source.base import SourceChangedError
    from wdsflow.shards.source.opening import open_source

    measure_shards(str(shard), tmp_path / "scores", Recipe(scores=("bytes",)), HERE)
    record = ShardRecord(0, str(shard), "0.tar", "", input_identity(single_shard(str(shard))))
    rows = read_scored(Layout(tmp_path / "scores"), "0.tar", record).rows
    write_tar(shard, read_tar(shard)[:-2])
    with open_source(single_shard(str(shard))) as source, pytest.raises(SourceChangedError):
        list(kept_pieces(source, str(shard), STAGED.stages, rows, []))
    with open_source(single_shard(str(shard))) as source:
        assert list(kept_pieces(source, str(shard), STAGED.stages, rows[:-1], []))


@pytest.mark.deep
def test_a_cut_of_a_pipe_that_gives_fewer_samples_than_its_ledger_is_an_error(
    shard: Path, tmp_path: Path
):
    url, here = f"pipe:cat {shard}", RunOptions(jobs=0, allow_pipe=True)
    measure_shards(url, tmp_path / "scores", Recipe(scores=("bytes",)), here)
    assert (
        filter_shards(url, tmp_path / "same", ALL, here, ledger=tmp_path / "scores").total("kept")
        == 12
    )
    write_tar(shard, read_tar(shard)[:-2])
    # The lost sample is none that the predicate keeps.
    report = filter_shards(
        url,
        tmp_path / "cut",
        Recipe(where="bytes > 0 and key < '11'"),
        here,
        ledger=tmp_path / "scores",
    )
    (failure,) = report.failures
    assert (failure.url, failure.kind) == (url, "ledger")
    assert "or the shard has changed since: measure again" in failure.reason
