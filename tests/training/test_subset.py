"""Training on what a ledger keeps, in place: the batches of the set that ``cut`` would write."""

import gzip
import json
import os
import shutil

import pytest

pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")

import open_clip
import torch

from tests.filtering.commands import run
from tests.servers import http_server
from tests.training.shards import arguments, as_text, texts, write_tar
from tests.training.subsets import WHERE, cut, members, write_scored
from wdsflow import FeedOptions, get_data
from wdsflow.training import get_wds_dataset
from wdsflow.training.feed_options import NothingKept, SubsetError

TRAIN = open_clip.image_transform(32, is_train=True)
COUNTS = [23, 30, 12, 19, 27]
SCHEDULES = {
    "openclip": {},
    "resampled": {"dataset_resampled": True},
    "balanced": {"schedule": "balanced"},
}


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("subset")
    data = write_scored(folder, COUNTS)
    (folder / "in" / "sizes.json").write_text(
        json.dumps({f"{number:04d}.tar": 1000 for number in range(len(COUNTS))})
    )
    return folder, data, cut(folder, data, WHERE)


def dataset(
    data, *, ledger=None, where=None, rank=0, world=1, workers=2, schedule="openclip", **more
):
    args = arguments(
        train_data=data,
        workers=workers,
        world_size=world,
        rank=rank,
        **{"train_num_samples": None, "batch_size": 4, **more},
    )
    options = FeedOptions(
        ledger=None if ledger is None else str(ledger),
        where=where,
        schedule=schedule,
        status_every=0.0,
        decoders=1,
        decode_in="threads",  # faster to start than processes
        allow_pipe="pipe:" in str(data),
    )
    return get_wds_dataset(args, TRAIN, True, tokenizer=as_text, options=options)


def batches(found, epochs=1):
    given = []
    torch.manual_seed(11)  # a loader draws from the generator when it begins
    for epoch in range(epochs):
        found.set_epoch(epoch)
        given += [(batch[0].numpy().tobytes(), texts(batch)) for batch in found.dataloader]
    found.dataloader.close()
    return given


def every(found):
    return sorted(text for _, captions in batches(found) for text in captions)


@pytest.mark.sample(1)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("world", "workers"), [(1, 2), pytest.param(2, 1, marks=pytest.mark.deep)])
def test_all_ranks_get_the_batches_of_the_set_that_cut_writes(
    scored, monkeypatch, schedule, world, workers
):
    folder, data, copied = scored
    for rank in range(world):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(world))
        given = {"rank": rank, "world": world, "workers": workers, **SCHEDULES[schedule]}
        mine = dataset(data, ledger=folder / "scored", where=WHERE, **given)
        theirs = dataset(copied, **given)
        assert mine.dataloader.num_batches == theirs.dataloader.num_batches > 2
        assert mine.dataloader.num_samples == theirs.dataloader.num_samples
        assert batches(mine, 2) == batches(theirs, 2)


def test_an_epoch_is_as_long_as_the_subset_and_nothing_is_written(scored):
    folder, data, copied = scored
    before = sorted(folder.rglob("*"))
    found = dataset(data, ledger=folder / "scored", where=WHERE, schedule="balanced", workers=1)
    kept = set(every(found))
    assert len(kept) == found.dataloader.num_samples
    assert 30 < len(kept) < sum(COUNTS) - 30
    assert kept == {
        text for _, captions in batches(dataset(copied, schedule="balanced")) for text in captions
    }
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    "where",
    [
        "rank_percent(of='width', among='all') <= 60 and caption_words < 3",
        pytest.param("not duplicate", marks=pytest.mark.deep),
    ],
)
def test_a_predicate_that_compares_all_samples_keeps_what_cut_keeps(tmp_path, where):
    data = write_scored(tmp_path, [15, 12], "width,caption_words,duplicate")
    mine = dataset(data, ledger=tmp_path / "scored", where=where, schedule="balanced")
    assert every(mine) == every(dataset(cut(tmp_path, data, where), schedule="balanced"))


@pytest.mark.deep
def test_packed_and_piped_shards_are_read_in_part(tmp_path):
    for number in range(2):
        path = tmp_path / "in" / f"{number}.tar"
        write_tar(path, members(number, 20))
        (tmp_path / "in" / f"{number}.tar.gz").write_bytes(gzip.compress(path.read_bytes()))
    packed = f"{tmp_path}/in/{{0..1}}.tar.gz"
    piped = [f"pipe:cat {tmp_path}/in/{number}.tar" for number in range(2)]
    words = ("--scores", "width,caption_words", "--jobs", 0)
    assert run("measure", packed, "-o", tmp_path / "scored", *words).status == 0
    assert run("measure", *piped, "-o", tmp_path / "by-pipe", "--allow-pipe", *words).status == 0
    plain = [dataset(packed, ledger=tmp_path / "scored", where=WHERE, schedule="balanced")]
    plain += [
        dataset("::".join(piped), ledger=tmp_path / "by-pipe", where=WHERE, schedule="balanced")
    ]
    expected = every(dataset(cut(tmp_path, packed, WHERE), schedule="balanced"))
    assert expected
    assert [every(found) for found in plain] == [expected, expected]


