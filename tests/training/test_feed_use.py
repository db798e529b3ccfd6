"""wdsflow.feed in the hands of users.

Tests wrong arguments, invalid states, feeds that are dropped, and launchers.
"""

import gc
import json
import os
import subprocess
import sys
import threading
import time
import weakref
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.processes import living_children
from tests.servers import http_server
from tests.training.shards import write_shards
from wdsflow import FeedOptions, WeightedSource
from wdsflow import feed as make
from wdsflow.shards.shard import Shard, unsigned
from wdsflow.training import ranks
from wdsflow.training.feed.resume.shard_facts import counted_shards
from wdsflow.training.feed.resume.state import check_state
from wdsflow.training.feed_options import FeedError

QUIET = FeedOptions(status_every=0.0, decode_in="threads", decoders=2)


def feed(shards, **given):
    return make(
        shards, **{"batch_size": 4, "fields": ("__key__", "__url__"), "options": QUIET, **given}
    )


def keys(batches):
    return [
        (url.partition("?")[0][-8:], key)
        for of_batch, urls in batches
        for key, url in zip(of_batch, urls, strict=True)
    ]


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("shards"), [7, 13])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: {}, "but an empty dict: load what feed.state_dict"),
        (lambda state: [], "but a list"),
        (lambda state: None, "but a NoneType"),
        (
            lambda state: {"_snapshot": 1, "a": 2, "b": 3, "c": 4, "d": 5},
            "but a dict with _snapshot, a, b and 2 more",
        ),
        (lambda state: {"version": 1}, "but a dict with version=1"),
        (lambda state: {**state, "samples": "3"}, "samples='3'"),
        (lambda state: {**state, "samples": 99}, "samples=99"),
        (lambda state: {**state, "epoch": 1.5}, r"epoch=1\.5"),
        (lambda state: {**state, "identity": []}, "but a dict with version=1, epoch=0, samples=0"),
        (
            lambda state: {**state, "version": 2},
            "has version 2; this wdsflow reads version 1. Make the feed",
        ),
    ],
)
def test_anything_but_a_state_is_refused_with_what_was_given(shards, change, message):
    one = feed(shards)
    with pytest.raises(ValueError, match=message):
        one.load_state_dict(change(one.state_dict()))
    assert len(keys(one)) == 20


def test_a_state_of_other_shards_is_refused_in_a_line(tmp_path, shards):
    state = feed(shards).state_dict()
    with pytest.raises(
        ValueError,
        match=r"feed: source 1, shards, 0000\.tar: '7 samples' then, '8 samples' now; samples: 20 then, 21 now\. Make the feed",
    ):
        feed(write_shards(tmp_path / "a", [8, 13])).load_state_dict(state)
    with pytest.raises(
        ValueError,
        match=r"feed: source 1, shards, 0000\.tar: '7 samples' then, '13 samples' now; .* Make the feed as it was then",
    ):
        feed(write_shards(tmp_path / "b", [13, 7])).load_state_dict(state)
    with pytest.raises(ValueError, match=r"0001\.tar: '13 samples' then, None now"):
        feed(write_shards(tmp_path / "c", [20])).load_state_dict(state)
    with pytest.raises(ValueError, match="is of another feed") as caught:
        feed(
            shards, seed=1, shuffle=2, fields=("x" * 500, "__key__"), map=len, drop_last=True
        ).load_state_dict(state)
    assert str(caught.value).endswith("and 1 more. Make the feed as it was then, or load no state")
    assert len(str(caught.value)) < 400


def test_a_state_is_small_and_says_about_where_shards_differ():
    many = [Shard.file(f"/data/{number:05d}.tar") for number in range(100_000)]
    counts = [10] * len(many)
    then = counted_shards(many, counts)
    assert len(json.dumps(then)) < 6000
    counts[50_000] = 9
    counts[50_001] = 11
    now = counted_shards(many, counts)
    (where,) = (name for name in then if then[name] != now[name])
    first, last = where.split(" to ")
    assert first <= "50000.tar" < last
    # With a shard fewer, all of them have other shards: only the number is of use.
    fewer = {"source 1": {"shards": counted_shards(many[1:], counts[1:])}}
    with pytest.raises(ValueError, match=r"shards' then, '99,999 shards' now$"):
        check_state({"version": 1, "identity": {"source 1": {"shards": then}}}, fewer)
    same_names = [Shard.file(f"/{folder}/0.tar") for folder in "ab"]
    assert counted_shards(same_names, [1, 2]) == {"0.tar": "1 sample", "0.tar (1)": "2 samples"}


