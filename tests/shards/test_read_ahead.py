"""A remote shard is requested ahead of its reader, one part at a time.

The reader gets exactly the stored bytes.
"""

import threading
from random import Random

import pytest

from wdsflow.shards.source.base import SourceError
from wdsflow.shards.source.remote import RemoteSource

DATA = Random(0).randbytes(40_000_000)
SIZE = len(DATA)


class Server:
    """Gives parts of the data, and notes them; ``broken``: from which byte on it fails."""

    def __init__(self, broken=SIZE):
        self.parts, self.threads, self.busy, self.broken = [], set(), threading.Lock(), broken

    def fetch(self, start, stop):
        assert self.busy.acquire(blocking=False), "two requests at the same time"
        try:
            self.threads.add(threading.current_thread())
            self.parts.append((start, stop))
            if stop > self.broken:
                raise SourceError("io", "the server is gone")
            return DATA[start:stop]
        finally:
            self.busy.release()


@pytest.mark.parametrize("seed", range(6))
def test_reads_in_any_order_give_the_bytes_that_are_stored(seed):
    random, server = Random(seed), Server()
    with RemoteSource("s3://b/a.tar", len(DATA), server.fetch, lambda: None) as source:
        at = 0
        for _ in range(150):
            at = random.randrange(len(DATA)) if random.random() < 0.1 else at
            size = random.choice((512, 10_240, 700_000, 3_000_000))
            assert source.read_at(at, size) == DATA[at : at + size]
            at += size + random.choice((0, 0, 0, 20_000))


def test_a_reader_from_front_to_back_gets_each_byte_once_and_mostly_from_a_thread():
    server = Server()
    with RemoteSource("s3://b/a.tar", len(DATA), server.fetch, lambda: None) as source:
        assert b"".join(source.read_at(at, 65_536) for at in range(0, len(DATA), 65_536)) == DATA
        assert source.bytes_read == len(DATA)
    assert sum(stop - start for start, stop in server.parts) == len(DATA)
    assert len(server.threads) == 2


def test_a_reader_of_headers_far_apart_requests_no_byte_ahead():
    server = Server()
    with RemoteSource("s3://b/a.tar", len(DATA), server.fetch, lambda: None) as source:
        for at in range(0, len(DATA), 2_000_000):
            source.read_at(at, 8_192)
    assert sum(stop - start for start, stop in server.parts[1:]) == 19 * 8_192


def test_a_part_that_fails_ahead_fails_its_reader_and_no_one_before():
    with RemoteSource(
        "s3://b/a.tar", len(DATA), Server(broken=9_000_000).fetch, lambda: None
    ) as source:
        got = 0
        with pytest.raises(SourceError, match="the server is gone"):  # noqa: PT012
            while True:
                assert source.read_at(got, 65_536) == DATA[got : got + 65_536]
                got += 65_536
    assert got > 3_000_000
