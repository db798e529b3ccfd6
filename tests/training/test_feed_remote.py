"""wdsflow.feed over shards on servers: counted by few requests, and fetched ahead."""

import json
import random
import time
from contextlib import contextmanager

import pytest

from tests.filtering.commands import pasted
from tests.servers import http_server
from tests.training.shards import write_tar
from wdsflow import FeedOptions
from wdsflow import feed as make
from wdsflow.training.feed.catalog import sample_counts
from wdsflow.training.feed_options import FeedError, ShardsError

QUIET = FeedOptions(status_every=0.0, decode_in="threads", decoders=2)


def feed(shards, **given):
    return make(
        shards, **{"batch_size": 4, "fields": ("bin", "__key__"), "options": QUIET, **given}
    )


@contextmanager
def served(folder, counts, size, **more):
    """Serve shards of so many samples of ``size`` bytes; give their pattern, and the log of the server."""
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

            monkeypatch.setattr(sample_counts, "shared_out", shared)
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