@pytest.mark.parametrize("smaller", [1, 3])
def test_an_epoch_that_has_ended_has_ended_for_smaller_batches(shards, smaller):
    whole = feed(shards, batch_size=8, drop_last=True)
    assert len(keys(whole)) == 16
    other = feed(shards, batch_size=smaller, drop_last=True)
    other.load_state_dict(whole.state_dict())
    assert other.epoch == 1
    for _ in zip(range(2), whole, strict=False):
        pass  # the same epoch, in the midst
    assert whole.state_dict()["samples"] == 20


def test_a_state_before_the_last_full_batch_goes_on_with_smaller_ones(shards):
    whole = feed(shards, batch_size=8, drop_last=True)
    batches = iter(whole)
    given = keys([next(batches)])
    other = feed(shards, batch_size=3, drop_last=True)
    other.load_state_dict(whole.state_dict())
    given += keys(other)
    assert len(given) == len(set(given)) == 20
    assert other.epoch == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch_size": "8"}, "batch_size is '8'; it must be a whole number"),
        ({"epoch_samples": 7.5}, r"epoch_samples is 7\.5; it must be a whole number"),
        ({"epoch_samples": 0}, "epoch_samples is 0; it must be at least 1"),
        ({"batch_size": True}, "batch_size is True; it must be a whole number"),
        (
            {"shuffle": -1},
            "shuffle is -1; it must be True, False, or the size of the shuffle buffer in samples",
        ),
        ({"shuffle": None}, "shuffle is None; it must be True, False, or the size"),
        ({"shuffle": "yes"}, "shuffle is 'yes'; it must be True, False, or the size"),
        ({"seed": None}, "seed is None"),
        ({"rank": "0", "world_size": 1}, "rank is '0'"),
        ({"rank": 0, "world_size": "1"}, "world_size is '1'"),
        ({"transform": 5}, "transform is 5; it must be a function"),
        ({"map": "x"}, "map is 'x'"),
        ({"fields": 5}, "fields is 5"),
        ({"fields": ("jpg", 5)}, r"fields is \('jpg', 5\)"),
        ({"where": 5, "ledger": "x"}, "where is 5"),
        ({"options": {}}, r"options is {}; give wdsflow\.FeedOptions"),
        ({"drop_last": "no"}, "drop_last is 'no'; it must be True or False"),
    ],
)
def test_wrong_arguments_are_refused_by_name(shards, given, message):
    with pytest.raises(FeedError, match=message):
        feed(shards, **given)


def test_shuffle_is_true_false_or_a_number_of_samples(tmp_path):
    shards = write_shards(tmp_path, [40])
    in_order = keys(feed(shards, shuffle=0))
    assert in_order == sorted(in_order)
    assert keys(feed(shards, shuffle=False)) == in_order
    shuffled = keys(feed(shards, shuffle=True))
    assert shuffled == keys(feed(shards)) == keys(feed(shards, shuffle=5000))
    # A buffer of one sample would leave the samples of a shard in their order.
    assert (
        sum(after == before + 1 for before, after in pairwise(map(in_order.index, shuffled))) < 10
    )
    one = feed(shards, shuffle=True)
    next(iter(one))
    feed(shards, shuffle=5000).load_state_dict(one.state_dict())


def test_a_feed_shows_what_it_is_and_how_far(tmp_path):
    shards = write_shards(tmp_path, [20, 19])
    one = feed(
        shards,
        fields=("jpg;png", "txt|json:alt", "cls;txt", "__key__"),
        rank=1,
        world_size=2,
        shuffle=9,
        seed=3,
    )
    assert repr(one) == (
        "Loader(samples=39, shards=2, batch_size=4, batches=5, rank=1, world_size=2, schedule='balanced', shuffle=9, "
        "seed=3, fields=['jpg;png', 'txt|json:alt', 'cls;txt', '__key__'], epoch=0, given=0)"
    )
    batches = iter(one)
    next(batches), next(batches)
    assert repr(one).endswith("epoch=0, given=16)")
    mixed = feed(
        {f"{tmp_path}/0000.tar": 3, f"{tmp_path}/0001.tar": 1},
        fields={"text": "txt"},
        shuffle=False,
    )
    assert "schedule='balanced', weights=[3.0, 1.0], shuffle=0, seed=0, fields=['txt']" in repr(
        mixed
    )
    assert "fields='map'" in repr(feed(shards, map=len))


def test_shards_and_weights_of_other_types_are_refused(shards):
    for wrong in (None, 5, [5], {5: 1}):
        with pytest.raises(FeedError, match=r"shards is .*; name a pattern"):
            feed(wrong)
    with pytest.raises(FeedError, match="weight is 'a'; it must be a number"):
        feed({shards: "a"})
    assert WeightedSource(weight=np.float32(0.5)).weight == 0.5
    with pytest.raises(ValueError, match="epoch is -1"):
        feed(shards).set_epoch(-1)


def ours():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("wdsflow-")]


