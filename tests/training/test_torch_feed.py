"""wdsflow.feed: exact epochs, mixed sources, states that any job continues, columns, and errors."""

import copy
import io
import json
import logging
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from torchdata.stateful_dataloader import StatefulDataLoader

from tests.processes import living_children
from tests.training.shards import jpeg, write_shards, write_tar
from wdsflow import FeedOptions, WeightedSource
from wdsflow import feed as make
from wdsflow.training import StallError
from wdsflow.training.feed.headspace import Headspace
from wdsflow.training.feed_options import FeedError, SampleError, ShardsError, SubsetError
from wdsflow.training.orders.balanced import STREAMS
from wdsflow.training.orders.merged import shares_of

TRANSFORM = open_clip.image_transform(32, is_train=True)
QUIET = FeedOptions(status_every=0.0, decode_in="threads", decoders=2)
FIELDS = ("jpg", "__key__", "__url__")


def feed(shards, **given):
    return make(shards, **{"batch_size": 4, "options": QUIET, **given})


def keys_of(shards, world, state, stop, **given):
    """Run the feeds of all ranks from a state.

    Returns the samples that they yield, their common state, and the numbers of batches of the
    ranks.
    """
    samples, states, counts = [], [], set()
    for rank in range(world):
        one = feed(shards, rank=rank, world_size=world, fields=("__key__", "__url__"), **given)
        if state is not None:
            one.load_state_dict(json.loads(state))
        number = 0
        for number, (keys, urls) in enumerate(one, 1):
            samples += [(url[-8:], key) for url, key in zip(urls, keys, strict=True)]
            if number == stop:
                break
        counts.add(number)
        states.append(json.dumps(one.state_dict()))
        one.close()
    assert len(set(states)) == len(counts) == 1
    return samples, states[0]


def resumed(shards, rng, epochs, **given):
    """Give some epochs in parts, each by other ranks; return the samples of each epoch."""
    state, found = None, [[] for _ in range(epochs)]
    epoch = 0
    while epoch < epochs:
        samples, state = keys_of(
            shards,
            rng.choice([1, 2, 3, 5]),
            state,
            rng.choice([2, 3, 7, 0]),
            batch_size=rng.choice([2, 3, 6]),
            **given,
        )
        found[epoch] += samples
        checked = feed(shards, fields=("__key__", "__url__"), **given)
        checked.load_state_dict(json.loads(state))
        epoch = checked.epoch
    return found


@pytest.mark.sample(1)
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(1, 20))]
)
def test_each_sample_is_given_once_however_often_other_ranks_continue(tmp_path, count, seed):
    rng = random.Random(seed)
    first = write_shards(tmp_path / "a", [rng.randrange(1, 30) for _ in range(6)])
    second = write_shards(tmp_path / "b", [rng.randrange(1, 30) for _ in range(3)])
    shards = first if count == 1 else {first: 0.7, second: 0.3}
    for epoch, samples in enumerate(resumed(shards, rng, 3, seed=seed)):
        whole = feed(shards, fields=("__key__", "__url__"), seed=seed, batch_size=16)
        whole.set_epoch(epoch)
        expected = [
            (url[-8:], key) for keys, urls in whole for url, key in zip(urls, keys, strict=True)
        ]
        assert Counter(samples) == Counter(expected)


def test_an_eighth_of_its_memory_is_for_raw_content_that_is_shuffled(tmp_path):
    write_tar(tmp_path / "0.tar", [(f"{number}.jpg", b"x") for number in range(8)])
    for size in (1 << 30, 4 << 30):
        options = FeedOptions(status_every=0.0, decode_in="threads", decoders=2, memory=size)
        fed = feed(str(tmp_path / "0.tar"), fields=("__key__",), options=options)
        assert fed.state_dict()["stream_bytes"] == size // 8 // STREAMS
        fed.close()


