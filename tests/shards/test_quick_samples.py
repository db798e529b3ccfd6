"""The fast header scan finds the same samples as reading each header in full.

That holds for any content of the tar.
"""

import io
import random
import tarfile
from pathlib import Path
from typing import Any

import pytest

from wdsflow.pieces.tar_members import member
from wdsflow.shards.samples.grouping import ALL_SAMPLES, WEBDATASET, group_members
from wdsflow.shards.samples.repeats import RepeatFinder
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.source.base import SourceError, single_shard
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar import windows
from wdsflow.shards.tar.members import MemberBatch, split_as_webdataset
from wdsflow.shards.tar.plain_entries import Skimmer
from wdsflow.shards.tar.tar_header import refuses_negative

_FIELDS = [
    ("jpg", "txt"),
    ("jpg", "json", "txt"),
    ("JPG", "seg.png", "cls"),
    ("png",),
    ("segmentation_mask.png", "txt"),
]
_FORMATS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
_ODD_NAMES = [
    *(
        "README",
        "folder/._00.jpg",
        "__info__.txt",
        "__MACOSX/a.jpg",
        "a/__MACOSX/b.jpg",
        ".hidden",
        "a\nb/c.jpg",
    ),
    *(
        "döt.jpg",
        "a\tb.jpg",
        "bad\udcff.jpg",
        f"{'x' * 94}.jpg",
        f"{'x' * 95}.jpg",
        f"{'y' * 96}.jpg",
        f"{'z' * 60}/{'z' * 60}.jpg",
    ),
    *("folder/.jpg", "folder/.png", "__x.jpg", "__MACOSX/b/c.png", "d/.txt", "__.png"),
    *("d.e/f.jpg", "d.e/f", "a..jpg", "a.", "/abs.jpg", "00000001.jpg"),
]


def _all(path: Path, *, keep: bool = False) -> list[Any]:
    data = path.read_bytes()
    with open_source(single_shard(str(path))) as source:
        samples = Samples(source, contents=False, keep=keep)
        each: list[Any] = []
        try:
            for s in samples:
                fields = {name: tuple(row) for name, row in s.fields.items()}
                for row in s.fields.values() if keep else ():
                    assert data.startswith(samples.peek_in_memory(row[2], 40), row[2])
                    assert samples.read(row, 0, 40) == data[row[2] : row[2] + min(40, row[1])]
                each.append((s.number, s.key, s.start, s.end, s.trouble, fields))
        except SourceError as error:  # not a tar any more
            each.append(str(error))
        return [
            each,
            samples.members,
            samples.left_out,
            samples.headers,
            samples.damage,
            samples.global_records,
        ]


