"""Random tars, healthy and hurt, and what Python's tarfile makes of them."""

import io
import tarfile
from random import Random
from typing import Any, NamedTuple

from wdsflow.shards.source.base import Source
from wdsflow.shards.tar.walk import Walk

BLOCK = 512
_KINDS = {b"1": "link", b"2": "link", b"5": "directory"}
_SIZES = (0, 1, 100, 511, 512, 513, 1023, 1024, 5000)
_FIELDS = (
    *(
        (0, 100),
        (100, 108),
        (108, 116),
        (116, 124),
        (124, 136),
        (136, 148),
        (148, 156),
        (156, 157),
        (157, 257),
    ),
    *((257, 265), (329, 337), (337, 345), (345, 500), (386, 482), (482, 483), (483, 495)),
)
_TYPES = b"0\0123567LKSxgXVM\xff"
_WORDS = (
    "path",
    "size",
    "mtime",
    "linkpath",
    "comment",
    "hdrcharset",
    "GNU.sparse.name",
    "GNU.sparse.size",
)
_SPARSE_WORDS = ("GNU.sparse.realsize", "GNU.sparse.map", "GNU.sparse.major", "GNU.sparse.minor")
_PIECE_WORDS = ("GNU.sparse.offset", "GNU.sparse.numbytes")
_VALUES = (
    b"1",
    b"0",
    b"5",
    b"700",
    b"1024",
    b"a/b/",
    b"0,100,512,100",
    b"\xff\xfe",
    b"BINARY",
    b"",
    b"1.5",
    b"9" * 5000,
)


class MemorySource(Source):
    """A tar in memory."""

    def __init__(self, data: bytes) -> None:
        self.url, self.data = "memory", data
        self.size = self.length = len(data)

    def read_at(self, offset: int, size: int) -> bytes:
        return self.data[offset : offset + size] if size > 0 else b""


class Read(NamedTuple):
    """What came out of a tar: (name, size, kind) of the members, and how it ended."""

    members: list[tuple[str, int, str]]
    end: str


class _Noting(tarfile.TarInfo):
    """Remembers which header error came last."""

    last = ""

    @classmethod
    def fromtarfile(cls, tar: tarfile.TarFile) -> Any:
        cls.last = ""
        try:
            return super().fromtarfile(tar)
        except tarfile.HeaderError as error:
            cls.last = type(error).__name__
            raise


def by_tarfile(data: bytes) -> Read:
    """Read a tar as webdataset does.

    It streams, takes what is readable of regular members, and continues after an error.
    """
    try:
        stream = tarfile.open(fileobj=io.BytesIO(data), mode="r|*", tarinfo=_Noting)  # noqa: SIM115
    except Exception:
        return Read([], "unreadable")
    members = []
    try:
        for info in stream:
            stream.members = []  # type: ignore[attr-defined]
            kind = _KINDS.get(info.type, "special")
            if info.isreg():
                kind = "file" if info.sparse is None else "sparse"
                try:
                    if info.size > 1 << 26:
                        raise MemoryError
                    stream.extractfile(info).read()
                except Exception:
                    continue
            members.append((info.name, max(0, info.size), kind))
    except Exception:
        return Read(members, "error")
    ends = {"EOFHeaderError": "end", "EmptyHeaderError": "eof"}
    return Read(members, ends.get(_Noting.last, "silent"))


def by_walk(source: Source, *, contents: bool = False) -> tuple[Read, Walk]:
    """Walk a source; with contents, see that they lie where they should."""
    walk = Walk(source, contents=contents)
    members = []
    for batch in walk:
        for member in batch.members:
            if contents and member.kind == "file" and 0 < member.size <= 512 << 10:
                assert batch.base <= member.data
                assert member.data + member.size <= batch.base + len(batch.window)
            if not batch.is_past_stop:
                members.append((member.name, member.size, member.kind))
    assert walk.stop is not None
    return Read(members, walk.stop.kind), walk


