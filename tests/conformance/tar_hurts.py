"""What can be wrong with the bytes of a tar."""

import bz2
import lzma
import tarfile
from collections.abc import Callable
from random import Random

from tests.conformance.archives import BLOCK, Archive, with_checksum, write
from tests.conformance.contents import zipped

Hurt = Callable[[Archive, Random], bytes]


def _member(archive: Archive, rng: Random) -> int:
    return rng.randrange(len(archive.headers)) if archive.headers else -1


def cut_in_data(archive: Archive, rng: Random) -> bytes:
    """End the file inside the contents of a member."""
    index = _member(archive, rng)
    if index < 0 or not archive.sizes[index]:
        return archive.data[:100]
    return archive.data[: archive.headers[index] + BLOCK + rng.randrange(archive.sizes[index])]


def cut_in_padding(archive: Archive, rng: Random) -> bytes:
    """End the file after the contents of a member, before the next block begins."""
    index = _member(archive, rng)
    if index < 0 or not archive.sizes[index] % BLOCK:
        return archive.data
    start = archive.headers[index] + BLOCK + archive.sizes[index]
    return archive.data[: start + rng.randrange(-archive.sizes[index] % BLOCK)]


def cut_in_header(archive: Archive, rng: Random) -> bytes:
    """End the file inside a header."""
    index = _member(archive, rng)
    return (
        archive.data[: archive.headers[index] + rng.randint(1, BLOCK - 1)] if index >= 0 else b"\0"
    )


def cut_at_border(archive: Archive, rng: Random) -> bytes:
    """End the file where a member begins."""
    index = _member(archive, rng)
    return archive.data[: archive.headers[index]] if index >= 0 else b""


def no_end(archive: Archive, rng: Random) -> bytes:
    """Leave the zero blocks away, or all but a piece of them."""
    return archive.data[: archive.end + rng.choice((0, 0, 1, 511, 512, 513, 1024))]


def damaged_header(archive: Archive, rng: Random) -> bytes:
    """Change a byte of a header, or all of one of its fields."""
    index = _member(archive, rng)
    if index < 0:
        return archive.data
    data = bytearray(archive.data)
    start = archive.headers[index]
    damage = rng.randrange(5)
    if damage == 0:
        data[start + rng.randrange(BLOCK)] ^= 1 << rng.randrange(8)
    elif damage == 1:
        data[start : start + BLOCK] = rng.randbytes(BLOCK)
    elif damage == 2:
        data[start + 148 : start + 156] = b"garbage!"
    elif damage == 3:
        block = data[start : start + BLOCK]
        block[124:136] = rng.choice(
            (b"99999999999\0", b"not a size!\0", b"           \0", b"-0000000007\0")
        )
        data[start : start + BLOCK] = with_checksum(block)
    else:
        data[start : start + BLOCK] = bytes(BLOCK)
    return bytes(data)


def zero_block_between(archive: Archive, rng: Random) -> bytes:
    """Put the end mark before a member."""
    index = _member(archive, rng)
    start = archive.headers[index] if index >= 0 else 0
    return archive.data[:start] + bytes(BLOCK * rng.randint(1, 3)) + archive.data[start:]


def trailing_junk(archive: Archive, rng: Random) -> bytes:
    """Put bytes after the end."""
    return archive.data + rng.randbytes(rng.choice((1, 511, 512, 3000)))


def leading_junk(archive: Archive, rng: Random) -> bytes:
    """Put bytes in front."""
    return rng.randbytes(rng.choice((1, 512))) + archive.data


def twice(archive: Archive, rng: Random) -> bytes:
    """Put a second archive after the first, with or without the first one's end mark."""
    return archive.data[: rng.choice((archive.end, len(archive.data)))] + archive.data


def big_number_size(archive: Archive, rng: Random) -> bytes:
    """Write the size of a member in base 256, as GNU tar does for large ones."""
    index = _member(archive, rng)
    if index < 0:
        return archive.data
    start = archive.headers[index]
    block = bytearray(archive.data[start : start + BLOCK])
    block[124:136] = b"\x80" + archive.sizes[index].to_bytes(11, "big")
    return archive.data[:start] + with_checksum(block) + archive.data[start + BLOCK :]


def mutated(archive: Archive, rng: Random) -> bytes:
    """Change some bytes anywhere."""
    data = bytearray(archive.data[: archive.end])
    for _ in range(rng.randint(1, 10) if data else 0):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data) + archive.data[archive.end :]


def shifted(archive: Archive, rng: Random) -> bytes:
    """Take some bytes out, or put some in, so that what follows is at another place."""
    place = rng.randint(0, archive.end)
    count = rng.choice((1, 100, BLOCK, 2 * BLOCK))
    if rng.random() < 0.5:
        return archive.data[:place] + archive.data[place + count :]
    return archive.data[:place] + rng.randbytes(count) + archive.data[place:]


def blocks_exchanged(archive: Archive, rng: Random) -> bytes:
    """Exchange two blocks."""
    blocks = [archive.data[start : start + BLOCK] for start in range(0, archive.end, BLOCK)]
    if len(blocks) > 1:
        one, other = rng.sample(range(len(blocks)), 2)
        blocks[one], blocks[other] = blocks[other], blocks[one]
    return b"".join(blocks) + archive.data[archive.end :]


def global_header(archive: Archive, rng: Random) -> bytes:
    """Put a global PAX header in front, as `git archive` does."""
    records = rng.choice(({"comment": "0" * 40}, {"mtime": "1"}, {"path": "all.txt"}))
    return tarfile.TarInfo.create_pax_global_header(records) + archive.data


BYTE_HURTS: dict[str, Hurt] = {
    "cut-in-data": cut_in_data,
    "cut-in-padding": cut_in_padding,
    "cut-in-header": cut_in_header,
    "cut-at-border": cut_at_border,
    "no-end": no_end,
    "damaged-header": damaged_header,
    "zero-block-between": zero_block_between,
    "trailing-junk": trailing_junk,
    "leading-junk": leading_junk,
    "twice": twice,
    "big-number-size": big_number_size,
    "mutated": mutated,
    "shifted": shifted,
    "blocks-exchanged": blocks_exchanged,
    "global-header": global_header,
}

NO_TAR: dict[str, Callable[[Random], bytes]] = {
    "empty-file": lambda rng: b"",
    "zero-file": lambda rng: bytes(rng.choice((1, 511, 512, 1024, 10240))),
    "html": lambda rng: (
        b"<html><head><title>403 Forbidden</title></head></html>\n" * rng.choice((1, 40))
    ),
    "lfs-pointer": lambda rng: (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n"
    ),
    "noise": lambda rng: rng.randbytes(rng.choice((1, 100, 512, 5000))),
    "no-members": lambda rng: write([], tarfile.USTAR_FORMAT).data,
}


def zstd(data: bytes) -> bytes:
    """Compress with zstd."""
    import zstandard

    return zstandard.ZstdCompressor().compress(data)


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gz": zipped,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd,
}
