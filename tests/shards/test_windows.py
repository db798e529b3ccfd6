"""A writer of shards reads its sources through a few large windows."""

import pytest

from wdsflow.shards import write_shard
from wdsflow.shards.write_shard import ShardWriter, ShortSourceError, exactly


class Bytes:
    """A source that notes what is read of it."""

    fd = -1

    def __init__(self, data):
        self.data, self.asked = data, []

    def read_at(self, offset, size):
        self.asked.append((offset, size))
        return self.data[offset : offset + size]


def test_five_windows_are_one_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(write_shard, "_WINDOW", 100)
    source, other = Bytes(bytes(range(250)) * 8), Bytes(b"o" * 2000)
    with ShardWriter(tmp_path / "0.tar") as writer:
        for offset in (0, 400, 800, 1200):
            assert writer._read(source, offset, 10) == source.data[offset : offset + 10]
        assert writer._read(source, 90, 10) == source.data[90:100]  # the end of a window
        assert source.asked == [(0, 100), (400, 100), (800, 100), (1200, 100)]
        assert writer._read(source, 91, 10) == source.data[91:101]  # beyond it: 400 is forgotten, 0 was used last
        assert writer._read(source, 0, 10) == source.data[:10]
        assert source.asked[4:] == [(91, 100)]
        assert writer._read(source, 400, 101) == source.data[400:501]
        assert source.asked[5:] == [(400, 101)]
        assert writer._read(other, 0, 3) == b"ooo"
        assert other.asked == [(0, 100)]
        assert writer._read(source, 1990, 10) == source.data[1990:]
        with pytest.raises(ShortSourceError, match=r"^the source ends at byte 2000, 1 too early$"):
            writer._read(source, 1991, 10)


def test_what_is_missing_at_the_end_of_a_source_is_counted():
    source = Bytes(b"0123456789")
    assert exactly(source, 4, 6) == b"456789"
    with pytest.raises(ShortSourceError, match=r"^the source ends at byte 10, 2 too early$"):
        exactly(source, 4, 8)
