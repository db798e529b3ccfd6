"""The loader yields the same batches whatever happens in between.

Nothing is lost silently, and nothing hangs.
"""

import gzip
import hashlib
import json
import os
import re
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")

import open_clip
import torch

from tests.training.shards import arguments, as_text, jpeg, samples, texts, write_shards, write_tar
from wdsflow import FeedOptions
from wdsflow.memory.usage import peak_resident_bytes, reset_peak
from wdsflow.training import StallError, get_wds_dataset

TRAIN, EVAL = (
    open_clip.image_transform(32, is_train=True),
    open_clip.image_transform(32, is_train=False),
)
QUIET = {"status_every": 0.0}


def loader(
    data,
    *,
    train=True,
    rank=0,
    world=1,
    workers=2,
    batch_size=4,
    preprocess=TRAIN,
    arguments_more=None,
    **options,
):
    args = arguments(
        train_data=data,
        val_data=data,
        train_num_samples=None if options.get("schedule") == "balanced" else 60,
        workers=workers,
        batch_size=batch_size,
        world_size=world,
        rank=rank,
        **(arguments_more or {}),
    )
    torch.manual_seed(11 + rank)
    if "pipe:" in str(data):
        options["allow_pipe"] = True
    return get_wds_dataset(
        args, preprocess, train, tokenizer=as_text, options=FeedOptions(**{**QUIET, **options})
    ).dataloader


def digest(batch):
    return hashlib.sha256(batch[0].numpy().tobytes() + repr(texts(batch)).encode()).hexdigest()


def all_texts(loading):
    return [text for batch in loading for text in texts(batch)]