def test_fewer_samples_than_ranks_are_given_once_and_all_ranks_end_the_epoch(tmp_path):
    shards = write_shards(tmp_path, [10, 10])
    given, state = keys_of(shards, 3, None, 1, batch_size=4)
    more, state = keys_of(shards, 1, state, 1, batch_size=6)
    assert len({*given, *more}) == 15
    ranks = [
        feed(shards, fields=("__key__", "__url__"), batch_size=2, rank=rank, world_size=6)
        for rank in range(6)
    ]
    for one in ranks:
        one.load_state_dict(json.loads(state))
        assert one.epoch == 0
    rest = [
        [(url[-8:], key) for keys, urls in one for url, key in zip(urls, keys, strict=True)]
        for one in ranks
    ]
    assert [len(each) for each in rest] == [1, 1, 1, 1, 1, 0]
    assert len({*given, *more, *(sample for each in rest for sample in each)}) == 20
    assert all(one.state_dict() == ranks[0].state_dict() and one.epoch == 1 for one in ranks)
    assert sum(len(keys) for one in ranks for keys, _ in one) == 20


def test_the_mix_holds_at_every_step(tmp_path):
    names = {"a": 0.5, "b": 0.3, "c": 0.2}
    shards = {write_shards(tmp_path / name, [20, 7]): weight for name, weight in names.items()}
    given = Counter()
    mixed = feed(shards, batch_size=10, epoch_samples=400, fields=("__url__",))
    for (urls,) in mixed:
        given.update(Path(url).parent.name for url in urls)
        assert all(abs(given[name] - weight * given.total()) < 1 for name, weight in names.items())
    assert given == {"a": 200, "b": 120, "c": 80}
    assert len(mixed) == 40


def test_pixels_and_captions_of_a_sample_do_not_depend_on_ranks(tmp_path):
    shards = write_shards(tmp_path, [9, 5, 8])

    def pictures(world, batch_size):
        found = {}
        for rank in range(world):
            one = feed(
                shards,
                fields=FIELDS,
                transform=TRANSFORM,
                rank=rank,
                world_size=world,
                batch_size=batch_size,
            )
            for images, keys, _ in one:
                assert images.dtype == torch.float32
                assert images.shape[1:] == (3, 32, 32)
                found |= dict(zip(keys, [image.numpy().tobytes() for image in images], strict=True))
        return found

    alone = pictures(1, 5)
    assert len(alone) == 22
    assert pictures(3, 4) == alone


def test_batches_have_the_columns_that_are_asked_for(tmp_path):
    members = []
    for number in range(4):
        described = json.dumps({"caption": f"a {number}", "size": number}).encode()
        members += [
            (f"{number}.png", jpeg(number)),
            (f"{number}.json", described),
            (f"{number}.cls", b"%d" % number),
        ]
    shard = str(write_tar(tmp_path / "0.tar", members))
    fields = {
        "number": "cls",
        "image": "jpg;png",
        "text": "json:caption",
        "facts": "json",
        "raw": "png",
        "key": "__key__",
    }
    batch = next(
        iter(
            feed(
                shard,
                fields=fields,
                transform=TRANSFORM,
                tokenizer=lambda text: [[len(text)]],
                shuffle=0,
            )
        )
    )
    assert list(batch) == list(fields)
    assert batch["number"].tolist() == [0, 1, 2, 3]
    assert batch["image"].shape == (4, 3, 32, 32)
    assert [list(map(int, row)) for row in batch["text"]] == [[3]] * 4
    assert batch["facts"][2] == {"caption": "a 2", "size": 2}
    assert batch["raw"][1] == jpeg(1)
    assert batch["key"] == ["0", "1", "2", "3"]
    (texts,) = next(iter(feed(shard, fields="json:caption", shuffle=0)))
    assert texts == ["a 0", "a 1", "a 2", "a 3"]


def halved(sample):
    return {
        "half": torch.tensor(len(sample["jpg"]) / 2),
        "key": (sample["__key__"], sample["txt"].decode()),
    }


def test_a_map_makes_samples_of_all_members(tmp_path):
    batch = next(iter(feed(write_shards(tmp_path, [4]), map=halved, shuffle=0)))
    assert batch["half"].shape == (4,)
    assert batch["key"] == [
        [f"000000{number}" for number in range(4)],
        [f"0/{number}" for number in range(4)],
    ]


def mixed(sample):
    return 1 if sample["__key__"].endswith("1") else (1, 2)


def test_a_map_that_returns_different_things_is_told(tmp_path):
    with pytest.raises(SampleError, match="map returned samples that make no batch: TypeError"):
        list(feed(write_shards(tmp_path, [2]), map=mixed, shuffle=0))


def nothing(sample):
    assert sample


