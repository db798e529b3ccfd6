"""A view has the bytes of the tar that would be written, whichever part of it is asked for."""

import random
from pathlib import Path

import pytest

from tests.shards.archives import write_tar
from wdsflow.pieces.joined_source import JoinedSource
from wdsflow.pieces.pieces import END, address
from wdsflow.pieces.tar_view import TarView
from wdsflow.pieces.view_source import view_of
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.source.base import Piece, Source, SourceChangedError, single_shard
from wdsflow.shards.source.opening import open_source


def pieces(draw: random.Random, length: int) -> list[Piece]:
    """Ranges and new bytes in any order, some of them empty, some next to each other."""
    found: list[Piece] = []
    for _ in range(draw.randrange(20)):
        if draw.random() < 0.4:
            found.append(draw.randbytes(draw.choice([0, 1, 7, 600])))
        else:
            last = found[-1] if found else b""
            start = (
                last[1]
                if not isinstance(last, bytes) and draw.random() < 0.3
                else draw.randrange(length)
            )
            found.append((start, min(length, start + draw.choice([0, 1, 512, 3000]))))
    return found


def test_a_thousand_random_ranges_of_random_views_have_the_bytes_of_the_written_tar(tmp_path: Path):
    draw = random.Random(14)
    data = draw.randbytes(10_000)
    (tmp_path / "in").write_bytes(data)
    for _ in range(50):
        chosen = pieces(draw, len(data))
        with open_source(single_shard(str(tmp_path / "in"))) as source:
            size = write_pieces(tmp_path / "out", source, chosen)
            written = (tmp_path / "out").read_bytes()
            view = view_of(source, chosen)
            assert view.length == len(written) == size
            assert view.read_at(0, len(written) + 100) == written
            for _ in range(20):
                start, stop = sorted(draw.choices(range(size + 1), k=2))
                assert view.read_at(start, stop - start) == written[start:stop]


def test_ranges_of_several_files_are_written_in_order_while_few_stay_open(tmp_path: Path):
    draw = random.Random(7)
    files = [draw.randbytes(draw.randrange(3000, 5000)) for _ in range(3)]
    for number, data in enumerate(files):
        (tmp_path / f"{number}.in").write_bytes(data)
    opened: list[int] = []

    def one(number: int) -> Source:
        opened.append(number)
        return open_source(single_shard(str(tmp_path / f"{number}.in")))

    chosen: list[Piece] = []
    expected = b""
    for _ in range(40):
        number = draw.randrange(3)
        start, stop = sorted(draw.choices(range(len(files[number]) + 1), k=2))
        new = draw.randbytes(draw.randrange(50))
        chosen += [(address(number, start), address(number, stop)), new]
        expected += files[number][start:stop] + new
    with JoinedSource(one, lambda _: 2) as joined:
        write_pieces(tmp_path / "written", joined, chosen)
    assert (tmp_path / "written").read_bytes() == expected + END
    # Two stay open at a time.
    assert len(opened) > 3


def test_a_shard_without_its_last_padding_gets_it_and_one_that_is_shorter_is_refused(
    tmp_path: Path,
):
    path = write_tar(tmp_path / "a.tar", [("1.txt", b"x" * 700)])
    path.write_bytes(data := path.read_bytes()[: 512 + 700])
    with open_source(single_shard(str(path))) as source:
        view = view_of(source, [(0, 1536)])
        assert view.read_at(0, 1 << 20) == data + bytes(324) + END
        assert write_pieces(tmp_path / "out.tar", source, [(0, 1536)]) == 1536 + 1024
        for fails in (
            lambda: view_of(source, [(0, 2048)]).read_at(0, 4096),
            lambda: write_pieces(path, source, [(0, 2048)]),
        ):
            with pytest.raises(SourceChangedError, match="it ends at byte 1,212, 836 too early"):
                fails()


def test_a_view_knows_where_its_bytes_are_in_the_source():
    view = TarView([b"new", (100, 110), (300, 320), b"end"])
    assert [view.source_offset(at) for at in (3, 12, 13, 32, 33, 36)] == [
        100,
        109,
        300,
        319,
        320,
        320,
    ]
    assert (TarView([b"x"]).source_offset(0), TarView([]).source_offset(0)) == (0, 0)