SCHEDULES = {
    "openclip": {},
    "resampled": {"arguments_more": {"dataset_resampled": True}},
    "balanced": {"schedule": "balanced", "batch_size": 3},
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("world", [1, pytest.param(2, marks=pytest.mark.deep)])
def test_a_run_that_is_taken_up_again_goes_on_with_the_same_batches(tmp_path, schedule, world):
    data = write_shards(tmp_path, [13, 9, 14, 7, 12])
    for rank in range(world):
        given = {**SCHEDULES[schedule], "rank": rank, "world": world}
        whole = [digest(batch) for batch in loader(data, **given, decoders=1)]
        for stop in (1, len(whole) // 2, len(whole) - 1):
            first = loader(data, **given, decoders=3)
            running = iter(first)
            begun = [digest(next(running)) for _ in range(stop)]
            state = json.loads(json.dumps(first.state_dict()))
            first.close()
            second = loader(data, **given, decoders=2)
            second.load_state_dict(state)
            rest = [digest(batch) for batch in second]
            assert begun + rest == whole
            done = {"samples": 55} if schedule == "balanced" else {"batch": len(whole)}
            assert second.state_dict().items() >= done.items()


def test_a_state_counts_what_was_given_out_not_what_was_prepared(tmp_path):
    loading = loader(write_shards(tmp_path, [30, 30]))
    assert loading.state_dict()["batch"] == 0
    running = iter(loading)
    next(running)
    next(running)
    assert loading.state_dict()["batch"] == 2


def test_a_state_of_other_data_is_refused_by_name(tmp_path):
    state = loader(write_shards(tmp_path / "a", [30, 30])).state_dict()
    with pytest.raises(ValueError, match=r"batch size: 4 then, 5 now"):
        loader(write_shards(tmp_path / "a", [30, 30]), batch_size=5).load_state_dict(state)
    with pytest.raises(ValueError, match=r"data:"):
        loader(write_shards(tmp_path / "b", [30, 30])).load_state_dict(state)


@pytest.mark.parametrize("schedule", ["openclip", "balanced"])
def test_a_state_of_shards_that_were_written_again_is_refused_by_their_name(tmp_path, schedule):
    data = write_shards(tmp_path, [20, 20])
    first = loader(data, **SCHEDULES[schedule])
    next(iter(first))
    state = first.state_dict()
    first.close()
    loader(data, **SCHEDULES[schedule]).load_state_dict(state)
    write_shards(tmp_path, [24, 16])
    unit = "samples" if schedule == "balanced" else "bytes"
    with pytest.raises(ValueError, match=rf"shards, 0000\.tar: '[\d,]+ {unit}' then, '"):
        loader(data, **SCHEDULES[schedule]).load_state_dict(state)


def test_a_finished_epochs_state_begins_the_next_one(tmp_path):
    data = write_shards(tmp_path, [20, 20])
    first = loader(data)
    list(first)
    second = loader(data)
    second.load_state_dict(first.state_dict())
    assert [digest(batch) for batch in second] == [digest(batch) for batch in first]


@pytest.mark.sample(1)
@pytest.mark.parametrize("counts", [[30], [7, 13, 5], [1, 1, 22, 4]])
@pytest.mark.parametrize("world", [1, 2, 3])
def test_a_balanced_epoch_gives_each_sample_once(tmp_path, counts, world):
    data = write_shards(tmp_path, counts)
    everything = sorted(
        f"{shard}/{number}" for shard, count in enumerate(counts) for number in range(count)
    )
    for epoch in range(2):
        found, lengths = [], set()
        for rank in range(world):
            loading = loader(data, schedule="balanced", rank=rank, world=world, workers=4)
            loading.set_epoch(epoch)
            batches = [texts(batch) for batch in loading]
            lengths.add(len(batches))
            assert len(batches) == loading.num_batches
            assert max(map(len, batches)) <= 4
            assert {len(batch) for batch in batches[:-2]} <= {4}
            found += [text for batch in batches for text in batch]
        assert len(lengths) == 1
        assert sorted(found) == everything


def test_the_time_that_training_waited_is_counted_and_the_time_of_a_step_is_not(
    tmp_path: Path,
) -> None:
    loading = loader(write_shards(tmp_path, [8]), workers=1, batch_size=4)
    batches = iter(loading)

    start = time.perf_counter()
    next(batches)
    waited, elapsed = loading.waited, time.perf_counter() - start
    time.sleep(0.2)
    start = time.perf_counter()
    next(batches)
    waited_again, elapsed_again = loading.waited - waited, time.perf_counter() - start

    assert 0 < waited <= elapsed
    assert 0 < waited_again <= elapsed_again
    batches.close()
    loading.close()


@pytest.mark.deep
def test_epochs_are_shuffled_differently_and_seeds_too(tmp_path):
    data = write_shards(tmp_path, [40, 40])
    orders = []
    for seed in (0, 0, 1):
        loading = loader(data, arguments_more={"seed": seed})
        orders.append(all_texts(loading))
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0])[:5] != orders[0][:5]


def test_a_starved_worker_ends_the_run_at_once_and_says_what_cures_it(tmp_path):
    data = write_shards(tmp_path, [40, 3])
    loading = loader(data, workers=2, batch_size=4)
    with pytest.raises(
        StallError, match=r"(?s)3 usable samples.*a batch needs 4.*To fix it"
    ) as caught:
        list(loading)
    assert "worker" in str(caught.value)


def json_members(count):
    found = []
    for number in range(count):
        found.append((f"{number:04d}.jpg", jpeg(number)))
        found.append(
            (f"{number:04d}.json", json.dumps({"description": f"picture {number}"}).encode())
        )
    return found


@pytest.mark.sample(1)
@pytest.mark.parametrize("more", [{}, {"dataset_resampled": True}])
def test_captions_in_json_end_the_run_with_the_option_that_cures_it(tmp_path, more):
    write_tar(tmp_path / "0000.tar", json_members(30))
    data = str(tmp_path / "0000.tar")
    with pytest.raises(StallError, match=r'(?s)no-caption.*FeedOptions\(caption="json:') as caught:
        list(loader(data, workers=1, arguments_more=more, stall_samples=100))
    assert "json, jpg" in str(caught.value) or "jpg, json" in str(caught.value)
    cured = loader(data, workers=1, arguments_more=more, caption="txt|json:description")
    assert set(all_texts(cured)) <= {f"picture {number}" for number in range(30)}


