"""Long names of GNU tar as libtar reads them, whose parser DALI has."""

import io
import tarfile

import pytest

from wdsflow.shards.tar.libtar import CorruptTar, LibtarFile, regular_files

NAME = "d" * 150 + "/a.jpg"


def long_named(*, linked: bool = False) -> bytes:
    """Return a tar with one long name, or a link with a long target as well, and a file with a short name after it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        first = tarfile.TarInfo(NAME)
        if linked:
            first.type, first.linkname = tarfile.SYMTYPE, "l" * 150
        else:
            first.size = 700
        archive.addfile(first, io.BytesIO(b"x" * first.size))
        last = tarfile.TarInfo("b.txt")
        last.size = 3
        archive.addfile(last, io.BytesIO(b"cat"))
    return stream.getvalue()


def files(data: bytes) -> list[LibtarFile]:
    return list(regular_files(lambda at, size: data[at : at + size], lambda end: end <= len(data)))


def with_size(data: bytes, size: bytes) -> bytes:
    """Return a tar whose first header has another size, with the right checksum."""
    block = bytearray(data[:512])
    block[124:136] = size.rjust(11, b"0") + b"\0"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + data[512:]


def test_a_long_name_is_that_of_the_file_after_it_alone():
    assert [(file.name, file.size, file.data) for file in files(long_named())] == [
        (NAME, 700, 3 * 512),
        ("b.txt", 3, 6 * 512),
    ]


def test_a_link_with_a_long_name_and_target_is_no_file():
    assert [(file.name, file.size) for file in files(long_named(linked=True))] == [("b.txt", 3)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (with_size(long_named(), b""), "a long name has no length"),
        (with_size(long_named(), b"77777777"), "the file ends inside a long name"),
        (long_named()[: 2 * 512], "the archive ends after a long name"),
        (long_named()[: 2 * 512] + bytes(1024), "the archive ends after a long name"),
        (long_named()[: 2 * 512 + 100], "the file ends inside a block"),
    ],
)
def test_what_is_wrong_with_a_long_name_is_reported(data, reason):
    with pytest.raises(CorruptTar, match=reason):
        files(data)
