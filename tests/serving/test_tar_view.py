"""A view has the bytes of the tar that would be written, whichever part of it is asked for."""

import random
from pathlib import Path

import pytest

from tests.shards.archives import write_tar
from wdsflow.serving.tar_view import Piece, TarView, whole_tar
from wdsflow.shards.samples.copy_ranges import write_pieces
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.write_shard import ShortSourceError


def contents(view: TarView, data: bytes, start: int, stop: int) -> bytes:
    return b"".join(part if isinstance(part, bytes) else data[part[0] : part[1]] for part in view.parts(start, stop))


def pieces(draw: random.Random, length: int) -> list[Piece]:
    """Ranges and new bytes in any order, some of them empty, some next to each other."""
    found: list[Piece] = []
    for _ in range(draw.randrange(20)):
        if draw.random() < 0.4:
            found.append(draw.randbytes(draw.choice([0, 1, 7, 600])))
        else:
            last = found[-1] if found else b""
            start = last[1] if not isinstance(last, bytes) and draw.random() < 0.3 else draw.randrange(length)
            found.append((start, min(length, start + draw.choice([0, 1, 512, 3000]))))
    return found


def test_a_thousand_random_ranges_of_random_views_have_the_bytes_of_the_written_tar(tmp_path: Path):
    draw = random.Random(14)
    data = draw.randbytes(10_000)
    (tmp_path / "in").write_bytes(data)
    for _ in range(50):
        chosen = pieces(draw, len(data))
        with open_source(str(tmp_path / "in")) as source:
            write_pieces(tmp_path / "out", source, chosen)
        written = (tmp_path / "out").read_bytes()
        view = TarView(whole_tar(chosen, len(data)))
        assert view.size == len(written)
        assert contents(view, data, 0, view.size) == written
        for _ in range(20):
            start, stop = sorted(draw.choices(range(view.size + 1), k=2))
            assert contents(view, data, start, stop) == written[start:stop]


def test_a_shard_without_its_last_padding_gets_it_and_one_that_is_shorter_is_refused(tmp_path: Path):
    path = write_tar(tmp_path / "a.tar", [("1.txt", b"x" * 700)])
    data = path.read_bytes()[: 512 + 700]
    view = TarView(whole_tar([(0, 1536)], len(data)))
    assert contents(view, data, 0, view.size) == data + bytes(324 + 1024)
    with pytest.raises(ShortSourceError):
        TarView(whole_tar([(0, 2048)], len(data)))


def test_a_view_of_many_samples_is_small():
    assert TarView([(2000 * number, 2000 * number + 1000) for number in range(10_000)]).weight < 200_000
