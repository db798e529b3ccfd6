"""A tar as wids reads it: with a parser of its own, which knows 100 bytes of each name, and nothing of extensions.

PAX records, GNU long names and the prefix of USTAR are not read, checksums are not checked, and a header without a size
ends the archive. Names must be UTF-8, sizes octal. Members are told apart by name, but contents are found by position:
after a name that occurs twice, wids takes the contents of other members.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .tar_header import BLOCK, Read, padded

LONGEST_NAME = 100  # bytes
_HEADER = 500  # bytes of a header that are looked at
_SPLIT = re.compile(r"^((?:.*/)?.*?)(\..*)$")  # taken literally, with its corner cases
_PATIENCE = 100  # times that a size leads backwards; wids would run in circles


class NotForWids(Exception):
    """A place at which wids raises as soon as it opens the shard."""

    def __init__(self, offset: int, detail: str) -> None:
        super().__init__(detail)
        self.offset, self.detail = offset, detail


class WidsMember(NamedTuple):
    """One member as wids finds it."""

    name: str
    data: int  # offset of the contents
    size: int  # bytes; may be negative


def members(read: Read, reaches: Callable[[int], bool]) -> list[WidsMember]:
    """Return the members of a tar, with those that have the name of another one. Raises ``NotForWids``, ``OSError``.

    Args:
        read: (offset, size) -> bytes, fewer at the end of the tar.
        reaches: says whether the tar has so many bytes.
    """
    found: list[WidsMember] = []
    at = back = 0
    if not reaches(1):
        raise NotForWids(0, "an empty file")
    while at >= 0 and reaches(at + 1):
        header = read(at, _HEADER)
        if len(header) < _HEADER:
            raise NotForWids(at, "the file ends inside a header")
        try:
            name, kind = header[:LONGEST_NAME].decode().strip("\0"), header[156:157].decode().strip("\0")
            size = header[124:136].decode()
            if name and name != "././@PaxHeader" and kind in ("0", ""):
                found.append(WidsMember(name, at + BLOCK, int(size[:-1], 8)))
            if not size.strip("\0"):
                break
            step = BLOCK + padded(int(size.strip("\0"), 8))
        except UnicodeDecodeError as error:
            raise NotForWids(at, f"the first 100 bytes of a name, or a size, are not UTF-8: {error}") from None
        except ValueError as error:
            raise NotForWids(at, f"a size is not octal: {error}") from None
        back += step <= 0
        if back > _PATIENCE:
            raise NotForWids(at, "a size leads backwards, and wids runs in circles")
        at += step
    return found


def groups(found: Sequence[WidsMember]) -> list[list[int]]:
    """Return the samples of a shard as positions of members. Raises ``NotForWids``.

    They are neighbours with the same key among distinct names, so that the positions are those of other members where a
    name occurs twice. Names without a dot are passed over.
    """
    samples: list[list[int]] = []
    last = None
    for position, name in enumerate(dict.fromkeys(member.name for member in found)):
        if "." not in name:
            continue
        split = _SPLIT.match(name)
        if split is None:
            raise NotForWids(found[position].data - BLOCK, "a name with a line break, which wids does not split")
        if split[1] != last:
            last = split[1]
            samples.append([])
        samples[-1].append(position)
    return samples


def fields(found: Sequence[WidsMember], group: Sequence[int]) -> tuple[str, dict[str, WidsMember] | None]:
    """Return the key of a sample and its members by field name; None in place of them if wids raises for it."""
    key = ""
    sample: dict[str, WidsMember] = {}
    for member in map(found.__getitem__, group):
        split = _SPLIT.match(member.name)
        key = key or (split[1] if split else "")
        if split is None or key != split[1]:
            return key, None
        sample[split[2][1:]] = member
    return key, sample