def test_missing_and_empty_shards_starve_nobody_in_silence(tmp_path):
    write_tar(tmp_path / "0000.tar", [])
    for more in ({}, {"dataset_resampled": True}):
        with pytest.raises(StallError):
            list(loader(f"{tmp_path}/{{0000..0001}}.tar", workers=1, arguments_more=more))


def test_evaluation_on_nothing_is_an_error_with_its_reason(tmp_path):
    write_tar(tmp_path / "0000.tar", json_members(5))
    with pytest.raises(StallError, match="no-caption"):
        list(loader(str(tmp_path / "0000.tar"), train=False))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no fifos here")
def test_waiting_too_long_is_a_stall(tmp_path):
    os.mkfifo(tmp_path / "slow")
    loading = loader([f"pipe:cat {tmp_path}/slow"], workers=1, stall_after=1.0)
    with pytest.raises(StallError, match=r"no batch for [1-9]\d* s"):
        next(iter(loading))
    loading.close()


def test_a_cut_shard_gives_what_it_has_and_pairs_nothing_wrongly(tmp_path):
    data = write_shards(tmp_path, [20, 20, 20])
    cut = tmp_path / "0001.tar"
    whole = cut.read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    loading = loader(data, workers=1, train=False, preprocess=EVAL)
    found = all_texts(loading)
    assert set(found) >= {f"0/{number}" for number in range(20)} | {
        f"2/{number}" for number in range(20)
    }
    assert len(found) == len(set(found))
    assert [Path(damage.shard).name for damage in loading.tally.damage.values()] == ["0001.tar"]
    assert loading.tally.seen >= len(found)


def test_archives_one_behind_another_pair_nothing_wrongly(tmp_path):
    whole = [("0.jpg", jpeg(1)), ("0.txt", b"whole")]
    parts = [
        whole,
        whole[:1],
        [("0.txt", b"another's"), ("1.jpg", jpeg(2)), ("1.txt", b"whole too")],
    ]
    shard = tmp_path / "0000.tar"
    shard.write_bytes(
        b"".join(
            write_tar(tmp_path / f"{n}.tar", part).read_bytes() for n, part in enumerate(parts)
        )
    )
    loading = loader(str(shard), train=False, preprocess=EVAL, workers=1)
    assert all_texts(loading) == ["whole", "whole too"]
    assert (
        loading.tally.losses["select", "no-caption"].count
        == loading.tally.losses["select", "no-image"].count
        == 1
    )


def test_samples_behind_damage_are_read(tmp_path):
    data = write_shards(tmp_path, [20])
    shard = tmp_path / "0000.tar"
    whole = bytearray(shard.read_bytes())
    at = whole.index(b"0000010.jpg")
    whole[at : at + 200] = b"\xff" * 200
    shard.write_bytes(whole)
    loading = loader(data, workers=1, train=False, preprocess=EVAL)
    found = all_texts(loading)
    assert set(found) == {f"0/{number}" for number in range(20)} - {"0/10"}
    assert loading.tally.damage


def test_a_key_that_goes_on_in_the_next_shard_is_never_one_sample(tmp_path):
    write_tar(tmp_path / "0000.tar", [*samples(0, 4), ("x.jpg", jpeg(1))])
    write_tar(tmp_path / "0001.tar", [("x.txt", b"of another"), *samples(1, 4)])
    loading = loader(f"{tmp_path}/{{0000..0001}}.tar", workers=1, train=False, preprocess=EVAL)
    assert "of another" not in all_texts(loading)
    assert loading.tally.losses["select", "no-caption"].count == 1
    assert loading.tally.losses["select", "no-image"].count == 1