def test_a_map_that_returns_nothing_is_told_what_returns_nothing(tmp_path):
    with pytest.raises(SampleError) as raised:
        list(feed(write_shards(tmp_path, [2]), map=nothing, shuffle=0))
    first, *more = str(raised.value).splitlines()
    assert first.endswith(": it returned None")
    assert more[-2:] == [
        "It does the same for a picture of noise: correct the code, no sample is to blame.",
        "A function without return returns None.",
    ]


def wrong(sample):
    raise KeyError(sample["__key__"])


def test_a_map_that_fails_is_told_with_its_sample(tmp_path):
    with pytest.raises(
        SampleError, match=r"map failed at sample '0000000' of .*it raised KeyError: '0000000'"
    ):
        list(feed(write_shards(tmp_path, [1]), map=wrong))


def test_lost_samples_keep_batches_equal_and_are_replaced_by_others(tmp_path):
    members = []
    for number in range(24):
        members += [
            (f"{number:02d}.jpg", b"no image" if number % 5 == 2 else jpeg(number)),
            (f"{number:02d}.txt", b"a"),
        ]
    shard = str(write_tar(tmp_path / "0.tar", members))
    given = []
    for rank in range(2):
        one = feed(shard, transform=TRANSFORM, fields=FIELDS, rank=rank, world_size=2)
        batches = [keys for _, keys, _ in one]
        assert [len(batch) for batch in batches] == [4, 4, 4]
        assert one.tally.noted["repeated"] == one.tally.lost
        given += [key for batch in batches for key in batch]
    assert set(given) == {f"{number:02d}" for number in range(24) if number % 5 != 2}
    assert len(given) == 24


def test_a_wrong_name_in_json_is_told_with_the_names_that_are_there(tmp_path):
    named = json.dumps({"title": "a cat", "id": 7, "meta": {"author": "b"}}).encode()
    parts = (("jpg", jpeg(1)), ("json", named), ("txt", b"a"))
    members = [(f"{number}.{name}", data) for number in range(9) for name, data in parts]
    shard = str(write_tar(tmp_path / "0.tar", members))
    with pytest.raises(StallError) as caught:
        list(feed(shard, fields=("jpg", "json:caption"), transform=TRANSFORM))
    said = str(caught.value)
    assert (
        "\nNo json of 9 checked samples has caption; it has text in meta.author and title.\n"
        in said
    )
    assert "wdsflow validate" not in said  # it would say that these shards train, by their txt
    assert f"to see the json of a sample: wdsflow inspect {shard}" in said
    fixed = re.search(r"wdsflow\.feed\(\.\.\., (fields=\(.*?\))", said)
    assert fixed is not None, said
    found = eval(f"dict({fixed[1]})")
    assert next(iter(feed(shard, **found, transform=TRANSFORM)))[1] == ["a cat"] * 4


def test_images_of_several_sizes_without_a_transform_are_told_with_their_sizes(tmp_path):
    members = [(f"{number}.jpg", jpeg(number, (40 + number, 32))) for number in range(2)]
    shard = str(write_tar(tmp_path / "0.tar", members))
    sizes = r"40 x 32 pixels for sample '0' of \S+, and 41 x 32 pixels for sample '1' of \S+\n"
    with pytest.raises(
        SampleError, match=f"images of different sizes make no batch: {sizes}Give a transform"
    ) as caught:
        list(feed(shard, fields="jpg", shuffle=False))
    assert "transform=open_clip.image_transform(224, is_train=True)" in str(caught.value)
    assert next(iter(feed(shard, fields="jpg", transform=TRANSFORM)))[0].shape == (2, 3, 32, 32)
    pictures = next(iter(feed(shard, map=pixels, shuffle=False)))
    assert [tuple(each.shape) for each in pictures] == [(32, 40, 3), (32, 41, 3)]


def pixels(sample):
    return np.asarray(Image.open(io.BytesIO(sample["jpg"])))