@pytest.mark.deep
def test_shards_that_were_moved_are_found_by_their_names(scored, tmp_path):
    folder, data, _ = scored
    shutil.copytree(folder / "in", tmp_path / "moved")
    moved = data.replace(f"{folder}/in", f"{tmp_path}/moved")
    given = {"ledger": folder / "scored", "where": WHERE, "schedule": "balanced"}
    assert every(dataset(moved, **given)) == every(dataset(data, **given))


@pytest.mark.parametrize(
    "schedule",
    [
        "openclip",
        *(pytest.param(name, marks=pytest.mark.deep) for name in ("resampled", "balanced")),
    ],
)
def test_a_run_that_is_killed_within_an_epoch_goes_on_with_the_very_next_batch(scored, schedule):
    folder, data, _ = scored
    given = {"ledger": folder / "scored", "where": WHERE, **SCHEDULES[schedule]}
    whole = batches(dataset(data, **given))
    first = dataset(data, **given).dataloader
    torch.manual_seed(11)
    running = iter(first)
    for _ in range(3):
        next(running)
    state = json.loads(json.dumps(first.state_dict()))
    first.close()
    second = dataset(data, **given)
    second.dataloader.load_state_dict(state)
    assert batches(second) == whole[3:]


@pytest.mark.deep
def test_a_state_of_another_subset_is_refused_and_says_which_it_was(scored, tmp_path):
    folder, data, _ = scored
    shutil.copytree(folder / "scored", tmp_path / "other")
    state = dataset(data, ledger=folder / "scored", where=WHERE).dataloader.state_dict()
    again = dataset(data, ledger=folder / "scored", where=f"( {WHERE} )").dataloader
    again.load_state_dict(state)  # the same predicate, spelled otherwise
    for ledger, where in (("scored", "width > 50"), ("other", WHERE), (None, None)):
        place = None if ledger is None else (tmp_path if ledger == "other" else folder) / ledger
        other = dataset(data, ledger=place, where=where, train_num_samples=40).dataloader
        with pytest.raises(ValueError, match="ledger" if ledger != "scored" else "where: "):
            other.load_state_dict(state)


@pytest.mark.deep
def test_a_ledger_that_was_written_again_with_other_scores_is_another_subset(tmp_path):
    data = write_scored(tmp_path, [20, 20])
    given = {"ledger": tmp_path / "scored", "where": "width > 50"}
    state = dataset(data, **given).dataloader.state_dict()
    for number in range(2):
        write_tar(tmp_path / "in" / f"{number:04d}.tar", members(number + 5, 25))
    words = ("--scores", "width", "--jobs", 0, "--restart")
    assert run("measure", data, "-o", tmp_path / "scored", *words).status == 0
    with pytest.raises(ValueError, match="kept samples"):
        dataset(data, **given).dataloader.load_state_dict(state)


def test_a_predicate_that_keeps_nothing_a_changed_shard_and_an_unknown_one_are_refused(
    scored, tmp_path
):
    folder, data, _ = scored
    with pytest.raises(NothingKept, match="keeps none of 111 samples in 5 shards"):
        dataset(data, ledger=folder / "scored", where="width > 5000")
    shutil.copytree(folder / "in", tmp_path / "in")
    write_tar(tmp_path / "in" / "0003.tar", members(9, 20))
    changed = data.replace(str(folder), str(tmp_path))
    with pytest.raises(SubsetError, match=r"0003\.parquet was made from another shard"):
        dataset(changed, ledger=folder / "scored", where=WHERE)
    write_tar(tmp_path / "in" / "new.tar", members(9, 20))
    with pytest.raises(
        SubsetError, match=r"no ledger of .*new\.tar\n  to compute what it needs: wdsflow measure "
    ):
        dataset(f"{tmp_path}/in/new.tar", ledger=folder / "scored", where=WHERE)


@pytest.mark.deep
def test_a_shard_that_changes_while_it_is_trained_on_ends_the_run(tmp_path):
    data = write_scored(tmp_path, [20, 20])
    found = dataset(data, ledger=tmp_path / "scored", where="width > 0", workers=1)
    assert batches(found)
    for number in range(2):
        write_tar(tmp_path / "in" / f"{number:04d}.tar", members(number + 5, 30))
    with pytest.raises(SubsetError, match="has changed since: measure again"):
        list(found.dataloader)
    found.dataloader.close()