@pytest.mark.parametrize("how", ["threads", "processes"])
def test_feeds_that_are_dropped_end_by_themselves(shards, how):
    options = FeedOptions(status_every=0.0, decode_in=how, decoders=2)
    known, others = living_children(), ours()

    def begun():
        return iter(feed(shards, options=options))  # and no batch is taken

    def midst():
        batches = iter(feed(shards, options=options))
        next(batches)

    def failing():
        for _ in feed(shards, options=options):
            raise RuntimeError("the loop")

    def dropped():
        one = feed(shards, options=options)
        for _ in one:
            break
        weak = weakref.ref(one)
        del one
        gc.collect()
        assert weak() is None  # although this function has not ended

    def cycle():
        one = feed(shards, options=options)
        one.own = [one, iter(one)]

    begun()
    midst()
    with pytest.raises(RuntimeError, match="the loop"):
        failing()
    dropped()
    cycle()
    gc.collect()
    while len(ours()) > len(others) or living_children(known):
        time.sleep(0.02)


@pytest.mark.deep
@pytest.mark.parametrize("how", ["threads", "processes"])
@pytest.mark.parametrize(
    "end", ["pass", "next(batches)", "next(batches); raise SystemExit(3)", "del batches; list(one)"]
)
def test_python_ends_soon_with_a_feed_that_is_open(shards, how, end):
    program = (
        f"import wdsflow; one = wdsflow.feed({shards!r}, batch_size=2, fields=('txt',), "
        f"options=wdsflow.FeedOptions(decode_in={how!r}, decoders=2)); batches = iter(one); {end}"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    run = [sys.executable, "-c", program]
    done = subprocess.run(
        run, capture_output=True, text=True, check=False, env=environment, timeout=60
    )
    assert (done.returncode, "Error" in done.stderr) == (3 if "Exit" in end else 0, False), (
        done.stderr
    )


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({}, (0, 1)),
        ({"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4"}, (2, 4)),  # srun
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, (0, 1)),  # a batch script
        ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"}, (3, 8)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "3"}, (1, 2)),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}, (1, 2)),
        ({"RANK": "0", "WORLD_SIZE": "1", "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4"}, (0, 1)),
        ({"PMI_SIZE": "2"}, (0, 1)),
    ],
)  # fmt: skip
def test_ranks_of_a_launcher_are_found(monkeypatch, variables, place):
    for name in ("RANK", "WORLD_SIZE", *(name for pair in ranks._LAUNCHED for name in pair)):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert ranks.current_rank() == place


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, []),
        (
            {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x"},
            ["torchrun", "--nproc_per_node", "2", "-m"],
        ),
        ({"RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x"}, []),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, ["srun", "--ntasks", "2"]),
    ],
)
def test_commands_are_advised_with_the_launcher_of_one_machine(monkeypatch, variables, words):
    launched = (name for pair in ranks._LAUNCHED for name in pair)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID", *launched):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert ranks.launcher_words() == words


def test_tasks_of_srun_share_the_samples(monkeypatch, shards):
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "3")
    given = []
    for rank in range(3):
        monkeypatch.setenv("SLURM_PROCID", str(rank))
        given += keys(feed(shards))
    assert len(given) == len(set(given)) == 20


def test_a_state_fits_urls_of_another_signature(tmp_path):
    folder = Path(write_shards(tmp_path, [7, 5])).parent
    files = {f"set/{path.name}": path.read_bytes() for path in folder.glob("*.tar")}
    assert len(files) == 2
    with http_server(files) as (url, _):

        def signed(by):
            return feed(
                [
                    f"{url}/set/000{n}.tar?X-Amz-Date=2026&X-Amz-Signature={by}%2F{n}"
                    for n in range(2)
                ],
                map=drawn,
            )

        one = signed("a")
        batches = iter(one)
        given = [next(batches)]
        rest = signed("b")
        rest.load_state_dict(one.state_dict())
        assert sorted(torch_numbers([*given, *rest])) == sorted(torch_numbers(signed("c")))
        one.close()
    assert unsigned("https://h/a.tar?sv=1&sig=x&se=2") == "https://h/a.tar"
    assert (
        unsigned("https://h/get?file=a.tar&X-Amz-Date=1&X-Amz-Signature=2")
        == "https://h/get?file=a.tar"
    )
    assert (
        unsigned("https://h/a.tar?versionId=3&Expires=1&Signature=x")
        == "https://h/a.tar?versionId=3"
    )
    assert (
        unsigned("https://h/get?shard=3&split=a&size=2&sig=x&sv=1")
        == "https://h/get?shard=3&split=a&size=2"
    )
    assert unsigned("https://h/a?versionId=1") == "https://h/a?versionId=1"


def drawn(sample):
    return float(np.random.rand())  # noqa: NPY002 - seeded for each sample, by its shard and key


def torch_numbers(batches):
    return [number for batch in batches for number in batch.tolist()]