def test_shards_without_a_usable_sample_end_with_what_would_fit(tmp_path):
    members = [
        (f"{number}.{name}", data)
        for number in range(9)
        for name, data in (("jpg", jpeg(1)), ("json", b'{"alt": "a"}'))
    ]
    shard = str(write_tar(tmp_path / "0.tar", members))
    with pytest.raises(ShardsError) as caught:
        feed(shard)
    fixed = re.search(r"wdsflow\.feed\(\.\.\., (fields=\(.*\))\)", str(caught.value))
    assert fixed is not None, caught.value
    found = eval(f"dict({fixed[1]})")
    assert len(next(iter(feed(shard, **found, transform=TRANSFORM)))[1]) == 4
    with pytest.raises(ShardsError, match="has an image and cls; the first has jpg, json"):
        feed(shard, fields=("jpg", "cls"))
    with pytest.raises(ShardsError, match="has a caption"):  # one string is one field
        feed(shard, fields="txt")
    broken = str(
        write_tar(
            tmp_path / "1.tar", [(f"{n}.{name}", b"x") for n in range(9) for name in ("jpg", "txt")]
        )
    )
    with pytest.raises(StallError, match=r"9 samples lost in a row"):
        list(feed(broken, transform=TRANSFORM))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"fields": ()}, "fields is empty"),
        ({"fields": ("jpg", "txt", "json:alt")}, "'json:alt' is a second caption"),
        (
            {"options": FeedOptions(caption="json:alt")},
            r"options has caption='json:alt'; wdsflow.feed takes fields=",
        ),
        (
            {"world_size": 9, "rank": 0},
            "an epoch of 7 samples with all fields is too short for 9 ranks",
        ),
        ({"rank": 1}, "rank is 1 and world_size is None: give both, or neither"),
        ({"world_size": 2, "rank": 2}, "rank is 2; with world_size=2 it must be 0 to 1"),
        ({"world_size": 2, "rank": -1}, "rank is -1; with world_size=2 it must be 0 to 1"),
        (
            {"drop_last": True, "batch_size": 8},
            "drop_last=True leaves no batch: an epoch of 7 samples",
        ),
        ({"where": "width > 1"}, "where is given without ledger"),
        (
            {"fields": ("jpg", "json"), "caption_probs": (0.5, 0.5)},
            "caption_probs is given, and fields has no caption",
        ),
        ({"options": FeedOptions(memory="1MiB")}, "memory of 1,048,576 bytes is too little"),
    ],
)
def test_wrong_arguments_are_told(tmp_path, given, message):
    with pytest.raises(FeedError, match=message):
        feed(write_shards(tmp_path, [7]), **given)


def test_samples_that_other_ranks_or_workers_would_get_too_are_refused(tmp_path, monkeypatch):
    shards = write_shards(tmp_path, [7, 9])
    one = feed(shards, fields=("__key__",))
    assert sum(len(keys) for (keys,) in torch.utils.data.DataLoader(one, batch_size=None)) == 16
    with pytest.raises(FeedError, match="each of 2 workers of a DataLoader would give all samples"):
        list(torch.utils.data.DataLoader(one, batch_size=None, num_workers=2))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    early, chosen = feed(shards), feed(shards, rank=1, world_size=2)
    monkeypatch.delenv("RANK")
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        with pytest.raises(FeedError, match=r"was made for rank 1 of 2, .* this is rank 0 of 1"):
            iter(early)
        assert len(list(chosen)) == 2
    finally:
        torch.distributed.destroy_process_group()


def test_shards_may_be_paths_and_several_patterns(tmp_path):
    first, second = write_shards(tmp_path / "a", [3, 4]), write_shards(tmp_path / "b", [5])
    assert sum(len(keys) for (keys,) in feed([first, second], fields=("__key__",))) == 12
    assert sum(len(keys) for (keys,) in feed(tmp_path / "b" / "0000.tar", fields=("__key__",))) == 5
    with pytest.raises(FeedError, match="shards is empty"):
        feed([])


def test_shares_are_exact_for_billions_of_samples():
    assert shares_of(np.array([1 << 26]), 5_850_000_001).tolist() == [5_850_000_001]
    assert shares_of(np.array([1 << 25, 1 << 25]), 10**13 + 1).tolist() == [
        5 * 10**12 + 1,
        5 * 10**12,
    ]


def test_passes_over_a_small_source_leave_no_streams_open(tmp_path):
    shards = {write_shards(tmp_path / "a", [3]): 0.9, write_shards(tmp_path / "b", [40, 40]): 0.1}
    one = feed(shards, fields=("__key__",), rank=1, world_size=4)
    most = 0
    for _ in one:
        most = max(most, sum(not used.closed for used in one._feed.run.planner._streams.values()))
    assert most <= 6  # two of the large source, and those of a step
    assert len(one) > 40


