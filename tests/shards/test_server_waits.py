"""Busy servers are left alone for as long as they say, by all processes that share a folder."""

import multiprocessing
import time
from pathlib import Path

import pytest

from tests.servers import http_server
from tests.training.shards import write_tar
from wdsflow.shards.cache.shard_cache import ShardCache
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.server_waits import ServerWaits


class Clock:
    """A time that only passes while somebody waits."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.waited: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now += seconds

    def waits(self) -> ServerWaits:
        return ServerWaits(self, self.sleep)


def test_a_wait_is_that_of_one_server(caplog):
    clock = Clock()
    one = clock.waits()
    one.note("https://user:word@host/a.tar", 3.0)
    one.note("https://host/b.tar", 1.0)
    one.wait("https://other/a.tar")
    assert clock.waited == []
    one.wait("https://host/c.tar")
    assert 3.0 <= clock.waited.pop() <= 3.3
    one.wait("https://host/c.tar")
    assert clock.waited == []
    one.note("hf://datasets/org/set/a.tar", 20.0)
    one.wait("hf://datasets/other/set/a.tar")
    assert 20.0 <= clock.waited.pop() <= 22.0
    assert caplog.messages == ["wdsflow: hf:// wants no requests for 20 s"]


def test_processes_that_share_a_folder_wait_together(tmp_path):
    clock = Clock()
    one, other = clock.waits(), clock.waits()
    for waits in (one, other):
        waits.share(tmp_path / "waits")
    one.note("s3://bucket/a.tar", 4.0)
    one.note("s3://bucket/a.tar", 2.0)
    other.wait("s3://bucket/b.tar")
    assert 4.0 <= clock.waited.pop() <= 4.4
    one.wait("s3://bucket/b.tar")
    other.wait("s3://bucket/b.tar")
    assert clock.waited == []
    # A file of another process cannot stop this one for longer than that.
    one.note("s3://bucket/a.tar", 1e9)
    other.wait("s3://bucket/a.tar")
    assert 300.0 <= clock.waited.pop() <= 330.0


def _read(url: str, folder: Path, begin) -> None:
    cache = ShardCache(folder, 10**9)
    begin.wait()
    with cache.open(Shard.url(url)) as source:
        assert len(source.read_at(0, source.length)) == source.length


def test_a_cache_shares_the_waits_of_its_process(tmp_path):
    tar = write_tar(tmp_path / "0.tar", [("a.jpg", bytes(10))]).read_bytes()
    refused = []
    with http_server({"0.tar": tar}) as (url, log):

        def refuse(asked, answer) -> None:
            if not refused:
                refused.append(asked)
                answer.status, answer.body, answer.headers = 429, b"", {}

        log.twist = refuse
        before = time.time()
        with ShardCache(tmp_path / "cache", 10**9).open(Shard.url(f"{url}/0.tar")) as source:
            assert source.read_at(0, 512) == tar[:512]
    [noted] = (tmp_path / "cache/wdsflow-waits").iterdir()
    assert before + 0.2 <= noted.stat().st_mtime <= time.time() + 0.2


@pytest.mark.deep
def test_no_process_asks_while_a_server_wants_no_requests(tmp_path):
    tar = write_tar(tmp_path / "0.tar", [("a.jpg", bytes(100_000))]).read_bytes()
    context = multiprocessing.get_context("spawn")
    begin = context.Barrier(4)
    asked, refused_at = [], []
    with http_server({f"{number}.tar": tar for number in range(4)}) as (url, log):

        def refuse(_, answer) -> None:
            asked.append(time.monotonic())
            if not refused_at or asked[-1] < refused_at[0] + 2.0:
                refused_at.append(asked[-1])
                answer.status, answer.body = 429, b""
                answer.headers = {"Retry-After": "2"}

        log.twist = refuse
        children = [
            context.Process(target=_read, args=(f"{url}/{number}.tar", tmp_path / "cache", begin))
            for number in range(4)
        ]
        for child in children:
            child.start()
        for child in children:
            child.join()
            assert child.exitcode == 0
    # Those that were sent before the first answer arrived.
    assert len(refused_at) <= 4
    assert max(refused_at) < refused_at[0] + 0.3
    assert len(list((tmp_path / "cache/wdsflow-waits").iterdir())) == 1
