"""wdsflow.feed over shards on servers: counted by few requests, and fetched ahead."""

import gc
import itertools
import json
import random
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.filtering.commands import pasted
from tests.servers import http_server
from tests.training.shards import write_tar
from wdsflow import FeedOptions
from wdsflow import feed as make
from wdsflow.training.feed.catalog import sample_counts
from wdsflow.training.feed.epoch.epoch_run import EpochRun
from wdsflow.training.feed_options import FeedError, ShardsError

# Samples of four shards.
FOUR = {f"{number:04d}.tar": 30 for number in range(4)}
QUIET = FeedOptions(status_every=0.0, decode_in="threads", decoders=2)


def feed(shards, **given):
    return make(
        shards, **{"batch_size": 4, "fields": ("bin", "__key__"), "options": QUIET, **given}
    )


@contextmanager
def served(folder, counts, size, **more):
    """Serve shards over HTTP; yield their pattern and the log of the server.

    ``counts``: samples per shard. ``size``: bytes per sample.
    """
    files = {}
    for shard, count in enumerate(counts):
        members = [
            (f"{shard}{number:03d}.bin", random.Random(number).randbytes(size))
            for number in range(count)
        ]
        files[f"set/{shard:04d}.tar"] = write_tar(folder / f"{shard}.tar", members).read_bytes()
    with http_server(
        files | {f"set/{name}": json.dumps(data).encode() for name, data in more.items()}
    ) as (url, log):
        yield f"{url}/set/{{0000..{len(counts) - 1:04d}}}.tar", log


def keys(batches):
    return [key for _, of_batch in batches for key in of_batch]


def asked(log):
    return {each.path[-8:] for each in log.asked if each.path.endswith(".tar")}


def test_counts_next_to_the_shards_save_reading_them(tmp_path):
    sizes = {"0000.tar": 5, "0001.tar": 6, "0002.tar": 7}
    with served(tmp_path, [5, 6, 7], 900, **{"sizes.json": sizes}) as (url, log):
        one = feed(url)
        assert asked(log) == {"0000.tar"}
        assert one.num_samples == len(set(keys(one))) == 18
        state = one.state_dict()
    with served(tmp_path, [5, 6, 7], 900) as (url, log):
        feed(url).load_state_dict(state)  # the same samples, by the headers


def test_counts_do_not_depend_on_the_ranks(tmp_path, monkeypatch):
    # Wrong about the second one.
    sizes = {
        "0000.tar": 4,
        "0001.tar": 5,
        "0002.tar": 4,
        "0003.tar": 4,
    }
    found = []
    with served(tmp_path, [4, 4, 4, 4], 900, **{"sizes.json": sizes}) as (url, _):
        for ranks in (1, 2):

            def shared(count, place, work, ranks=ranks):
                parts = [work(range(rank, count, ranks)) for rank in range(ranks)]
                return [parts[number % ranks][number] for number in range(count)]

            monkeypatch.setattr(sample_counts, "divide_among_ranks", shared)
            found.append(feed(url).state_dict()["identity"])
    assert found[0] == found[1]


def test_a_wrong_count_next_to_the_shards_is_reported_or_not_used(tmp_path):
    sizes = {"0000.tar": 5, "0001.tar": 4, "0002.tar": 7}
    wrong = r"sizes\.json is wrong: 0001\.tar has 6 samples, not 4\nTo fix it, remove"
    with served(tmp_path, [5, 6, 7], 900, **{"sizes.json": sizes}) as (url, _):
        with pytest.raises(FeedError, match=wrong) as caught:
            list(feed(url))
        done = pasted(str(caught.value).rpartition(": ")[2])
        assert done.status == 0
        assert "6 samples" in done.out
    for wrong in ({"0000.tar": 6, "0001.tar": 6, "0002.tar": 7}, [], {"0000.tar": "x"}):
        with served(tmp_path, [5, 6, 7], 900, **{"sizes.json": wrong}) as (url, log):
            assert len(keys(feed(url))) == 18
            assert len(asked(log)) == 3


def test_the_next_shard_is_requested_before_the_first_is_used_up(tmp_path):
    with served(tmp_path, [40, 40], 2_000, **{"sizes.json": {"0000.tar": 40, "0001.tar": 40}}) as (
        url,
        log,
    ):
        one = feed(url, shuffle=0, batch_size=2)
        batches = iter(one)
        next(batches)
        while "0001.tar" not in asked(log):
            time.sleep(0.01)
        assert len(keys(batches)) == 78