def test_a_state_of_other_fields_of_a_source_is_refused(tmp_path):
    first, second = write_shards(tmp_path / "a", [7]), write_shards(tmp_path / "b", [9])
    state = feed(
        {first: 1, second: WeightedSource(fields=("jpg", "txt"))}, seed=np.int64(3)
    ).state_dict()
    with pytest.raises(ValueError, match=r"source 2, fields: .*'txt;json'"):
        feed(
            {first: 1, second: WeightedSource(fields=("jpg", "txt;json"))}, seed=3
        ).load_state_dict(json.loads(json.dumps(state)))


def test_wrong_mixes_are_told(tmp_path):
    first, second = write_shards(tmp_path / "a", [7]), write_shards(tmp_path / "b", [7])
    with pytest.raises(FeedError, match=r"weights are 1\.0, -1\.0; each must be above 0"):
        feed({first: 1, second: -1})
    with pytest.raises(FeedError, match="shards is empty: name at least one pattern"):
        feed({})
    with pytest.raises(FeedError, match="end is 'never'"):
        WeightedSource(end="never")
    with pytest.raises(FeedError, match="fields that make no common batch"):
        feed({first: 1, second: WeightedSource(fields=("jpg",))})
    with pytest.raises(SubsetError, match="scored"):
        feed({first: 1, second: WeightedSource(ledger=f"{tmp_path}/scored", where="width > 1")})


def test_shards_in_two_sources_are_reported_before_the_first_batch(tmp_path, caplog):
    write_shards(tmp_path, [7, 5])
    feed({f"{tmp_path}/*.tar": 1, f"{tmp_path}/0001.tar": 1})
    assert re.search(r"feed: 1 shard in several sources, first: \S*0001\.tar", caplog.text)


def test_a_state_of_another_feed_is_refused_with_the_difference(tmp_path):
    shards = write_shards(tmp_path / "a", [7, 9])
    state = feed(shards).state_dict()
    moved = shutil.copytree(tmp_path / "a", tmp_path / "b")
    feed(f"{moved}/*.tar", batch_size=5, rank=1, world_size=2).load_state_dict(state)
    with pytest.raises(ValueError, match="seed: 0 then, 3 now"):
        feed(shards, seed=3).load_state_dict(state)
    (tmp_path / "a" / "0001.tar").unlink()
    with pytest.raises(ValueError, match="samples: 16 then, 7 now"):
        feed(f"{tmp_path}/a/*.tar").load_state_dict(state)


def test_copies_of_a_feed_continue_where_it_is(tmp_path):
    shards = write_shards(tmp_path, [9, 8])
    one = feed(shards, fields=("__key__", "__url__"))
    batches = iter(one)
    first = [next(batches), next(batches)]
    copies = [copy.deepcopy(one), pickle.loads(pickle.dumps(one))]
    rest = list(batches)
    assert first
    assert [list(each) for each in copies] == [rest, rest]


def test_a_copy_of_a_feed_that_was_made_too_early_is_refused_on_ranks_too(tmp_path, monkeypatch):
    one = feed(write_shards(tmp_path, [9]), fields=("__key__",))
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1
    )
    try:
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        for each in (one, pickle.loads(pickle.dumps(one))):
            with pytest.raises(FeedError, match="made for rank 0 of 1, before"):
                iter(each)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"batch_size": 4, "collate_fn": list},
        pytest.param({"batch_size": 4, "num_workers": 1}, marks=pytest.mark.deep),
    ],
)
@pytest.mark.parametrize("kind", ["torch", "torchdata"])
def test_a_dataloader_that_would_make_batches_of_batches_is_refused(tmp_path, kind, given):
    loader = torch.utils.data.DataLoader if kind == "torch" else StatefulDataLoader
    one = feed(write_shards(tmp_path, [9]), fields=("txt",))
    with pytest.raises(FeedError, match=r"batches of batches.*DataLoader\(feed, batch_size=None\)"):
        list(loader(one, **given))
    assert len(list(loader(one, batch_size=None))) == 3


@pytest.mark.parametrize("kind", ["torch", "torchdata"])
def test_one_worker_of_a_dataloader_gives_all_samples(tmp_path, kind):
    shards = write_shards(tmp_path, [9, 8])
    # Forks in the main process.
    one = feed(shards, fields=("txt", "__key__"), options=FeedOptions(status_every=0.0))
    loader = torch.utils.data.DataLoader if kind == "torch" else StatefulDataLoader
    assert sum(len(keys) for _, keys in loader(one, batch_size=None, num_workers=1)) == 17