def test_a_missing_shard_is_reported_and_the_others_are_trained_on(scored, tmp_path):
    folder, data, _ = scored
    shutil.copytree(folder / "in", tmp_path / "in")
    os.remove(tmp_path / "in" / "0001.tar")
    found = dataset(
        data.replace(str(folder), str(tmp_path)), ledger=folder / "scored", where=WHERE, workers=1
    )
    given = every(found)
    assert given
    assert not any(text.startswith("1/") for text in given)
    assert [what for _, what in found.dataloader.tally.damage] == ["missing"]


@pytest.mark.deep
def test_data_for_evaluation_is_read_as_a_whole(scored):
    folder, data, _ = scored
    args = arguments(
        train_data=data,
        val_data=data,
        workers=1,
        batch_size=8,
        train_num_samples=None,
        val_num_samples=sum(COUNTS),
    )
    options = FeedOptions(ledger=str(folder / "scored"), where=WHERE, status_every=0.0)
    found = get_data(
        args,
        (TRAIN, open_clip.image_transform(32, is_train=False)),
        tokenizer=as_text,
        options=options,
    )
    assert sum(len(texts(batch)) for batch in found["val"].dataloader) == sum(COUNTS)
    assert found["train"].dataloader.num_samples < sum(COUNTS)
    for each in found.values():
        each.dataloader.close()


def test_only_one_of_ledger_and_predicate_is_no_option():
    for given in ({"ledger": "scored"}, {"where": "width > 1"}):
        with pytest.raises(ValueError, match="without"):
            FeedOptions(**given)


def epoch_of(data, monkeypatch, *, world=2, **given):
    """The captions that all ranks get in one epoch."""
    found = []
    for rank in range(world):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(world))
        found += every(dataset(data, rank=rank, world=world, where=WHERE, batch_size=7, **given))
    return sorted(found)


def kept_of(shards, count=16):
    """The captions that WHERE keeps of shards of ``subsets.members``."""
    said = [
        data.decode()
        for shard in shards
        for name, data in members(shard, count)
        if name.endswith(".txt")
    ]
    return sorted(
        text
        for text in said
        if int(text.split()[0].partition("/")[2]) % 2 and len(text.split()) < 3
    )


@pytest.mark.deep
@pytest.mark.parametrize("schedule", ["openclip", "balanced"])
def test_two_ranks_of_two_workers_get_each_kept_sample_once(tmp_path, monkeypatch, schedule):
    for number in range(4):
        write_tar(tmp_path / "in" / f"{number}.tar", members(number, 16))
    data = f"{tmp_path}/in/{{0..3}}.tar"
    assert (
        run(
            "measure",
            data,
            "-o",
            tmp_path / "scored",
            "--scores",
            "width,caption_words",
            "--jobs",
            0,
        ).status
        == 0
    )
    expected = kept_of(range(4))
    assert len(expected) == 28
    assert epoch_of(data, monkeypatch, ledger=tmp_path / "scored", schedule=schedule) == expected


def test_of_shards_on_a_server_each_kept_sample_is_read_once(tmp_path, monkeypatch):
    paths = [write_tar(tmp_path / f"{number}.tar", members(number, 16)) for number in range(2)]
    with http_server({path.name: path.read_bytes() for path in paths}) as (url, log):
        data = f"{url}/{{0..1}}.tar"
        words = ("--scores", "width,caption_words", "--jobs", 0)
        assert run("measure", data, "-o", tmp_path / "scored", *words).status == 0
        before = len(log.of(".tar"))
        assert epoch_of(
            data, monkeypatch, world=1, ledger=tmp_path / "scored", workers=2
        ) == kept_of(range(2))
        assert len(log.of(".tar")) > before


@pytest.mark.deep
def test_weighted_sources_are_drawn_as_those_that_cut_writes(tmp_path, monkeypatch):
    for number, count in enumerate([16, 16, 16, 9, 9]):  # nothing is kept of the third
        write_tar(tmp_path / "in" / f"{number:04d}.tar", members(number, count, small=number == 2))
    data = f"{tmp_path}/in/{{0000..0002}}.tar", f"{tmp_path}/in/{{0003..0004}}.tar"
    words = ("--scores", "width,caption_words", "--jobs", 0)
    assert run("measure", *data, "-o", tmp_path / "scored", *words).status == 0
    cut(tmp_path, f"{tmp_path}/in", WHERE)
    copied = f"{tmp_path}/cut/{{0000..0001}}.tar", f"{tmp_path}/cut/{{0003..0004}}.tar"
    given = {
        "dataset_resampled": True,
        "train_data_upsampling_factors": "1::6",
        "train_num_samples": 80,
        "workers": 1,
    }
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        mine = dataset(
            "::".join(data), ledger=tmp_path / "scored", where=WHERE, rank=rank, world=2, **given
        )
        theirs = dataset("::".join(copied), rank=rank, world=2, **given)
        found = batches(mine)
        assert found == batches(theirs)
        drawn = [text.partition("/")[0] for _, captions in found for text in captions]
        assert set(drawn) <= set("0134")
        assert sum(shard in "34" for shard in drawn) > len(drawn) / 2