def test_hostile_samples_are_counted_and_cost_themselves_alone(tmp_path):
    members = samples(0, 12)
    members += [
        ("cut.jpg", jpeg(5)[:300]),
        ("cut.txt", b"cut"),
        ("html.jpg", b"<html>404</html>"),
        ("html.txt", b"html"),
        ("zero.jpg", b""),
        ("zero.txt", b"zero"),
        ("long.jpg", jpeg(6)),
        ("long.txt", b"a " * 15_000_000),
        ("latin.jpg", jpeg(7)),
        ("latin.txt", "café".encode("latin-1")),
        ("lone.txt", b"lone"),
    ]
    write_tar(tmp_path / "0000.tar", members)
    loading = loader(str(tmp_path / "0000.tar"), workers=1, train=False, preprocess=EVAL)
    assert sorted(all_texts(loading)) == sorted(f"0/{number}" for number in range(12))
    counts = {reason: each.count for (_, reason), each in loading.tally.losses.items()}
    assert counts == {
        "truncated": 1,
        "not-an-image": 2,
        "large-caption": 1,
        "not-text": 1,
        "no-image": 1,
    }
    assert loading.tally.seen == 18


def test_compressed_shards_feed_too(tmp_path):
    data = write_shards(tmp_path, [20])
    shard = tmp_path / "0000.tar"
    (tmp_path / "0000.tar.gz").write_bytes(gzip.compress(shard.read_bytes()))
    plain = loader(data, workers=1)
    packed = loader(str(tmp_path / "0000.tar.gz"), workers=1)
    assert Counter(all_texts(plain)) == Counter(all_texts(packed))


@pytest.mark.deep
def test_a_batch_that_is_kept_stays_as_it_is(tmp_path):
    loading = loader(write_shards(tmp_path, [40, 40]))
    kept = list(loading)
    loading.set_epoch(0)
    again = [digest(batch) for batch in loading]
    assert [digest(batch) for batch in kept] == again
    row = next(iter(loading))[0][1]  # a view is enough to keep the memory
    before = row.clone()
    list(loading)
    assert torch.equal(row, before)


def test_breaking_off_leaves_no_thread_behind(tmp_path):
    import threading

    before = set(threading.enumerate())
    loading = loader(write_shards(tmp_path, [40, 40]))
    for _ in loading:
        break
    loading.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
    assert not [thread for thread in set(threading.enumerate()) - before if thread.is_alive()]


def test_memory_that_cannot_suffice_is_refused(tmp_path):
    with pytest.raises(ValueError, match="too little"):
        loader(write_shards(tmp_path, [8, 8]), memory="1MiB")


