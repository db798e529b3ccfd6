"""What a run writes never takes the place of what somebody else wrote, or of what it reads."""

from pathlib import Path

import pytest

from tests.filtering.shards import digests, write_shards
from tests.shards.archives import write_tar
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.filtering.run_differences import Differs

HERE = RunOptions(jobs=0)
WHERE = Recipe(where="blur > 0 and min_side >= 200")


def damaged(folder: Path) -> str:
    """Write two shards with an image each that cannot be decoded."""
    folder.mkdir()
    for shard in range(2):
        write_tar(
            folder / f"{shard:05d}.tar", [("a.jpg", b"\xff\xd8 no image"), ("a.txt", b"text")]
        )
    return str(folder)


def test_samples_put_aside_replace_no_input_and_none_is_removed(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=2, samples=4)
    before = digests(tmp_path / "in")
    with pytest.raises(FileExistsError, match="is an input"):
        filter_shards(
            source, tmp_path / "out", WHERE, RunOptions(jobs=0, quarantine=tmp_path / "in")
        )
    assert digests(tmp_path / "in") == before


@pytest.mark.parametrize("where", ["out", "out/.wdsflow/tars"])
def test_samples_put_aside_do_not_lie_where_the_kept_ones_do(tmp_path: Path, where):
    with pytest.raises(FileExistsError, match="another folder for --quarantine"):
        filter_shards(
            damaged(tmp_path / "in"),
            tmp_path / "out",
            WHERE,
            RunOptions(jobs=0, quarantine=tmp_path / where),
        )


def test_two_runs_do_not_share_a_folder_of_samples_put_aside(tmp_path: Path):
    source, options = damaged(tmp_path / "in"), RunOptions(jobs=0, quarantine=tmp_path / "aside")
    filter_shards(source, tmp_path / "one", WHERE, options)
    before = digests(tmp_path / "aside")
    with pytest.raises(FileExistsError, match="exists already"):
        filter_shards(source, tmp_path / "two", WHERE, options)
    assert digests(tmp_path / "aside") == before
    assert filter_shards(source, tmp_path / "one", WHERE, options).resumed == 2


@pytest.mark.deep
def test_another_folder_for_samples_put_aside_is_named_and_a_restart_clears_the_old_one(
    tmp_path: Path,
):
    source = damaged(tmp_path / "in")
    filter_shards(
        source, tmp_path / "out", WHERE, RunOptions(jobs=0, quarantine=tmp_path / "aside")
    )
    with pytest.raises(
        Differs, match=r"holds a filter with --quarantine \.\./aside; this run has no --quarantine"
    ):
        filter_shards(source, tmp_path / "out", WHERE, HERE)
    filter_shards(source, tmp_path / "out", WHERE, RunOptions(jobs=0, restart=True))
    assert [*(tmp_path / "aside").iterdir()] == []
    assert len([*(tmp_path / "out" / ".wdsflow" / "quarantine").iterdir()]) == 4


def test_a_restart_does_not_remove_the_outputs_that_it_is_to_read(tmp_path: Path):
    filter_shards(
        write_shards(tmp_path / "in", shards=2, samples=4), tmp_path / "out", Recipe(), HERE
    )
    before = digests(tmp_path / "out")
    with pytest.raises(FileExistsError, match="is an input"):
        filter_shards(
            str(tmp_path / "out"), tmp_path / "out", WHERE, RunOptions(jobs=0, restart=True)
        )
    assert digests(tmp_path / "out").items() >= before.items()


def test_a_cut_does_not_restart_in_the_folder_of_its_ledgers(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=1, samples=4)
    measure_shards(source, tmp_path / "scored", Recipe(scores=("blur",)), HERE)
    before = digests(tmp_path / "scored")
    for options in (HERE, RunOptions(jobs=0, restart=True)):
        with pytest.raises(ValueError, match="cannot be both --ledger and -o"):
            filter_shards(
                source,
                tmp_path / "scored",
                Recipe(where="blur > 1"),
                options,
                ledger=tmp_path / "scored",
            )
    assert digests(tmp_path / "scored") == before


def test_reasons_that_are_gone_are_written_again(tmp_path: Path):
    source = damaged(tmp_path / "in")
    filter_shards(source, tmp_path / "out", WHERE, HERE)
    before = digests(tmp_path / "out")
    (tmp_path / "out" / ".wdsflow" / "quarantine" / "00001.jsonl").unlink()
    report = filter_shards(source, tmp_path / "out", WHERE, HERE)
    assert (report.resumed, digests(tmp_path / "out")) == (1, before)
    assert "00001.jsonl is missing" in report.changed[0]