def _with_care(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the same, with each header read in full, and each member looked at."""
    with monkeypatch.context() as patch:
        patch.setattr(Skimmer, "learn", lambda *_: None)
        patch.setattr(RepeatFinder, "keys", lambda *_: [])
        return _all(path)


def _add(tar: tarfile.TarFile, name: str, data: bytes, **changes: Any) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for attribute, value in changes.items():
        setattr(info, attribute, value)
    tar.addfile(info, io.BytesIO(data))


def _data(draw: random.Random, most: int = 3000) -> bytes:
    return draw.randbytes(draw.choice((0, 1, 511, 512, 513, draw.randrange(most))))


def _nested(draw: random.Random) -> bytes:
    """Return contents that look like a tar with headers of the same kind."""
    return b"".join(
        member(f"{number:08}.jpg", _data(draw)) for number in range(draw.randrange(1, 4))
    )


def _write(path: Path, draw: random.Random, *, odd: float) -> None:
    fields, layout = draw.choice(_FIELDS), draw.choice(_FORMATS)
    folder = draw.choice(("", "", "part/", "a.b/c/"))
    is_timed = draw.random() < 0.5
    with tarfile.open(path, "w", format=layout, encoding="utf-8", errors="surrogateescape") as tar:
        for number in range(draw.randrange(20, 250)):
            key = (
                f"{folder}{number:08}"
                if draw.random() < 0.98
                else f"{folder}{draw.randrange(1 << 40):x}"
            )
            for field in fields:
                time = (
                    round(1.79e9 + draw.random() * 1000, draw.choice((5, 6, 7))) if is_timed else 0
                )
                if draw.random() < odd:
                    _add_odd(tar, draw, key)
                if draw.random() >= odd / 4:
                    data = _nested(draw) if draw.random() < odd / 10 else _data(draw)
                    _add(tar, f"{key}.{field}", data, mtime=time)


def _add_odd(tar: tarfile.TarFile, draw: random.Random, key: str) -> None:
    kind = draw.randrange(7)
    if kind == 0:
        _add(tar, draw.choice(_ODD_NAMES), _data(draw))
    elif kind == 1:
        _add(tar, key, b"", type=tarfile.DIRTYPE)
    elif kind == 2:
        _add(
            tar,
            f"{key}.jpg",
            _data(draw),
            uid=draw.randrange(3),
            mode=draw.choice((0o644, 0o600)),
            uname="someone",
        )
    elif kind == 3:
        _add(tar, f"{key}.lnk", b"", type=tarfile.SYMTYPE, linkname="00000000.jpg")
    elif kind == 4:
        _add(tar, f"{key}.txt", _data(draw), pax_headers={"comment": "a" * draw.randrange(600)})
    elif kind == 5:
        _add(tar, f"{key}.npy", _data(draw), gid=draw.randrange(1 << 20))
    else:
        _add(
            tar,
            f"{key}.{draw.choice(('JPG', 'extra', 'a.b.c', ''))}",
            _data(draw),
            mtime=draw.random() * 1e9,
        )


def _damage(path: Path, draw: random.Random) -> None:
    """Cut the file, flip bits, put zeros over blocks, or put blocks in."""
    data = bytearray(path.read_bytes())
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(data))
        kind = draw.randrange(4)
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 2:
            block = at // 512 * 512
            data[block : block + 512] = bytes(512)
        else:
            data[at:at] = draw.randbytes(draw.choice((1, 512)))
        if len(data) < 1024:
            break
    path.write_bytes(data)


def _flip_headers(path: Path, draw: random.Random) -> None:
    """Change single bytes of headers and of the contents of extended headers.

    The checksum is corrected for some of them.
    """
    data = bytearray(path.read_bytes())
    with tarfile.open(path) as tar:
        places = [place for info in tar for place in range(info.offset, info.offset_data, 512)]
    for place in draw.sample(places, min(3, len(places))):
        end = data.index(0, place)  # of a name, or of what an extended header holds
        at = draw.choice((end, end, place + draw.randrange(40), place + draw.randrange(512)))
        data[at] = draw.choice((0, 32, 48, 55, 57, 128, 255, draw.randrange(256)))
        if data[place + 257 : place + 262] == b"ustar" and draw.random() < 0.7:
            data[place + 148 : place + 156] = b" " * 8
            data[place + 148 : place + 156] = b"%06o\0 " % sum(data[place : place + 512])
    path.write_bytes(data)


@pytest.mark.sample(15)
@pytest.mark.parametrize(
    "seed", [*range(60), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(60, 1500))]
)
def test_are_the_same_whatever_the_tar_holds(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, path = random.Random(seed), tmp_path / "a.tar"
    if seed % 2:  # many windows
        monkeypatch.setattr(windows, "_WINDOW", 4096)
    _write(path, draw, odd=draw.choice((0, 0.002, 0.02, 0.2)))
    if seed % 3 == 1:
        _damage(path, draw)
    elif seed % 3 == 2:
        _flip_headers(path, draw)
    expected = _with_care(path, monkeypatch)
    assert _all(path) == expected
    assert _all(path, keep=True) == expected


@pytest.mark.parametrize(
    "odd", ["d/.jpg", "__x__.jpg", "__MACOSX/a.jpg", "a.b.jpg", "d\n/.jpg", "02.JPG", "06.jpg"]
)
@pytest.mark.parametrize("fields", [1, 2])
def test_of_many_at_a_time_none_is_another_than_its_name_says(
    tmp_path: Path, odd: str, fields: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, others = tmp_path / "a.tar", [f".{number}" for number in range(1, fields)]
    with tarfile.open(path, "w") as tar:
        for name in ("01.jpg", "02.jpg", "03.jpg", "04.jpg", "05.jpg", odd, "06.jpg", "07.jpg"):
            for each in [name, *(f"{name.rpartition('.')[0]}{other}" for other in others)]:
                _add(tar, each, b"1")
    found = _all(path)
    assert found == _with_care(path, monkeypatch)
    assert [key for _, key, *_ in found[0]][:5] == ["01", "02", "03", "04", "05"]
    # A name that is only an extension belongs to its folder.
    assert ("d/" in {key for _, key, *_ in found[0]}) is (odd == "d/.jpg")


@pytest.mark.parametrize("seed", range(20))
def test_grouping_by_the_member_before_is_that_by_each_name(seed: int) -> None:
    draw = random.Random(seed)
    keys = ("a", "d/a", "d/", "__a", "__a__", "a/__b", "", "a.b/c", "a\n", "\na/b", "é")
    fields = (".jpg", ".txt", "", ".", ".x/y", ".x/y.jpg", "..jpg", "/.jpg", ".__")
    names = [draw.choice(keys[: draw.randrange(1, 12)]) + draw.choice(fields) for _ in range(300)]
    batches = [MemberBatch([(name, 0, 0, 0, "file") for name in names], b"", 0, is_past_stop=False)]
    for rule in (WEBDATASET, ALL_SAMPLES):
        each = rule._replace(split=lambda name: split_as_webdataset(name))  # noqa: PLW0108 - not known as key_of
        assert list(group_members(batches, rule)) == list(group_members(batches, each))


def test_damage_without_bytes_of_its_own_does_not_part_a_sample(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for name in ("0.jpg", "0.txt", "1.jpg", "1.txt"):
            _add(tar, name, b"")
    data = bytearray(path.read_bytes())
    # Tarfile ends at a size that leads backwards.
    data[124:136] = (-1024 % 256**12).to_bytes(12, "big")
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    path.write_bytes(data)
    each, _, _, _, damage, _ = _all(path)
    assert len(damage) == 1
    whole = [["jpg", "txt"], ["jpg", "txt"]]
    assert [list(fields) for *_, fields in each] == (
        [["txt"], *whole[1:]] if refuses_negative() else whole
    )


def test_a_header_between_repeated_samples_is_in_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.tar"
    comment = tarfile.TarInfo.create_pax_global_header({"comment": "x"})
    samples = [member(f"{number:02}.jpg", b"1") for number in range(40)]
    path.write_bytes(b"".join([*samples[:30], comment, *samples[30:], bytes(1024)]))

    found = _all(path)

    assert found == _with_care(path, monkeypatch)
    ranges = [(start, end) for _, _, start, end, _, _ in found[0]]
    assert ranges[29] == (29 * 1024, 30 * 1024)
    assert ranges[30] == (30 * 1024 + len(comment), 31 * 1024 + len(comment))