def test_giants_are_refused_by_their_headers_within_the_memory(tmp_path):
    import tarfile
    import zlib

    shard = tmp_path / "0000.tar"
    write_tar(shard, samples(0, 6))
    # 234 million pixels, black or white.
    rows = zlib.compress(b"\0" * ((15_300 // 8 + 1) * 15_300), 1)

    def chunk(name, data):
        return (
            len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")
        )

    size = (15_300).to_bytes(4, "big") * 2
    png = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", size + b"\1\0\0\0\0")
        + chunk(b"IDAT", rows)
        + chunk(b"IEND", b"")
    )
    bomb = b'{"caption": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    small = [
        ("giant.txt", b"a giant"),
        ("bomb.png", png),
        ("bomb.txt", b"too many pixels"),
        ("deep.jpg", jpeg(3)),
        ("deep.json", bomb),
    ]
    write_tar(tmp_path / "more.tar", small)
    giant = tarfile.TarInfo("giant.jpg")
    giant.size = 3 << 30
    with shard.open("r+b") as file:
        position = 0
        data = shard.read_bytes()
        while data[position : position + 512].strip(b"\0"):
            length = int(data[position + 124 : position + 135], 8)
            position += 512 + -(-length // 512) * 512
        file.seek(position)
        file.truncate()
        file.write(giant.tobuf(tarfile.GNU_FORMAT))
        file.seek(giant.size, 1)  # a hole: the file takes no room
        file.write((tmp_path / "more.tar").read_bytes())
    reset_peak()
    before = peak_resident_bytes()
    loading = loader(
        str(shard),
        workers=1,
        train=False,
        preprocess=EVAL,
        caption="txt|json:caption",
        memory="256MiB",
    )
    assert sorted(all_texts(loading)) == [f"0/{number}" for number in range(6)]
    assert peak_resident_bytes() - before < 400 << 20
    counts = {reason: each.count for (_, reason), each in loading.tally.losses.items()}
    assert counts == {"huge-image": 1, "too-many-pixels": 1, "bad-json": 1}


def test_samples_that_fill_no_batch_are_not_lost_and_none_is_counted_twice(tmp_path, caplog):
    caplog.set_level("INFO", logger="wdsflow.training")
    write_tar(tmp_path / "0000.tar", [*samples(0, 30), ("x.jpg", jpeg(1))])
    loading = loader(str(tmp_path / "0000.tar"), workers=1, batch_size=8, status_every=1e6)
    # 60 asked for: 24 of 30 in each of three passes.
    assert sum(len(texts(batch)) for batch in loading) == 64
    tally = loading.tally
    assert (tally.seen, tally.kept, tally.lost) == (31, 24, 1)
    assert tally.noted == {"left-over": 6, "repeated": 40}
    [table] = [
        record.getMessage() for record in caplog.records if "epoch 0 done" in record.getMessage()
    ]
    assert re.findall(r"(kept|lost|left-over|seen) +(\d+) +([\d.]+) %", table) == [
        ("seen", "31", "100.0"),
        ("kept", "24", "77.4"),
        ("lost", "1", "3.2"),
        ("left-over", "6", "19.4"),
    ]
    # Of more than were seen: no share.
    assert re.search(r"noted: repeated +40$", table, re.MULTILINE)
    assert [
        record.levelname for record in caplog.records if "epoch 0 done" in record.getMessage()
    ] == ["WARNING"]
    caplog.clear()
    write_tar(tmp_path / "0000.tar", samples(0, 30))
    for status_every, said in ((1e6, ["INFO"]), (0.0, [])):
        list(loader(str(tmp_path / "0000.tar"), workers=1, batch_size=8, status_every=status_every))
        assert [
            record.levelname for record in caplog.records if "feed: epoch 0" in record.getMessage()
        ] == said
        caplog.clear()


def test_damage_is_reported_of_shards_that_were_counted_and_read_before_the_first_batch(
    tmp_path, caplog
):
    caplog.set_level("INFO", logger="wdsflow.training")
    data = write_shards(tmp_path, [20, 20])
    cut = tmp_path / "0001.tar"
    cut.write_bytes(cut.read_bytes()[:-12_000])
    # Counts the samples, and keeps what it has listed.
    loading = loader(data, schedule="balanced", status_every=1e6)
    running = iter(loading)
    while not loading.tally.damage:
        time.sleep(0.01)
    list(running)
    [table] = [
        record.getMessage() for record in caplog.records if "epoch 0 done" in record.getMessage()
    ]
    assert f"damaged: {cut}: " in table


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(4))
def test_a_worker_that_cannot_fill_a_batch_is_an_error_after_the_batches_before_it(tmp_path, seed):
    """A chunk holds samples of two workers.

    It has the last samples of one worker's batch, and the first ones of the next worker, whose
    shard is short.
    """
    data = write_shards(tmp_path, [30, 30, 1])
    loading = loader(data, workers=3, batch_size=23, decoders=1, arguments_more={"seed": seed})
    given = []
    with pytest.raises(
        StallError, match=r"worker \d: a whole pass over its only shard gave 1 usable sample"
    ) as caught:
        given.extend(texts(batch) for batch in loading)
    number = int(re.search(r"worker (\d)", str(caught.value))[1])
    assert len(given) == number