def test_the_first_shards_are_requested_side_by_side(tmp_path):
    requested: set[str] = set()
    all_requested = threading.Event()

    def wait(of_server, answer):
        if of_server.path.endswith(".tar"):
            requested.add(of_server.path)
            if len(requested) == len(FOUR):
                all_requested.set()
            all_requested.wait(10)

    with served(tmp_path, [30] * 4, 900, **{"sizes.json": FOUR}) as (url, log):
        one = feed(url)
        log.twist = wait
        next(iter(one))
        one.close()
    assert all_requested.is_set()


def ahead() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "wdsflow-ahead"]


def wait_for(fact) -> None:
    latest = time.monotonic() + 30
    while not fact():
        assert time.monotonic() < latest
        time.sleep(0.01)


def test_the_next_epoch_is_read_before_it_begins(tmp_path):
    with served(tmp_path, [30] * 4, 900, **{"sizes.json": FOUR}) as (url, log):
        local = feed(f"{tmp_path}/{{0..3}}.tar")
        expected = [keys(local) for _ in range(3)]
        one = feed(url)
        log.clear()
        assert keys(one) == expected[0]
        # Each shard is as small as a request.
        wait_for(lambda: sorted(each.path[-8:] for each in log.asked) == sorted([*FOUR, *FOUR]))
        log.clear()
        batches = iter(one)
        given = [next(batches)]
        assert asked(log) == set()
        assert keys(given) + keys(batches) == expected[1]
        wait_for(lambda: asked(log) == set(FOUR))
        one.close()
        wait_for(lambda: not ahead())
        assert keys(one) == expected[2]
        one.close()


@pytest.mark.parametrize("way", ["set_epoch", "load_state_dict"])
def test_another_epoch_than_the_next_one_may_follow(tmp_path, way):
    with served(tmp_path, [30] * 4, 900, **{"sizes.json": FOUR}) as (url, _):
        one, other = feed(url), feed(url)
        batches = iter(one)
        given = [next(batches), next(batches)]
        state = one.state_dict()
        rest = keys(batches)
        wait_for(lambda: one._feed._planned_epoch)
        if way == "load_state_dict":
            one.load_state_dict(state)
            assert keys(one) == rest
            assert len({*keys(given), *rest}) == 120
        else:
            for each in (one, other):
                each.set_epoch(7)
            assert keys(one) == keys(other)
        one.close()
        other.close()


def test_a_feed_that_is_dropped_between_epochs_stops_reading_ahead(tmp_path):
    with served(tmp_path, [30] * 4, 90_000, **{"sizes.json": FOUR}) as (url, _):
        one = feed(url, options=replace(QUIET, memory="400MiB"))
        keys(one)
        wait_for(ahead)
        del one
        gc.collect()
        wait_for(lambda: not ahead())


def test_an_epoch_that_cannot_begin_is_not_read_ahead_for_ever(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("no more processes")

    with served(tmp_path, [30] * 4, 90_000, **{"sizes.json": FOUR}) as (url, _):
        one = feed(url)
        expected = keys(feed(url))
        keys(one)
        wait_for(ahead)
        with monkeypatch.context() as patch:
            patch.setattr("wdsflow.training.feed.feed.EpochRun", fail)
            with pytest.raises(OSError, match="no more processes"):
                iter(one)
        one.set_epoch(0)
        assert keys(one) == expected
        one.close()
        wait_for(lambda: not ahead())


def test_a_short_epoch_may_plan_the_next_one_before_it_is_known_to_run(tmp_path, monkeypatch):
    planned = itertools.count(1)

    class SlowStart(EpochRun):
        def __init__(self, *given):
            super().__init__(*given)
            epoch = next(planned)
            wait_for(lambda: one._feed._planned_epoch and one._feed._planned_epoch.epoch == epoch)

    monkeypatch.setattr("wdsflow.training.feed.feed.EpochRun", SlowStart)
    with served(tmp_path, [3, 3], 900, **{"sizes.json": {}}) as (url, _):
        one = feed(url, batch_size=6)
        for _ in range(3):
            assert len(keys(one)) == 6
            assert one._feed._planned_epoch is not None
        one.close()


def test_shards_that_cannot_be_counted_are_reported(tmp_path, caplog):
    with served(tmp_path, [5, 6], 900) as (url, _):
        assert feed(url.replace("0001", "0002")).num_samples == 11
        assert "feed: 1 shard left out, first: " in caplog.text
        assert "set/0002.tar: no such file" in caplog.text
        with pytest.raises(
            ShardsError,
            match=r"(?s)none of the samples in 2 shards has bin.*bring the missing shards back",
        ):
            feed(url.replace("0000..0001", "0003..0004"))


def test_fields_without_members_lose_nothing(tmp_path):
    with served(tmp_path, [5, 6], 200_000) as (url, _):
        one = feed(url, fields=("__key__",))
        assert sum(len(found) for (found,) in one) == 11