def test_a_state_that_is_loaded_within_a_pass_ends_it(tmp_path):
    shards = write_shards(tmp_path, [9, 8])
    one = feed(shards, fields=("__key__", "__url__"))
    batches = iter(one)
    next(batches)
    state, rest = one.state_dict(), list(batches)
    running, waiting = iter(one), None
    next(running), next(running)
    one.load_state_dict(state)
    with pytest.raises(RuntimeError, match="this pass over the loader was ended"):
        next(running)
    assert list(one) == rest
    waiting = iter(one)
    one.load_state_dict(state)
    assert list(waiting) == rest


def test_a_forked_process_cannot_take_batches_of_a_pass_of_its_parent(tmp_path):
    batches = iter(feed(write_shards(tmp_path, [9, 8]), fields=("__key__",)))
    next(batches)
    child = os.fork()
    if not child:
        try:
            next(batches)
        except RuntimeError as error:
            os._exit(7 if "call iter() in this one" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert sum(1 for _ in batches) == 4


def test_an_epoch_that_a_small_weight_makes_long_is_reported(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "wdsflow.training")
    shards = {write_shards(tmp_path / "a", [9]): 1.0, write_shards(tmp_path / "b", [8]): 1e-3}
    assert len(feed(shards, fields=("__key__",))) == 1877
    assert "an epoch has 7,508 samples, of 17: it lasts until" in caplog.text
    assert caplog.text.rstrip().endswith(
        "of weight 0.001, has been given. For a shorter one, set epoch_samples=17"
    )
    caplog.clear()
    ends = dict(zip(shards, (WeightedSource(weight=1e3), WeightedSource(end="stop")), strict=True))
    feed({**ends, write_shards(tmp_path / "c", [7]): 0.1}, fields=("__key__",))
    assert f"it lasts until {list(shards)[1]}, of weight 1, has" in caplog.text
    caplog.clear()
    assert len(feed(shards, fields=("__key__",), epoch_samples=17)) == 5
    assert not caplog.text


def test_a_batch_may_be_larger_than_an_epoch(tmp_path):
    ((keys,),) = list(feed(write_shards(tmp_path, [9, 8]), fields=("__key__",), batch_size=10**9))
    assert len(keys) == 17


def test_code_of_the_user_runs_in_as_many_processes_as_asked_for(tmp_path):
    def by_user(image):
        return TRANSFORM(image)

    shards = write_shards(tmp_path, [20, 20])
    known = living_children()
    feed = make(shards, batch_size=4, transform=by_user, options=FeedOptions(decoders=3))
    try:
        batches = iter(feed)
        next(batches)
        processes = living_children(known)
    finally:
        feed.close()
    assert len(processes) == 3


def test_headspace_says_what_bounds_training(tmp_path):
    shards = write_shards(tmp_path, [40, 40])

    def slow(image):
        until = time.process_time() + 0.01
        while time.process_time() < until:
            pass
        return TRANSFORM(image)

    one = make(
        shards, batch_size=4, transform=slow, options=FeedOptions(status_every=0.0, decoders=1)
    )
    assert len(list(one.headspace(8))) == 20
    assert one.headroom.batches == 8
    assert one.headroom.wait_share > 0.5
    assert one.headroom.cpu_seconds >= 0.02
    # A whole epoch: its decoders have ended before its last batch is given.
    assert len(list(one.headspace())) == 40
    assert one.headroom.batches == 18
    assert one.headroom.cpu_seconds >= 0.02
    # A busy machine.
    assert (
        "Decoding is the bound" in str(one.headroom)
        or one.headroom.cpu_seconds < 0.7 * one.headroom.fed
    )
    assert Headspace(9, 0.1, 0.099, 0.09, 1, 4).wait_share == pytest.approx(0.01)
    assert "The feed is fast enough" in str(Headspace(9, 0.1, 0.099, 0.09, 1, 4))
    assert str(Headspace(9, 0.1, 0.03, 0.09, 1, 4)).endswith(
        "3 cores would keep up, with decoders=3 instead of 1"
    )
    assert "9 cores would keep up, and this rank has 4" in str(Headspace(9, 0.1, 0.01, 0.09, 1, 4))
    assert "Decoders work 30% of the time: reading the shards" in str(
        Headspace(9, 0.1, 0.01, 0.03, 1, 4)
    )
    with pytest.raises(ValueError, match="the epoch has 1 batch, too few to measure"):
        list(feed(shards, batch_size=80).headspace())


KILLED = """
import json, os, signal, sys
import wdsflow
import wdsflow.training.torch_feed  # once, for all ranks

shards, jobs = json.loads(sys.argv[1])
options = wdsflow.FeedOptions(status_every=0.0, decoders=1, decode_in="threads")


def be_rank(rank, world, batch_size, stop, state, out):
    feed = wdsflow.feed(shards, batch_size=batch_size, fields=("__key__", "__url__"), rank=rank, world_size=world, options=options)
    if state is not None:
        feed.load_state_dict(state)
    epoch = feed.epoch
    for number, (keys, urls) in enumerate(feed, 1):
        samples = [[url[-11:], key] for url, key in zip(urls, keys)]
        os.write(out, json.dumps([rank, number, epoch, samples, feed.state_dict()]).encode() + b"\\n")
        if number == stop:
            os.kill(os.getpid(), signal.SIGKILL)


state = None
for job, (world, batch_size, stop) in enumerate(jobs):
    path = f"{job}.jsonl"
    children = []
    for rank in range(world):
        child = os.fork()
        if not child:
            be_rank(rank, world, batch_size, stop, state, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
            os._exit(0)
        children.append(child)
    assert {os.waitpid(child, 0)[1] for child in children} <= {0, signal.SIGKILL}
    lines = [json.loads(line) for line in open(path)]
    last = max(number for _, number, *_ in lines)
    states = [state for _, number, _, _, state in lines if number == last]
    # Fewer ranks where a resume has left fewer samples than ranks: then these samples end the epoch.
    assert sorted(rank for rank, number, *_ in lines if number == last) == list(range(len(states))), lines
    assert len(states) == world or states[0]["samples"] == states[0]["identity"]["samples"], lines
    assert all(each == states[0] for each in states)
    state = states[0]
    print(json.dumps([(epoch, *sample) for _, _, epoch, samples, _ in lines for sample in samples]))
print(json.dumps(state))
"""


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(int(os.environ.get("WDSFLOW_PLANS", "6"))))
def test_killed_jobs_of_other_sizes_give_each_sample_once(tmp_path, seed):
    """World sizes 8, 3, 16; one, two or four sources; kill -9 of all ranks after random batches."""
    rng = random.Random(seed)
    count = rng.choice([1, 2, 4])
    patterns = [
        write_shards(tmp_path / f"s{at}", [rng.randrange(9, 40) for _ in range(5)])
        for at in range(count)
    ]
    shards = patterns[0] if count == 1 else {pattern: rng.randrange(1, 5) for pattern in patterns}
    jobs = [(world, rng.choice([2, 3, 5]), rng.choice([1, 2, 3, 0])) for world in (8, 3, 16, 3)]
    run = [sys.executable, "-c", KILLED, json.dumps([shards, jobs])]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        run, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
    )
    assert not done.returncode, done.stderr
    *given, state = map(json.loads, done.stdout.splitlines())
    found = Counter(tuple(sample) for samples in given for sample in samples)
    rest = feed(shards, fields=("__key__", "__url__"), batch_size=7)
    rest.load_state_dict(state)
    last = rest.epoch
    found.update(
        (last, url[-11:], key) for keys, urls in rest for url, key in zip(urls, keys, strict=True)
    )
    for epoch in range(last + 1):
        whole = feed(shards, fields=("__key__", "__url__"), batch_size=7)
        whole.set_epoch(epoch)
        expected = Counter(
            (epoch, url[-11:], key)
            for keys, urls in whole
            for url, key in zip(urls, keys, strict=True)
        )
        assert (
            Counter({sample: number for sample, number in found.items() if sample[0] == epoch})
            == expected
        )


@pytest.mark.deep
def test_the_program_of_the_page_runs_under_torchrun(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "feed.md").read_text()
    (tmp_path / "ddp.py").write_text(page.split("```python ddp.py\n")[1].split("```")[0])
    write_shards(tmp_path / "shards", [13, 8, 20])
    [shown] = re.findall(r"^torchrun (.* ddp\.py)$", page, re.MULTILINE)
    run = [sys.executable, "-m", "torch.distributed.run", *shown.split()]
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        run,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert "6 batches, 41 samples, 41 different" in done.stdout, done.stderr