def random_tar(r: Random, *, odd: bool = True) -> bytes:
    """Return a valid tar of up to 12 members, in one of the three formats.

    ``odd``: members may also have unusual types.
    """
    form = r.choice((tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form, errors="surrogateescape") as tar:
        for number in range(r.randint(0, 12)):
            tar.addfile(*_member(r, form, number, odd))
    return stream.getvalue()


def _member(r: Random, form: int, number: int, odd: bool) -> tuple[tarfile.TarInfo, io.BytesIO]:
    plain = form == tarfile.USTAR_FORMAT
    before = r.choice(
        [
            "",
            "",
            "",
            "d" * r.randint(1, 150) + "/",
            "\xe9" * r.randint(1, 60),
            "\udcff",
            "x" * 98,
            "x" * 300,
        ]
    )
    name = f"{before}{number:05d}{r.choice(['.jpg', '.txt', '.json'])}"
    info = tarfile.TarInfo(name[-40:] if plain else name)
    kind = r.random()
    if kind < 0.06:
        info.type, info.linkname = tarfile.SYMTYPE, "a" * (50 if plain else r.choice([3, 120]))
    elif kind < 0.1:
        info.type = r.choice([tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
    elif kind < 0.16 and odd:
        info.type = r.choice([b"7", b"\0", b"V", b"M"])
    if info.type in (b"0", b"7", b"\0", b"V", b"M"):
        info.size = r.choice(_SIZES)
    # A fraction needs a PAX header.
    info.mtime = r.choice([0, 5, 1700000000, 5 if plain else r.random() * 2e9])
    if form == tarfile.PAX_FORMAT and r.random() < 0.1:
        info.pax_headers = {
            "comment": "x" * r.choice([3, 600, 2000]),
            r.choice(["size", "atime"]): str(info.size),
        }
    info.uid = r.choice([0, 0, 0, 1000, 7 if plain else 2**22])
    return info, io.BytesIO(r.randbytes(info.size) if r.random() < 0.7 else b"a" * info.size)


def hurt(r: Random, data: bytes) -> bytes:
    """Damage a tar in one of many ways."""
    starts = [
        at for at in range(0, len(data) - BLOCK + 1, BLOCK) if data[at + 257 : at + 262] == b"ustar"
    ] or [0]
    ways = [_cut, _flip, _field, _field, _field, _noise, _more, _zero, _copy, _records, _records]
    return r.choice(ways)(r, data, r.choice(starts)) if data else data


def _cut(r: Random, data: bytes, at: int) -> bytes:
    return data[
        : r.choice(
            [
                r.randint(0, len(data)),
                max(0, r.randint(0, len(data) // BLOCK) * BLOCK + r.choice([0, 0, 1, -1])),
            ]
        )
    ]


def _flip(r: Random, data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    for _ in range(r.randint(1, 3)):
        changed[min(at + r.randint(0, BLOCK - 1), len(data) - 1)] = r.randint(0, 255)
    return bytes(changed)


def _field(r: Random, data: bytes, at: int) -> bytes:
    """Write nonsense into a header field, under a checksum that holds."""
    start, end = r.choice(_FIELDS)
    width = end - start
    number = r.choice([0, 1, 511, 512, 513, 1000, 5000, 10**6])
    # Tarfile walks through more than that for hours, reading nothing.
    big = r.choice([5, 512, 2000, 2**31])
    value = r.choice(
        [
            r.randbytes(width),
            b"%o" % number,
            b" " * width,
            b"",
            b"\x80" + big.to_bytes(11, "big")[-max(width - 1, 0) :],
            b"\xff" * (width - 1) + bytes([256 - r.choice([1, 5])]),
            b"-5",
            b"1_0",
            b"0o17 ",
            b"9",
            bytes([r.choice(_TYPES)]),
        ]
    )[:width].ljust(width, b"\0")
    return with_checksum(data[: at + start] + value + data[at + end :], at)


def with_checksum(data: bytes, at: int) -> bytes:
    """Put the right checksum into the header at an offset."""
    header = data[at : at + 148] + b" " * 8 + data[at + 156 : at + BLOCK]
    return data[: at + 148] + b"%06o\0 " % sum(header) + data[at + 156 :]


def _noise(r: Random, data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    for _ in range(r.randint(1, 20)):
        changed[r.randint(0, len(data) - 1)] = r.randint(0, 255)
    return bytes(changed)


def _more(r: Random, data: bytes, at: int) -> bytes:
    return data + r.choice(
        [
            random_tar(r),
            r.randbytes(r.randint(1, 3000)),
            bytes(r.choice([100, 512, 20480])),
            b"<html>" * 300,
        ]
    )


def _zero(r: Random, data: bytes, at: int) -> bytes:
    start = r.randint(0, len(data) // BLOCK) * BLOCK
    return data[:start] + bytes(min(BLOCK, len(data) - start)) + data[start + BLOCK :]


def _copy(r: Random, data: bytes, at: int) -> bytes:
    start = r.randint(0, len(data) // BLOCK) * BLOCK
    return data[:start] + data[at : at + BLOCK] + data[start + r.choice([0, BLOCK]) :]


def _records(r: Random, data: bytes, at: int) -> bytes:
    """Put an extended header before a member."""
    return data[:at] + extended(r, r.choice([b"x", b"x", b"x", b"g", b"X"])) + data[at:]


def extended(r: Random, kind: bytes) -> bytes:
    """Return an extended header with a few records, some of them malformed."""
    body = b""
    for _ in range(r.randint(1, 4)):
        word = r.choice(r.choice([_WORDS, _WORDS, _SPARSE_WORDS, _PIECE_WORDS]))
        record = b" %s=%s\n" % (word.encode(), r.choice(_VALUES))
        length = len(record) + 1
        while len(str(length)) + len(record) != length:
            length = len(str(length)) + len(record)
        if r.random() < 0.1:
            length = max(0, length + r.choice([-5, -1, 1, 3, 1000]))
        body += b"%d" % length + record + (r.randbytes(5) if r.random() < 0.05 else b"")
    return header(kind, len(body)) + body.ljust(-(-len(body) // BLOCK) * BLOCK, b"\0")


def header(kind: bytes, size: int, name: str = "pax") -> bytes:
    """Return a header block."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(format=tarfile.USTAR_FORMAT)
